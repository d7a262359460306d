//! What `explain` says of the calls that are the same.

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
