//! What `explain` says of the calls that are the same, and of undoing them.

use crate::harness::gate::run;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use serde_json::json;
use std::fmt::Write as _;

/// 003-46, 004-08: each regime as `explain` says it; that of a tool whose server says that a second call
/// changes nothing once its definition is approved.
#[tokio::test]
async fn explain_tells_which_calls_are_the_same() {
    let mut hinted = tool("hinted");
    hinted["annotations"] = json!({ "idempotentHint": true });
    let names = ["keyed", "declared", "unsaid", "retry"];
    let mut tools = names.map(tool).to_vec();
    tools.push(hinted);
    let server = ScriptedServer::with(tools).await;
    let mut policy = "contracts:\n".to_owned();
    let undone = ", permission: anyone, additive: true";
    for (name, keys) in [
        ("keyed", ", idempotency: { require: true, ttl: 2h }"),
        ("declared", ", idempotency: { derive: [/sku], ttl: 3h }"),
        ("unsaid", ""),
        ("retry", ", idempotency: { derive: retry, window: 5m }"),
        ("hinted", ", idempotency: { derive: retry }"),
    ] {
        let contract = "{ purpose: a test, actions: [write], secrets: []";
        writeln!(policy, "  bank__{name}: {contract}{undone}{keys} }}").unwrap();
    }
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", server.url()))
        .callers("  - { agent: clerk, token: token-of-the-clerk }")
        .policy(&policy)
        .more("pins: { file: toolgate.pins.yaml, require: false }");
    setup.write();
    std::fs::write(setup.directory().join("toolgate.pins.yaml"), "pins: {}\n").unwrap();
    let explained = async |tool: &str| {
        let words = "explain --config toolgate.yaml --agent clerk --arguments {\"sku\":1} --tool";
        let words: Vec<&str> = words.split(' ').chain([tool]).collect();
        let (_, said, wrong) = run(&setup, &words).await;
        let lines = said.lines();
        let found = lines.filter(|line| line.contains("retry: ") || line.contains("the key is"));
        let found: Vec<&str> = found.map(str::trim).collect();
        assert!(found.len() <= 1, "{said}{wrong}");
        found.first().copied().unwrap_or_default().to_owned()
    };
    let within = |seconds: u32| {
        format!(
            "retry: an equal call is the same one within {seconds} s after its end, unless the agent has shown that it went on"
        )
    };
    let joins = "retry: an equal call is the same one while the first one is in flight: the server says that a second one changes nothing (idempotentHint)";
    let declared = "the key is derived from /sku, and counts for 10800 s after the call";
    for (tool, said) in [
        ("bank__declared", declared),
        ("bank__unsaid", &within(120)),
        ("bank__retry", &within(300)),
        // Nothing tells what its server says of it.
        ("bank__hinted", &within(120)),
    ] {
        assert_eq!(explained(tool).await, said, "{tool}");
    }
    let (exit, said, wrong) = run(&setup, &["pins", "approve", "--all"]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    assert_eq!(explained("bank__hinted").await, joins);
    assert_eq!(explained("bank__retry").await, within(300));
}

/// 003-52: how a call is undone and until when, also of one that a person decides about first, by the variant that
/// its arguments choose.
#[tokio::test]
async fn explain_tells_how_a_call_is_undone() {
    let server = ScriptedServer::with(vec![tool("pay"), tool("wipe")]).await;
    let anyone = "purpose: a test, secrets: [], permission: anyone";
    let asks = "approval: { approvers: [finance] }";
    let policy = format!(
        "contracts:
  bank__refund: {{ {anyone}, actions: [write], side_effect: {{ writes: bills, rollback: {{ manual: call the bank }} }} }}
  bank__pay: {{ {anyone}, actions: [write], {asks}, side_effect: {{ writes: bills, rollback: {{ tool: bank__refund, within: 90m }} }} }}
  bank__wipe: {{ {anyone}, actions: [delete], {asks}, irreversible: true }}
  bank__note:
    {{ {anyone}, actions: [read, write], additive: true, variants: {{ by: /do, cases: {{ look: {{ actions: [read] }}, add: {{ actions: [write] }} }} }} }}
"
    );
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", server.url()))
        .callers("  - { agent: clerk, token: token-of-the-clerk }")
        .operators("tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [finance] } ]")
        .policy(&policy);
    setup.write();
    let no_undo = "";
    for (tool, arguments, held, expected) in [
        ("bank__refund", "{}", false, "by hand  call the bank"),
        (
            "bank__pay",
            "{}",
            true,
            "possible an operator can have it taken back by bank__refund, for 90 min after its end",
        ),
        ("bank__wipe", "{}", true, "never    nothing takes it back"),
        (
            "bank__note",
            r#"{"do":"add"}"#,
            false,
            "no need  nothing is lost",
        ),
        ("bank__note", r#"{"do":"look"}"#, false, no_undo),
        // What is refused is not there to be undone.
        ("bank__none", "{}", false, no_undo),
    ] {
        let words = "explain --config toolgate.yaml --agent clerk --tool";
        let words: Vec<&str> = words
            .split(' ')
            .chain([tool, "--arguments", arguments])
            .collect();
        let (_, said, wrong) = run(&setup, &words).await;
        assert_eq!(said.contains("=> held: "), held, "{said}{wrong}");
        let found = said
            .lines()
            .find_map(|line| line.trim().strip_prefix("undo "));
        let found = found.map_or("", str::trim);
        assert_eq!(found, expected, "{tool} {arguments}: {said}{wrong}");
    }
}
