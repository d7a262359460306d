//! Pages on the web that a person has to open, and their end.

use super::Bridge;
use crate::harness::agent::Agent;
use crate::harness::answer::Reading;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, event};
use serde_json::{Value, json};

const ELICITED: &str = "elicitation/create";
const DONE: &str = "notifications/elicitation/complete";
const PAGE: &str = "https://pay.example/confirm";

fn page() -> Value {
    json!({ "mode": "url", "message": "Open it.", "url": PAGE })
}

/// A modern server that asks for a page in two rounds, and then answers with this.
fn asks_twice(server: &ScriptedServer, last_word: Value) {
    let asks = |state: &str| {
        json!({
            "resultType": "input_required", "requestState": state,
            "inputRequests": { "page": { "method": ELICITED, "params": page() } },
        })
    };
    server.answers(move |seen| {
        Reply::Result(match seen.body["params"]["requestState"].as_str() {
            None => asks("one"),
            Some("one") => asks("two"),
            Some(_) => last_word.clone(),
        })
    });
}

/// Calls, and answers each question with this action; the ids of its pages, what else it reads, and
/// the last word.
async fn answers_pages(agent: &Agent, n: u32, actions: [&str; 2]) -> (Vec<Value>, Vec<Value>) {
    let params = json!({ "name": "write", "arguments": { "n": n } });
    let mut answer: Reading = agent.post(&agent.request("tools/call", params)).await;
    let mut ids = Vec::new();
    for action in actions {
        let asked = answer.message().await;
        assert_eq!(asked["method"], ELICITED, "{asked}");
        assert_eq!(asked["params"]["url"], PAGE);
        ids.push(asked["params"]["elicitationId"].clone());
        let told = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": action } });
        agent.post(&told).await;
    }
    let mut said = Vec::new();
    loop {
        said.push(answer.message().await);
        if said.last().unwrap().get("method").is_none() {
            return (ids, said);
        }
    }
}

/// A page that a legacy agent's person has opened ends once the call has succeeded: the agent reads
/// so under the id that toolgate gave it. Of a page that was declined, or a call that failed, it
/// reads nothing.
#[tokio::test]
async fn a_legacy_agent_reads_that_a_page_is_done() {
    let bridge = Bridge::modern().await;
    let pages = json!({ "elicitation": { "url": {} } });
    let agent = bridge.modern_agent().declaring(pages).await;
    let content = json!([{ "type": "text", "text": "paid" }]);
    asks_twice(
        &bridge.server,
        json!({ "content": content, "resultType": "complete" }),
    );
    let (ids, said) = answers_pages(&agent, 1, ["accept", "accept"]).await;
    assert!(ids[0].is_string() && ids[0] != ids[1], "{ids:?}");
    assert_eq!(said.len(), 3, "{said:#?}");
    for (id, note) in ids.iter().zip(&said) {
        let params = json!({ "elicitationId": id });
        assert_eq!((&note["method"], &note["params"]), (&json!(DONE), &params));
    }
    assert_eq!(said[2]["result"]["content"], content);

    let (ids, said) = answers_pages(&agent, 2, ["decline", "accept"]).await;
    assert_eq!(said.len(), 2, "{said:#?}");
    assert_eq!(said[0]["params"]["elicitationId"], ids[1]);

    let failed = json!({ "content": content, "isError": true, "resultType": "complete" });
    asks_twice(&bridge.server, failed);
    let (_, said) = answers_pages(&agent, 3, ["accept", "accept"]).await;
    assert_eq!(said.len(), 1, "{said:#?}");
}

/// What a legacy server says of a page's end is for nobody: an agent of 2026-07-28 knows no such id.
#[tokio::test]
async fn a_modern_agent_hears_nothing_of_a_page_that_is_done() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let progress = json!({ "progressToken": "t", "progress": 1 });
    for (method, params) in [
        (DONE, json!({ "elicitationId": "their-own" })),
        ("notifications/progress", progress),
    ] {
        let note = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        says.send(event(&note)).await.unwrap();
    }
    let params = json!({ "name": "read", "arguments": {}, "_meta": { "progressToken": "t" } });
    let call = agent.request("tools/call", params);
    let telling = async {
        let is_call = |seen: &Seen| seen.method() == "tools/call";
        let called = bridge.server.sees("the call", is_call).await;
        let result =
            json!({ "jsonrpc": "2.0", "id": called.body["id"], "result": { "content": [] } });
        says.send(event(&result)).await.unwrap();
    };
    let (mut answer, ()) = tokio::join!(agent.post(&call), telling);
    let first = answer.message().await;
    assert_eq!(first["method"], "notifications/progress", "{first}");
    let second = answer.message().await;
    assert_eq!(second["id"], call["id"], "{second}");
}
