//! Agents that leave, and calls that come while an equal one is in flight.

use super::Said::{Done, Replayed};
use super::{heard, stage};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::json;

/// What the agent no longer waits for is finished, stored and given to it when it asks again.
#[tokio::test]
async fn an_agent_that_leaves_finds_its_answer_later() {
    let (server, gate) = stage(
        Script::new().tool("pay", Behaviour::Held),
        &["pay".to_owned()],
        "",
    )
    .await;
    let agent = gate.agent();
    let (tool, arguments) = ("oracle__pay", json!({ "key": "k" }));
    let leaving = tokio::spawn({
        let (agent, arguments) = (agent.clone(), arguments.clone());
        async move { agent.modern_call(tool, arguments).await }
    });
    until("the tool runs", || async {
        (server.executions().len() == 1).then_some(())
    })
    .await;
    leaving.abort();
    let _ = leaving.await;
    server.release();
    let again = agent.modern_call(tool, arguments).await;
    assert_eq!(
        (heard(&again), server.executions().len()),
        ("Replayed".to_owned(), 1)
    );
}

/// guarantees §4, §5: an agent that hangs up while its call waits, for the same call in flight or
/// for its turn, leaves an entry and nothing else. Its call never runs; what it waited for goes on,
/// and so does whatever comes next.
#[tokio::test]
async fn an_agent_that_leaves_while_its_call_waits_leaves_an_entry_only() {
    for (waits_for, key, stage, last, runs) in [
        ("the same call", "one", "repetition", Replayed, 1),
        ("its turn", "two", "budget", Done, 2),
    ] {
        let server = Script::new().tool("pay", Behaviour::Held).start().await;
        let gate = Setup::new()
            .server("oracle", &server)
            .contracts(&[("oracle__pay", "write")])
            .start()
            .await;
        let ask = |key: &'static str| {
            let agent = gate.agent();
            tokio::spawn(async move {
                agent
                    .modern_call("oracle__pay", json!({ "key": key }))
                    .await
            })
        };
        let first = ask("one");
        until("the tool runs", || async {
            (server.executions().len() == 1).then_some(())
        })
        .await;
        let leaving = ask(key);
        let passed = format!("toolgate_stage_seconds_count{{stage=\"{stage}\"}} 2");
        until("the call waits", || async {
            gate.operators("/metrics")
                .await
                .contains(&passed)
                .then_some(())
        })
        .await;
        leaving.abort();
        let _ = leaving.await;
        until("the call is recorded", || async {
            let mut entries = gate.ledger().await.into_iter();
            entries.find(|entry| entry["aborted_reason"] == "cancelled" && entry["attempts"] == 0)
        })
        .await;
        assert!(!first.is_finished(), "{waits_for}");
        server.release();
        server.release();
        assert_eq!(heard(&first.await.unwrap()), "Done", "{waits_for}");
        assert_eq!(server.executions().len(), 1, "{waits_for}");
        let next = gate
            .agent()
            .modern_call("oracle__pay", json!({ "key": key }))
            .await;
        assert_eq!(
            (heard(&next), server.executions().len()),
            (format!("{last:?}"), runs),
            "{waits_for}"
        );
    }
}

/// A duplicate in flight joins and gets the one result.
#[tokio::test]
async fn a_duplicate_in_flight_gets_the_one_result() {
    let (server, gate) = stage(
        Script::new().tool("pay", Behaviour::Held),
        &["pay".to_owned()],
        "",
    )
    .await;
    let ask = || {
        let agent = gate.agent();
        tokio::spawn(async move {
            agent
                .modern_call("oracle__pay", json!({ "key": "k" }))
                .await
        })
    };
    let first = ask();
    until("the tool runs", || async {
        (server.executions().len() == 1).then_some(())
    })
    .await;
    let others: Vec<_> = (0..8).map(|_| ask()).collect();
    // The step before the claim is behind all nine, so that eight of them wait.
    let passed = "toolgate_stage_seconds_count{stage=\"repetition\"} 9";
    until("the others wait", || async {
        gate.operators("/metrics")
            .await
            .contains(passed)
            .then_some(())
    })
    .await;
    let ended = others.iter().filter(|other| other.is_finished()).count();
    assert_eq!(ended, 0, "one did not wait");
    server.release();
    assert_eq!(heard(&first.await.unwrap()), "Done");
    for other in others {
        assert_eq!(heard(&other.await.unwrap()), "Replayed");
    }
    assert_eq!(server.executions().len(), 1);
}

/// An answer that comes after the time-out completes the call; nobody sends it again.
#[tokio::test]
async fn a_late_answer_makes_the_outcome_known() {
    let (server, gate) = stage(
        Script::new().tool("pay", Behaviour::Held),
        &["pay".to_owned()],
        "",
    )
    .await;
    let arguments = json!({ "key": "k" });
    let first = gate
        .agent()
        .modern_call("oracle__pay", arguments.clone())
        .await;
    assert_eq!(first.refusal(), "outcome_unknown");
    server.release();
    let known = until("the outcome is known", || async {
        let answer = gate
            .agent()
            .modern_call("oracle__pay", arguments.clone())
            .await;
        answer.refusal().is_empty().then_some(answer)
    })
    .await;
    assert_eq!(
        (heard(&known), server.executions().len()),
        ("Replayed".to_owned(), 1)
    );
}
