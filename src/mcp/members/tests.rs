//! What only looks like a known member is found in every spelling, on every level, and nothing else
//! is (threat-model §3A A2).

use super::known_members::{AGENT_RESULT, ENVELOPE, ERROR, PARAMS, SERVER_RESULT};
use crate::mcp::json::{Level, MemberContent, SERVER_JSON_LIMITS, Text};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

fn text(json: &str) -> Text {
    Text::read(Bytes::copy_from_slice(json.as_bytes()), &SERVER_JSON_LIMITS).unwrap()
}

/// Other spellings of a name that some peer takes for it.
fn spellings(name: &str) -> Vec<String> {
    let mut all = vec![name.to_uppercase()];
    for (at, letter) in name.char_indices() {
        let with =
            |other: &str| format!("{}{other}{}", &name[..at], &name[at + letter.len_utf8()..]);
        let flipped = if letter.is_ascii_lowercase() {
            letter.to_ascii_uppercase()
        } else {
            letter.to_ascii_lowercase()
        };
        all.push(with(&flipped.to_string()));
        match letter.to_ascii_lowercase() {
            's' => all.push(with("\u{17f}")),
            'k' => all.push(with("\u{212a}")),
            'i' => all.extend([with("\u{130}"), with("\u{131}")]),
            _ => {}
        }
    }
    for (pair, others) in [
        ("ss", ["ß", "ẞ"]),
        ("st", ["ﬆ", "ﬅ"]),
        ("ff", ["ﬀ", "FF"]),
        ("fi", ["ﬁ", "FI"]),
    ] {
        all.extend(
            others
                .iter()
                .filter(|_| name.contains(pair))
                .map(|other| name.replacen(pair, other, 1)),
        );
    }
    all.retain(|other| other != name);
    all
}

