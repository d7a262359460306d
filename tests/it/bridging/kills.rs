//! toolgate is killed while a round is on its way (threat-model §12): what was asked is not asked
//! again, nothing runs twice, and who comes back reads that nobody knows.

use super::crossings::{ALICE, Crossing, ELICITED, Towards, agent, call, next_round};
use super::histories::KillHistory;
use super::last;
use crate::harness::answer::code;
use crate::harness::scripted_server::{Reply, Seen, event};
use serde_json::{Value, json};

const POLICY: &str = "
contracts:
  s__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  s__pay: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: s__undo } }, secrets: [], idempotency: { derive: arguments }, budget: { max_calls_per_task: 9 } }
";

fn question() -> Value {
    json!({ "message": "who?", "requestedSchema": { "type": "object", "properties": {} } })
}

/// A modern agent's answer is on its way to the legacy server: it has arrived, or its server has not
/// said yes to it. After the kill the same round, and the call as it was first, are sent nowhere.
#[tokio::test]
async fn an_answer_that_is_handed_on_when_toolgate_dies_is_not_handed_on_again() {
    for arrives in [true, false] {
        let mut crossing = Crossing::new(Towards::Legacy, POLICY, "").await;
        let mut history = KillHistory::begins();
        let alice = crossing.agent(ALICE).await;
        let says = crossing.server.holds("tools/call");
        let asks =
            json!({ "jsonrpc": "2.0", "id": "q-1", "method": ELICITED, "params": question() });
        says.send(event(&asks)).await.unwrap();
        let first = call(&alice, "pay", json!({ "n": 1 }));
        let asked = alice.answered(&first).await;
        history.tells(&first["params"], &asked);
        if !arrives {
            crossing.server.leaves_notifications();
        }
        let reply = json!({ "action": "accept", "content": {} });
        let next = next_round(&alice, &first, &asked, &reply);
        let is_answer = |seen: &Seen| seen.body["id"] == "q-1" && seen.method().is_empty();
        let reading = alice.clone();
        let sent = next.clone();
        let waiting = tokio::spawn(async move { reading.post(&sent).await });
        crossing.server.sees("the agent's answer", is_answer).await;
        history.kills(&mut crossing.gate).await;
        waiting.abort();
        let setup = crossing.gate.setup.clone();
        let gate = setup.start().await;
        let alice = agent(&gate, Towards::Legacy, ALICE).await;
        for message in [&next, &first, &next] {
            let answer = alice.answered(message).await;
            history.tells(&message["params"], &answer);
            let refusal = code(&answer);
            assert_eq!(refusal.as_deref(), Some("outcome_unknown"), "{answer}");
        }
        let answers = crossing.server.seen().into_iter().filter(is_answer).count();
        assert_eq!(answers, 1, "I1: the answer was handed on once");
        assert_eq!(crossing.server.executions(), 1, "I1");
        history.holds(&crossing.server, gate, 1).await;
    }
}

/// A modern server works on the second round of a legacy agent's call when toolgate dies: after that
/// the same call, in a new session, is not sent again, neither from its beginning nor as a round.
#[tokio::test]
async fn a_round_that_is_sent_when_toolgate_dies_is_not_sent_again() {
    let mut crossing = Crossing::new(Towards::Modern, POLICY, "").await;
    let mut history = KillHistory::begins();
    let alice = crossing.agent(ALICE).await;
    crossing
        .server
        .answers(|seen| match seen.body["params"].get("requestState") {
            None => Reply::Result(json!({
                "resultType": "input_required", "requestState": "one",
                "inputRequests": { "q": { "method": ELICITED, "params": question() } },
            })),
            Some(_) => Reply::Silence,
        });
    let mut stream = alice.post(&call(&alice, "pay", json!({ "n": 1 }))).await;
    let asked = stream.message().await;
    let reply = json!({ "action": "accept", "content": {} });
    alice
        .post(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": reply }))
        .await;
    let is_round = |seen: &Seen| seen.body["params"]["requestState"] == "one";
    crossing.server.sees("the second round", is_round).await;
    history.kills(&mut crossing.gate).await;
    let setup = crossing.gate.setup.clone();
    let gate = setup.start().await;
    let alice = agent(&gate, Towards::Modern, ALICE).await;
    for _ in 0..2 {
        let again = call(&alice, "pay", json!({ "n": 1 }));
        let answer = alice.answered(&again).await;
        history.tells(&again["params"], &answer);
        assert_eq!(
            code(&answer).as_deref(),
            Some("outcome_unknown"),
            "{answer}"
        );
    }
    assert_eq!(crossing.server.executions(), 2, "two rounds of one call");
    assert!(is_round(&last(&crossing.server, "tools/call")));
    history.holds(&crossing.server, gate, 1).await;
}
