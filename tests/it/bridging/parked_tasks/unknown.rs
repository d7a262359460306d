//! Calls of which nobody knows whether they have run, where their legacy server asks: nothing is sent
//! once more, and no task is made that nobody reads of (guarantees §4).

use super::*;
use crate::bridging::crossings::next_round;
use crate::harness::scripted_server::Reply;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// With more in the contract of `pay`.
fn policy(more: &str) -> String {
    let end = ", idempotency: { derive: arguments }";
    assert!(POLICY.contains(end));
    POLICY.replace(end, &format!(", {more}"))
}

/// How often the server was asked for a tool.
fn count(stage: &Crossing, tool: &str) -> usize {
    let seen = stage.server.seen().into_iter();
    let is_it = |seen: &Seen| seen.method() == "tools/call" && seen.body["params"]["name"] == tool;
    seen.filter(is_it).count()
}

/// A call whose first attempt may have run, and whose second asks, is not sent a third time while that
/// waits, though its server tells copies by a key. Its agent reads that nobody knows, and once the server
/// has answered what it has done.
#[tokio::test]
async fn an_attempt_that_asks_is_the_last() {
    let more = "idempotency: { derive: arguments, attempts: 3, upstream: { meta: bank/key } }";
    let crossing = Crossing::new(Towards::Legacy, &policy(more), "").await;
    let alice = crossing.agent(ALICE).await;
    let (says, asks) = tokio::sync::mpsc::channel(16);
    says.send(question("q-1")).await.unwrap();
    let (came, asks) = (AtomicUsize::new(0), Mutex::new(Some(asks)));
    crossing.server.answers(move |seen| {
        if seen.method() != "tools/call" {
            return Reply::Result(json!({}));
        }
        match came.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::Status(502),
            1 => Reply::Stream(asks.lock().unwrap().take().unwrap()),
            _ => Reply::Result(json!({ "content": [{ "type": "text", "text": "once more" }] })),
        }
    });
    let params = json!({ "name": "pay", "arguments": { "n": 1 } });
    let pay = async || {
        let pay = knowing(&alice, "tools/call", params.clone());
        alice.answered(&pay).await
    };
    for _ in 0..2 {
        let told = pay().await;
        assert_eq!(code(&told).as_deref(), Some("outcome_unknown"), "{told}");
        assert_eq!(count(&crossing, "pay"), 2);
    }
    let id = last(&crossing.server, "tools/call").body["id"].clone();
    let result = json!({ "content": [{ "type": "text", "text": "paid" }] });
    let done = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    says.send(event(&done)).await.unwrap();
    until("the call has its outcome", || async {
        let again = pay().await;
        (stored(&again)["result"]["content"][0]["text"] == "paid").then_some(())
    })
    .await;
    assert_eq!(count(&crossing, "pay"), 2);
}

/// A look at the server that finds nothing is no proof for a call whose server has asked in it: it has
/// begun. Also long after the look would prove it of another call, and again and again.
#[tokio::test]
async fn a_look_is_no_proof_of_a_call_that_has_asked() {
    let more = "idempotency: { probe: { tool: s__read, arguments: { n: arguments#/n }, found: /orders, nothing: [[]], absent_after: 1s } }";
    let mut stage = TaskStage::under(&policy(more), "pay").await;
    stage.crossing.server.answers(|_| {
        let nothing = json!({ "orders": [] });
        Reply::Result(json!({ "content": [], "structuredContent": nothing }))
    });
    let (says, _) = tokio::sync::mpsc::channel(1);
    drop(std::mem::replace(&mut stage.says, says));
    stage.becomes("failed").await;
    let lost = Instant::now();
    until("a look finds nothing when that could be proof", || async {
        let again = stage.again().await;
        assert_eq!(code(&again).as_deref(), Some("outcome_unknown"), "{again}");
        (lost.elapsed() > Duration::from_millis(3_500)).then_some(())
    })
    .await;
    assert!(count(&stage.crossing, "read") > 1, "nobody looked");
    assert_eq!(count(&stage.crossing, "pay"), 1, "I1");
}

/// An agent that has read that nobody knows reads of no task: what is asked then waits for its next
/// call, as for one that knows no tasks.
#[tokio::test]
async fn a_question_after_the_deadline_makes_no_task() {
    let crossing = Crossing::new(Towards::Legacy, &policy("budget: { timeout_ms: 300 }"), "").await;
    let alice = crossing.agent(ALICE).await;
    let says = crossing.server.holds("tools/call");
    let params = json!({ "name": "pay", "arguments": { "n": 1 } });
    let pay = || knowing(&alice, "tools/call", params.clone());
    let told = alice.answered(&pay()).await;
    assert_eq!(code(&told).as_deref(), Some("outcome_unknown"), "{told}");
    says.send(question("q-1")).await.unwrap();
    let (first, asked) = until("the call asks", || async {
        let again = pay();
        let told = alice.answered(&again).await;
        (told["result"]["resultType"] == "input_required").then_some((again, told))
    })
    .await;
    let reply = json!({ "action": "accept", "content": {} });
    let round = next_round(&alice, &first, &asked, &reply);
    let finishing = async {
        let server = &crossing.server;
        server.sees("the answer", is_answer("q-1")).await;
        let id = last(server, "tools/call").body["id"].clone();
        let result = json!({ "content": [{ "type": "text", "text": "paid" }] });
        let done = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        says.send(event(&done)).await.unwrap();
    };
    let (paid, ()) = tokio::join!(alice.answered(&round), finishing);
    assert_eq!(paid["result"]["content"][0]["text"], "paid", "{paid}");
    assert_eq!(crossing.server.executions(), 1, "I1");
}
