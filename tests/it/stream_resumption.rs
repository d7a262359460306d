//! Legacy streams that are taken up again after newer ones pushed them out (protocol §3.1,
//! threat-model §3H H10, §8).

use crate::harness::agent::Agent;
use crate::harness::answer::Block;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, event, tool};
use crate::harness::setup::Settings;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Every call is answered on an event stream: progress first, then the answer.
async fn stage() -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    scripted.answers(|seen| {
        let result = json!({ "content": [] });
        let (sender, receiver) = mpsc::channel(2);
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": 1, "progress": 1 } });
        sender.try_send(event(&progress)).unwrap();
        sender
            .try_send(event(
                &json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result }),
            ))
            .unwrap();
        Reply::Stream(receiver)
    });
    let gate = Gate::start(Settings::open(scripted.url(), &["read"])).await;
    (scripted, gate)
}

/// Calls and reads no further than the progress; the id of the request and of that event.
async fn left_after_progress(agent: &Agent) -> (Value, String) {
    let params =
        json!({ "name": "oracle__read", "arguments": {}, "_meta": { "progressToken": 1 } });
    let message = agent.request("tools/call", params);
    let mut reading = agent.post(&message).await;
    loop {
        let block = reading.next().await.expect("progress before the end");
        if let Block::Event {
            id: Some(id),
            message: Some(_),
        } = block
        {
            return (message["id"].clone(), id);
        }
    }
}

#[tokio::test]
async fn h10_a_stream_that_newer_ones_pushed_out_is_told_from_one_that_never_was() {
    let (_scripted, gate) = stage().await;
    let agent = gate.legacy("/mcp").await;
    let (_, first) = left_after_progress(&agent).await;
    for _ in 0..17 {
        let (id, last) = left_after_progress(&agent).await;
        assert_eq!(agent.get(Some(&last)).await.whole().await["id"], id);
    }
    for (last, says) in [
        (first.as_str(), "no longer kept"),
        ("999-1", "not of this session"),
        ("a-b", "not of this session"),
    ] {
        let mut answer = agent.get(Some(last)).await;
        assert_eq!(answer.head.status, 400, "{last}");
        let words = answer.whole().await["error"]["message"].to_string();
        assert!(words.contains(says), "{last}: {words}");
    }
}
