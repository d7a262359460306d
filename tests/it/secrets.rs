//! Secrets: references become values in the copy that leaves, where they may, and nowhere else is
//! anything of them.

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer, event, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use crate::traces::Collector;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What must be seen by the tool server, and by nobody else.
pub const CANARY: &str = "canary \"8d1f\\7c/é-2b%41";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const REFERENCE: &str = "<secret_ref:bank_token>";

const POLICY: &str = "
contracts:
  bank__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: bank__pay } } }
  bank__pay:
    purpose: test
    actions: [write]
    side_effect: { writes: test, rollback: { tool: bank__undo } }
    secrets: [/token, /auth/0/key, /mirrored, /unbound]
    audit: [token]
    budget: { max_calls_per_task: 100 }
  bank__read: { purpose: test, actions: [read], secrets: [/token] }
  bank__other: { purpose: test, actions: [read], secrets: [] }
  child__echoes: { purpose: test, actions: [read], secrets: [/token] }
";

const SECRETS: &str = "secrets:
  bank_token:
    env: BANK_TOKEN
    for:
      - { server: bank, tool: pay, pointer: /token }
      - { server: bank, tool: pay, pointer: /auth/0/key }
      - { server: bank, tool: pay, pointer: /mirrored }
      - { server: bank, tool: pay, pointer: /unlisted }
      - { server: bank, tool: read, pointer: /token }
      - { server: child, tool: echoes, pointer: /token }
  from_file: { file: token.txt, for: [ { server: bank, tool: pay, pointer: /token } ] }
  from_program: { command: [sh, -c, 'echo program-$((40 + 2))-value'], ttl: 1h, for: [ { server: bank, tool: pay, pointer: /token } ] }
  missing: { env: TOOLGATE_NO_SUCH, for: [ { server: bank, tool: pay, pointer: /token } ] }
  elsewhere: { env: BANK_TOKEN, for: [ { server: bank, tool: other, pointer: /token } ] }
";

fn pay() -> Value {
    let mirrored = json!({ "type": "string", "x-mcp-header": "Mirrored" });
    json!({ "name": "pay", "inputSchema": { "type": "object", "properties": { "mirrored": mirrored } } })
}

fn setup(scripted: &ScriptedServer) -> Setup {
    Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .child("child", "", "20s")
        .policy(POLICY)
        .open_sides()
        .more(SECRETS)
        .environment("BANK_TOKEN", CANARY)
}

async fn stage(mode: &'static str) -> (ScriptedServer, Gate) {
    traced(mode, "").await
}

/// With a collector of traces.
async fn traced(mode: &'static str, collector: &str) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(vec![pay(), tool("read"), tool("other")]).await;
    let setup = setup(&scripted).mode(mode);
    let setup = setup.environment("OTEL_EXPORTER_OTLP_ENDPOINT", collector);
    std::fs::write(setup.directory().join("token.txt"), "file-value-1\n").unwrap();
    let gate = setup.start().await;
    (scripted, gate)
}

async fn both(gate: &Gate) -> [Agent; 2] {
    [gate.agent(), gate.legacy("/mcp").await]
}

fn last_call(scripted: &ScriptedServer) -> Value {
    scripted
        .seen()
        .into_iter()
        .rfind(|seen| seen.method() == "tools/call")
        .unwrap()
        .body
}

