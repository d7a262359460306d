//! The example's deadline.

use super::{CLERK, CONTRACT, CREATE, SECTIONS, staged, verdict, with, within};
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, event};
use crate::harness::until;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A read beside the example, with its deadline.
const FIND: &str = "  billing__find_invoice: { purpose: Finds one., actions: [read], budget: { timeout_ms: 3000 }, secrets: [] }\n";

/// What the ledger may say of the time that a call took which was given up after 3 s: never less,
/// and more only by what a noisy machine needs to notice; the server's own deadline is a minute.
const GIVEN_UP: Range<f64> = 3000.0..15_000.0;

/// 003-51, 003-62: after the example's 3000 ms nobody waits for a slow tool server any more. A read
/// is cancelled: its connection is closed, or on the legacy wire the server is told. A call that
/// changes something has an unknown outcome; as guarantees §4 has it, it is not cancelled but
/// listened for, and its late answer ends that.
#[tokio::test]
async fn the_examples_deadline_is_three_seconds() {
    let policy = format!("{CONTRACT}{SECTIONS}").replace("budgets:", &format!("{FIND}budgets:"));
    let (scripted, gate) = staged(policy).await;
    let slow = slow_to_create(&scripted);
    let (modern, legacy) = (
        gate.agent().token(CLERK),
        gate.agent().token(CLERK).initialized().await,
    );
    let create = async |agent: &Agent, wire: &str| {
        within(agent, wire, CREATE, with("customer_id", json!(wire))).await
    };
    let find =
        async |agent: &Agent| within(agent, "finding", "billing__find_invoice", json!({})).await;
    let wires = [(&modern, "modern"), (&legacy, "legacy")];
    let creating = join_all(wires.map(|(agent, wire)| create(agent, wire)));
    let finding = join_all(wires.map(|(agent, _)| find(agent)));
    let (created, found) = futures_util::join!(creating, finding);
    for (answers, expected) in [(created, "outcome_unknown"), (found, "upstream_failed")] {
        for answer in answers {
            assert_eq!(code(&answer).as_deref(), Some(expected), "{answer}");
        }
    }
    judge_given_up(&gate.entries(4).await);
    let calls: Vec<_> = scripted
        .seen()
        .into_iter()
        .filter(|seen| seen.method() == "tools/call")
        .collect();
    assert_eq!(calls.len(), 4, "each was sent once");
    judge_cancelled(&scripted, &calls).await;
    let seen = scripted.seen().into_iter();
    let told = seen.filter(|seen| seen.method() == "notifications/cancelled");
    assert_eq!(told.count(), 1);
    let is_open = slow.lock().unwrap().iter().all(|(to, _)| !to.is_closed());
    assert!(is_open, "a call that may change something is listened for");
    assert_eq!(slow.lock().unwrap().len(), 2);
    for (late, id) in slow.lock().unwrap().drain(..) {
        let done =
            json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" });
        late.try_send(event(
            &json!({ "jsonrpc": "2.0", "id": id, "result": done }),
        ))
        .unwrap();
    }
    for (agent, wire) in wires {
        let known = until("the late answer counts", || async {
            let again = create(agent, wire).await;
            code(&again).is_none().then_some(again)
        });
        assert_eq!(verdict(&known.await), (None, true, Value::Null), "{wire}");
    }
    assert_eq!(scripted.executions(), 4, "nothing was sent again");
}

/// Streams that nothing came on yet, and the ids that they answer.
type Slow = Arc<Mutex<Vec<(tokio::sync::mpsc::Sender<String>, Value)>>>;

/// From now on nothing is found, and what is created is said late.
fn slow_to_create(scripted: &ScriptedServer) -> Slow {
    let slow: Slow = Arc::new(Mutex::new(Vec::new()));
    scripted.answers({
        let slow = slow.clone();
        move |seen| {
            if seen.body["params"]["name"] == "find_invoice" {
                return Reply::Silence;
            }
            let (sender, receiver) = tokio::sync::mpsc::channel(1);
            slow.lock().unwrap().push((sender, seen.body["id"].clone()));
            Reply::Stream(receiver)
        }
    });
    slow
}

/// Calls that only read are cancelled, each as its revision does it.
async fn judge_cancelled(scripted: &ScriptedServer, calls: &[Seen]) {
    for call in calls
        .iter()
        .filter(|call| call.body["params"]["name"] == "find_invoice")
    {
        let id = &call.body["id"];
        scripted.closed(id).await;
        if call.header("mcp-session-id").is_some() {
            let told = scripted
                .sees("the cancellation", |seen| {
                    seen.method() == "notifications/cancelled"
                })
                .await;
            assert_eq!(&told.body["params"]["requestId"], id, "{told:?}");
        }
    }
}

/// What the ledger says of calls that were given up.
fn judge_given_up(entries: &[Value]) {
    for entry in entries {
        let (outcome, reason) = if entry["tool"] == CREATE {
            ("unknown", "outcome_unknown")
        } else {
            ("failed", "upstream_failed")
        };
        assert_eq!(
            (&entry["outcome"], &entry["aborted_reason"]),
            (&json!(outcome), &json!(reason)),
            "{entry}"
        );
        assert!(
            GIVEN_UP.contains(&entry["upstream_ms"].as_f64().unwrap()),
            "{entry}"
        );
        assert_eq!(entry["fault"], "no answer within 3s", "{entry}");
    }
}
