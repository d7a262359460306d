//! One entry for every judged call, whatever became of it, and nothing of the call's values in it.

mod compressed;
mod contents;
mod grounds;
mod kept_answers;
mod reading;
mod replaying;

use crate::harness::agent::{Agent, anew};
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Settings;
use crate::harness::table::rows;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const CANARY: &str = "canary-51d0";

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

const CALLERS: &str = "
  - { agent: clerk, token: token-of-the-clerk, tenant: t_001, roles: [payer, viewer] }
  - { agent: reader, token: token-of-the-reader, tenant: t_002 }
";

const POLICY: &str = r#"
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__pay:
    purpose: test
    actions: [write]
    side_effect: { writes: test, rollback: { tool: oracle__undo } }
    permission: { roles: [payer], tenant: /tenant_id }
    arguments: { properties: { memo: { type: string } } }
    rules: [ { code: too_much, when: "arguments.amount > 100" } ]
    secrets: []
    audit: [customer_id]
  oracle__read: { purpose: test, actions: [read], secrets: [] }
"#;

async fn stage() -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(["pay", "read", "hidden"].map(tool).to_vec()).await;
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: POLICY.to_owned(),
        observe: false,
    };
    (scripted, Gate::start(settings).await)
}

fn pay(key: &str, value: Value) -> Value {
    let mut arguments =
        json!({ "tenant_id": "t_001", "amount": 100, "memo": CANARY, "customer_id": "c_1" });
    arguments[key] = value;
    arguments
}

