//! No form of a secret survives, nothing else changes, and it does not matter where the bytes were
//! cut.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use std::fmt::Write as _;

fn scrubber(values: &[&str]) -> Arc<Scrubber> {
    let secrets: Vec<(String, Secret)> = values
        .iter()
        .enumerate()
        .map(|(index, value)| (format!("s{index}"), Secret::new((*value).to_owned())))
        .collect();
    Arc::new(Scrubber::new(
        secrets.iter().map(|(name, value)| (name.as_str(), value)),
    ))
}

fn clean(scrubber: &Scrubber, text: &str) -> String {
    scrubber.scrub_text(text).unwrap_or_else(|| text.to_owned())
}

fn each(value: &str, write: impl Fn(u8) -> String) -> String {
    value.bytes().map(write).collect()
}

fn reserved(value: &str) -> String {
    each(value, |byte| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    })
}

fn unicode(value: &str) -> String {
    value.encode_utf16().fold(String::new(), |mut text, unit| {
        let _ = write!(text, "\\u{unit:04x}");
        text
    })
}

fn json(value: &str) -> String {
    let quoted = serde_json::Value::String(value.to_owned()).to_string();
    quoted.trim_matches('"').to_owned()
}

/// Everything that one value is looked for as.
fn forms(value: &str) -> Vec<String> {
    let mut forms = vec![
        value.to_owned(),
        value.to_ascii_uppercase(),
        value.chars().rev().collect(),
        each(value, |byte| format!("{byte:02x}")),
        each(value, |byte| format!("{byte:02X}")),
        each(value, |byte| format!("%{byte:02X}")),
        each(value, |byte| format!("%{byte:02x}")),
        each(value, |byte| format!("%25{byte:02X}")),
        reserved(value),
        reserved(value).replace("%20", "+"),
        unicode(value),
        unicode(value).to_uppercase().replace("\\U", "\\u"),
        unicode(value).replace('\\', "\\\\"),
        json(value),
        json(&json(value)),
        json(&json(value)).replace('/', "\\/"),
        json(&reserved(value)),
        reserved(&json(value)),
    ];
    for before in ["", "x", "xy", "user:"] {
        for after in ["", "z", "zz"] {
            let text = format!("{before}{value}{after}");
            forms.extend([
                STANDARD.encode(&text),
                URL_SAFE.encode(&text),
                URL_SAFE_NO_PAD.encode(&text),
            ]);
        }
    }
    forms
}

/// 002-31, threat-model §3F F2: the value and its encodings, in both cases, alone and inside of
/// longer ones.
#[test]
fn no_form_of_a_secret_survives() {
    for value in [
        "hunter2-SECRET",
        "p\"ss\\w/rd & more%41",
        "täglich-größer",
        "12345678",
        "line one\nline two\n😀 three",
    ] {
        let scrubber = scrubber(&[value]);
        for form in forms(value)
            .into_iter()
            .filter(|form| form.len() >= value.chars().filter(char::is_ascii).count())
        {
            if form.len() < MIN_SECRET_BYTES {
                continue;
            }
            let text = format!("before {form} after");
            let clean = clean(&scrubber, &text);
            if form.is_ascii() || form == value {
                assert!(
                    clean.contains("<secret_ref:s0>"),
                    "{form:?} of {value:?} stays: {clean:?}"
                );
                assert!(!clean.contains(&form), "{form:?} of {value:?}");
            }
            assert!(
                clean.starts_with("before ") && clean.ends_with(" after"),
                "{clean:?}"
            );
        }
    }
}

/// 002-31, threat-model §3F F2: backslashes before an escape shift its layers and hide nothing.
#[test]
fn backslashes_before_an_escape_hide_nothing() {
    for value in ["hunter2-SECRET", "😀 and täglich"] {
        let scrubber = scrubber(&[value]);
        for layers in 0..4 {
            let form = (0..layers).fold(unicode(value), |form, _| form.replace('\\', "\\\\"));
            for before in 0..20 {
                let clean = clean(&scrubber, &format!("{}{form}", "\\".repeat(before)));
                let left = clean.trim_start_matches('\\');
                assert_eq!(left, "<secret_ref:s0>", "{before} before {form}");
            }
        }
    }
}

/// 002-31: what is no secret stays, byte for byte; a word that is too short to be one does, too.
#[test]
fn nothing_else_changes() {
    let scrubber = scrubber(&["hunter2-SECRET", "short"]);
    for text in [
        "",
        "hunter2-SECRE",
        "unter2-SECRET",
        "a short word",
        "%68unter2",
        "\\u0068unter2-",
        "\\",
        "%",
        "%4",
    ] {
        assert_eq!(scrubber.scrub_text(text), None, "{text:?}");
    }
    let text = "a%20b\\nc hunter2-SECRET %zz \\q hunter2-SECREThunter2-SECRET";
    assert_eq!(
        clean(&scrubber, text),
        "a%20b\\nc <secret_ref:s0> %zz \\q <secret_ref:s0><secret_ref:s0>"
    );
}

/// threat-model §3F F2: one of two secrets that share their bytes takes both away.
#[test]
fn overlapping_secrets_leave_nothing_of_either() {
    let scrubber = scrubber(&["abcdefgh-ijkl", "ijkl-mnopqrst", "abcdefgh-ijkl-mnop"]);
    assert_eq!(
        clean(&scrubber, "<abcdefgh-ijkl-mnopqrst>"),
        "<<secret_ref:s0>>"
    );
    assert_eq!(clean(&scrubber, "abcdefgh-ijkl-mnop."), "<secret_ref:s0>.");
}

