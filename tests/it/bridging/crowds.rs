//! A legacy server asks more of an agent of 2026-07-28 than may wait (protocol §4.3): it reads why, and
//! the call goes on as if it had not asked.

use super::crossings::{ALICE, Crossing, ELICITED, Towards, call};
use crate::harness::scripted_server::{Reply, Seen, event};
use serde_json::{Value, json};

const POLICY: &str = "contracts: { s__read: { purpose: test, actions: [read], secrets: [] } }";
/// Four questions of this length are as much as waits of one agent.
const QUESTION_BYTES: usize = (4 << 20) - 4_000;

fn question(id: &Value) -> Value {
    let words = "x".repeat(QUESTION_BYTES);
    let params =
        json!({ "message": words, "requestedSchema": { "type": "object", "properties": {} } });
    json!({ "jsonrpc": "2.0", "id": format!("q-{id}"), "method": ELICITED, "params": params })
}

/// Four parked calls of an agent ask 16 MiB. The question of a fifth is refused, and its agent hears of
/// its progress, under its own token, until the end.
#[tokio::test]
async fn questions_of_parked_calls_take_so_many_bytes() {
    let crossing = Crossing::new(Towards::Legacy, POLICY, "").await;
    let agent = crossing.agent(ALICE).await;
    let (keeps, mut kept) = tokio::sync::mpsc::unbounded_channel();
    crossing.server.answers(move |seen| {
        if seen.method() != "tools/call" {
            return Reply::Result(json!({}));
        }
        let (says, said) = tokio::sync::mpsc::channel(8);
        let asked = question(&seen.body["params"]["arguments"]["n"]);
        says.try_send(event(&asked)).unwrap();
        keeps.send((says, seen.clone())).unwrap();
        Reply::Stream(said)
    });
    let mut held = Vec::new();
    for n in 0..4 {
        let asked = agent
            .answered(&call(&agent, "read", json!({ "n": n })))
            .await;
        let kind = &asked["result"]["resultType"];
        assert_eq!(kind, "input_required", "{n}");
        held.push(kept.recv().await.unwrap());
    }
    let mut fifth = call(&agent, "read", json!({ "n": 4 }));
    fifth["params"]["_meta"]["progressToken"] = json!("mine");
    let goes_on = async {
        let is_answer = |seen: &Seen| seen.body["id"] == "q-4";
        let refused = crossing.server.sees("the refusal", is_answer).await;
        let words = refused.body["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(words.contains("16 MiB"), "{words}");
        let (says, sent) = kept.recv().await.unwrap();
        let token = &sent.body["params"]["_meta"]["progressToken"];
        let told = json!({ "progressToken": token, "progress": 1 });
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": told });
        says.send(event(&note)).await.unwrap();
        let end = json!({ "jsonrpc": "2.0", "id": sent.body["id"], "result": { "content": [] } });
        says.send(event(&end)).await.unwrap();
    };
    let reading = async {
        let mut answer = agent.post(&fifth).await;
        let mut heard = Vec::new();
        loop {
            let said = answer.message().await;
            if said.get("method").is_none() {
                return (heard, said);
            }
            heard.push(said);
        }
    };
    let ((heard, last), ()) = tokio::join!(reading, goes_on);
    assert!(last["result"]["content"].is_array(), "{last}");
    assert_eq!(heard.len(), 1, "{heard:#?}");
    assert_eq!(heard[0]["params"]["progressToken"], "mine");
    assert_eq!(crossing.server.executions(), 5);
}