fn sha256(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// A call, how the server answers it, and what the entry says became of it.
struct LedgerCase {
    tool: &'static str,
    arguments: Value,
    reply: fn() -> Reply,
    outcome: &'static str,
    code: Option<&'static str>,
    stage: &'static str,
}

/// Tool, argument and value, what the tool server does, the outcome, the code, and its stage.
const CASES: &str = "
pay     | amount    | 100            | fine       | answered | -                    | dispatch
pay     | amount    | 99             | tool_error | answered | -                    | dispatch
pay     | amount    | 98             | error      | answered | -                    | dispatch
pay     | amount    | 97             | cut        | unknown  | outcome_unknown      | dispatch
pay     | amount    | 96             | busy       | unknown  | outcome_unknown      | dispatch
read    | q         | CANARY         | cut        | failed   | upstream_failed      | dispatch
read    | q         | CANARY         | fine       | answered | -                    | dispatch
hidden  | q         | CANARY         | fine       | refused  | tool_not_allowlisted | visible
no_such | q         | CANARY         | fine       | refused  | tool_not_allowlisted | visible
pay     | memo      | 7              | fine       | refused  | schema_invalid       | arguments
pay     | tenant_id | CANARY         | fine       | refused  | tenant_mismatch      | permission
pay     | amount    | 101            | fine       | refused  | too_much             | rules
";

fn cases() -> Vec<LedgerCase> {
    let case = |[tool, argument, value, server, outcome, code, stage]: [&'static str; 7]| {
        let value = match value {
            "CANARY" => json!(CANARY),
            number => serde_json::from_str(number).unwrap(),
        };
        let arguments = match tool {
            "pay" => pay(argument, value),
            _ => json!({ argument: value }),
        };
        LedgerCase {
            tool,
            arguments,
            reply: replies(server),
            outcome,
            code: Some(code).filter(|code| *code != "-"),
            stage,
        }
    };
    rows(CASES).into_iter().map(case).collect()
}

/// What the tool server does.
fn replies(how: &str) -> fn() -> Reply {
    match how {
        "fine" => || Reply::Result(json!({ "content": [], "resultType": "complete" })),
        "tool_error" => {
            || Reply::Result(json!({ "content": [], "isError": true, "resultType": "complete" }))
        }
        "error" => || {
            let error = json!({ "code": -32602, "message": "no" });
            Reply::Message(json!({ "jsonrpc": "2.0", "error": error }))
        },
        "cut" => || Reply::Stream(tokio::sync::mpsc::channel(1).1),
        "busy" => || Reply::Status(503),
        other => panic!("{other} is nothing that a server does here"),
    }
}

/// 003-37, 003-P3b, 003-65 … 003-72, 003-80 … 003-84: one entry per call, on both wires, with who,
/// what, under which policy, and what became of it.
#[tokio::test]
async fn every_judged_call_leaves_one_entry() {
    let (scripted, gate) = stage().await;
    let modern = gate.agent().token("token-of-the-clerk");
    let legacy = modern.clone().initialized().await;
    let policy = gate.readiness().await["policy"]["version"].clone();
    let mut count = 0;
    for agent in [&modern, &legacy] {
        for mut case in cases() {
            if agent.is_legacy() && case.tool == "pay" && case.outcome == "unknown" {
                // What is unknown of the other agent's wire holds every equal call.
                let amount = case.arguments["amount"].as_i64().unwrap();
                case.arguments["amount"] = json!(amount - 10);
            }
            let reply = case.reply;
            scripted.answers(move |_| reply());
            let answered = called(agent, &case, &format!("r-{count}")).await;
            count += 1;
            let entries = gate.entries(count).await;
            assert_eq!(entries.len(), count, "one entry per call");
            let entry = entries.last().unwrap();
            assert_eq!(
                entry["request_id"],
                json!(format!("\"r-{}\"", count - 1)),
                "003-66"
            );
            assert_eq!(
                (&entry["tool"], &entry["policy"]),
                (&json!(format!("oracle__{}", case.tool)), &policy),
                "003-69"
            );
            judge_caller(entry, agent);
            judge_end(entry, &case, &answered);
            judge_times(entry, case.stage);
        }
    }
    assert!(gate.metric("toolgate_ledger_entries_dropped_total").await < 1.0);
    judge_values(&gate);
}

/// Makes the call of `case` under this id.
async fn called(agent: &Agent, case: &LedgerCase, id: &str) -> Value {
    let mut params = anew(&format!("oracle__{}", case.tool), case.arguments.clone());
    // The wire's session, or none.
    params["_meta"]
        .as_object_mut()
        .unwrap()
        .remove("dev.toolgate/session");
    params["_meta"]["traceparent"] = json!(format!("00-{TRACE}-b7ad6b7169203331-01"));
    let mut message = agent.request("tools/call", params);
    message["id"] = json!(id);
    agent.answered(&message).await
}

/// Who called, and how.
fn judge_caller(entry: &Value, agent: &Agent) {
    assert_eq!(
        (&entry["user_id"], &entry["tenant_id"]),
        (&json!("clerk"), &json!("t_001")),
        "003-67, 003-68"
    );
    assert_eq!(entry["roles"], json!(["payer", "viewer"]));
    assert_eq!(entry["trace_id"], TRACE, "003-80");
    assert_eq!(
        entry["revision"],
        if agent.is_legacy() {
            "2025-11-25"
        } else {
            "2026-07-28"
        }
    );
    assert_eq!(entry["session"].is_string(), agent.is_legacy());
}

/// What became of the call, and which of it the agent was told.
fn judge_end(entry: &Value, case: &LedgerCase, answered: &Value) {
    let decision = answered["result"]["_meta"].get("dev.toolgate/decision");
    let decision = decision.or(answered["error"]["data"].get("dev.toolgate/decision"));
    if let Some(decision) = decision {
        assert_eq!(decision["action_id"], entry["action_id"], "003-65");
    }
    let outcomes = (
        entry["outcome"].as_str().unwrap(),
        entry["aborted_reason"].as_str(),
        entry["stage"].as_str().unwrap(),
    );
    assert_eq!(
        outcomes,
        (case.outcome, case.code, case.stage),
        "003-71, 003-83: {entry}"
    );
    assert_eq!(
        entry["schema_hash"].is_string(),
        case.tool != "no_such",
        "003-69: {entry}"
    );
    let (reads, is_answered) = (case.tool == "read", case.outcome == "answered");
    let state = if reads { "collect" } else { "execute" };
    assert_eq!(entry["state"], state, "003-81");
    let event = if is_answered { "exit" } else { "fail" };
    assert_eq!(entry["event"], event, "003-82");
    let is_error = answered["result"]["isError"] == true || answered["error"].is_object();
    assert_eq!(entry["is_error"].as_bool(), is_answered.then_some(is_error));
    assert_eq!(entry["result_hash"].is_string(), is_answered, "003-71");
    assert_eq!(
        entry["audit"].as_object().map(serde_json::Map::len),
        (case.tool == "pay").then_some(1),
        "{entry}"
    );
}

/// What the call took, and of it what its server took.
fn judge_times(entry: &Value, stage: &str) {
    let numbers = ["latency_ms", "gate_ms", "upstream_ms"].map(|key| entry[key].as_f64().unwrap());
    assert!(
        numbers[0] + 0.01 >= numbers[1] + numbers[2],
        "003-72: {entry}"
    );
    assert_eq!(numbers[2] > 0.0, stage == "dispatch", "003-72: {entry}");
}

/// No file of the data directory holds a value of a call, nor does the log.
fn judge_values(gate: &Gate) {
    let journal = std::fs::read_dir(gate.path("data/journal"));
    for entry in std::fs::read_dir(gate.path("data"))
        .unwrap()
        .chain(journal.into_iter().flatten())
    {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes
                .windows(CANARY.len())
                .any(|window| window == CANARY.as_bytes());
            assert!(!found, "{} holds a value of a call", path.display());
        }
    }
    assert!(!gate.log().contains(CANARY), "{}", gate.log());
}

