//! What becomes of a call with a side effect, event by event (guarantees §4; 004-18, 004-30,
//! 004-32, 004-37): what the tool server does, what the agent is told, what it is told when it
//! sends the same call again, and how often the tool server was asked in all.
//!
//! The events that are a crash are in `kills.rs`; a disk that is full is in `full_disk.rs`.

mod leaving;
mod rounds;
mod unreachable;

use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::replay::stored;
use crate::harness::setup::{Setup, has_later};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use Said::{Code, Done, Error, Replayed, ReplayedFailure, ToolFailed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// What an agent is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// The tool's own answer.
    Done,
    /// The stored one, byte for byte, with `replayed: true`.
    Replayed,
    /// The tool's own answer, which says `isError`.
    ToolFailed,
    /// The stored one of those.
    ReplayedFailure,
    /// A refusal of toolgate.
    Code(&'static str),
    /// The tool server's JSON-RPC error.
    Error(i64),
}

/// The event, what the tool server does, what is told at first, what is told again, and how often
/// the server was asked.
type Row = (&'static str, Behaviour, Said, Said, usize);

const UNKNOWN: Said = Code("outcome_unknown");

fn rows() -> Vec<Row> {
    let failed = json!({ "content": [{ "type": "text", "text": "no" }], "isError": true, "resultType": "complete" });
    let large = json!({ "content": [{ "type": "text", "text": "x".repeat(1 << 20) }], "resultType": "complete" });
    let (large, failed) = (Behaviour::Says(large), Behaviour::Says(failed));
    let kept = [
        ("it answers", Behaviour::Answers),
        ("it answers twice", Behaviour::Twice),
        ("it answers with more than is kept inline", large),
    ];
    let open = [
        ("it closes the connection", Behaviour::HangsUp),
        ("its answer is cut off", Behaviour::Cut),
        ("its stream ends unanswered", Behaviour::EndsWithoutAnswer),
        ("its answer is unparsable", Behaviour::Garbage),
        ("its answer is no message", Behaviour::NoMessage),
        ("its answer is another request's", Behaviour::ForeignId),
        ("it does not answer in time", Behaviour::Never),
    ];
    // It may have run all the same (threat-model §13 F1).
    let statuses = ["401", "404", "429", "500", "502", "503", "504"];
    let statuses = statuses.map(|status| (status, Behaviour::Status(status.parse().unwrap())));
    // The server has answered, whatever its code: the answer is kept.
    let codes = ["-32603", "-32700", "-32600", "-32601", "-32602", "-32020"];
    let error = |code: &'static str| {
        let number = code.parse().unwrap();
        let (told, behaviour) = (Error(number), Behaviour::Error(number));
        (code, behaviour, told, told, 1)
    };
    let mut rows: Vec<Row> = Vec::new();
    rows.extend(kept.map(|(what, behaviour)| (what, behaviour, Done, Replayed, 1)));
    rows.push((
        "the result says isError",
        failed,
        ToolFailed,
        ReplayedFailure,
        1,
    ));
    let open = open.into_iter().chain(statuses);
    rows.extend(open.map(|(what, behaviour)| (what, behaviour, UNKNOWN, UNKNOWN, 1)));
    rows.extend(codes.map(error));
    rows
}

fn replayed(answer: &Answer) -> bool {
    answer.message()["result"]["_meta"]["dev.toolgate/decision"]["replayed"] == true
}

fn heard(answer: &Answer) -> String {
    let message = answer.message();
    let (failed, replayed) = (message["result"]["isError"] == true, replayed(answer));
    let said = match (answer.refusal().as_str(), answer.error()) {
        ("", 0) if failed && replayed => ReplayedFailure,
        ("", 0) if failed => ToolFailed,
        ("", 0) if replayed => Replayed,
        ("", 0) => Done,
        ("", code) => Error(code),
        (code, _) => return format!("Code({code:?})"),
    };
    format!("{said:?}")
}

async fn stage(script: Script, tools: &[String], members: &str) -> (ToolServer, Gate) {
    let server = script.start().await;
    let names: Vec<String> = tools.iter().map(|tool| format!("oracle__{tool}")).collect();
    let contracts: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "write")).collect();
    let members = format!("url: \"{}\", timeout: 2s{members}", server.url());
    (
        server,
        Setup::new()
            .server_with("oracle", &members)
            .contracts(&contracts)
            .start()
            .await,
    )
}

