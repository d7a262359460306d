//! Only what is known leaves, in either direction: what a peer that folds case would read otherwise
//! never does (threat-model §13 F2, F9, L2; §0 rule 1, §3A A2 to A4).

mod agents;
mod servers;

use crate::harness::agent::Agent;
use crate::harness::answer::Reading;
use crate::harness::folding::{disagreement, read};
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, Seen, tool};
use crate::harness::setup::{Settings, Setup};
use crate::harness::until;
use serde_json::{Value, json};
use std::process::Command;

const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

const PARAMS: [&str; 8] = [
    "name",
    "arguments",
    "_meta",
    "task",
    "inputResponses",
    "requestState",
    "uri",
    "taskId",
];

const META: [&str; 7] = [
    "progressToken",
    "traceparent",
    "dev.toolgate/fence",
    "dev.toolgate/decision",
    "dev.toolgate/x",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/subscriptionId",
];

pub fn policy() -> String {
    "contracts:
  oracle__read: { purpose: test, actions: [read], secrets: [] }
  oracle__hidden: { purpose: test, actions: [read], secrets: [], owner_only: true }
"
    .to_owned()
}

pub async fn stage(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(vec![tool("read"), tool("hidden")]).await;
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: "",
        more: "",
        policy: policy(),
        observe,
    };
    (scripted, Gate::start(settings).await)
}

/// Other spellings of a name.
fn spellings(name: &str) -> Vec<String> {
    let first = name
        .find(|letter: char| letter.is_ascii_alphabetic())
        .unwrap();
    let mut all = vec![name.to_uppercase()];
    let mut flipped = name.to_owned();
    flipped.replace_range(first..=first, &name[first..=first].to_uppercase());
    all.push(flipped);
    for (plain, other) in [
        ("s", "\u{17f}"),
        ("k", "\u{212a}"),
        ("ss", "ß"),
        ("st", "\u{fb06}"),
        ("i", "\u{131}"),
    ] {
        all.extend(name.contains(plain).then(|| name.replacen(plain, other, 1)));
    }
    all
}

/// What stands in a member that is not there for a strict reader.
fn foreign(name: &str) -> Value {
    match name {
        "id" => json!(99),
        "method" => json!("tools/call"),
        "params" => json!({ "name": "hidden", "arguments": { "x": 1 } }),
        "name" => json!("hidden"),
        _ => json!({ "x": "foreign" }),
    }
}

/// The message with one more member, in each of the objects at these places.
fn hostile(message: &Value, places: &[(&str, &[&str])]) -> Vec<Value> {
    let mut all = Vec::new();
    for (pointer, names) in places {
        let object = message
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{pointer} {message}"));
        for (name, other) in names
            .iter()
            .flat_map(|name| spellings(name).into_iter().map(move |other| (name, other)))
        {
            // What the strict reader refuses anyway is a lane of its own.
            if object.get(*name).is_none() {
                let mut with = message.clone();
                with.pointer_mut(pointer).unwrap()[other] = foreign(name);
                all.push(with);
            }
        }
    }
    all
}

/// Whether nothing of what only a folding reader reads has come.
fn is_plain(message: &Value) -> bool {
    let text = message.to_string();
    !text.contains("foreign") && !text.contains("hidden") && disagreement(&text).is_none()
}

pub fn words(refused: &Value) -> &str {
    refused["error"]["message"].as_str().unwrap_or_default()
}

// === The folding reader itself ===

/// A lane that sees nothing proves nothing: each of these is read in two ways, and none of the
/// others is.
#[test]
fn the_folding_reader_sees_what_it_is_there_for() {
    let bad = [
        r#"{"jsonrpc":"2.0","id":1,"result":{},"METHOD":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"Result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{},"ID":5}"#,
        r#"{"jsonrpc":"2.0","method":"x","paramſ":{}}"#,
        r#"{"JSONRPC":"2.0","method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"extra":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","\u0041rguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progreßToken":1}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"Dev.Toolgate/x":1}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"Content":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a","TEXT":"b"}]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"iſError":true}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","Data":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
    ];
    for text in bad {
        assert!(disagreement(text).is_some(), "{text}");
    }
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"Name":1},"_meta":{"com.acme/Name":1}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}],"structuredContent":{"Id":1,"id":2}}}"#,
        r#"{"METHOD":"of an operator's answer"}"#,
    ] {
        assert_eq!(disagreement(text), None, "{text}");
    }
    assert!(read() >= bad.len() as u64);
}

/// Every message of a scenario is read so.
#[tokio::test]
async fn every_message_is_read_by_it() {
    let (scripted, gate) = stage(false).await;
    let before = read();
    gate.agent().call("oracle__read", json!({})).await;
    assert!(
        read() >= before + 2,
        "the call at the tool server, and the answer at the agent"
    );
    assert_eq!(scripted.executions(), 1);
}

/// Not a scenario: what the one below runs, and expects to fail.
#[tokio::test]
#[ignore = "it fails, as it has to"]
async fn deliberately_read_in_two_ways() {
    let bad = r#"{"jsonrpc":"2.0","method":"notifications/x","METHOD":"tools/call"}"#;
    if std::env::var_os("TOOLGATE_TWO_WAYS").is_some_and(|way| way == "child") {
        let setup = Setup::new();
        std::fs::write(
            setup
                .log_of("one")
                .with_extension("executions.disagreements"),
            bad,
        )
        .unwrap();
        return;
    }
    let scripted = ScriptedServer::with(Vec::new()).await;
    let agent = Agent::new(scripted.address);
    let _ = agent
        .bytes(agent.encoded(&agent.headers(), bad.as_bytes()))
        .await;
}

