//! The effects server: what it notes, and how it misbehaves when told to.

use crate::running::{Listening, Running, modern_meta};
use serde_json::{Value, json};
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_effects-server");

fn log(name: &str) -> std::path::PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("effects-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    file
}

fn noted(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn call(arguments: &Value, fence: Option<u64>) -> Value {
    let mut meta = modern_meta(&json!({ "elicitation": {} }));
    meta["dev.toolgate/fence"] =
        json!(fence.map(|token| json!({ "session": "s", "token": token, "action": "a" })));
    let params = json!({ "name": "effect", "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

/// What is on the wire for each order over HTTP, and whether the effect happened. No status: the
/// connection was closed.
const ORDERS: &[(&str, Option<u16>, &str, usize)] = &[
    ("", Some(200), "done k", 1),
    ("401", Some(401), "", 0),
    ("429", Some(429), "", 0),
    ("503", Some(503), "", 0),
    ("500", Some(500), "", 1),
    ("-32602", Some(200), "-32602", 0),
    ("-32603", Some(200), "-32603", 1),
    ("is_error", Some(200), "\"isError\":true", 1),
    ("input_required", Some(200), "input_required", 0),
    ("drop", None, "", 1),
    ("die_before", None, "", 0),
    ("die_after", None, "", 1),
];

#[test]
fn each_order_is_obeyed_over_http() {
    for (fault, status, words, effects) in ORDERS {
        let file = log("orders");
        let server = Listening::http(PROGRAM, &[("ORACLE_LOG", &file)]);
        let answer = server.try_post(&call(&json!({ "key": "k", "fault": fault }), None), &[]);
        assert_eq!(
            answer.as_ref().map(|(status, _)| *status),
            *status,
            "{fault}: {answer:?}"
        );
        assert!(
            answer.is_none_or(|(_, text)| text.contains(words)),
            "{fault}"
        );
        assert_eq!(noted(&file).len(), *effects, "{fault}");
    }
}

#[test]
fn an_effect_is_noted_with_its_key_digest_fence_and_time() {
    let file = log("line");
    let server = Listening::http(PROGRAM, &[("ORACLE_LOG", &file)]);
    let (_, text) = server.post(
        &call(&json!({ "key": "k", "fault": "twice" }), Some(7)),
        &[],
    );
    assert_eq!(text.matches("done k").count(), 2, "{text}");
    let line = noted(&file).pop().unwrap();
    assert_eq!(
        (&line["key"], &line["fence"]["token"]),
        (&json!("k"), &json!(7))
    );
    assert_eq!(line["digest"].as_str().unwrap().len(), 64);
    assert!(line["at"].as_i64().unwrap() > 0 && line["pid"].is_u64());
}

#[test]
fn a_fenced_server_refuses_a_token_that_is_too_old() {
    let file = log("fenced");
    let server = Listening::http(
        PROGRAM,
        &[("ORACLE_LOG", &file), ("ORACLE_FENCED", Path::new("1"))],
    );
    let tokens = [(5, 1), (4, 1), (5, 2), (6, 3)];
    for (token, effects) in tokens {
        server.post(&call(&json!({ "key": "k" }), Some(token)), &[]);
        assert_eq!(noted(&file).len(), effects, "token {token}");
    }
}

#[test]
fn the_control_file_orders_what_calls_leave_open() {
    let (file, control) = (log("control"), log("control-file"));
    let server = Listening::http(
        PROGRAM,
        &[("ORACLE_LOG", &file), ("ORACLE_CONTROL", &control)],
    );
    for (orders, status) in [
        (json!({ "fault": "503" }), 503),
        (json!({ "delay_ms": [1, 3] }), 200),
    ] {
        std::fs::write(&control, orders.to_string()).unwrap();
        assert_eq!(
            server.post(&call(&json!({ "key": "k" }), None), &[]).0,
            status
        );
    }
}

#[test]
fn it_answers_twice_on_stdio_too() {
    let file = log("stdio");
    let mut server = Running::stdio(PROGRAM, &[("ORACLE_LOG", &file)]);
    server.say(&call(&json!({ "key": "k", "fault": "twice" }), None));
    for _ in 0..2 {
        assert_eq!(server.hear()["result"]["content"][0]["text"], "done k");
    }
    assert_eq!(noted(&file).len(), 1);
}
