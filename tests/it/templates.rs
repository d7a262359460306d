//! The templates of well-known tool servers, as a new user has them: all in one configuration, with
//! nothing edited. `tests/tools/templates` compares them with the servers themselves.

use crate::harness::setup::programs;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Templates that there are at least.
const TEMPLATES_MIN: usize = 12;
/// What a pack shows besides calls that pass and calls that are refused.
const KINDS: [&str; 2] = ["plain: ", "overreach: "];

fn templates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/templates")
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(templates())
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            path.is_file()
                .then(|| path.file_stem().unwrap().to_str().unwrap().to_owned())
        })
        .collect();
    names.sort();
    names
}

/// Enforce mode with all templates, one agent, and one operator who is asked.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let tests = place.path().join("policies/tests");
    fs::create_dir_all(&tests).unwrap();
    let mut servers = String::new();
    for name in names() {
        let file = format!("{name}.yaml");
        fs::copy(
            templates().join(&file),
            place.path().join("policies").join(&file),
        )
        .unwrap();
        fs::copy(templates().join("tests").join(&file), tests.join(&file)).unwrap();
        writeln!(servers, "  {name}: {{ command: /bin/true }}").unwrap();
    }
    let settings = place.path().join("toolgate.yaml");
    let text = format!(
        "mode: enforce
data: ./data
servers:
{servers}callers:
  - {{ agent: my-agent, token: a-token-of-the-agent }}
admin: {{ tokens: [ {{ name: me, token: a-token-of-the-operator, roles: [approver, resolver, switch, auditor] }} ] }}
policies: [policies]
"
    );
    fs::write(&settings, text).unwrap();
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o600)).unwrap();
    place
}

/// A verb of toolgate there: its exit code and all that it says.
fn toolgate(place: &Path, words: &[&str]) -> (i32, String) {
    let output = Command::new(programs().join("toolgate"))
        .args(words)
        .current_dir(place)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(said).unwrap(),
    )
}

/// No template has an error, and none has a warning: what changes something says who may call it
/// and how it is undone, what pays, deletes or grants says which calls are the same, and each tool
/// has a sample.
#[test]
fn all_templates_together_raise_no_warning() {
    let place = place();
    let (code, said) = toolgate(place.path(), &["check"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("0 errors, 0 warnings"), "{said}");
    assert!(names().len() >= TEMPLATES_MIN, "{:?}", names());
}

/// Each template has a pack of its own, which passes.
#[test]
fn each_template_passes_its_pack() {
    let place = place();
    let (code, said) = toolgate(place.path(), &["test", "--json"]);
    assert_eq!(code, 0, "{said}");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let packs = report["packs"].as_array().unwrap();
    let mut tested: Vec<&str> = packs
        .iter()
        .map(|pack| pack["pack"].as_str().unwrap())
        .collect();
    tested.sort_unstable();
    assert_eq!(tested, names());
    for pack in packs {
        let samples = pack["samples"].as_array().unwrap();
        let codes = |code: &str| {
            samples
                .iter()
                .filter(|sample| sample["got"] == code)
                .count()
        };
        assert!(codes("allow") > 0, "{} lets something pass", pack["pack"]);
        assert!(
            codes("allow") < samples.len(),
            "{} refuses something",
            pack["pack"]
        );
        for sample in samples {
            let name = sample["name"].as_str().unwrap();
            let is_of_kind = KINDS.iter().any(|kind| name.starts_with(kind));
            let is_allowed = sample["got"] == "allow";
            assert!(
                !is_of_kind || is_allowed == name.starts_with("plain: "),
                "{}: {name} is {}",
                pack["pack"],
                sample["got"]
            );
        }
    }
}

/// What sends, pays, merges or runs code waits for a person, where nobody has said anything else.
#[test]
fn what_is_dangerous_waits_for_a_person() {
    let place = place();
    for (tool, arguments) in [
        (
            "github__merge_pull_request",
            r#"{"owner":"acme","repo":"web","pullNumber":1}"#,
        ),
        (
            "slack__slack_post_message",
            r#"{"channel_id":"C0123456789","text":"hello"}"#,
        ),
        (
            "stripe__create_refund",
            r#"{"payment_intent":"pi_1","amount":100}"#,
        ),
        (
            "playwright__browser_evaluate",
            r#"{"function":"() => document.cookie"}"#,
        ),
        (
            "kubernetes__pods_exec",
            r#"{"name":"web-1","command":["sh"]}"#,
        ),
        (
            "sqlite__write_query",
            r#"{"query":"DELETE FROM notes WHERE id = 1"}"#,
        ),
    ] {
        let words = ["explain", "--agent", "my-agent", "--tool", tool];
        let (_, said) = toolgate(
            place.path(),
            &[&words[..], &["--arguments", arguments]].concat(),
        );
        assert!(said.contains("held: approval_pending"), "{tool}: {said}");
    }
}