/// 002-27: the tool server gets the value, from wherever it comes; the ledger, the key and a
/// repeated call know the reference only.
#[tokio::test]
async fn a_reference_becomes_its_value_in_the_copy_that_leaves() {
    let (scripted, gate) = stage("enforce").await;
    for (count, agent) in both(&gate).await.iter().enumerate() {
        let nested = json!({ "n": count, "token": REFERENCE, "auth": [{ "key": REFERENCE, "other": "<secret>" }] });
        let answer = agent.call("bank__pay", nested.clone()).await;
        assert_eq!(code(&answer), None, "{answer}");
        let expected = json!({ "n": count, "token": CANARY, "auth": [{ "key": CANARY, "other": "<secret>" }] });
        assert_eq!(last_call(&scripted)["params"]["arguments"], expected);
        let again = agent.call("bank__pay", nested).await;
        assert_eq!(
            again["result"]["_meta"]["dev.toolgate/decision"]["replayed"], true,
            "{again}"
        );
    }
    assert_eq!(scripted.executions(), 2, "one execution each");
    for (name, value) in [
        ("from_file", "file-value-1"),
        ("from_program", "program-42-value"),
    ] {
        gate.agent()
            .call(
                "bank__pay",
                json!({ "token": format!("<secret_ref:{name}>") }),
            )
            .await;
        assert_eq!(last_call(&scripted)["params"]["arguments"]["token"], value);
    }
    std::fs::write(gate.path("token.txt"), "file-value-2").unwrap();
    gate.agent()
        .call(
            "bank__pay",
            json!({ "n": 7, "token": "<secret_ref:from_file>" }),
        )
        .await;
    assert_eq!(
        last_call(&scripted)["params"]["arguments"]["token"],
        "file-value-2",
        "a file is read for every call"
    );
    gate.agent()
        .call("bank__read", json!({ "token": REFERENCE }))
        .await;
    assert_eq!(
        last_call(&scripted)["params"]["arguments"]["token"],
        CANARY,
        "a read has secrets, too"
    );
    let entries = gate.entries(8).await;
    assert!(
        entries.iter().all(|entry| entry["stage"] != "secrets"),
        "{entries:#?}"
    );
    assert_eq!(entries[0]["audit"]["token"], REFERENCE);
    let as_written =
        json!({ "n": 0, "token": REFERENCE, "auth": [{ "key": REFERENCE, "other": "<secret>" }] });
    assert_eq!(
        entries[0]["params_hash"],
        crate::harness::tool_server::script::digest(&as_written)
    );
}

/// 002-28, 002-31, threat-model §3F F1, §3B B3: what stands wrong is refused last, nothing is sent,
/// nothing is used up, and the agent is not told which secrets there are.
#[tokio::test]
async fn a_reference_that_stands_wrong_is_refused() {
    let (scripted, gate) = stage("enforce").await;
    let wrong = [
        ("bank__pay", json!({ "unlisted": REFERENCE })),
        ("bank__pay", json!({ "unbound": REFERENCE })),
        (
            "bank__pay",
            json!({ "token": format!("Bearer {REFERENCE}") }),
        ),
        ("bank__pay", json!({ "token": "<secret_ref:Bank_token>" })),
        ("bank__pay", json!({ "token": "<secret_ref:unknown>" })),
        ("bank__pay", json!({ "token": "<secret_ref:elsewhere>" })),
        ("bank__pay", json!({ "token": "<secret_ref:missing>" })),
        ("bank__pay", json!({ "mirrored": REFERENCE })),
        ("bank__pay", json!({ REFERENCE: 1 })),
        ("bank__other", json!({ "token": REFERENCE })),
        ("bank__other", json!({ "token": "<secret_ref:elsewhere>" })),
        ("bank__read", json!({ "deep": [{ "token": REFERENCE }] })),
    ];
    let mut count = 0;
    for agent in both(&gate).await {
        for (tool, arguments) in &wrong {
            let mut headers = agent.clone();
            if let (false, Some(mirrored)) = (agent.is_legacy(), arguments.get("mirrored")) {
                headers.own.push((
                    "mcp-param-mirrored".to_owned(),
                    mirrored.as_str().unwrap().to_owned(),
                ));
            }
            // Twice: what was not sent does not hold its key.
            for _ in 0..2 {
                let answer = headers.call(tool, arguments.clone()).await;
                assert_eq!(
                    code(&answer).as_deref(),
                    Some("secret_denied"),
                    "{tool} {arguments}: {answer}"
                );
                assert_eq!(
                    answer["result"]["_meta"]["dev.toolgate/decision"]["stage"],
                    "secrets"
                );
                let text = answer.to_string();
                for name in [
                    "secret_ref",
                    "bank_token",
                    "elsewhere",
                    "missing",
                    "unknown",
                ] {
                    assert!(!text.contains(name), "{name}: {text}");
                }
                count += 1;
            }
        }
        let params =
            json!({ "name": "bank__read", "arguments": {}, "_meta": { "x/y": REFERENCE } });
        assert_eq!(
            code(&agent.ask("tools/call", params).await).as_deref(),
            Some("secret_denied")
        );
        count += 1;
    }
    assert_eq!(scripted.executions(), 0, "nothing was sent");
    let fine = gate
        .agent()
        .call("bank__pay", json!({ "token": REFERENCE }))
        .await;
    let left =
        &fine["result"]["_meta"]["dev.toolgate/decision"]["budget_remaining"]["calls_per_task"];
    assert_eq!(left, 99, "what was refused used nothing up: {fine}");
    let entries = gate.entries(count + 1).await;
    assert!(
        entries[..count]
            .iter()
            .all(|entry| entry["aborted_reason"] == "secret_denied"),
        "{entries:#?}"
    );
    assert!(
        gate.log().contains("the environment variable is not set"),
        "the operator is told why:\n{}",
        gate.log()
    );
}

