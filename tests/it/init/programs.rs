//! What programs read of `init`.

use super::{desktop, placed};
use crate::harness::gate::run;
use crate::harness::setup::Setup;
use serde_json::{Value, json};
use std::fs;

/// The one object that toolgate prints for `line`, and ends with that code.
async fn object(setup: &Setup, expected: i32, line: &[&str]) -> Value {
    let (exit, said, wrong) = run(setup, line).await;
    assert_eq!(exit, expected, "{line:?}: {said}{wrong}");
    assert_eq!(said.lines().count(), 1, "{line:?}: {said}");
    said.parse().unwrap()
}

/// What became of each file.
fn changes(said: &Value) -> Vec<String> {
    let files = said["files"].as_array().unwrap();
    let change = |file: &Value| file["change"].as_str().unwrap().to_owned();
    files.iter().map(change).collect()
}

/// Issue 17 "`--json` on every verb that prints": what was asked, written and kept, what comes next, and why
/// nothing was done.
#[tokio::test]
async fn what_init_did_is_one_object_for_programs() {
    let setup = placed();
    let name = "claude_desktop_config.json";
    fs::write(setup.directory().join(name), desktop(&setup)).unwrap();
    let none = object(&setup, 1, &["init", "--from", "absent.json", "--json"]).await;
    let why = none["error"].as_str().unwrap();
    assert!(why.contains("absent.json cannot be read"), "{none}");

    let taken = ["init", "--from", name, "--rewrite-client", "--json"];
    let said = object(&setup, 0, &taken).await;
    let server = &said["servers"][0];
    assert_eq!(
        (&server["name"], &server["state"]),
        (&json!("my-oracle"), &json!("listed"))
    );
    assert!(
        server["tools"].as_u64() > Some(0) && server["millis"].is_u64(),
        "{said}"
    );
    let files = changes(&said);
    assert_eq!(
        files.iter().filter(|change| *change == "created").count(),
        files.len() - 1
    );
    let rewritten = said["files"].as_array().unwrap().last().unwrap();
    assert_eq!(rewritten["change"], "rewritten");
    let backup = rewritten["backup"].as_str().unwrap();
    assert!(
        backup.starts_with(said["backups"].as_str().unwrap()),
        "{said}"
    );
    assert_eq!(fs::read_to_string(backup).unwrap(), desktop(&setup));
    assert_eq!(said["set"][0]["name"], "GITHUB_TOKEN");
    assert_eq!(said["next"][0], "toolgate check toolgate.yaml");
    assert_eq!(
        (&said["problems"], &said["error"]),
        (&json!([]), &Value::Null)
    );

    let again = object(&setup, 1, &taken).await;
    assert!(!again["problems"].as_array().unwrap().is_empty(), "{again}");
    let back = object(&setup, 0, &["init", "--undo", "--json"]).await;
    let files = changes(&back);
    assert_eq!(
        files.iter().filter(|change| *change == "restored").count(),
        1,
        "{back}"
    );
    assert!(
        files
            .iter()
            .all(|change| ["restored", "removed", "left"].contains(&change.as_str()))
    );
    let nothing = object(&setup, 1, &["adopt", "--json"]).await;
    assert!(nothing["error"].is_string(), "{nothing}");
}
