//! What a second attempt, or a late answer, proves of a call (guarantees §4). That the second one
//! failed, or asks first, says nothing of the first, which may have run.

use crate::harness::agent::modern;
use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{self, ScriptedServer, tool};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::oneshot;

fn asks() -> Value {
    json!({ "resultType": "input_required", "requestState": "one",
        "inputRequests": { "sure": { "method": "elicitation/create",
            "params": { "message": "Sure?", "requestedSchema": { "type": "object", "properties": {} } } } } })
}

fn done() -> Value {
    json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" })
}

async fn gate(scripted: &ScriptedServer, (members, more): (&str, &str)) -> Gate {
    let pay = contract("oracle__pay", "write", more);
    let policy = format!(
        "contracts:\n{}\n  oracle__pay: {pay}\n",
        undo("oracle__pay")
    );
    let members = format!("url: \"{}\"{members}", scripted.url());
    Setup::new()
        .server_with("oracle", &members)
        .policy(&policy)
        .open_sides()
        .start()
        .await
}

async fn call(gate: &Gate, key: &str) -> Answer {
    let agent = gate.agent();
    let mut message = modern(
        "tools/call",
        json!({ "name": "oracle__pay", "arguments": { "key": key } }),
    );
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "elicitation": {} });
    agent.sends(&message).await
}

/// The server runs the call and breaks; asked again under its own key, it says that it is busy, or
/// asks whether to do it.
#[tokio::test]
async fn a_second_attempt_that_fails_says_nothing_of_the_first() {
    let scripted = ScriptedServer::with(vec![tool("pay"), tool("undo")]).await;
    let gate = gate(
        &scripted,
        (
            "",
            ", idempotency: { attempts: 2, upstream: { meta: bank/key } }",
        ),
    )
    .await;
    let failed = json!({ "content": [{ "type": "text", "text": "rate limited" }], "isError": true,
        "resultType": "complete" });
    for (what, second, is_known) in [
        ("fails", failed, false),
        ("asks", asks(), false),
        ("done", done(), true),
    ] {
        let came = AtomicUsize::new(0);
        scripted.forget();
        scripted.answers(move |_| match came.fetch_add(1, Ordering::Relaxed) {
            0 => scripted_server::Reply::Status(502),
            _ => scripted_server::Reply::Result(second.clone()),
        });
        for round in 0..2 {
            let told = call(&gate, what).await;
            let expected = if is_known { "" } else { "outcome_unknown" };
            assert_eq!(told.refusal(), expected, "{what}: {told:?}");
            // One that comes again may be sent again, under the same key.
            if is_known || round == 0 {
                assert_eq!(scripted.executions(), 2, "{what}");
            }
        }
    }
}

/// guarantees §4: a result that the strict reader refuses is an answer, when it is beyond doubt
/// whose: it is withheld, and the same words are given again. No contract takes it for an error
/// that it names.
#[tokio::test]
async fn what_cannot_be_read_is_an_answer() {
    let scripted = ScriptedServer::with(vec![tool("pay"), tool("undo")]).await;
    let gate = gate(&scripted, ("", ", idempotency: { not_executed: [-32603] }")).await;
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for (what, result, is_own) in [
        ("duplicate", r#"{"content":[],"a":1,"a":2}"#, true),
        (
            "twins and a surrogate",
            r#"{"content":[{"type":"text","text":"\ud800"}],"content":[]}"#,
            true,
        ),
        ("deep", &deep, true),
        ("two ids", r#"{"content":[]},"id":1"#, false),
        ("an error, too", r#"{"a":1,"a":2},"error":{}"#, false),
        ("no UTF-8", "\"\u{0}\"", true),
        ("cut", r#"{"a":1,"a":2"#, false),
    ] {
        scripted.forget();
        let result = result.to_owned();
        scripted.answers(move |seen| {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
                seen.body["id"]
            );
            scripted_server::Reply::Said(200, "application/json", body)
        });
        let (first, again) = (call(&gate, what).await, call(&gate, what).await);
        assert_eq!(scripted.executions(), 1, "{what}");
        let expected = if is_own { "" } else { "outcome_unknown" };
        assert_eq!(
            (first.refusal().as_str(), again.refusal().as_str()),
            (expected, expected),
            "{what}: {first:?}"
        );
        if is_own {
            assert!(
                first.text().contains("has answered this call")
                    && first.text().contains("withheld"),
                "{first:?}"
            );
            assert_eq!(first.message()["result"]["isError"], true, "{first:?}");
            let content = |answer: &Answer| {
                answer.message()["result"]["content"]
                    .as_array()
                    .unwrap()
                    .last()
                    .cloned()
            };
            assert_eq!(content(&first), content(&again), "{what}");
        }
    }
}

/// What answers after the deadline is evidence, whatever it says: that it was not executed, where
/// the contract or the operator has named that, or that the server asks first.
#[tokio::test]
async fn what_is_proven_late_is_proven() {
    let scripted = ScriptedServer::with(vec![tool("pay"), tool("undo")]).await;
    let gate = gate(&scripted, (", timeout: 1s, not_executed: [429]", "")).await;
    let busy = || scripted_server::Reply::Said(429, "text/plain", "not now".to_owned());
    let asked = || scripted_server::Reply::Result(asks());
    for (what, late, then, calls) in [
        ("busy", busy(), "complete", 2),
        ("asks", asked(), "input_required", 1),
    ] {
        scripted.forget();
        let (ends, end) = oneshot::channel();
        let end = Mutex::new(Some(end));
        scripted.answers(move |_| match end.lock().unwrap().take() {
            Some(end) => scripted_server::Reply::Later(end),
            None => scripted_server::Reply::Result(done()),
        });
        assert_eq!(
            call(&gate, what).await.refusal(),
            "outcome_unknown",
            "{what}"
        );
        assert_eq!(
            (
                call(&gate, what).await.refusal().as_str(),
                scripted.executions()
            ),
            ("outcome_unknown", 1),
            "{what}"
        );
        assert!(ends.send(late).is_ok());
        let known = until("the outcome is known", || async {
            let told = call(&gate, what).await;
            (told.refusal() != "outcome_unknown").then_some(told)
        })
        .await;
        assert_eq!(
            known.message()["result"]["resultType"],
            then,
            "{what}: {known:?}"
        );
        assert_eq!(scripted.executions(), calls, "{what}");
    }
}