/// threat-model §9 "secret backend down": wherever a value comes from, a call is refused before it
/// is sent when there is none, and the log says why, by the secret's name; `doctor` says so before
/// anybody calls, and a secret that is there again is had.
#[tokio::test]
async fn a_secret_that_cannot_be_had_refuses_its_calls() {
    let to = "for: [ { server: bank, tool: read, pointer: /token } ]";
    let sources = [
        (
            "unset",
            "env: TOOLGATE_NO_SUCH",
            "the environment variable is not set",
        ),
        (
            "short",
            "env: SHORT_TOKEN",
            "the value is not 8 to 4096 bytes long",
        ),
        (
            "absent",
            "file: absent.txt",
            "the file cannot be read: entity not found",
        ),
        ("directory", "file: .", "it is no regular file"),
        (
            "fails",
            "command: [sh, -c, 'echo canary-of-a-failure; exit 3'], ttl: 1s",
            "the program failed",
        ),
        (
            "hangs",
            "command: [sleep, '1000'], ttl: 1s, timeout: 100ms",
            "it took too long",
        ),
        (
            "floods",
            "command: [cat, /dev/zero], ttl: 1s",
            "the value is not 8 to 4096 bytes long",
        ),
        (
            "gone",
            "command: [/no/such/program], ttl: 1s",
            "the program cannot be started: entity not found",
        ),
    ];
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let mut secrets = "secrets:\n".to_owned();
    for (name, source, _) in sources {
        writeln!(secrets, "  {name}: {{ {source}, {to} }}").unwrap();
    }
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(
            "contracts: { bank__read: { purpose: test, actions: [read], secrets: [/token] } }\n",
        )
        .more(&secrets)
        .environment("SHORT_TOKEN", "1234567");
    setup.write();
    let (exit, report, _) = run(&setup, &["doctor"]).await;
    assert_eq!(exit, 1, "{report}");
    let gate = setup.start().await;
    for (name, _, why) in sources {
        let words = format!(
            "problem  the secret `{name}` cannot be had: {why}; calls that name it are refused"
        );
        assert!(report.contains(&words), "{words}: {report}");
        let answer = gate
            .agent()
            .call(
                "bank__read",
                json!({ "token": format!("<secret_ref:{name}>") }),
            )
            .await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("secret_denied"),
            "{name}: {answer}"
        );
        assert!(!answer.to_string().contains(name), "{answer}");
        let told = |line: &&str| {
            line.contains(name) && line.contains(why) && line.contains("the call is refused")
        };
        assert_eq!(
            gate.log().lines().filter(told).count(),
            1,
            "{name}: {}",
            gate.log()
        );
    }
    assert_eq!(scripted.executions(), 0);
    assert!(
        !gate.log().contains("canary-of-a-failure"),
        "{}",
        gate.log()
    );
    std::fs::write(gate.path("absent.txt"), "there-again\n").unwrap();
    until("the file is read again", || async {
        let answer = gate
            .agent()
            .call_anew("bank__read", json!({ "token": "<secret_ref:absent>" }))
            .await;
        code(&answer).is_none().then_some(())
    })
    .await;
    assert_eq!(
        last_call(&scripted)["params"]["arguments"]["token"],
        "there-again"
    );
}

