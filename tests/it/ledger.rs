//! One entry for every judged call, whatever became of it, and nothing of the call's values in it.

use crate::harness::agent::anew;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Settings;
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
  oracle__undo: { purpose: Takes it back., actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: oracle__pay } } }
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

/// The tool, arguments, how the server answers, and the entry's outcome, code and step.
type LedgerCase = (
    &'static str,
    Value,
    fn() -> Reply,
    &'static str,
    Option<&'static str>,
    &'static str,
);

fn cases() -> Vec<LedgerCase> {
    let fine: fn() -> Reply = || Reply::Result(json!({ "content": [], "resultType": "complete" }));
    let tool_error: fn() -> Reply =
        || Reply::Result(json!({ "content": [], "isError": true, "resultType": "complete" }));
    let error: fn() -> Reply = || {
        Reply::Message(json!({ "jsonrpc": "2.0", "error": { "code": -32602, "message": "no" } }))
    };
    let cut: fn() -> Reply = || Reply::Stream(tokio::sync::mpsc::channel(1).1);
    vec![
        (
            "pay",
            pay("amount", json!(100)),
            fine,
            "answered",
            None,
            "dispatch",
        ),
        (
            "pay",
            pay("amount", json!(99)),
            tool_error,
            "answered",
            None,
            "dispatch",
        ),
        (
            "pay",
            pay("amount", json!(98)),
            error,
            "answered",
            None,
            "dispatch",
        ),
        (
            "pay",
            pay("amount", json!(97)),
            cut,
            "unknown",
            Some("outcome_unknown"),
            "dispatch",
        ),
        (
            "pay",
            pay("amount", json!(96)),
            || Reply::Status(503),
            "unknown",
            Some("outcome_unknown"),
            "dispatch",
        ),
        (
            "read",
            json!({ "q": CANARY }),
            cut,
            "failed",
            Some("upstream_failed"),
            "dispatch",
        ),
        (
            "read",
            json!({ "q": CANARY }),
            fine,
            "answered",
            None,
            "dispatch",
        ),
        (
            "hidden",
            json!({ "q": CANARY }),
            fine,
            "refused",
            Some("tool_not_allowlisted"),
            "visible",
        ),
        (
            "no_such",
            json!({ "q": CANARY }),
            fine,
            "refused",
            Some("tool_not_allowlisted"),
            "visible",
        ),
        (
            "pay",
            pay("memo", json!(7)),
            fine,
            "refused",
            Some("schema_invalid"),
            "arguments",
        ),
        (
            "pay",
            pay("tenant_id", json!(CANARY)),
            fine,
            "refused",
            Some("tenant_mismatch"),
            "permission",
        ),
        (
            "pay",
            pay("amount", json!(101)),
            fine,
            "refused",
            Some("too_much"),
            "rules",
        ),
    ]
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
        for (name, arguments, answer, outcome, code, step) in cases() {
            scripted.answers(move |_| answer());
            let mut params = anew(&format!("oracle__{name}"), arguments);
            // The wire's session, or none.
            params["_meta"]
                .as_object_mut()
                .unwrap()
                .remove("dev.toolgate/session");
            params["_meta"]["traceparent"] = json!(format!("00-{TRACE}-b7ad6b7169203331-01"));
            let mut message = agent.request("tools/call", params);
            message["id"] = json!(format!("r-{count}"));
            let answered = agent.answered(&message).await;
            count += 1;
            let entries = gate.entries(count).await;
            assert_eq!(entries.len(), count, "one entry per call");
            let entry = entries.last().unwrap();
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
            assert_eq!(outcomes, (outcome, code, step), "003-71, 003-83: {entry}");
            assert_eq!(
                entry["request_id"],
                json!(format!("\"r-{}\"", count - 1)),
                "003-66"
            );
            assert_eq!(
                (&entry["user_id"], &entry["tenant_id"]),
                (&json!("clerk"), &json!("t_001")),
                "003-67, 003-68"
            );
            assert_eq!(entry["roles"], json!(["payer", "viewer"]));
            assert_eq!(
                (&entry["tool"], &entry["policy"]),
                (&json!(format!("oracle__{name}")), &policy),
                "003-69"
            );
            assert_eq!(
                entry["schema_hash"].is_string(),
                name != "no_such",
                "003-69: {entry}"
            );
            assert_eq!(entry["trace_id"], TRACE, "003-80");
            assert_eq!(
                entry["state"],
                if name == "read" { "collect" } else { "execute" },
                "003-81"
            );
            assert_eq!(
                entry["event"],
                if outcome == "answered" {
                    "exit"
                } else {
                    "fail"
                },
                "003-82"
            );
            assert_eq!(
                entry["revision"],
                if agent.is_legacy() {
                    "2025-11-25"
                } else {
                    "2026-07-28"
                }
            );
            assert_eq!(entry["session"].is_string(), agent.is_legacy());
            let numbers =
                ["latency_ms", "gate_ms", "upstream_ms"].map(|key| entry[key].as_f64().unwrap());
            assert!(
                numbers[0] + 0.01 >= numbers[1] + numbers[2],
                "003-72: {entry}"
            );
            assert_eq!(numbers[2] > 0.0, step == "dispatch", "003-72: {entry}");
            assert_eq!(
                entry["is_error"].as_bool(),
                (outcome == "answered").then(|| answered["result"]["isError"] == true || answered["error"].is_object())
            );
            assert_eq!(
                entry["result_hash"].is_string(),
                outcome == "answered",
                "003-71"
            );
            assert_eq!(
                entry["audit"].as_object().map(serde_json::Map::len),
                (name == "pay").then_some(1),
                "{entry}"
            );
        }
    }
    assert!(gate.metric("toolgate_ledger_entries_dropped_total").await < 1.0);
    for entry in std::fs::read_dir(gate.path("data")).unwrap().chain(
        std::fs::read_dir(gate.path("data/journal"))
            .into_iter()
            .flatten(),
    ) {
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

/// Issue 2: list, show and verify read the ledger while it is being written and after; a flipped
/// byte is found.
#[tokio::test]
async fn the_ledger_is_read_while_toolgate_runs_and_after() {
    let (_scripted, gate) = stage().await;
    let agent = gate.agent().token("token-of-the-clerk");
    agent.call("oracle__read", json!({})).await;
    agent.call("oracle__pay", pay("amount", json!(101))).await;
    let entries = gate.entries(2).await;
    let id = entries[1]["action_id"].as_str().unwrap().to_owned();
    let setup = gate.setup.clone();
    let mut stopping = Some(gate);
    let mut head = String::new();
    for running in [true, false] {
        if !running {
            stopping.take().unwrap().stop().await;
        }
        let ledger = async |args: &[&str]| {
            run(&setup, &[&["ledger"], args, &["--data", "data"]].concat()).await
        };
        let (code, listed, _) = ledger(&["list"]).await;
        assert!(
            code == 0 && listed.contains("too_much") && listed.contains("oracle__read"),
            "{listed}"
        );
        let (code, listed, _) = ledger(&[
            "list",
            "--json",
            "--code",
            "too_much",
            "--agent",
            "clerk",
            "--tool",
            "oracle__pay",
        ])
        .await;
        assert!(
            code == 0 && listed.lines().count() == 1 && listed.contains(&id),
            "{listed}"
        );
        let (code, shown, _) = ledger(&["show", &id]).await;
        assert!(
            code == 0 && shown.contains("too_much") && shown.contains("c_1"),
            "{shown}"
        );
        assert_eq!(ledger(&["show", "no-such-id"]).await.0, 1);
        let (code, said, _) = ledger(&["verify"]).await;
        assert!(code == 0 && said.starts_with("ok: "), "{said}");
        head = said
            .lines()
            .find_map(|line| line.strip_prefix("head "))
            .unwrap()
            .to_owned();
        assert_eq!(ledger(&["verify", "--expect-head", &head]).await.0, 0);
    }
    let segment = newest(&setup.directory().join("data"));
    let whole = std::fs::read(&segment).unwrap();
    let at = whole
        .windows(8)
        .position(|window| window == b"too_much")
        .unwrap();
    let mut flipped = whole.clone();
    flipped[at] ^= 1;
    std::fs::write(&segment, &flipped).unwrap();
    let (code, said, _) = run(&setup, &["ledger", "verify", "--data", "data"]).await;
    assert!(code == 1 && said.starts_with("DAMAGED: "), "{said}");
    // An end that was cut off is found by a head that was kept elsewhere.
    std::fs::write(&segment, &whole[..at - 400]).unwrap();
    let (code, said, _) = run(
        &setup,
        &["ledger", "verify", "--data", "data", "--expect-head", &head],
    )
    .await;
    assert_eq!(code, 1, "{said}");
}

/// 003-104, 003-P3a, 003-P3c, 004-51: a recorded call is judged again under the policy as it is
/// now; nothing is executed.
#[tokio::test]
async fn a_recorded_call_is_judged_again() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().token("token-of-the-clerk");
    let (fine, refused) = (pay("amount", json!(100)), pay("amount", json!(101)));
    for arguments in [&fine, &refused] {
        agent.call("oracle__pay", arguments.clone()).await;
    }
    agent.call("oracle__hidden", json!({})).await;
    let entries = gate.entries(3).await;
    let ids: Vec<&str> = entries
        .iter()
        .map(|entry| entry["action_id"].as_str().unwrap())
        .collect();
    let executed = scripted.executions();
    let replay = async |id: &str, more: &[&str]| {
        let words = [
            &[
                "ledger",
                "replay",
                id,
                "--config",
                "toolgate.yaml",
                "--data",
                "data",
            ],
            more,
        ]
        .concat();
        run(&gate.setup, &words).await
    };
    let (fine, refused) = (fine.to_string(), refused.to_string());
    let rows: [(&str, &[&str], i32, &str); 7] = [
        (ids[0], &["--arguments", &fine], 0, "now:  passed "),
        (ids[1], &["--arguments", &refused], 0, "now:  too_much "),
        (ids[2], &[], 0, "=> the same verdict"),
        (ids[0], &[], 1, "=> undecided: give --arguments"),
        (
            ids[0],
            &["--arguments", &refused],
            1,
            "not the call's arguments",
        ),
        (ids[0], &["--arguments", "[]"], 1, "must be a JSON object"),
        ("ffff", &[], 1, "no call's action id begins with ffff"),
    ];
    for (id, more, code, words) in rows {
        let (ended, out, err) = replay(id, more).await;
        assert!(
            ended == code && format!("{out}{err}").contains(words),
            "{more:?}: {ended}\n{out}{err}"
        );
    }
    let policy = gate.path("policy.yaml");
    std::fs::write(&policy, POLICY.replace("> 100", "> 1000")).unwrap();
    let (code, out, _) = replay(ids[1], &["--arguments", &refused]).await;
    assert!(
        code == 1 && out.contains("=> another verdict") && out.contains("then: too_much"),
        "{out}"
    );
    assert_eq!(scripted.executions(), executed);
}

/// The file that holds the entries.
fn newest(data: &std::path::Path) -> std::path::PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(data)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.extend(
        std::fs::read_dir(data.join("journal"))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path()),
    );
    let holds = |path: &std::path::PathBuf| {
        path.is_file() && std::fs::read(path).unwrap().starts_with(b"TGJOURNL")
    };
    files.into_iter().filter(holds).max().unwrap()
}
