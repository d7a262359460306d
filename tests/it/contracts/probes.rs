//! A probe reads what its tool answers, as far as that is known.

use super::undo::unversioned;
use crate::harness::gate::run;
use crate::harness::scripted_server::ScriptedServer;
use crate::harness::setup::Setup;
use serde_json::json;

/// A policy in which `pay` is looked for by `find`.
fn looked_for_by(probe: &str) -> String {
    format!(
        "contracts:
  bank__pay:
    purpose: p
    actions: [write]
    permission: anyone
    side_effect: {{ writes: bills, rollback: {{ manual: by hand }} }}
    idempotency: {{ require: true, probe: {{ tool: bank__find, {probe} }} }}
    secrets: []
  bank__find: {{ purpose: p, actions: [read], secrets: [] }}
"
    )
}

/// 004-13: a probe that looks where its tool says that nothing ever stands is an error, since it would
/// have calls run again; one that finds a list or a count is a warning where the contract does
/// not say what an empty one means.
#[tokio::test]
async fn a_probe_looks_where_something_can_stand() {
    let found = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "bills": { "type": "array" },
            "count": { "type": "integer" },
        },
    });
    let takes = json!({ "type": "object" });
    let find = json!({ "name": "find", "inputSchema": takes, "outputSchema": found });
    let pay = json!({ "name": "pay", "inputSchema": takes });
    let scripted = ScriptedServer::with(vec![find, pay]).await;
    let mut setup = Setup::new().server_with("bank", &format!("url: \"{}\"", scripted.url()));
    let mut shown = Vec::new();
    let empty = |kind: &str, empty: &str| {
        format!("what it finds is of type {kind}, and {empty} proves nothing")
    };
    for (probe, exit, message) in [
        ("found: /id", 0, String::new()),
        ("found: /bills, nothing: [[]]", 0, String::new()),
        ("found: /count, nothing: []", 0, String::new()),
        ("found: /bills", 0, empty("array", "[]")),
        ("found: /count", 0, empty("integer", "0")),
        (
            "found: /bill/id",
            1,
            "the result of `bank__find` has no `bill.id`".to_owned(),
        ),
    ] {
        setup = setup.policy(&looked_for_by(probe));
        setup.write();
        let (code, out, err) = run(&setup, &["check", "--connect", "."]).await;
        let said = out + &err;
        assert_eq!(code, exit, "{probe}: {said}");
        assert!(said.contains(&message), "{probe}: {said}");
        let told = said.contains("proves nothing") || said.contains("has no `");
        assert_eq!(told, !message.is_empty(), "{probe}: {said}");
        let block = said
            .split("\n\n")
            .find(|block| !message.is_empty() && block.contains(&message));
        shown.extend(block.map(|block| block.trim().to_owned()));
    }
    insta::assert_snapshot!("looking_nowhere", unversioned(&shown.join("\n\n")));
}