/// threat-model §9 "perm too wide": who else may write a secret's file says what is sent, which is
/// an error; who may read it has the secret, which is a warning.
#[tokio::test]
async fn rights_of_a_secrets_file_are_judged() {
    for (mode, code, words) in [
        (0o600, 0, None),
        (0o640, 0, None),
        (
            0o644,
            0,
            Some("warning: everybody on this machine may read this file"),
        ),
        (
            0o620,
            1,
            Some("error: others than its owner may write this file"),
        ),
        (
            0o602,
            1,
            Some("error: others than its owner may write this file"),
        ),
    ] {
        let policy =
            "contracts: { bank__read: { purpose: test, actions: [read], secrets: [/token] } }\n";
        let setup = Setup::new()
            .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
            .policy(policy);
        let setup =
            setup.more("secrets: { token: { file: t.txt, for: [ { server: bank, tool: read, pointer: /token } ] } }");
        setup.write();
        let file = setup.directory().join("t.txt");
        std::fs::write(&file, CANARY).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let (exit, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
        let text = out + &err;
        assert_eq!(exit, code, "{mode:o}: {text}");
        assert_eq!(
            text.contains("may read this file") || text.contains("may write this file"),
            words.is_some(),
            "{text}"
        );
        assert!(
            words.is_none_or(|words| text.contains(words)),
            "{mode:o}: {text}"
        );
        judge("check", text.as_bytes());
    }
}

/// design §2 `mode`: observe refuses nothing; what stands wrong travels as it is, and the record
/// says so.
#[tokio::test]
async fn observe_sends_what_stands_wrong_as_it_is() {
    let (scripted, gate) = stage("observe").await;
    for (arguments, expected, would) in [
        (
            json!({ "token": REFERENCE }),
            json!({ "token": CANARY }),
            Value::Null,
        ),
        (
            json!({ "other": REFERENCE }),
            json!({ "other": REFERENCE }),
            json!("secret_denied"),
        ),
    ] {
        let count = scripted.executions();
        assert_eq!(code(&gate.agent().call("bank__pay", arguments).await), None);
        assert_eq!(last_call(&scripted)["params"]["arguments"], expected);
        assert_eq!(gate.entries(count + 1).await[count]["would_refuse"], would);
    }
}

/// Every form in which a server could give the value back.
pub fn forms() -> Vec<String> {
    let quoted = Value::String(CANARY.to_owned()).to_string();
    let hex = |upper: bool| {
        CANARY
            .bytes()
            .map(|byte| {
                if upper {
                    format!("{byte:02X}")
                } else {
                    format!("{byte:02x}")
                }
            })
            .collect::<String>()
    };
    let percent = CANARY
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect::<Vec<_>>()
        .concat();
    let unicode = CANARY
        .encode_utf16()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect::<Vec<_>>()
        .concat();
    vec![
        CANARY.to_owned(),
        quoted.trim_matches('"').to_owned(),
        STANDARD.encode(CANARY),
        STANDARD.encode(format!("user:{CANARY}")),
        URL_SAFE_NO_PAD.encode(CANARY),
        hex(false),
        hex(true),
        percent,
        unicode,
        CANARY.chars().rev().collect(),
    ]
}

/// Nothing of the value is in these bytes, in no form, nor in any that JSON makes of those.
pub fn judge(place: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    for form in forms() {
        let quoted = Value::String(form.clone()).to_string();
        for form in [form.as_str(), quoted.trim_matches('"')] {
            assert!(
                !text.contains(&form.to_ascii_lowercase()),
                "{place} holds {form:?}: {text}"
            );
        }
    }
    assert!(!text.contains("canary"), "{place}: {text}");
}

fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Everything that a stream of a call says.
async fn heard(agent: &Agent, tool: &str, arguments: Value) -> String {
    let mut params = crate::harness::agent::anew(tool, arguments);
    params["_meta"]["progressToken"] = json!("p");
    let mut reading = agent.post(&agent.request("tools/call", params)).await;
    let mut text = String::new();
    if reading.is_stream() {
        while let Some(block) = reading.next().await {
            writeln!(text, "{block:?}").unwrap();
        }
        return text;
    }
    reading.whole().await.to_string()
}

/// What a server that was given `form` says of it on an event stream, in every place there is, and
/// how it ends.
async fn repeats(
    stream: tokio::sync::mpsc::Sender<String>,
    id: Value,
    token: Value,
    (form, how): (String, usize),
) {
    let note = |method: &str, params: Value| {
        event(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    };
    let (first, rest) = form.split_at(form.floor_char_boundary(form.len() / 2));
    let result = json!({
        "resultType": "complete", "isError": how == 1,
        "content": [
            { "type": "text", "text": form }, { "type": "text", "text": format!("{{\"a\":{}}}", json!(form)) },
            { "type": "text", "text": first }, { "type": "text", "text": rest },
            { "type": "resource", "resource": { "uri": format!("x:{form}"), "text": form } },
        ],
        "structuredContent": { form.clone(): [form.clone(), { "deep": form.clone() }] },
        "_meta": { "x/y": form.clone() },
    });
    let end = match how {
        2 => json!({ "error": { "code": -32000, "message": form, "data": { "x": form } } }),
        _ => json!({ "result": result }),
    };
    let mut end = end;
    (end["jsonrpc"], end["id"]) = (json!("2.0"), id);
    let progress = json!({ "progressToken": token, "progress": 1, "message": form });
    let log = json!({ "level": "info", "logger": form, "data": { "x": [form.clone()] } });
    for said in [
        format!(": {}\n\n", form.replace(['\n', '\r'], " ")),
        note("notifications/progress", progress),
        note("notifications/message", log),
        event(&end),
    ] {
        let _ = stream.send(said).await;
    }
}

/// 002-31, threat-model §3F F2 and F3, §3G G6, invariant I8: a tool server that gives the value
/// back in every form and every place, on both wires and as a child process; then every byte that
/// agents, operators and the disk have.
#[tokio::test]
async fn no_canary_is_anywhere_but_at_its_server() {
    let (collector, url) = Collector::start().await;
    let (scripted, gate) = traced("enforce", &url).await;
    let readers = [gate.agent().at("/mcp/bank"), gate.legacy("/mcp/bank").await];
    for (agent, reader) in both(&gate).await.iter().zip(readers) {
        for (count, form) in forms().into_iter().enumerate() {
            for (tool, how) in [("bank__pay", count % 3), ("bank__read", (count + 1) % 3)] {
                let said = (form.clone(), how);
                scripted.answers(move |seen| {
                    let (sender, receiver) = tokio::sync::mpsc::channel(64);
                    let token = seen.body["params"]["_meta"]["progressToken"].clone();
                    tokio::spawn(repeats(
                        sender,
                        seen.body["id"].clone(),
                        token,
                        said.clone(),
                    ));
                    Reply::Stream(receiver)
                });
                let text = heard(agent, tool, json!({ "token": REFERENCE, "n": count })).await;
                judge(&format!("{tool} after {form:?}"), text.as_bytes());
                assert!(text.contains("secret_ref:bank_token"), "{text}");
                assert_eq!(last_call(&scripted)["params"]["arguments"]["token"], CANARY);
            }
        }
        let (canary, resource) = (CANARY, json!({ "uri": "x:y" }));
        scripted.answers(move |_| {
            Reply::Result(json!({ "contents": [{ "uri": "x:y", "text": canary }] }))
        });
        judge(
            "a resource",
            reader
                .ask("resources/read", resource)
                .await
                .to_string()
                .as_bytes(),
        );
        tasks_have_none(&scripted, agent).await;
        let said = agent
            .call_anew("child__echoes", json!({ "token": REFERENCE }))
            .await;
        assert!(said.to_string().contains("secret_ref:bank_token"), "{said}");
        judge("a child", said.to_string().as_bytes());
    }
    operators_have_none(&gate).await;
    let setup = gate.stop().await;
    assert!(!collector.arrived().is_empty());
    judge("traces", &collector.arrived());
    let mut found = Vec::new();
    files(setup.directory(), &mut found);
    assert!(found.len() > 4, "{found:?}");
    // What the child noted is its own: it is the tool server's disk.
    for path in found
        .iter()
        .filter(|path| path.extension().is_none_or(|ending| ending != "executions"))
    {
        judge(&path.display().to_string(), &std::fs::read(path).unwrap());
    }
}

/// A call that becomes a task: its handle, how it stands, how it ended, and what is told of that
/// unasked.
async fn tasks_have_none(scripted: &ScriptedServer, agent: &Agent) {
    for (count, form) in forms().into_iter().enumerate() {
        let (id, said) = (format!("{}-{count}", agent.is_legacy()), form.clone());
        let standing = json!({ "taskId": id, "status": "completed", "statusMessage": form });
        let result = json!({ "content": [{ "type": "text", "text": form }], "structuredContent": { "deep": [form] } });
        let told = {
            let mut told = standing.clone();
            told["result"] = result.clone();
            told
        };
        scripted.answers(move |seen| {
            match (
                seen.method(),
                seen.body["params"]["_meta"][CAPABILITIES].is_object(),
            ) {
                ("tools/call", true) => {
                    let mut task = standing.clone();
                    task["resultType"] = json!("task");
                    Reply::Result(task)
                }
                ("tools/call", false) => Reply::Result(json!({ "task": standing })),
                ("tasks/get", true) => {
                    let mut task = standing.clone();
                    (task["resultType"], task["result"]) = (json!("complete"), result.clone());
                    Reply::Result(task)
                }
                ("tasks/list", _) => Reply::Result(json!({ "tasks": [standing] })),
                ("tasks/result", _) if said.len() % 2 == 0 => Reply::Message(
                    json!({ "jsonrpc": "2.0", "error": { "code": -32000, "message": said } }),
                ),
                ("tasks/result", _) => Reply::Result(result.clone()),
                _ => Reply::Result(standing.clone()),
            }
        });
        let arguments =
            json!({ "name": "bank__read", "arguments": { "token": REFERENCE, "task": id } });
        let own = json!({ "taskId": id });
        let mut asked = vec![("tools/call", arguments), ("tasks/get", own.clone())];
        if agent.is_legacy() {
            asked.extend([("tasks/result", own.clone()), ("tasks/list", json!({}))]);
        }
        for (method, params) in asked {
            let answer = agent
                .answered(&crate::mcp_tasks::request(agent, method, params))
                .await
                .to_string();
            judge(&format!("{method} after {form:?}"), answer.as_bytes());
            assert!(answer.contains("secret_ref:bank_token"), "{answer}");
        }
        let (method, mut listening) = if agent.is_legacy() {
            ("notifications/tasks/status", agent.get(None).await)
        } else {
            let wanted = json!({ "notifications": { "taskIds": [id] } });
            let mut listening = agent
                .post(&crate::mcp_tasks::request(
                    agent,
                    "subscriptions/listen",
                    wanted,
                ))
                .await;
            listening.message().await;
            ("notifications/tasks", listening)
        };
        until("toolgate listens", || async {
            (scripted.listeners() > 0).then_some(())
        })
        .await;
        scripted
            .tells(json!({ "jsonrpc": "2.0", "method": method, "params": told }))
            .await;
        loop {
            let heard = listening.message().await.to_string();
            judge(&format!("{method} after {form:?}"), heard.as_bytes());
            assert!(heard.contains("secret_ref:bank_token"), "{heard}");
            // What earlier ones said may come again.
            if heard.contains(&id) {
                break;
            }
        }
    }
}

/// The log, every page and every verb that tells of calls.
async fn operators_have_none(gate: &Gate) {
    let log = until("the child's standard error is in the log", || async {
        Some(gate.log()).filter(|log| log.matches("toolgate::child").count() >= 2)
    })
    .await;
    assert!(log.contains("secret_ref:bank_token"), "{log}");
    assert!(
        gate.metric("toolgate_secrets_removed_total").await > 50.0,
        "what was taken out is counted"
    );
    for page in [
        "/metrics",
        "/readyz",
        "/api/calls",
        "/api/quarantined",
        "/api/tools/disabled",
    ] {
        judge(page, gate.operators(page).await.as_bytes());
    }
    let action = gate.entries(1).await[0]["action_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let explained = json!({ "token": REFERENCE }).to_string();
    let verbs: [&[&str]; 5] = [
        &["ledger", "export", "--data", "data"],
        &["ledger", "list", "--json", "--data", "data"],
        &["ledger", "show", &action, "--data", "data"],
        &[
            "explain",
            "--agent",
            "anonymous",
            "--tool",
            "bank__pay",
            "--arguments",
            &explained,
            "--config",
            "toolgate.yaml",
        ],
        &["check", "toolgate.yaml"],
    ];
    for verb in verbs {
        let (code, out, err) = run(&gate.setup, verb).await;
        assert_eq!(code, 0, "{verb:?}: {out}{err}");
        judge(&verb.join(" "), (out + &err).as_bytes());
    }
}

/// 002-26, 002-29, 002-30: what is wrong with secrets is found when they are loaded, all at once.
#[tokio::test]
async fn what_is_wrong_is_found_by_check() {
    let more = "secrets:
  Bad: { env: X, for: [ { server: bank, tool: pay, pointer: /token } ] }
  nothing: { for: [ { server: bank, tool: pay, pointer: /token } ] }
  several: { env: X, file: y, for: [ { server: bank, tool: pay, pointer: /token } ] }
  forever: { command: [x], for: [ { server: bank, tool: pay, pointer: /token } ] }
  nowhere: { env: X, for: [] }
  unsaid: { env: X }
  early: { env: X, ttl: 5m, for: [ { server: bank, tool: pay, pointer: /token } ] }
  places: { env: X, for: [ { server: nobody, tool: 'p*', pointer: token } ] }
";
    let policy = "contracts:
  bank__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: bank__pay } } }
  bank__pay: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: bank__undo } }, secrets: [/token, /unbound, token, /token] }
  bank__none: { purpose: test, actions: [read] }