/// Every known member below `level`, with the path to the object that it is in.
fn places(
    level: &'static Level,
    path: &[&'static str],
    all: &mut Vec<(Vec<&'static str>, &'static str)>,
) {
    for (name, inside) in level.members {
        all.push((path.to_vec(), name));
        let below = match inside {
            MemberContent::Anything => continue,
            MemberContent::Objects(below) => ([path, &[name]].concat(), *below),
            MemberContent::Each(below) => ([path, &[name, "anybody's Name"]].concat(), *below),
        };
        places(below.1, &below.0, all);
    }
}

fn nested(path: &[&str], inner: Value, listed: bool) -> Value {
    let named = ["anybody's Name", "inputResponses", "inputRequests"];
    path.iter().rev().fold(inner, |inner, name| {
        if listed && !named.contains(name) {
            json!({ *name: [1, inner] })
        } else {
            json!({ *name: inner })
        }
    })
}

/// threat-model §3A A2: each known name in each spelling, where it is known, in objects and in
/// lists of them; taken out, the rest is what it was. The name itself is left alone.
#[test]
fn a2_every_spelling_is_found_on_every_level() {
    let mut cases = 0;
    for level in [&PARAMS, &SERVER_RESULT, &AGENT_RESULT, &ERROR, &ENVELOPE] {
        let mut all = Vec::new();
        places(level, &[], &mut all);
        for (path, name) in all {
            for listed in [false, true] {
                let itself = text(
                    &nested(&path, json!({ name: 1, "x/Other": { name: 2 } }), listed).to_string(),
                );
                assert_eq!(itself.alike(level), [], "{itself:?}");
                // In lists a few of them do: names are compared the same way there.
                for other in spellings(name)
                    .into_iter()
                    .take(if listed { 2 } else { usize::MAX })
                {
                    let written = nested(
                        &path,
                        json!({ "x": 1, other.as_str(): { "y": [2] }, "z": 3 }),
                        listed,
                    );
                    let whole = text(&written.to_string());
                    let found = whole.alike(level);
                    assert_eq!(found.len(), 1, "{written}");
                    assert_eq!(
                        (&found[0].name, found[0].like.is_empty()),
                        (&other, false),
                        "{written}"
                    );
                    let left = nested(&path, json!({ "x": 1, "z": 3 }), listed);
                    assert_eq!(whole.without(&found).value(), left, "{written}");
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 50_000, "{cases} spellings");
}

/// L2, C9: what begins like our own names, or the protocol's, is no vendor's.
#[test]
fn l2_beginnings_of_names_count_too() {
    for (written, alike) in [
        (r#"{"_meta":{"Dev.Toolgate/fence":1}}"#, true),
        (r#"{"_meta":{"dev.toolgate/Fence":1}}"#, true),
        (r#"{"_meta":{"DEV.TOOLGATE/anything":1}}"#, true),
        (
            r#"{"_meta":{"IO.modelcontextprotocol/unheard-of":1}}"#,
            true,
        ),
        (
            r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{"Name":"x"}}}"#,
            true,
        ),
        (
            r#"{"_meta":{"dev.tool\u0067ate/fence":1,"io.modelcontextprotocol/unheard-of":2}}"#,
            false,
        ),
        (
            r#"{"_meta":{"com.acme/Name":{"NAME":1,"_META":2}},"arguments":{"Name":1},"x":{"Method":2}}"#,
            false,
        ),
        (r#"{"structuredContent":{"Name":1}}"#, false),
        (r#"{"_meta":"Dev.Toolgate/fence"}"#, false),
    ] {
        assert_eq!(!text(written).alike(&PARAMS).is_empty(), alike, "{written}");
    }
}

#[test]
fn what_is_not_taken_out_stays_as_it_was_written() {
    for (written, left) in [
        (r#"{ "NAME" : 1 , "n" : 1.50 }"#, r#"{  "n" : 1.50 }"#),
        (r#"{ "n" : 1.50 , "NAME" : {"a":[]} }"#, r#"{ "n" : 1.50 }"#),
        (r#"{"n":1,"NAME":1,"URI":2,"Cursor":3}"#, r#"{"n":1}"#),
        (r#"{"NAME":1,"n":1,"URI":2,"m":3}"#, r#"{"n":1,"m":3}"#),
        (r#"{"NAME":1}"#, "{}"),
        (
            r#"{"messages":[{"Role":1},{"role":2,"ROLE":3}]}"#,
            r#"{"messages":[{},{"role":2}]}"#,
        ),
        (
            r#"{"_meta":{"a":1,"ProgressToken":"}"},"x":2}"#,
            r#"{"_meta":{"a":1},"x":2}"#,
        ),
    ] {
        let whole = text(written);
        let found = whole.alike(&PARAMS);
        assert_eq!(
            String::from_utf8_lossy(whole.without(&found).as_bytes()),
            left,
            "{written}"
        );
    }
}

#[test]
fn words_name_the_member_and_nothing_of_it_escapes() {
    let whole = text(r#"{"_meta":{"progreſsToken":1}}"#);
    assert_eq!(
        whole.alike(&PARAMS)[0].to_string(),
        r"`progre\u{17f}sToken` in `_meta` only looks like `progressToken`"
    );
}

proptest! {
    /// Whatever is taken out of whatever order of members, what is left is read strictly as the same value without them.
    #[test]
    fn a2_taking_out_leaves_the_rest(members in prop::collection::vec((0_usize..6, 0_i32..9), 0..9)) {
        let names = ["name", "NAME", "Uri", "x", "cursor", "Cursor"];
        let mut written: Vec<(&str, i32)> = Vec::new();
        for (at, value) in members {
            if written.iter().all(|(name, _)| *name != names[at]) {
                written.push((names[at], value));
            }
        }
        let json: Vec<String> = written.iter().map(|(name, value)| format!("\"{name}\" : {value}")).collect();
        let whole = text(&format!("{{{}}}", json.join(" , ")));
        let left = whole.without(&whole.alike(&PARAMS));
        let left = Text::read(left.bytes(), &SERVER_JSON_LIMITS).unwrap().value();
        let plain = written.iter().filter(|(name, _)| ["name", "x", "cursor"].contains(name));
        let plain: Value = plain.map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into();
        prop_assert_eq!(left, plain);
    }
}