/// A disagreement fails its scenario, though it is found in a task or a process that nobody waits
/// for.
#[test]
fn a_disagreement_fails_its_scenario() {
    for way in ["scripted", "child"] {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args([
            "--exact",
            "envelopes::deliberately_read_in_two_ways",
            "--ignored",
        ]);
        let ended = again.env("TOOLGATE_TWO_WAYS", way).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(
            !ended.status.success() && said.contains("read in two ways"),
            "{way}: {said}"
        );
    }
}

// === F2 ===

/// A question of the tool server at an agent that listens; its id there.
async fn asked(scripted: &ScriptedServer, standalone: &mut Reading) -> Value {
    scripted
        .tells(json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": {} }))
        .await;
    standalone.message().await["id"].clone()
}

async fn listening(scripted: &ScriptedServer, agent: &Agent) -> Reading {
    let standalone = agent.get(None).await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    standalone
}

/// Whether it is the error that a server reads in place of an answer that was refused.
fn is_withheld(seen: &Seen) -> bool {
    words(&seen.body).contains("refused by toolgate")
}

/// threat-model §13 F2: a response that is a call for a peer that folds case; a notification that
/// is a request.
#[tokio::test]
async fn f2_a_response_is_no_call_and_a_notification_no_request() {
    for observe in [false, true] {
        let (scripted, gate) = stage(observe).await;
        let agent = gate.legacy("/mcp/oracle").await;
        let mut standalone = listening(&scripted, &agent).await;
        let id = asked(&scripted, &mut standalone).await;
        let evil = json!({
            "jsonrpc": "2.0", "id": id, "result": { "roots": [] },
            "METHOD": "tools/call", "PARAMS": { "name": "hidden", "arguments": { "x": "y" } },
        });
        let progress = json!({
            "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": 1, "progress": 1 }, "ID": 5,
        });
        for (message, left) in [(evil, "result"), (progress, "params")] {
            scripted.forget();
            let mut told = agent.post(&message).await;
            if observe {
                assert_eq!(told.head.status, 202);
                let seen = scripted
                    .sees("what is left of it", |seen| seen.body.get(left).is_some())
                    .await;
                assert!(is_plain(&seen.body), "{}", seen.body);
            } else {
                assert_eq!(told.head.status, 400);
                let refused = told.whole().await;
                assert!(words(&refused).contains("only looks like"), "{refused}");
                assert_eq!(refused["id"], json!(null));
                // Its server is told that there will be no answer: the agent may never send
                // another.
                let told: Vec<Value> = scripted
                    .seen()
                    .into_iter()
                    .filter(is_withheld)
                    .map(|seen| seen.body)
                    .collect();
                assert_eq!(
                    (told.len(), scripted.seen().len()),
                    if left == "result" { (1, 1) } else { (0, 0) },
                    "{told:?}"
                );
            }
        }
        if !observe {
            assert!(gate.metric("toolgate_look_alikes_total").await >= 3.0);
        }
    }
}

/// L2, and what is nobody's look-alike: vendors' members pass as they came.
#[tokio::test]
async fn l2_vendors_members_pass_and_look_alikes_of_ours_do_not() {
    let (scripted, gate) = stage(false).await;
    let agent = gate.agent().at("/mcp/oracle");
    for method in ["tools/call", "resources/read"] {
        let (target, named) = if method == "tools/call" {
            ("name", "read")
        } else {
            ("uri", "x:read")
        };
        let vendors = json!({ "com.acme/Name": { "METHOD": 1, "_META": [null] }, "Acme": "x" });
        let answer = agent
            .ask(method, json!({ target: named, "_meta": vendors }))
            .await;
        assert!(answer["result"].is_object(), "{answer}");
        let meta = &scripted
            .sees(method, |seen| seen.method() == method)
            .await
            .body["params"]["_meta"];
        assert_eq!(
            (&meta["com.acme/Name"], &meta["Acme"]),
            (&vendors["com.acme/Name"], &vendors["Acme"])
        );
        scripted.forget();
        let refused = agent
            .ask(
                method,
                json!({ target: named, "_meta": { "Dev.Toolgate/fence": { "token": 9 } } }),
            )
            .await;
        assert!(
            words(&refused)
                .contains("`Dev.Toolgate/fence` in `_meta` only looks like `dev.toolgate/fence`"),
            "{refused}"
        );
        assert_eq!(scripted.seen().len(), 0);
    }
    let large = json!({ "name": "read", "_meta": { "com.acme/x": "x".repeat(70_000) } });
    let refused = agent.ask("tools/call", large).await;
    assert!(words(&refused).contains("at most 65536"), "{refused}");
    assert_eq!(scripted.seen().len(), 0);
}

fn places(message: &Value) -> Vec<(&'static str, &'static [&'static str])> {
    let all: [(&str, &[&str]); 5] = [
        ("", &ENVELOPE),
        ("/params", &PARAMS),
        ("/params/_meta", &META),
        ("/params/ref", &["name", "uri"]),
        ("/result/_meta", &META),
    ];
    all.into_iter()
        .filter(|(pointer, _)| message.pointer(pointer).is_some())
        .collect()
}

/// All messages up to the answer.
pub async fn heard(reading: &mut Reading) -> Vec<Value> {
    let is_stream = reading.is_stream();
    if !is_stream {
        return vec![reading.whole().await];
    }
    let mut heard = Vec::new();
    loop {
        let message = reading.message().await;
        let is_last = message.get("method").is_none();
        heard.push(message);
        if is_last {
            return heard;
        }
    }
}
