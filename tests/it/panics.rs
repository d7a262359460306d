//! toolgate itself breaks: a panic ends its call, never the process nor another call (threat-model
//! §3I I8; guarantees §4).

use crate::harness::answer::code;
use crate::harness::setup::{Setup, beside};
use crate::harness::stdio::Launched;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::kills::{PROGRAM, build};
use serde_json::{Value, json};

/// A server with a tool that changes something, and a toolgate that panics once at `point`.
async fn breaking_at(point: &str) -> (ToolServer, Setup) {
    build();
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .contracts(&[("oracle__pay", "write")])
        .program(beside(PROGRAM))
        .environment("TOOLGATE_PANIC", point);
    setup.write();
    (server, setup)
}

/// Where toolgate panics, what the agent reads then, and how often the tool has run.
const POINTS: [(&str, &str, usize); 4] = [
    ("preparing", "", 0),
    ("after-policy", "internal_error", 0),
    ("before-send", "outcome_unknown", 0),
    ("first-response-byte", "outcome_unknown", 1),
];

fn lists_tools(answer: &Value) -> bool {
    let tools = answer["result"]["tools"].as_array();
    tools.is_some_and(|tools| !tools.is_empty())
}

fn told(answer: &Value) -> String {
    let has_decision = answer.to_string().contains("dev.toolgate/decision");
    assert!(answer["error"].is_object() || has_decision, "{answer}");
    has_decision
        .then(|| code(answer))
        .flatten()
        .unwrap_or_default()
}

#[tokio::test]
async fn i8_a_panic_ends_one_call_over_http() {
    for (point, words, ran) in POINTS {
        let (server, setup) = breaking_at(point).await;
        let gate = setup.start().await;
        let broken = gate.agent().call("oracle__pay", json!({ "key": 1 })).await;
        assert_eq!(
            (told(&broken).as_str(), server.executions().len()),
            (words, ran),
            "{point}"
        );
        let next = gate
            .agent()
            .modern_call("oracle__pay", json!({ "key": 2 }))
            .await;
        assert!(next.is_done(), "{point}: {next:?}");
        assert_eq!(server.executions().len(), ran + 1, "{point}");
    }
}

/// All of this agent's calls go through one process and one pipe.
#[tokio::test]
async fn i8_a_panic_ends_one_call_over_stdio() {
    for (point, words, ran) in POINTS {
        let (server, setup) = breaking_at(point).await;
        let mut agent = Launched::start(&setup, &["--data", "launched"], false).await;
        while !lists_tools(&agent.ask("tools/list", json!({})).await) {}
        let broken = agent.call("pay", json!({ "key": 1 })).await;
        assert_eq!(
            (told(&broken).as_str(), server.executions().len()),
            (words, ran),
            "{point}"
        );
        let next = agent.call("pay", json!({ "key": 2 })).await;
        assert_eq!(told(&next), "", "{point}: {next}");
        assert_eq!(server.executions().len(), ran + 1, "{point}");
        agent.end().await;
    }
}
