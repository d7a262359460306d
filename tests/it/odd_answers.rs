//! A tool server that has answered has answered, however odd the JSON of its answer is.

use crate::harness::agent::{Agent, modern};
use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{self, ScriptedServer, tool};
use crate::harness::setup::{Setup, contract, undo};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is odd, and the result that it is in.
fn oddities() -> Vec<(&'static str, String)> {
    let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let (deep, deeper) = (nested(200), nested(300_000));
    let many = format!("[{}1]", "1,".repeat(1_200_000));
    let inside = [
        ("lone surrogate", r#""a\ud83d b\udc00""#),
        ("duplicate keys", r#"{"a":1,"a":2,"\u0061":3}"#),
        ("number beyond", "[1e400,-1E+999,1e-999]"),
        ("depth 200", &deep),
        ("depth 300 000", &deeper),
        ("1 200 001 values", &many),
        ("reserved key", r#"{"$serde_json::private::RawValue":"{"}"#),
    ];
    inside
        .map(|(what, odd)| {
            let result = format!(
                r#"{{ "resultType":"complete" , "content":[{{"type":"text","text":"done","_meta":{odd}}}],"n":1.50}}"#
            );
            (what, result)
        })
        .to_vec()
}

/// Executes, counts, and answers with what `result` is at that time.
async fn enemy(results: Vec<(&'static str, String)>) -> (ScriptedServer, Arc<AtomicUsize>) {
    let read = json!({ "name": "checked", "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object" } });
    let scripted =
        ScriptedServer::with(vec![tool("pay"), tool("undo"), tool("redacted"), read]).await;
    let executed = Arc::new(AtomicUsize::new(0));
    let counter = executed.clone();
    scripted.answers(move |seen| {
        counter.fetch_add(1, Ordering::Relaxed);
        let wanted = seen.body["params"]["arguments"]["odd"].as_str().unwrap();
        let (_, result) = results.iter().find(|(what, _)| *what == wanted).unwrap();
        let (id, member) = (&seen.body["id"], if wanted == "error" { "error" } else { "result" });
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{result}}}"#);
        // Every second one comes as an event stream, with a note before it that is odd, too.
        if counter.load(Ordering::Relaxed).is_multiple_of(2) {
            let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"\ud800"}}"#;
            let events = format!("data: {note}\n\ndata: {body}\n\n");
            return scripted_server::Reply::Said(200, "text/event-stream", events);
        }
        scripted_server::Reply::Said(200, "application/json", body)
    });
    (scripted, executed)
}

async fn gate(scripted: &ScriptedServer, mode: &'static str) -> Gate {
    let pay = contract("bank__pay", "write", "");
    let redacted = contract(
        "bank__redacted",
        "write",
        ", results: { redact: [ { pattern: secret } ] }",
    );
    let policy = format!(
        "contracts:\n{}\n  bank__pay: {pay}\n  bank__redacted: {redacted}\n  bank__checked: {}\n",
        undo("bank__pay"),
        contract("bank__checked", "read", "")
    );
    Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(&policy)
        .mode(mode)
        .start()
        .await
}

async fn call(agent: &Agent, tool: &str, odd: &str) -> Answer {
    let meta = json!({ "dev.toolgate/idempotencyKey": format!("{tool} {odd}") });
    let params = json!({ "name": tool, "arguments": { "odd": odd }, "_meta": meta });
    agent.sends(&modern("tools/call", params)).await
}