/// 003-22: the entry has the caller as it was when it was judged, also one without roles.
#[tokio::test]
async fn refused_callers_are_recorded_too() {
    let (scripted, gate) = stage().await;
    gate.agent()
        .token("token-of-the-reader")
        .call("oracle__pay", pay("amount", json!(1)))
        .await;
    let entries = gate.entries(1).await;
    let entry = &entries[0];
    assert_eq!(
        (&entry["user_id"], &entry["tenant_id"], &entry["roles"]),
        (&json!("reader"), &json!("t_002"), &json!([]))
    );
    assert_eq!(entry["aborted_reason"], "rbac_denied");
    // Who is nobody is not judged: no entry, and nothing ran.
    let nobody = gate.agent().token("token-of-nobody-at-all");
    let answer = nobody
        .post(&nobody.request("tools/call", json!({ "name": "oracle__pay" })))
        .await;
    assert_eq!(answer.head.status, 401);
    assert_eq!((gate.entries(1).await.len(), scripted.executions()), (1, 0));
}

/// 003-70: SHA-256 over the RFC 8785 form of the arguments, so key order, escapes and spelling of
/// numbers don't matter.
#[tokio::test]
async fn the_hash_of_the_arguments_can_be_recomputed() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().token("token-of-the-clerk");
    let spellings = [
        (
            r#"{"b":[1,2.50,1e2,null],"a":"\u00e9\n","é":true,"B":{}}"#,
            "{\"B\":{},\"a\":\"é\\n\",\"b\":[1,2.5,100,null],\"é\":true}",
        ),
        (
            r#"{ "é" : true, "a" : "é\n", "B" : { }, "b" : [ 1.0, 2.5, 100, null ] }"#,
            "{\"B\":{},\"a\":\"é\\n\",\"b\":[1,2.5,100,null],\"é\":true}",
        ),
        ("{}", "{}"),
    ];
    for (count, (written, canonical)) in spellings.into_iter().enumerate() {
        // `b` and `B` differ in case only, which the strict reader refuses.
        let (written, canonical) = (
            written.replace("\"B\"", "\"C\""),
            canonical.replace("\"B\"", "\"C\""),
        );
        scripted.forget();
        let message = agent.request(
            "tools/call",
            json!({ "name": "oracle__read", "arguments": "here" }),
        );
        let raw = message.to_string().replace("\"here\"", &written);
        let answer = agent.raw(&message, raw).await.whole().await;
        assert_eq!(crate::harness::answer::code(&answer), None, "{answer}");
        let entries = gate.entries(count + 1).await;
        assert_eq!(
            entries[count]["params_hash"],
            sha256(&canonical),
            "{written}"
        );
        // What was sent is what was hashed, as a value.
        assert_eq!(
            scripted.seen()[0].body["params"]["arguments"],
            serde_json::from_str::<Value>(&written).unwrap()
        );
    }
}
