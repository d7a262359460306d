//! Ways to write a URI, and what is none.

use super::*;
use proptest::prelude::*;

/// threat-model §3C C3: one URI, one form.
#[test]
fn ways_to_write_one_uri_have_one_form() {
    for (written, form) in [
        ("file:///srv/docs/a.md", "file:///srv/docs/a.md"),
        ("FILE:///srv/docs/a.md", "file:///srv/docs/a.md"),
        ("file:/srv/docs/a.md", "file:///srv/docs/a.md"),
        ("file://localhost/srv/docs/a.md", "file:///srv/docs/a.md"),
        ("file://LOCALHOST/srv", "file:///srv"),
        ("file:///srv/%64ocs/a%2emd", "file:///srv/docs/a.md"),
        ("file:///srv/a%20b/%7euser", "file:///srv/a%20b/~user"),
        ("file:///srv/%c3%bc/ü", "file:///srv/ü/ü"),
        ("HTTPS://Docs.Example:443", "https://docs.example/"),
        (
            "https://docs.example:8443/A?b=C#d",
            "https://docs.example:8443/A?b=C#d",
        ),
        ("Note://Inbox/A", "note://inbox/A"),
        ("urn:isbn:0451450523", "urn:isbn:0451450523"),
        ("str:///", "str:///"),
        ("repo://o/r/x%2fy", "repo://o/r/x%2Fy"),
        ("x://h/100%25", "x://h/100%25"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        (
            "x://h/%28a%29%40b%2C%2B%3b%21%24%26%27%3d%3A",
            "x://h/(a)@b,+;!$&'=:",
        ),
        ("x://h/a*b%2a", "x://h/a%2Ab%2A"),
        (
            "x://h/?a%26b%3dc%2b%3B&d=+;%28%40",
            "x://h/?a%26b%3Dc%2B%3B&d=+;(@",
        ),
        (
            "x://h/caf\u{65}\u{301}/cafe%CC%81/caf%C3%A9",
            "x://h/caf\u{e9}/caf\u{e9}/caf\u{e9}",
        ),
        (
            "x://h/%2a\u{301}\u{65}\u{301}%2F\u{301}",
            "x://h/%2A\u{301}\u{e9}%2F\u{301}",
        ),
        ("x://h/\u{212a}\u{212b}", "x://h/K\u{c5}"),
        ("x://\u{65}\u{301}/", "x://\u{e9}/"),
    ] {
        assert_eq!(
            Uri::read(written).map(|uri| uri.as_str().to_owned()),
            Ok(form.to_owned()),
            "{written}"
        );
    }
}

/// threat-model §3C C3: what has several readings has none.
#[test]
fn what_could_be_read_otherwise_is_refused() {
    use Unclear::{Credentials, Dots, Empty, Encoding, File, Host, Length, Letter, Scheme};
    for (written, why) in [
        ("", Length),
        ("etc/passwd", Scheme),
        ("/etc/passwd", Scheme),
        ("1x:/a", Scheme),
        (" file:///a", Scheme),
        ("file:///srv/docs/../../etc/passwd", Dots),
        ("file:///srv/docs/%2e%2e/%2E%2e/etc/passwd", Dots),
        ("file:///srv/docs/..%2f..%2fetc/passwd", Dots),
        ("file:///srv/docs/./a", Dots),
        ("file:///srv/docs/..", Dots),
        ("x://docs/..;/secret", Dots),
        ("x://docs/a?path=../secret", Dots),
        ("x://docs/a#../b", Dots),
        ("x:../b", Dots),
        ("x://../b", Dots),
        ("file:///srv/docs/..%20/a", Dots),
        ("file:///srv/docs/%252e%252e/a", Encoding),
        ("file:///srv/docs/%25%32%65/a", Encoding),
        ("file:///srv//etc/passwd", Empty),
        ("file:////etc/passwd", Empty),
        ("x://h/a%2f%2fb", Empty),
        ("file:///srv/docs\\..\\x", Letter),
        ("file:///srv/docs%5c..%5cx", Encoding),
        ("file:///srv/a%00.md", Encoding),
        ("file:///srv/a\0.md", Letter),
        ("file:///srv/a\n", Letter),
        ("file:///srv/a b", Letter),
        ("file:///srv/%c0%ae%c0%ae/x", Encoding),
        ("file:///srv/%ff", Encoding),
        ("file:///srv/%4", Encoding),
        ("file:///srv/%+1", Encoding),
        ("file:///srv/\u{ff0e}\u{ff0e}/x", Letter),
        ("file:///srv/%EF%BC%8E%EF%BC%8E%EF%BC%8Fx", Letter),
        ("file:///srv/\u{2025}/x", Letter),
        ("file:///srv/a\u{202e}b", Letter),
        ("file:///srv/a\u{200b}b", Letter),
        ("file:///srv/{x}", Letter),
        ("file://evil/srv/docs/a", File),
        ("file:srv/docs", File),
        ("file:///srv/docs?x", File),
        ("file:///srv/docs#x", File),
        ("https://docs.example@evil.example/", Credentials),
        ("https://docs.example%40evil.example/", Credentials),
        ("https://2130706433/", Host),
        ("https://0x7f.1/", Host),
        ("https://docs.example:08443/", Host),
        ("https://docs.example:/", Host),
        ("https://docs%2eexample/", Host),
        ("https://a:b:c/", Host),
        ("x://h/#a#b", Letter),
    ] {
        assert_eq!(
            Uri::read(written).map(|uri| uri.as_str().to_owned()),
            Err(why),
            "{written}"
        );
    }
}

#[test]
fn what_is_too_long_is_refused() {
    assert_eq!(
        Uri::read(&format!("x:{}", "a".repeat(MAX_URI_BYTES))),
        Err(Unclear::Length)
    );
}

/// The same for what is decoded or composed before it is judged.
#[test]
fn what_becomes_unclear_is_refused() {
    use Unclear::{Dots, Letter};
    for (written, why) in [
        ("file:///srv/docs/..+/a", Dots),
        ("x://docs/..%3B/secret", Dots),
        ("x://docs/..%3Fsecret", Dots),
        ("x://docs/a?path%3D..", Dots),
        ("x://h/\u{1fef}", Letter),
        ("x://h\u{1fef}/", Letter),
    ] {
        assert_eq!(Uri::read(written), Err(why), "{written}");
    }
}

#[test]
fn a_rule_sees_every_reading() {
    let uri = Uri::read("x://h/a%2Fb?c#d").unwrap();
    assert_eq!(uri.whole(), ["x://h/a%2Fb?c#d", "x://h/a/b?c#d"]);
    assert_eq!(
        uri.parts(),
        [
            "x://h/a%2Fb?c#d",
            "x://h/a/b?c#d",
            "x://h/a%2Fb?c",
            "x://h/a%2Fb",
            "x://h/a/b?c",
            "x://h/a/b"
        ]
    );
}

/// A `deny` sees what servers read that decode before they split, and allowing sees no more than
/// what is written.
#[test]
fn a_deny_sees_what_careless_servers_read() {
    let uri = Uri::read("x://h/a%3Fb%20c").unwrap();
    assert_eq!(uri.whole(), ["x://h/a%3Fb%20c"]);
    assert_eq!(uri.parts(), ["x://h/a%3Fb%20c", "x://h/a?b+c", "x://h/a"]);
    assert_eq!(
        loose("docs__x://h/*%23%26%3D%3B%2B%2A"),
        Some("docs__x://h/*#&=;+%2A".to_owned())
    );
    assert_eq!(loose("docs__x://h/a+b?c"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// The form is a form: reading it again changes nothing, and no reader of paths can climb out of it.
    #[test]
    fn the_form_is_its_own_form(text in "(file:///|FILE:/|x://[a-zA-Z]{0,3}/?|https://a\\.b/)([a-zA-Z./?#%&=;:@+*ü\\\\-]|\u{301}|%2[eEfF5]|%3[fF]|%23|%[0-9a-f]{2}){0,24}") {
        if let Ok(uri) = Uri::read(&text) {
            prop_assert_eq!(Uri::read(uri.as_str()), Ok(uri.clone()));
            prop_assert_eq!(Uri::read_pattern(uri.as_str()), Ok(uri.clone()));
            for reading in uri.whole() {
                let decoded = percent_decoded(&percent_decoded(&reading));
                prop_assert!(!decoded.split(['/', '\\']).any(|part| part == ".." || part == "."), "{}", decoded);
            }
        }
    }
}

/// As a careless server decodes.
fn percent_decoded(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        if let Some(decoded) = byte(bytes, at) {
            out.push(decoded);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
