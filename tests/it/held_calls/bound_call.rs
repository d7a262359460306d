//! What was allowed is one call, with all that travels beside it.

use super::{ANN, HoldingGate, call, held};
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::scripted_server::Reply;
use crate::harness::until;
use serde_json::{Value, json};

/// guarantees §7, threat-model §3E E1, E3: another agent, other arguments or another policy make it
/// another call.
#[tokio::test]
async fn what_was_allowed_is_one_call_and_no_other() {
    let stage = HoldingGate::new().await;
    let (bot, cat) = (stage.bot(), stage.cat());
    let id = held(&call(&bot, "pay", json!({ "n": 1 }), "k1").await);
    stage.allows(&id).await;
    assert_ne!(held(&call(&cat, "pay", json!({ "n": 1 }), "k1").await), id);
    assert_ne!(held(&call(&bot, "pay", json!({ "n": 2 }), "k2").await), id);
    assert_ne!(
        held(&call(&bot, "pay", json!({ "n": 1, "to": "me" }), "k3").await),
        id
    );
    assert_eq!(stage.scripted.executions(), 0);
    // What the policy says of the tool changes; what was allowed was allowed under the old one.
    let version = stage.gate.readiness().await["policy"]["version"].clone();
    let path = stage.gate.path("policy.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("Pay a bill.", "Pay a large bill.", 1)).unwrap();
    stage.gate.hang_up();
    until("the new policy", || async {
        let now = stage.gate.readiness().await["policy"]["version"].clone();
        (now != version).then_some(())
    })
    .await;
    assert_ne!(held(&call(&bot, "pay", json!({ "n": 1 }), "k1").await), id);
    assert_eq!(stage.scripted.executions(), 0);
}

/// 003-46, threat-model §3E E1: what a call answers a server that asked is part of it, is shown,
/// and is what is sent.
#[tokio::test]
async fn answers_to_the_server_are_shown_and_bound() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let asks = json!({ "resultType": "input_required", "requestState": "one" });
    stage.scripted.answers(move |_| Reply::Result(asks.clone()));
    let first = held(&call(&bot, "pay", json!({}), "k").await);
    stage.allows(&first).await;
    let given = call(&bot, "pay", json!({}), "k").await["result"]["requestState"].clone();
    let with = async |agent: &Agent, amount: u64| {
        let answers = json!({ "sure": { "action": "accept", "content": { "amount": amount } } });
        let meta = json!({ "dev.toolgate/idempotencyKey": "k" });
        let params = json!({ "name": "bank__pay", "arguments": {}, "inputResponses": answers, "requestState": given, "_meta": meta });
        agent.ask("tools/call", params).await
    };
    let id = held(&with(&bot, 31_337).await);
    let (status, shown) = stage.says(ANN, &["show", &id]).await;
    assert_eq!(status, 0, "{shown}");
    assert!(
        shown.contains("\"amount\": 31337") && shown.contains("\"requestState\": \"one\""),
        "{shown}"
    );
    let foreign = with(&stage.cat(), 31_337).await;
    assert_eq!(
        foreign["error"]["data"]["code"], "schema_invalid",
        "another's state: {foreign}"
    );
    let stage = stage.again(false).await;
    assert_eq!(
        stage.holds(1).await[0]["answers"]["inputResponses"]["sure"]["content"]["amount"],
        31_337
    );
    // Sealed before the restart, and run after it, once, with what was shown.
    stage.allows(&id).await;
    stage.scripted.forget();
    let bot = stage.bot();
    for _ in 0..2 {
        with(&bot, 31_337).await;
    }
    assert_eq!(stage.scripted.executions(), 1);
    assert_eq!(
        stage.scripted.seen()[0].body["params"]["requestState"],
        "one"
    );
}

/// What makes it another call than one that brings nothing beside its arguments.
fn others(evil: &Value) -> Vec<(Value, Option<Value>)> {
    let long = format!("path={}", "x".repeat(512));
    let name = json!({ "name": "x".repeat(2_048) });
    vec![
        (evil.clone(), None),
        (json!({ "com.acme/override": { "path": "/etc" } }), None),
        (json!({ "io.modelcontextprotocol/unheard-of": 1 }), None),
        (json!({ "baggage": { "path": "/etc/passwd" } }), None),
        (json!({ "tracestate": ["/etc/passwd"] }), None),
        (json!({ "baggage": long }), None),
        (json!({ "io.modelcontextprotocol/clientInfo": name }), None),
        (json!({}), Some(json!({ "ttl": 1 }))),
        (json!({}), Some(json!({ "ttl": 2 }))),
        (json!({ "vscode.requestId": { "path": "/etc" } }), None),
        (json!({ "claudecode/toolUseId": "x".repeat(128) }), None),
        (json!({ "vscode.unheard-of": "r-1" }), None),
    ]
}

/// threat-model §13 F4, §3E E1: `_meta` and `task` travel, so what a person allows is bound to them
/// and shown, but for what is another's with each request. Nothing that was not allowed runs, and
/// it is kept over a restart.
#[tokio::test]
async fn what_travels_beside_the_arguments_is_shown_and_bound() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let with = async |meta: Value, task: Option<Value>| {
        let mut params = json!({ "name": "bank__pay", "arguments": { "n": 1 }, "_meta": meta });
        params["_meta"]["dev.toolgate/idempotencyKey"] = json!("k");
        if let Some(task) = task {
            params["task"] = task;
        }
        bot.ask("tools/call", params).await
    };
    let plain = held(&with(json!({}), None).await);
    stage.allows(&plain).await;
    let evil = json!({ "com.acme/override": { "path": "/etc/passwd" } });
    let mut holds = vec![plain];
    for (meta, task) in others(&evil) {
        let id = held(&with(meta, task).await);
        assert!(!holds.contains(&id), "{holds:?}");
        holds.push(id);
    }
    assert_eq!(
        stage.scripted.executions(),
        0,
        "another call than the one that was allowed"
    );
    let (_, shown) = stage.says(ANN, &["show", &holds[1]]).await;
    assert!(shown.contains("\"path\": \"/etc/passwd\""), "{shown}");
    let (_, shown) = stage.says(ANN, &["show", &holds[8]]).await;
    assert!(
        shown.contains("\"task\"") && shown.contains("\"ttl\": 1"),
        "{shown}"
    );
    let (_, shown) = stage.says(ANN, &["show", &holds[0]]).await;
    assert!(!shown.contains("travels beside"), "{shown}");
    // What belongs to one request says nothing of the call.
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let of_requests = json!({
        "progressToken": 7, "traceparent": trace, "baggage": "a=b", "claudecode/toolUseId": "toolu_01",
        "vscode.requestId": "r-1", "vscode.conversationId": "c-1",
    });
    let answer = with(of_requests, None).await;
    assert_eq!(code(&answer), None, "{answer}");
    assert_eq!(stage.scripted.executions(), 1);
    let stage = stage.again(false).await;
    let kept = stage.holds(12).await;
    assert!(
        kept.iter().any(|hold| hold["beside"]["_meta"] == evil),
        "{kept:?}"
    );
}
