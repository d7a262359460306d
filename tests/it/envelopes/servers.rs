//! What comes from tool servers.

use super::{ENVELOPE, META, PARAMS, heard, hostile, is_plain, stage};
use crate::harness::scripted_server::{Reply, event};
use crate::harness::setup::Setup;
use serde_json::{Value, json};

const RESULT: [&str; 6] = [
    "content",
    "structuredContent",
    "isError",
    "resultType",
    "requestState",
    "_meta",
];

// === Generated: from tool servers ===

/// What a tool server says to a call: notes on the way, and its answer.
fn sayings(legacy: bool) -> Vec<Value> {
    let content = json!([{ "type": "text", "text": "plain" }]);
    let mut all = vec![
        json!({ "jsonrpc": "2.0", "id": 0, "result": { "resultType": "complete", "content": content, "_meta": {} } }),
        json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": -5, "message": "no", "data": {} } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1, "_meta": {} } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": "p", "progress": 1, "_meta": {} } }),
    ];
    if legacy {
        let params =
            json!({ "message": "?", "requestedSchema": { "type": "object" }, "_meta": {} });
        all.push(json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params }));
    }
    all
}

fn places_of_servers(message: &Value) -> Vec<(&'static str, &'static [&'static str])> {
    let all: [(&str, &[&str]); 7] = [
        ("", &ENVELOPE),
        ("/params", &PARAMS),
        ("/params/_meta", &META),
        ("/result", &RESULT),
        ("/result/_meta", &META),
        ("/result/content/0", &["data", "resource", "mimeType"]),
        ("/error", &["code", "message", "data"]),
    ];
    all.into_iter()
        .filter(|(pointer, _)| message.pointer(pointer).is_some())
        .collect()
}

/// threat-model §13 F9: the same in what tool servers say, on HTTP streams and in whole answers:
/// their answers have run, so they are handed on without it, in both modes.
#[tokio::test]
async fn f9_nothing_foreign_comes_from_servers_over_http() {
    let mut cases = 0;
    for observe in [false, true] {
        let (scripted, gate) = stage(observe).await;
        for agent in [
            gate.agent().at("/mcp/oracle"),
            gate.legacy("/mcp/oracle").await,
        ] {
            for message in sayings(agent.is_legacy()) {
                for bad in hostile(&message, &places_of_servers(&message)) {
                    cases += 1;
                    let is_answer = bad["id"] == 0;
                    scripted.answers(move |seen| {
                        let (sender, receiver) = tokio::sync::mpsc::channel(4);
                        let mut last = sayings(false).remove(0);
                        let first = if is_answer { None } else { Some(bad.clone()) };
                        if is_answer {
                            last = bad.clone();
                        }
                        last["id"] = seen.body["id"].clone();
                        first
                            .iter()
                            .chain([&last])
                            .for_each(|message| sender.try_send(event(message)).unwrap());
                        Reply::Stream(receiver)
                    });
                    let params = json!({ "uri": "x:y", "_meta": { "progressToken": "p" } });
                    let mut reading = agent.post(&agent.request("resources/read", params)).await;
                    let heard = heard(&mut reading).await;
                    assert!(heard.iter().all(is_plain), "{heard:#?}");
                    assert!(heard.len() == 1 || !is_answer, "{heard:#?}");
                }
            }
        }
    }
    assert!(cases > 400, "{cases} messages of tool servers over HTTP");
}

/// The same from tool servers that are child processes: each call names the lines that they say.
#[tokio::test]
async fn f9_nothing_foreign_comes_from_servers_on_stdio() {
    let mut cases = 0;
    for eras in ["--modern", "--legacy"] {
        let legacy = eras == "--legacy";
        let setup = Setup::new()
            .child("oracle", eras, "20s")
            .contracts(&[("oracle__says", "read")]);
        let gate = setup.start().await;
        let agent = if legacy {
            gate.legacy("/mcp/oracle").await
        } else {
            gate.agent().at("/mcp/oracle")
        };
        for message in sayings(legacy) {
            for bad in hostile(&message, &places_of_servers(&message)) {
                cases += 1;
                // Keys of arguments are judged as well: what is to be said travels as text.
                let mut lines = vec![bad.to_string()];
                if bad["id"] != 0 {
                    lines.push(sayings(false).remove(0).to_string());
                }
                let params = json!({ "name": "says", "arguments": { "lines": lines }, "_meta": { "progressToken": "p" } });
                let mut reading = agent.post(&agent.request("tools/call", params)).await;
                let heard = heard(&mut reading).await;
                assert!(heard.iter().all(is_plain), "{heard:#?}");
            }
        }
    }
    assert!(cases > 200, "{cases} messages of tool servers on stdio");
}
