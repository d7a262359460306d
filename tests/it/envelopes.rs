//! Only what is known leaves, in either direction: what a peer that folds case would read otherwise
//! never does (threat-model §13 F2, F9, L2; §0 rule 1, §3A A2 to A4).

use crate::harness::agent::Agent;
use crate::harness::answer::Reading;
use crate::harness::folding::{disagreement, read};
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, event, tool};
use crate::harness::setup::{Settings, Setup};
use crate::harness::stdio::Launched;
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
const RESULT: [&str; 6] = [
    "content",
    "structuredContent",
    "isError",
    "resultType",
    "requestState",
    "_meta",
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

fn response(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [], "_meta": {} } })
}

fn failed(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -1, "message": "no" } })
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
