//! The same scenery with good input: a table of refusals proves nothing while nothing passes.

use super::{governed, json};

#[tokio::test]
async fn good_calls_run_once_on_both_wires_and_are_recorded_as_they_ran() {
    let (oracle, gate) = governed().await;
    let answer = gate.agent().call("oracle__write", json!({ "b": 1, "a": "x" })).await;
    assert!(answer.is_done(), "{answer:?}");
    let answer = gate.agent().at("oracle").call("write", json!({ "n": 2 })).await;
    assert!(answer.is_done(), "{answer:?}");
    let legacy = gate.agent().initialize().await;
    let answer = legacy.legacy_call("oracle__read", json!({ "n": 3 })).await;
    assert!(answer.is_done(), "{answer:?}");
    let (executions, entries) = (oracle.executions(), gate.entries(3).await);
    assert_eq!(executions.iter().map(|run| run.tool.as_str()).collect::<Vec<_>>(), ["write", "write", "read"]);
    let digests: Vec<String> = executions.iter().map(super::super::harness::tool_server::Execution::digest).collect();
    let recorded: Vec<&str> = entries.iter().map(|entry| entry["params_hash"].as_str().unwrap()).collect();
    assert_eq!(recorded, digests);
}