/// threat-model §3F F2: a key of several lines is one in each of them, its frame is none.
#[test]
fn lines_of_a_key_are_secrets_too() {
    let scrubber =
        scrubber(&["-----BEGIN KEY-----\nMIIEowIBAAKCAQEA\nq83vASNFZ4k\n-----END KEY-----\n"]);
    assert_eq!(
        clean(&scrubber, "it is MIIEowIBAAKCAQEA,"),
        "it is <secret_ref:s0>,"
    );
    assert_eq!(scrubber.scrub_text("-----BEGIN KEY-----"), None);
}

/// threat-model §3F F2: split over two blocks of text, it is found where the blocks are read as
/// one.
#[test]
fn pieces_are_read_as_one_text() {
    let scrubber = scrubber(&["hunter2-SECRET"]);
    let found = scrubber.find(&["it is hunt", "er2-", "SECRET!"]);
    assert_eq!(
        found
            .iter()
            .map(|one| (one.start, one.end))
            .collect::<Vec<_>>(),
        [(6, 20)]
    );
    // An escape that one piece ends in does not swallow the first byte of the next.
    assert_eq!(scrubber.find(&["\\", "\\u0068unter2-SECRET"]).len(), 1);
}

/// threat-model §3F F2: a stream gives on what cannot be a secret at once.
#[test]
fn a_stream_holds_nothing_back_without_need() {
    let (mut stream, mut out) = (scrubber(&["hunter2-SECRET"]).stream(), Vec::new());
    for (chunk, so_far) in [
        ("a line\n", "a line\n"),
        ("hunter", "a line\n"),
        ("3\n", "a line\nhunter3\n"),
        ("hunter2-SECRE", "a line\nhunter3\n"),
        // Its last letter may begin it backwards.
        ("T", "a line\nhunter3\n"),
        ("!", "a line\nhunter3\n<secret_ref:s0>!"),
        ("\\u00", "a line\nhunter3\n<secret_ref:s0>!"),
        ("21", "a line\nhunter3\n<secret_ref:s0>!\\u0021"),
    ] {
        stream.push(chunk.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), so_far, "after {chunk:?}");
    }
}

/// 002-31: what was added is looked for by the next caller, however many came before; a value that
/// is known is no news, and the oldest of too many of one name is forgotten.
#[test]
fn what_was_added_is_looked_for_from_then_on() {
    let known = KnownSecrets::new();
    assert!(known.scrubber().is_none());
    let add = |name: &str, value: &str| {
        known
            .add(name, &Arc::new(Secret::new(value.to_owned())))
            .is_ok()
    };
    assert!(add("one", "hunter2-SECRET") && add("two", "other-value"));
    assert_eq!(
        known.clean("hunter2-SECRET, other-value"),
        "<secret_ref:one>, <secret_ref:two>"
    );
    let first = known.scrubber().unwrap();
    assert!(add("one", "hunter2-SECRET") && Arc::ptr_eq(&first, &known.scrubber().unwrap()));
    for version in 1..=4 {
        assert!(add("one", &format!("version-{version}")));
        assert_eq!(
            known.clean(&format!("version-{version}")),
            "<secret_ref:one>"
        );
    }
    assert_eq!(
        known.clean("hunter2-SECRET, version-1"),
        "hunter2-SECRET, <secret_ref:one>"
    );
    assert!(
        !add("long", &"x".repeat(64 << 10)),
        "all together are bounded"
    );
}

/// Pieces of texts that are likely to begin, to cut and to end forms of the secrets.
fn piece() -> impl Strategy<Value = String> {
    let forms = ["hunter2-SECRET", "p\"ss w/rd%41"].map(forms).concat();
    prop_oneof![
        4 => prop::sample::select(forms.clone()),
        2 => (prop::sample::select(forms), any::<prop::sample::Index>()).prop_map(|(form, at)| {
            let at = form.floor_char_boundary(at.index(form.len()));
            form[at..].to_owned()
        }),
        2 => "[a-z%\\\\u0-9 \"/]{0,12}",
        1 => ".{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// 002-31: any split into chunks gives the same as the whole, and no form of a secret is in it.
    #[test]
    fn where_the_bytes_are_cut_does_not_matter(
        pieces in prop::collection::vec(piece(), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let values = ["hunter2-SECRET", "p\"ss w/rd%41"];
        let (scrubber, text) = (scrubber(&values), pieces.concat());
        let whole = scrubber.scrub(text.as_bytes()).unwrap_or_else(|| text.clone().into_bytes());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let (mut stream, mut out) = (scrubber.stream(), Vec::new());
        for pair in cuts.windows(2) {
            stream.push(&text.as_bytes()[pair[0]..pair[1]], &mut out);
        }
        stream.finish(&mut out);
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&whole));
        let left = String::from_utf8_lossy(&whole).into_owned();
        for form in values.into_iter().flat_map(forms) {
            prop_assert!(!left.contains(&form), "{:?} is left in {:?}", form, left);
        }
    }

    /// The same, a byte at a time.
    #[test]
    fn a_byte_at_a_time_is_as_good_as_all_at_once(pieces in prop::collection::vec(piece(), 0..5)) {
        let (scrubber, text) = (scrubber(&["hunter2-SECRET", "p\"ss w/rd%41"]), pieces.concat());
        let (mut stream, mut out) = (scrubber.stream(), Vec::new());
        text.bytes().for_each(|byte| stream.push(&[byte], &mut out));
        stream.finish(&mut out);
        let whole = scrubber.scrub(text.as_bytes()).unwrap_or_else(|| text.into_bytes());
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&whole));
    }
}
