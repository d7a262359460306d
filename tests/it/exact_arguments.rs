//! What arguments say to the last digit: whole numbers of 64 bits are judged, known and sent as
//! they were written, and what is refused is refused with its place and under its id.

use crate::harness::agent::{Agent, modern};
use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Setup, contract, undo};
use serde_json::{Value, json};

/// The first whole number that no double holds.
const ODD: u64 = (1 << 53) + 1;

async fn stage() -> (ScriptedServer, Gate) {
    let mut pay = tool("pay");
    pay["inputSchema"]["properties"] = json!({
        "id": {}, "x": {}, "headers": { "type": "object" },
        "most": { "type": "integer", "maximum": ODD }, "nth": { "type": "integer", "multipleOf": 3 },
    });
    let scripted = ScriptedServer::with(vec![pay, tool("put"), tool("undo")]).await;
    let rule =
        |code: &str, when: &str| format!(", rules: [ {{ code: {code}, when: \"{when}\" }} ]");
    let sum = format!("has(arguments.sum) && arguments.sum > {}", ODD - 1);
    let policy = format!(
        "contracts:\n{}\n  bank__pay: {}\n  bank__put: {}\n",
        undo("bank__pay"),
        contract("bank__pay", "write", &rule("too_much", &sum)),
        contract(
            "bank__put",
            "write",
            &rule("elsewhere", "arguments.to.path != '/ok'")
        ),
    );
    let gate = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(&policy)
        .start()
        .await;
    (scripted, gate)
}

/// A call whose arguments are this text.
async fn call(agent: &Agent, tool: &str, arguments: &str) -> Answer {
    let message = modern("tools/call", json!({ "name": tool, "arguments": "@" }));
    let text = message.to_string().replace("\"@\"", arguments);
    agent.send(&agent.mirrored(&message), text.as_bytes()).await
}

/// Whole numbers of 64 bits arrive as they were written; two that a double takes for one are two
/// calls, and each of them is one.
#[tokio::test]
async fn each_digit_of_64_bits_counts() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent();
    let numbers = [
        json!(ODD - 1),
        json!(ODD),
        json!(u64::MAX - 1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(i64::MIN + 1),
    ];
    for number in &numbers {
        for _ in 0..2 {
            let answer = call(
                &agent,
                "bank__pay",
                &format!(r#"{{"id":{number},"x":0.5}}"#),
            )
            .await;
            assert_eq!(
                (answer.status, answer.refusal().as_str()),
                (200, ""),
                "{number}"
            );
        }
    }
    let calls = scripted
        .seen()
        .into_iter()
        .filter(|seen| seen.method() == "tools/call");
    let came: Vec<Value> = calls
        .map(|seen| seen.body["params"]["arguments"]["id"].clone())
        .collect();
    assert_eq!(came, numbers, "each once, in order");
}

/// The tool's schema and the contract's rules see every digit, too.
#[tokio::test]
async fn guards_judge_each_digit() {
    let (scripted, gate) = stage().await;
    for (arguments, code) in [
        (format!(r#"{{"most":{ODD}}}"#), ""),
        (format!(r#"{{"most":{}}}"#, ODD + 1), "schema_invalid"),
        (format!(r#"{{"nth":{}}}"#, 3 * (ODD / 3)), ""),
        (
            format!(r#"{{"nth":{}}}"#, 3 * (ODD / 3) + 1),
            "schema_invalid",
        ),
        (format!(r#"{{"sum":{}}}"#, ODD - 1), ""),
        (format!(r#"{{"sum":{ODD}}}"#), "too_much"),
        (format!(r#"{{"sum":{}}}"#, u64::MAX), "too_much"),
        (format!(r#"{{"sum":{}}}"#, i64::MIN), ""),
    ] {
        let before = scripted.executions();
        let answer = call(&gate.agent(), "bank__pay", &arguments).await;
        assert_eq!(answer.refusal(), code, "{arguments}: {answer:?}");
        let ran = usize::from(code.is_empty());
        assert_eq!(scripted.executions(), before + ran, "{arguments}");
    }
}

/// What no peer reads alike is refused with its place, under the id of its request: an agent does
/// not wait for an answer that has come.
#[tokio::test]
async fn a_refusal_says_where_and_to_whom() {
    let (scripted, gate) = stage().await;
    for (odd, place) in [
        (
            r#"{"a":[1,{"b":18446744073709551616}]}"#,
            "/params/arguments/a/1/b",
        ),
        (r#"{"a":-9223372036854775809}"#, "/params/arguments/a"),
        (r#"{"a":-0.0}"#, "/params/arguments/a"),
        (r#"{"a":1e400}"#, "/params/arguments/a"),
        (r#"{"a":1e20}"#, "/params/arguments/a"),
        (r#"{"a":"\u0000"}"#, "/params/arguments/a"),
        (r#"{"a~/":"\ud800"}"#, "/params/arguments/a~0~1"),
        (r#"{"path":1,"PATH":2}"#, "/params/arguments/PATH"),
        (r#"{"a":{"b":1,"b":2}}"#, "/params/arguments/a/b"),
        (r#"{"a":1,}"#, "/params/arguments"),
    ] {
        let answer = call(&gate.agent(), "bank__pay", odd).await;
        let message = answer.message();
        assert_eq!(
            (&message["id"], answer.error()),
            (&json!(1), -32700),
            "{odd}: {answer:?}"
        );
        assert!(
            answer.words().contains(&format!("`{place}`")),
            "{odd}: {answer:?}"
        );
    }
    assert_eq!(scripted.executions(), 0);
}

/// Deep in the arguments keys that differ in case only pass, unless a guard decides by one of
/// them.
#[tokio::test]
async fn keys_that_nobody_decides_by_pass() {
    let (scripted, gate) = stage().await;
    let headers = r#"{"headers":{"Content-Type":"a","content-type":"b"}}"#;
    let answer = call(&gate.agent(), "bank__pay", headers).await;
    assert_eq!(answer.refusal(), "", "{answer:?}");
    let seen = scripted.seen().pop().unwrap();
    let came = &seen.body["params"]["arguments"]["headers"];
    assert_eq!(came, &json!({ "Content-Type": "a", "content-type": "b" }));
    for (to, code) in [
        (r#"{"path":"/ok"}"#, ""),
        (r#"{"path":"/no"}"#, "elsewhere"),
        (r#"{"path":"/ok","Path":"/no"}"#, "schema_invalid"),
        (r#"{"Path":"/no","path":"/ok"}"#, "schema_invalid"),
    ] {
        let before = scripted.executions();
        let answer = call(&gate.agent(), "bank__put", &format!(r#"{{"to":{to}}}"#)).await;
        assert_eq!(answer.refusal(), code, "{to}: {answer:?}");
        let ran = usize::from(code.is_empty());
        assert_eq!(scripted.executions(), before + ran, "{to}");
    }
}
