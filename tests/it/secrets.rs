//! Secrets: references become values in the copy that leaves, where they may, and nowhere else is
//! anything of them.

mod leaks;
mod sources;

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// What must be seen by the tool server, and by nobody else.
pub const CANARY: &str = "canary \"8d1f\\7c/é-2b%41";

const REFERENCE: &str = "<secret_ref:bank_token>";

const POLICY: &str = "
contracts:
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay:
    purpose: test
    actions: [write]
    permission: anyone
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

/// With a collector of traces, metrics and each line of the log.
async fn traced(mode: &'static str, collector: &str) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(vec![pay(), tool("read"), tool("other")]).await;
    let setup = setup(&scripted).mode(mode);
    let setup = setup
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        .environment("TOOLGATE_OTLP_LOG", "trace");
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
    let mut count = 0;
    for agent in both(&gate).await {
        for (tool, arguments) in &standing_wrong() {
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
                names_no_secret(&answer);
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

fn names_no_secret(answer: &Value) {
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
}

/// Calls in which a reference stands where it may not, or is none.
fn standing_wrong() -> [(&'static str, Value); 12] {
    [
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
    ]
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
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: bank__undo } }, secrets: [/token, /unbound, token, /token] }
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
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: bank__undo } }, secrets: [/token, /unbound] }
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
