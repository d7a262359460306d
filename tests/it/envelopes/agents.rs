//! What comes from agents.

use super::{asked, hostile, is_plain, is_withheld, listening, places, stage, words};
use crate::harness::agent::Agent;
use crate::harness::stdio::Launched;
use serde_json::{Value, json};

fn response(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [], "_meta": {} } })
}

fn failed(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -1, "message": "no" } })
}

// === Generated: from agents ===

/// What an agent may say of each kind, with the places in it. `question`: the id of an open one.
fn kinds(agent: &Agent, question: &Value) -> Vec<Value> {
    let meta = json!({ "com.acme/x": 1 });
    let call = json!({ "name": "read", "arguments": {}, "_meta": meta });
    let mut all = vec![
        agent.request("tools/call", call),
        agent.request("resources/read", json!({ "uri": "x:y", "_meta": meta })),
        agent.request(
            "completion/complete",
            json!({ "ref": { "type": "x" }, "argument": {}, "_meta": meta }),
        ),
    ];
    if agent.is_legacy() {
        for method in [
            "notifications/progress",
            "notifications/cancelled",
            "notifications/roots/list_changed",
        ] {
            all.push(json!({ "jsonrpc": "2.0", "method": method, "params": { "requestId": 77, "_meta": meta } }));
        }
        all.extend([response(question), failed(question)]);
    }
    all
}

/// threat-model §3A A2: each spelling of each known member, in each kind of message an agent sends,
/// in both eras over HTTP: in enforce mode refused with words, and nothing arrives; in observe mode
/// nothing foreign does.
#[tokio::test]
async fn a2_nothing_foreign_comes_from_agents_over_http() {
    let mut cases = 0;
    for observe in [false, true] {
        let (scripted, gate) = stage(observe).await;
        let legacy = gate.legacy("/mcp/oracle").await;
        let mut standalone = listening(&scripted, &legacy).await;
        for agent in [gate.agent().at("/mcp/oracle"), legacy] {
            let question = asked(&scripted, &mut standalone).await;
            scripted.forget();
            for message in kinds(&agent, &question) {
                for mut bad in hostile(&message, &places(&message)) {
                    let is_answer = message.get("method").is_none();
                    if observe && is_answer {
                        bad["id"] = asked(&scripted, &mut standalone).await;
                    }
                    cases += 1;
                    let mut told = agent.post(&bad).await;
                    if observe {
                        assert!(
                            [200, 202].contains(&told.head.status),
                            "{} {bad}",
                            told.head.status
                        );
                    } else {
                        let refused = told.whole().await;
                        assert!(
                            words(&refused).contains("only looks like"),
                            "{bad} {refused}"
                        );
                    }
                }
            }
            let mut seen = scripted.seen();
            assert!(seen.iter().all(|seen| is_plain(&seen.body)), "{seen:#?}");
            seen.retain(|seen| !is_withheld(seen));
            assert_eq!(seen.is_empty(), !observe, "{seen:#?}");
        }
    }
    assert!(cases > 900, "{cases} messages of agents over HTTP");
}

/// The same from an agent that launches toolgate.
#[tokio::test]
async fn a2_nothing_foreign_comes_from_agents_on_stdio() {
    let mut cases = 0;
    for observe in [false, true] {
        let (scripted, gate) = stage(observe).await;
        for (legacy, data) in [(false, "modern"), (true, "legacy")] {
            let wire = if legacy {
                gate.legacy("/mcp/oracle").await
            } else {
                gate.agent().at("/mcp/oracle")
            };
            let data = gate.path(data);
            let mut agent =
                Launched::start(&gate.setup, &["--data", data.to_str().unwrap()], legacy).await;
            scripted.forget();
            for message in kinds(&wire, &json!(1)) {
                let bad = hostile(&message, &places(&message));
                cases += bad.len();
                for mut bad in bad {
                    if message["method"].is_string() && message.get("id").is_some() {
                        bad["id"] = json!(format!("own {cases}"));
                    }
                    agent.say(&bad).await;
                    // What wants no answer has none, or the next one would not be that of its
                    // request.
                    if bad.get("id").is_some() && bad["method"].is_string() {
                        let answer = agent.hears().await;
                        assert_eq!(answer["id"], bad["id"], "{bad} {answer}");
                        assert!(
                            observe || words(&answer).contains("only looks like"),
                            "{bad} {answer}"
                        );
                    }
                }
            }
            let seen = scripted.seen();
            assert!(seen.iter().all(|seen| is_plain(&seen.body)), "{seen:#?}");
            assert_eq!(seen.is_empty(), !observe, "{seen:#?}");
            agent.end().await;
        }
    }
    assert!(cases > 900, "{cases} messages of agents on stdio");
}
