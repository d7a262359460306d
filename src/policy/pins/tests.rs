//! Pin files, well and badly written.

use super::*;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;

fn found(text: &str) -> (PinFileResult, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("toolgate.pins.yaml");
    fs::write(&path, text).unwrap();
    let found = read(&path, &[ServerName::new("billing")]);
    let said = found
        .diagnostics
        .iter()
        .fold(String::new(), |text, diagnostic| {
            text + &format!("{diagnostic}\n")
        });
    (
        found,
        said.replace(&format!("{}/", directory.path().display()), ""),
    )
}

fn pinned(server: &str, tool: &str, digest: &str, definition: &str) -> String {
    format!(
        "pins:\n  {server}:\n    \"{tool}\":\n      digest: {digest}\n      definition: |\n        {definition}\n"
    )
}

fn good() -> (String, String) {
    let definition =
        json!({ "name": "pay", "inputSchema": { "type": "object" }, "description": "pays" });
    (
        format!("{SHA256_PREFIX}{}", schema_hash(&definition)),
        definition.to_string(),
    )
}

#[test]
fn what_a_pin_file_says_is_what_was_approved() {
    let (digest, definition) = good();
    let (found, said) = found(&pinned("billing", "pay", &digest, &definition));
    assert_eq!((said.as_str(), found.is_broken()), ("", false));
    let rule = found.into_rule(true);
    let server = ServerName::new("billing");
    assert!(
        rule.judge(&server, "pay", digest.strip_prefix(SHA256_PREFIX).unwrap())
            .is_ok()
    );
    assert!(
        rule.judge(&server, "pay", "0").is_err() && rule.judge(&server, "refund", "0").is_err()
    );
    assert_eq!(
        rule.pin(&server, "pay").unwrap().definition.value()["description"],
        "pays"
    );
    assert_eq!(rule.pins().count(), 1);
}

/// threat-model §3D D8: a pin that cannot be read is an error, never "nothing is pinned".
#[test]
fn d8_what_cannot_be_read_is_an_error_with_its_place() {
    let (digest, definition) = good();
    let other = digest
        .replace(&digest[7..8], "0")
        .replace(&digest[8..9], "1");
    for (text, expected) in [
        (
            pinned("billing", "pay", &other, &definition),
            "4:15: error: is not that of the definition below",
        ),
        (
            pinned("billing", "pay", &digest[7..], &definition),
            "4:15: error: is not that of the definition below",
        ),
        (
            pinned("billing", "refund", &digest, &definition),
            "6:9: error: is not the definition of this tool",
        ),
        (
            pinned(
                "billing",
                "pay",
                &digest,
                "{\"name\":\"pay\",\"name\":\"pay\"}",
            ),
            "is no JSON that can be read: duplicate",
        ),
        (
            pinned("billing", "pay", &digest, "{\"name\":"),
            "is no JSON that can be read",
        ),
        (
            "pins:\n  billing: { pay: { digest: x } }\n".to_owned(),
            "error: missing `definition`",
        ),
        ("pins: [\n".to_owned(), "not YAML that can be read"),
        ("pinned: {}\n".to_owned(), "unknown key `pinned`"),
    ] {
        let (found, said) = found(&text);
        assert!(
            found.is_broken() && found.pins.is_empty() && said.contains(expected),
            "{text}\n{said}"
        );
    }
    let (absent, said) = (
        read(Path::new("/nowhere/pins.yaml"), &[]),
        "toolgate pins approve --all",
    );
    assert!(
        absent.is_broken() && absent.diagnostics[0].to_string().contains(said),
        "{:?}",
        absent.diagnostics
    );
    let (found, said) = found(&pinned("gone", "pay", &digest, &definition));
    assert!(
        !found.is_broken()
            && found.pins.len() == 1
            && said.contains("2:3: warning: no server `gone`"),
        "{said}"
    );
}

#[test]
fn what_is_written_reads_as_the_same_pins() {
    let mut pins = Pins::new();
    for (server, tool, description) in [
        (
            "billing",
            "pay",
            "# pays: {all}\n---\n  of it\u{202e}\u{1b} \u{e0041} \u{85}",
        ),
        ("billing", "null", "x".repeat(3_000).as_str()),
        ("billing", "1.5", ""),
        ("billing", "true", "é発😀 \u{feff}"),
    ] {
        let value = json!({ "name": tool, "description": description, "inputSchema": { "maximum": 1e30, "n": 0.1 } });
        let (digest, definition) = (schema_hash(&value), Text::of(&value));
        pins.insert(
            (ServerName::new(server), tool.to_owned()),
            Pin { digest, definition },
        );
    }
    let text = written(&pins, &BTreeSet::new());
    let (found, said) = found(&text);
    assert_eq!(said, "");
    assert_eq!(written(&found.pins, &BTreeSet::new()), text);
    let digests = |pins: &Pins| {
        pins.iter()
            .map(|(name, pin)| (name.clone(), pin.digest.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(digests(&found.pins), digests(&pins));
    assert!(
        text.bytes()
            .all(|byte| byte == b'\n' || !byte.is_ascii_control())
    );
    assert_eq!(
        super::tests::found(&written(&Pins::new(), &BTreeSet::new())).1,
        ""
    );
}