/// 004-13, 004-18, 004-30, 004-37: each event of the table, on both wires.
#[tokio::test]
async fn each_event_settles_as_promised() {
    let names: Vec<String> = (0..rows().len()).map(|row| format!("row_{row}")).collect();
    let script = rows()
        .into_iter()
        .zip(&names)
        .fold(Script::new(), |script, ((_, does, ..), name)| {
            script.tool(name, does)
        });
    let (server, gate) = stage(script, &names, "").await;
    let mut wrong = Vec::new();
    for ((event, _, first, again, asked), name) in rows().into_iter().zip(&names) {
        for wire in ["modern", "legacy"] {
            let (tool, arguments) = (
                format!("oracle__{name}"),
                json!({ "key": format!("{name}-{wire}") }),
            );
            let (one, two) = (
                call(&gate, wire, &tool, &arguments).await,
                call(&gate, wire, &tool, &arguments).await,
            );
            let found = (
                heard(&one),
                heard(&two),
                of(&server.executions(), &arguments),
            );
            if found != (format!("{first:?}"), format!("{again:?}"), asked) {
                wrong.push(format!(
                    "{event}, {wire}: {found:?} and not {first:?}, {again:?}, {asked}"
                ));
            }
            if matches!(again, Replayed | ReplayedFailure)
                && one.message()["result"]["content"] != stored(&two.message())["result"]["content"]
            {
                wrong.push(format!(
                    "{event}, {wire}: what is replayed is not what was answered"
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A call by an agent that is new: nothing but the call itself says that it is the same again.
async fn call(gate: &Gate, wire: &str, tool: &str, arguments: &Value) -> Answer {
    match wire {
        "legacy" => {
            gate.agent()
                .declaring(json!({}))
                .await
                .legacy_call(tool, arguments.clone())
                .await
        }
        _ => gate.agent().modern_call(tool, arguments.clone()).await,
    }
}

/// How often these arguments came.
fn of(executions: &[crate::harness::tool_server::Execution], arguments: &Value) -> usize {
    executions
        .iter()
        .filter(|execution| execution.arguments == *arguments)
        .count()
}

/// A guard refuses: nothing is claimed, the same call is judged again.
#[tokio::test]
async fn what_is_refused_claims_nothing() {
    let schema =
        json!({ "type": "object", "properties": { "key": {}, "amount": { "type": "integer" } } });
    let server = Script::new()
        .tool_with("pay", &schema, Behaviour::Answers)
        .start()
        .await;
    let policy = "contracts:\n  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }\n  oracle__pay: { purpose: a test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: \
                  oracle__undo } }, secrets: [], rules: [ { code: too_much, \
                  when: \"arguments.amount > 10\" } ] }\n";
    let gate = Setup::new()
        .server("oracle", &server)
        .policy(policy)
        .start()
        .await;
    let arguments = json!({ "key": "k", "amount": 11 });
    for _ in 0..2 {
        let refused = gate
            .agent()
            .modern_call("oracle__pay", arguments.clone())
            .await;
        assert_eq!(
            (refused.refusal().as_str(), server.executions().len()),
            ("too_much", 0)
        );
        assert!(
            refused.words().contains("did not run"),
            "{}",
            refused.words()
        );
    }
}

/// A key that comes back after its time is not executed again silently, and is free when it is
/// forgotten; a derived key is free at once; an unknown outcome never expires (guarantees §3, §4).
/// Needs a time namespace; says so when there is none.
#[tokio::test]
async fn a_key_expires_and_is_forgotten_in_the_end() {
    if !has_later() {
        return;
    }
    let server = Script::new()
        .tool("pay", Behaviour::Answers)
        .tool("lost", Behaviour::HangsUp)
        .start()
        .await;
    let setup = Setup::new()
        .server("oracle", &server)
        .contracts(&[("oracle__pay", "write"), ("oracle__lost", "write")]);
    let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
    let expired = Code("idempotency_key_expired");
    let mut ran = BTreeMap::<String, usize>::new();
    for (later, given, derived) in [
        (Duration::ZERO, Done, Done),
        (Duration::from_mins(55), Replayed, Replayed),
        (2 * hour, expired, Done),
        (89 * day, expired, Done),
        (92 * day, Done, Done),
    ] {
        let mut gate = setup.clone().later(later).start().await;
        let legacy = gate.agent().declaring(json!({})).await;
        for wire in ["modern", "legacy"] {
            let what = format!("{wire}, {later:?} later");
            for (tool, key, expected) in [
                ("pay", Some("given"), given),
                ("pay", None, derived),
                ("lost", Some("lost"), UNKNOWN),
            ] {
                let name = format!("{tool}-{key:?}-{wire}");
                let mut params =
                    json!({ "name": format!("oracle__{tool}"), "arguments": { "key": name } });
                if let Some(key) = key {
                    params["_meta"] =
                        json!({ "dev.toolgate/idempotencyKey": format!("{key}-{wire}") });
                }
                let answer = match wire {
                    "legacy" => legacy.legacy("tools/call", params).await,
                    _ => gate.agent().modern("tools/call", params).await,
                };
                let told = format!("{expected:?}");
                assert_eq!(heard(&answer), told, "{what}, {name}: {answer:?}");
                let says_so = answer.words().contains("did not run again");
                assert!(says_so || expected != expired, "{what}: {answer:?}");
                let runs = ran.entry(name.clone()).or_default();
                *runs += usize::from(expected == Done || (expected == UNKNOWN && later.is_zero()));
                assert_eq!(
                    of(&server.executions(), &json!({ "key": name })),
                    *runs,
                    "{what}, {name}"
                );
            }
        }
        gate.terminate();
        assert!(gate.wait().await.success(), "{}", gate.log());
    }
}

/// A key belongs to one call: other arguments are a conflict, and the stored result is not shown
/// (004-24). A new key is a new call (004-08, 004-43).
#[tokio::test]
async fn a_key_is_for_one_call() {
    let (server, gate) = stage(
        Script::new().tool("pay", Behaviour::Answers),
        &["pay".to_owned()],
        "",
    )
    .await;
    let agent = gate.agent();
    let call = async |key: &str, amount: u64| {
        let mut message = crate::harness::agent::modern(
            "tools/call",
            json!({ "name": "oracle__pay", "arguments": { "amount": amount } }),
        );
        message["params"]["_meta"]["dev.toolgate/idempotencyKey"] = json!(key);
        agent.sends(&message).await
    };
    assert_eq!(heard(&call("one", 1).await), "Done");
    let conflict = call("one", 2).await;
    assert_eq!(conflict.refusal(), "idempotency_conflict");
    assert!(!conflict.text().contains("done"), "{conflict:?}");
    assert_eq!(server.executions().len(), 1);
    assert_eq!(heard(&call("one", 1).await), "Replayed");
    assert_eq!(heard(&call("two", 1).await), "Done");
    assert_eq!(server.executions().len(), 2);
}

/// What was answered is replayed after toolgate was killed and started again.
#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    let (server, mut gate) = stage(
        Script::new().tool("pay", Behaviour::Answers),
        &["pay".to_owned()],
        "",
    )
    .await;
    let arguments = json!({ "key": "k" });
    let first = gate
        .agent()
        .modern_call("oracle__pay", arguments.clone())
        .await;
    assert_eq!(heard(&first), "Done");
    gate.kill().await;
    let gate = gate.setup.clone().start().await;
    let again = gate.agent().modern_call("oracle__pay", arguments).await;
    assert_eq!(
        (heard(&again), server.executions().len()),
        ("Replayed".to_owned(), 1)
    );
    assert_eq!(
        first.message()["result"]["content"],
        stored(&again.message())["result"]["content"]
    );
}
