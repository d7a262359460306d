//! Tool servers as child processes that answer garbage, twice, for another, or never, and that die before or after their
//! effect (SECURITY §3A A12, A13).

use super::{Setup, executions, json};
use crate::harness::gate::Gate;
use crate::harness::until;

/// What a tool does, what the agent reads after a side effect, and whether the child lives on.
const MISBEHAVIOUR: &[(&str, &str, bool)] = &[
    ("garbage", "outcome_unknown", true),
    ("twice", "", true),
    ("foreign_id", "outcome_unknown", true),
    ("never", "outcome_unknown", true),
    ("asks", "", true),
    ("dies_before", "outcome_unknown", false),
    ("dies_after", "outcome_unknown", false),
    ("half_a_line", "outcome_unknown", false),
    ("long_line", "outcome_unknown", false),
];

async fn scenery(arguments: &str) -> Gate {
    let mut contracts: Vec<(String, &str)> =
        MISBEHAVIOUR.iter().map(|(tool, ..)| (format!("odd__{tool}"), "write")).collect();
    contracts.push(("odd__read".to_owned(), "read"));
    contracts.push(("calm__read".to_owned(), "read"));
    let contracts: Vec<(&str, &str)> = contracts.iter().map(|(tool, action)| (tool.as_str(), *action)).collect();
    let setup = Setup::new().child("odd", arguments, "1s").child("calm", arguments, "20s").contracts(&contracts);
    setup.start().await
}

/// Waits until the child, which may have to be started again, answers.
async fn recovered(gate: &Gate) {
    until("the child answers again", || async {
        let agent = gate.agent();
        let answer = agent.call("odd__read", json!({})).await;
        answer.is_done().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a12_a13_a_modern_child_that_misbehaves_costs_its_call_only() {
    let gate = scenery("--modern").await;
    for (tool, refusal, lives_on) in MISBEHAVIOUR {
        let log = gate.setup.log_of("odd");
        let before = executions(&log).iter().filter(|run| run.tool == *tool).count();
        let name = format!("odd__{tool}");
        let answer = gate.agent().call(&name, json!({ "n": 1 })).await;
        assert_eq!((answer.status, answer.refusal().as_str()), (200, *refusal), "{tool}: {answer:?}");
        let ran = executions(&log).iter().filter(|run| run.tool == *tool).count() - before;
        assert_eq!(ran, usize::from(*tool != "dies_before"), "{tool}");
        assert!(gate.agent().call("calm__read", json!({})).await.is_done(), "another server suffers from {tool}");
        if *lives_on {
            assert!(gate.agent().call("odd__read", json!({})).await.is_done(), "after {tool}");
        } else {
            recovered(&gate).await;
        }
        let entry = until("an entry", || async {
            gate.ledger().await.into_iter().find(|entry| entry["tool"] == name.as_str())
        })
        .await;
        let outcome = if refusal.is_empty() { "answered" } else { "unknown" };
        assert_eq!(entry["outcome"], outcome, "{tool}: {entry}");
    }
}

#[tokio::test]
async fn a12_a_legacy_child_that_dies_after_its_effect_is_not_called_again() {
    let gate = scenery("--legacy").await;
    let session = gate.agent().initialize().await;
    let answer = session.legacy_call("odd__dies_after", json!({})).await;
    assert_eq!(answer.refusal(), "outcome_unknown", "{answer:?}");
    assert!(session.legacy_call("calm__read", json!({})).await.is_done());
    let ran = executions(&gate.setup.log_of("odd"));
    assert_eq!(ran.iter().map(|run| run.tool.as_str()).collect::<Vec<_>>(), ["dies_after"]);
    assert_eq!(gate.entries(2).await.iter().filter(|entry| entry["outcome"] == "unknown").count(), 1);
}
