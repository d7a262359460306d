//! How much a server may say in an error (threat-model §13 L5).

use crate::envelopes::{stage, words};
use crate::harness::scripted_server::{Reply, Seen};
use serde_json::{Value, json};

/// threat-model §13 L5, §8, lane: words of every length around the limit, of letters of one to
/// four bytes, on every way that an error of a tool server takes to an agent.
#[tokio::test]
async fn l5_errors_of_servers_are_short() {
    let (scripted, gate) = stage(false).await;
    let mut cases = 0;
    for agent in [
        gate.agent().at("/mcp/oracle"),
        gate.legacy("/mcp/oracle").await,
    ] {
        scripted
            .answers(|_| Reply::Result(json!({ "task": { "taskId": "t", "status": "working" } })));
        agent
            .answered(&crate::mcp_tasks::request(
                &agent,
                "tools/call",
                json!({ "name": "read" }),
            ))
            .await;
        for letter in ["x", "é", "€", "\u{1f9fe}"] {
            for length in (500..=524).chain([1_000_000]) {
                let said = format!(
                    "{}{}",
                    "y".repeat(length % letter.len()),
                    letter.repeat(length / letter.len())
                );
                assert_eq!(said.len(), length);
                let error = json!({ "code": -5, "message": said });
                scripted.answers(move |seen| fails(seen, &error));
                for (method, params) in ways() {
                    cases += 1;
                    let request = crate::mcp_tasks::request(&agent, method, params);
                    let answer = agent.answered(&request).await;
                    let inside = &answer["result"]["error"];
                    let heard = inside["message"].as_str().unwrap_or_else(|| words(&answer));
                    if length <= 512 {
                        assert_eq!(heard, said, "{method} {answer}");
                    } else {
                        assert!(
                            (500..=512).contains(&heard.len()) && heard.ends_with("… (cut)"),
                            "{method} {answer}"
                        );
                    }
                    let code = if inside.is_object() {
                        &inside["code"]
                    } else {
                        &answer["error"]["code"]
                    };
                    assert_eq!(code, &json!(-5), "{answer}");
                }
            }
        }
    }
    assert_eq!(cases, 2 * 4 * 26 * 6, "errors of tool servers");
}

/// What a tool server may answer with an error.
fn ways() -> [(&'static str, Value); 6] {
    let reference = json!({ "type": "ref/prompt", "name": "p" });
    [
        ("tools/call", json!({ "name": "read" })),
        ("resources/read", json!({ "uri": "x:y" })),
        ("resources/list", json!({})),
        ("prompts/get", json!({ "name": "p" })),
        (
            "completion/complete",
            json!({ "ref": reference, "argument": { "name": "a", "value": "" } }),
        ),
        ("tasks/get", json!({ "taskId": "t" })),
    ]
}

fn fails(seen: &Seen, error: &Value) -> Reply {
    match seen.method() {
        "tasks/get" => Reply::Result(
            json!({ "resultType": "complete", "taskId": "t", "status": "failed", "error": error }),
        ),
        _ => Reply::Message(json!({ "jsonrpc": "2.0", "error": error })),
    }
}

/// threat-model §13 L5: neither `data` nor any other member is a way around, nor is an error that
/// has another form.
#[tokio::test]
async fn l5_nothing_long_travels_beside_the_words() {
    let (scripted, gate) = stage(false).await;
    let long = |length: usize| json!("x".repeat(length));
    for agent in [
        gate.agent().at("/mcp/oracle"),
        gate.legacy("/mcp/oracle").await,
    ] {
        for (error, kept) in [
            (
                json!({ "code": -5, "message": "m", "data": long(10_000) }),
                json!(["data"]),
            ),
            (
                json!({ "code": -5, "message": "m", "data": long(20_000) }),
                json!([]),
            ),
            (
                json!({ "code": -5, "message": "m", "x": long(20_000), "data": long(9_000) }),
                json!(["data"]),
            ),
            (
                json!({ "code": -5, "message": "m", "data": long(9_000), "x": long(9_000), "y": 1 }),
                json!(["data", "y"]),
            ),
            (json!({ "code": long(20_000), "message": "m" }), json!([])),
            (
                json!({ "code": -5, "message": { "m": long(20_000) } }),
                json!([]),
            ),
            (long(20_000), json!([])),
            (json!([long(20_000)]), json!([])),
        ] {
            let said = error.clone();
            scripted.answers(move |_| Reply::Message(json!({ "jsonrpc": "2.0", "error": said })));
            for (method, params) in [
                ("tools/call", json!({ "name": "read" })),
                ("resources/read", json!({ "uri": "x:y" })),
            ] {
                let answer = agent.ask(method, params).await;
                let heard = answer["error"].as_object().unwrap();
                assert!(
                    answer.to_string().len() < 17_000,
                    "{method} {}",
                    answer.to_string().len()
                );
                assert!(
                    heard["message"].is_string() && heard["code"].is_i64(),
                    "{answer}"
                );
                for key in ["data", "x", "y"] {
                    let is_kept = kept.as_array().unwrap().contains(&json!(key));
                    assert_eq!(heard.get(key), error.get(key).filter(|_| is_kept), "{key}");
                }
            }
        }
    }
}