";
    let setup = Setup::new()
        .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
        .policy(policy)
        .more(more);
    setup.write();
    let (code, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
    let text = out + &err;
    assert_eq!(code, 1, "{text}");
    for expected in [
        "is no name for a secret",
        "comes from nowhere",
        "comes from several places",
        "`ttl` is missing",
        "may go nowhere",
        "`for`",
        "`ttl` and `timeout` go with `command`",
        "the server `nobody` is not declared",
        "is no name of one tool",
        "not a JSON pointer to an argument",
        "no secret may go there",
        "is named twice",
        "`secrets`",
    ] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
}

/// 002-26, 002-29, issue 4 "check": a place that only the configuration or only the contract names
/// is warned of where it stands, with what to do; what both name is not.
#[tokio::test]
async fn secrets_that_go_nowhere_are_warned_of() {
    let more = "secrets:
  known:
    env: X
    for:
      - { server: bank, tool: pay, pointer: /token }
      - { server: bank, tool: pay, pointer: /tokn }
      - { server: bank, tool: gone, pointer: /token }
      - { server: bank, tool: many, pointer: /token }
";
    let policy = "contracts:
  bank__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: bank__pay } } }
  bank__pay: { purpose: test, actions: [write], side_effect: { writes: test, rollback: { tool: bank__undo } }, secrets: [/token, /unbound] }
  bank__many:
    purpose: test
    actions: [read]
    secrets: [/token]
    variants: { by: /do, cases: { one: { actions: [read] }, other: { actions: [read] } } }
";
    let setup = Setup::new()
        .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
        .policy(policy)
        .more(more);
    setup.write();
    let (code, out, err) = run(&setup, &["check", "toolgate.yaml"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let lines: Vec<&str> = out
        .lines()
        .filter(|line| !line.contains(", policy "))
        .collect();
    insta::assert_snapshot!("secrets_that_go_nowhere", lines.join("\n"));
}
