//! An agent that loses its connection in the middle of a call, before a server of the other era: the
//! call goes on, and who sends it again under another id reads its answer (protocol §3.4, §4.4).

use super::crossings::{ALICE, BOTH, Crossing, agent, call};
use crate::harness::replay::stored;
use crate::harness::scripted_server::{Seen, event};
use crate::harness::until;
use serde_json::json;

pub const POLICY: &str = "
contracts:
  s__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  s__pay: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: s__undo } }, secrets: [], idempotency: { derive: arguments } }
";

/// A write goes on without its agent, whatever its era. Sent again, in the same session or a new one,
/// while it runs or when it is done, it gets the one answer; nobody cancels it, and it runs once.
#[tokio::test]
async fn a_lost_connection_loses_no_answer() {
    for towards in BOTH {
        for is_done in [false, true] {
            let crossing = Crossing::new(towards, POLICY, "").await;
            let alice = crossing.agent(ALICE).await;
            let says = crossing.server.holds("tools/call");
            let log = json!({ "level": "error", "data": "at work" });
            let note =
                json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": log });
            says.send(event(&note)).await.unwrap();
            let mut first = alice.post(&call(&alice, "pay", json!({ "n": 1 }))).await;
            assert_eq!(first.message().await["params"]["data"], "at work");
            drop(first);
            let is_call = |seen: &Seen| seen.method() == "tools/call";
            let sent = crossing.server.sees("the call", is_call).await;
            let result = json!({ "content": [{ "type": "text", "text": "paid" }], "resultType": "complete" });
            let done = json!({ "jsonrpc": "2.0", "id": sent.body["id"], "result": result });
            let again = call(&alice, "pay", json!({ "n": 1 }));
            let mut answer = None;
            if is_done {
                says.send(event(&done)).await.unwrap();
                until("the call is in the ledger", || async {
                    (!crossing.gate.ledger().await.is_empty()).then_some(())
                })
                .await;
            } else {
                answer = Some(alice.post(&again).await);
                says.send(event(&done)).await.unwrap();
            }
            let mut answer = match answer {
                Some(answer) => answer,
                None => alice.post(&again).await,
            };
            let other = agent(&crossing.gate, towards, ALICE).await;
            let elsewhere = other.call("pay", json!({ "n": 1 })).await;
            for answer in [answer.whole().await, elsewhere] {
                let text = &stored(&answer)["result"]["content"][0]["text"];
                assert_eq!(text, "paid", "{towards:?}, {is_done}: {answer}");
            }
            let seen = crossing.server.seen();
            assert_eq!(crossing.server.executions(), 1, "{towards:?}, {is_done}");
            let cancelled = |seen: &Seen| seen.method() == "notifications/cancelled";
            assert!(!seen.iter().any(cancelled), "{towards:?}, {is_done}");
        }
    }
}