/// Whether the answer is a refusal of toolgate's, `outcome_unknown` among them.
fn is_refused(answer: &Answer) -> bool {
    answer.text().contains(r#""code":""#)
}

/// The result as it was written, without the member that toolgate has added at its end.
fn result(answer: &Answer) -> String {
    let text = answer.text();
    let text = text.rsplit_once("data: ").map_or(&*text, |(_, last)| last);
    let (_, result) = text
        .split_once(r#""result":"#)
        .unwrap_or_else(|| panic!("{text}"));
    let (result, _) = result
        .rsplit_once(r#","_meta":{"dev.toolgate/decision""#)
        .unwrap();
    format!("{result}}}")
}

/// Issue 14: in observe mode the bytes of an odd answer pass as they came, on both wires of HTTP.
#[tokio::test]
async fn an_odd_answer_passes_in_observe_mode() {
    let mut results = oddities();
    results.push(("twins", r#"{"content":[],"a":1,"a":[2]}"#.to_owned()));
    let (scripted, executed) = enemy(results.clone()).await;
    let gate = gate(&scripted, "observe").await;
    for agent in [gate.agent(), gate.legacy("/mcp").await] {
        for (what, sent) in &results {
            // Twice: each second answer comes as an event stream.
            for _ in 0..2 {
                let before = executed.load(Ordering::Relaxed);
                let params = json!({ "name": "bank__pay", "arguments": { "odd": what } });
                let answer = if agent.is_legacy() {
                    agent.legacy("tools/call", params).await
                } else {
                    agent.modern("tools/call", params).await
                };
                assert_eq!(executed.load(Ordering::Relaxed), before + 1, "{what}");
                assert_eq!(&result(&answer), sent, "{what}");
            }
        }
    }
    let outcomes = gate.entries(results.len() * 4).await;
    let of_calls = outcomes.iter().filter(|entry| entry["tool"] == "bank__pay");
    for entry in of_calls {
        assert_eq!(entry["outcome"], "answered", "{entry}");
    }
}

/// Issue 14, guarantees §4: in enforce mode an odd answer completes its call; the key gives again
/// what was delivered, and nothing runs twice. Where a guard would have to read it, and where two
/// readers could take it for two answers, the agent reads that the tool has run, and why its
/// answer is withheld.
#[tokio::test]
async fn an_odd_answer_completes_its_call() {
    let mut results = oddities();
    results.push((
        "twins",
        r#"{"content":[],"isError":true,"isError":false}"#.to_owned(),
    ));
    results.push((
        "asks",
        r#"{"resultType":"input_required","requestState":"\ud800","inputRequests":{}}"#.to_owned(),
    ));
    results.push((
        "error",
        r#"{"code":-32000,"code":-32001,"message":"no"}"#.to_owned(),
    ));
    results.push((
        "no object",
        format!("{}{}", "[".repeat(2000), "]".repeat(2000)),
    ));
    let (scripted, executed) = enemy(results.clone()).await;
    let gate = gate(&scripted, "enforce").await;
    let agent = gate.agent();
    for tool in ["bank__pay", "bank__redacted", "bank__checked"] {
        for (what, sent) in &results {
            let before = executed.load(Ordering::Relaxed);
            let (first, again) = (
                call(&agent, tool, what).await,
                call(&agent, tool, what).await,
            );
            let ran = if tool == "bank__checked" { 2 } else { 1 };
            assert_eq!(
                executed.load(Ordering::Relaxed),
                before + ran,
                "{tool} {what}"
            );
            for answer in [&first, &again] {
                assert!(!is_refused(answer), "{tool} {what}: {answer:?}");
            }
            let doubtful = ["twins", "asks", "error", "no object"].contains(what);
            if tool == "bank__pay" && !doubtful {
                assert_eq!((&result(&first), &result(&again)), (sent, sent), "{what}");
                continue;
            }
            let said = first.message()["result"]["content"][0]["text"].clone();
            let said = said.as_str().unwrap();
            assert!(
                said.contains("has run") && said.contains("is withheld") && said.contains(" ("),
                "{tool} {what}: {said}"
            );
            assert_eq!(first.message()["result"]["isError"], true, "{tool} {what}");
            let content = |answer: &Answer| answer.message()["result"]["content"].clone();
            assert_eq!(content(&first), content(&again), "{tool} {what}");
        }
    }
    let ledger = gate.ledger().await;
    let is_open = |entry: &&Value| entry["state"] == "unknown" || entry["outcome"] == "failed";
    assert_eq!(ledger.iter().find(is_open), None);
}

/// Counts what it executes in a file, and answers with a lone surrogate after a note with one.
const CHILD: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, result = message["method"], None
    if method == "server/discover":
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pay", "undo")]
        result = {"tools": tools, "resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
    elif method == "tools/call":
        with open("came", "a") as file: file.write("x")
        result = {"content": [{"type": "text", "text": "half \ud83d"}], "resultType": "complete"}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None: answer["error"] = {"code": -32601, "message": "no such method"}
    else: answer["result"] = result
    print(json.dumps(answer), flush=True)
"#;

/// Issue 14: the same of a tool server on standard input and output, through every door.
#[tokio::test]
async fn an_odd_answer_of_a_child_is_one() {
    for mode in ["observe", "enforce"] {
        let members = "command: python3, args: [odd.py], cwd: ., env: { PATH: \"${PATH}\" }";
        let setup = Setup::new()
            .server_with("odd", members)
            .contracts(&[("odd__pay", "write")])
            .mode(mode)
            .environment("PATH", &std::env::var("PATH").unwrap());
        std::fs::write(setup.directory().join("odd.py"), CHILD).unwrap();
        let gate = setup.start().await;
        for _ in 0..2 {
            let answer = gate
                .agent()
                .sends(&modern(
                    "tools/call",
                    json!({ "name": "odd__pay", "arguments": {} }),
                ))
                .await;
            assert!(!is_refused(&answer), "{mode}: {answer:?}");
            assert!(
                answer.text().contains(r#""half \ud83d""#),
                "{mode}: {answer:?}"
            );
        }
        let came = std::fs::read_to_string(gate.path("came")).unwrap();
        let expected = if mode == "observe" { 2 } else { 1 };
        assert_eq!(came.len(), expected, "{mode}");
    }
}
