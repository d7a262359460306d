//! What legacy servers ask of agents.

use super::{both, done, stage, without_id};
use crate::harness::scripted_server::{ScriptedServer, event, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};

/// protocol §3.3: sampling, elicitation and roots reach the agent under an id of ours, and its
/// answer reaches the server under the server's id; inside a call and outside.
#[tokio::test]
async fn a_legacy_server_asks_the_agent() {
    let (scripted, gate) = stage().await;
    let [_, agent] = both(&gate).await;
    let server = scripted.holds("tools/call");
    let message = agent.request(
        "tools/call",
        json!({ "name": "write", "_meta": { "progressToken": "p" } }),
    );
    let poster = agent.clone();
    let call = message.clone();
    let calling = tokio::spawn(async move { poster.post(&call).await });
    let call = scripted
        .sees("the call", |seen| seen.method() == "tools/call")
        .await;
    let mut standalone = agent.get(None).await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    let mut inside = None;
    let mut calling = Some(calling);
    for (method, params, id) in questions() {
        for outside in [false, true] {
            let question =
                json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            let asked = if outside {
                scripted.tells(question.clone()).await;
                standalone.message().await
            } else {
                server.send(event(&question)).await.unwrap();
                if let Some(calling) = calling.take() {
                    inside = Some(calling.await.unwrap());
                }
                inside.as_mut().unwrap().message().await
            };
            assert_eq!(without_id(&asked), without_id(&question));
            scripted.forget();
            let mut answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "x": [1, { "y": null }] }, "z": 1 });
            if outside {
                answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -1, "message": "no", "data": {} } });
            }
            assert_eq!(agent.post(&answer).await.head.status, 202);
            let seen = scripted
                .sees("the answer", |seen| {
                    seen.method().is_empty() && seen.body["id"] == id
                })
                .await;
            assert_eq!(without_id(&seen.body), without_id(&answer));
        }
    }
    server.send(event(&done(&call.body["id"]))).await.unwrap();
    assert_eq!(inside.unwrap().message().await["id"], message["id"]);
}

/// What a legacy server may ask an agent, each under another id.
fn questions() -> [(&'static str, Value, Value); 3] {
    [
        (
            "sampling/createMessage",
            json!({ "messages": [], "maxTokens": 5, "x": null }),
            json!("srv-1"),
        ),
        (
            "elicitation/create",
            json!({ "message": "?", "requestedSchema": { "type": "object" } }),
            json!(1),
        ),
        (
            "roots/list",
            json!({ "_meta": { "progressToken": 9 } }),
            json!("1"),
        ),
    ]
}

/// threat-model §3A A12 and protocol §3.4: what a server may not ask is answered at once, and when
/// it takes a question back the agent is told under the id that it knows.
#[tokio::test]
async fn a_legacy_server_is_told_no_and_may_change_its_mind() {
    let (scripted, gate) = stage().await;
    let agent = gate.legacy("/mcp/oracle").await;
    let mut standalone = agent.get(None).await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    scripted
        .tells(json!({ "jsonrpc": "2.0", "id": "odd", "method": "tools/call", "params": {} }))
        .await;
    let no = scripted
        .sees("the refusal", |seen| seen.body["id"] == "odd")
        .await;
    assert_eq!(no.body["error"]["code"], -32601, "{no:?}");

    let question = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list" });
    scripted.tells(question(70)).await;
    let asked = standalone.message().await;
    let taken_back = json!({ "requestId": 70, "reason": "found it" });
    scripted
        .tells(
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": taken_back }),
        )
        .await;
    let told = standalone.message().await;
    assert_eq!(
        told["params"],
        json!({ "requestId": asked["id"], "reason": "found it" }),
        "{told}"
    );
    // Its cancellation of what it never asked is nothing to the agent.
    scripted
        .tells(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": asked["id"] } }))
        .await;
    scripted.tells(question(71)).await;
    assert_eq!(standalone.message().await["method"], "roots/list");
}

/// A question that no revision knows reaches the agent in observe mode, and its answer the server;
/// in enforce mode the server is refused. Either way it is recorded.
#[tokio::test]
async fn a_question_that_nobody_knows_is_recorded() {
    for mode in ["observe", "enforce"] {
        let scripted = ScriptedServer::with(vec![tool("write")]).await;
        let setup = Setup::new()
            .server_with("oracle", &format!("url: \"{}\"", scripted.url()))
            .contracts(&[("oracle__write", "write")])
            .open_sides()
            .mode(mode);
        let gate = setup.start().await;
        let agent = gate.legacy("/mcp/oracle").await;
        let mut standalone = agent.get(None).await;
        until("toolgate listens", || async {
            (scripted.listeners() >= 2).then_some(())
        })
        .await;
        let question =
            json!({ "jsonrpc": "2.0", "id": "q", "method": "acme/ask", "params": { "x": [1e3] } });
        scripted.tells(question.clone()).await;
        if mode == "observe" {
            let asked = standalone.message().await;
            assert_eq!(without_id(&asked), without_id(&question));
            let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "yes": true } });
            assert_eq!(agent.post(&answer).await.head.status, 202);
        }
        let seen = scripted
            .sees("what is said to the question", |seen| {
                seen.body["id"] == "q"
            })
            .await;
        let expected = match mode {
            "observe" => json!({ "yes": true }),
            _ => json!(null),
        };
        assert_eq!(seen.body["result"], expected, "{mode}");
        assert_eq!(
            seen.body["error"]["code"] == -32601,
            mode == "enforce",
            "{mode}"
        );
        let entries = gate.entries(1).await;
        let entry = entries.iter().find(|entry| entry["method"] == "acme/ask");
        let entry = entry.unwrap_or_else(|| panic!("{mode}: {entries:?}"));
        let refused = if mode == "observe" {
            "would_refuse"
        } else {
            "outcome"
        };
        assert!(entry[refused].is_string(), "{mode}: {entry}");
    }
}
