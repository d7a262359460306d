//! Refusals that come faster than they are worth recording (threat-model §13 F14: one pipelined
//! connection, 2,000 refusals of a hidden tool in 0.08 s, +1.37 MB).

use super::{GOOD, GREEDY, Good, OPERATOR, guarded, tell};
use crate::harness::agent::{Agent, modern};
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const REFUSALS: u64 = 2_000;
/// Entries that all of them may have, of each attack.
const ENTRIES: u64 = 250;
/// Bytes of the ledger that they may take up.
const BYTES: u64 = 400_000;

/// The params of one message of an attack.
type Params = fn(u64) -> Value;

/// The attacks, each with the method of its messages.
fn attacks() -> Vec<(&'static str, &'static str, Params)> {
    let (call, read) = ("tools/call", "resources/read");
    vec![
        (
            "a tool that nobody has",
            call,
            |_| json!({ "name": "oracle__hidden", "arguments": {} }),
        ),
        (
            "tools with made-up names",
            call,
            |number| json!({ "name": format!("oracle__t{number}"), "arguments": {} }),
        ),
        (
            "arguments that do not fit",
            call,
            |_| json!({ "name": "oracle__read", "arguments": { "x": 1 } }),
        ),
        (
            "arguments that differ",
            call,
            |number| json!({ "name": "oracle__read", "arguments": { "x": number } }),
        ),
        (
            "a tool that changes something",
            call,
            |_| json!({ "name": "oracle__write", "arguments": { "x": 1 } }),
        ),
        (
            "a resource that nobody has",
            read,
            |_| json!({ "uri": "oracle://hidden" }),
        ),
        (
            "resources with made-up names",
            read,
            |number| json!({ "uri": format!("oracle://{number}") }),
        ),
    ]
}

async fn pipelined(agent: &Agent, times: u64, (method, params): (&str, &dyn Fn(u64) -> Value)) {
    let mut bytes = Vec::new();
    for number in 0..times {
        let call = modern(method, params(number));
        bytes.extend(agent.encoded(&agent.mirrored(&call), call.to_string().as_bytes()));
    }
    let (mut reader, mut writer) = TcpStream::connect(agent.address)
        .await
        .unwrap()
        .into_split();
    let writing = tokio::spawn(async move {
        writer.write_all(&bytes).await.unwrap();
        writer
    });
    let (mut answers, mut text, mut part) = (0, Vec::new(), vec![0; 64 << 10]);
    while answers < times {
        let read = reader.read(&mut part).await.unwrap();
        assert!(read > 0, "the connection ended after {answers} answers");
        text.extend_from_slice(&part[..read]);
        let words = b"HTTP/1.1 ";
        answers = text
            .windows(words.len())
            .filter(|window| window == words)
            .count() as u64;
    }
    drop(writing.await.unwrap());
}

/// What an agent may ask again and again of a call that there was.
struct Again {
    name: &'static str,
    /// What is called, first alone and then again and again.
    call: Value,
    times: u64,
    differs: bool,
    outcome: &'static str,
    code: Option<&'static str>,
    /// The member that says to which call it belongs.
    of: Option<&'static str>,
}

/// What belongs to an earlier call, and what comes to nothing.
fn neighbours() -> [Vec<Again>; 2] {
    let call = |tool: &str, meta: Value| json!({ "name": format!("oracle__{tool}"), "arguments": {}, "_meta": meta });
    let key = || json!({ "dev.toolgate/idempotencyKey": "again" });
    let again = |name, tool, outcome, code, of| Again {
        name,
        call: call(tool, key()),
        // Each of those waits for its server.
        times: if outcome == "failed" {
            REFUSALS / 10
        } else {
            REFUSALS
        },
        differs: code == Some("idempotency_conflict"),
        outcome,
        code,
        of,
    };
    let plan = json!({ "dev.toolgate/state": "plan" });
    let earlier = vec![
        again(
            "a key with other arguments",
            "write",
            "refused",
            Some("idempotency_conflict"),
            None,
        ),
        again(
            "an answer that is given again",
            "write",
            "answered",
            None,
            Some("claimed_by"),
        ),
        again(
            "an outcome that is unknown",
            "lost",
            "unknown",
            Some("outcome_unknown"),
            Some("claimed_by"),
        ),
        again(
            "what was denied",
            "asked",
            "refused",
            Some("approval_denied"),
            Some("approval"),
        ),
    ];
    let nothing = vec![
        again(
            "a read that fails",
            "broken",
            "failed",
            Some("upstream_failed"),
            None,
        ),
        Again {
            call: call("read", plan),
            ..again("a plan", "read", "planned", None, None)
        },
    ];
    [earlier, nothing]
}

async fn remembering() -> (ToolServer, Gate) {
    let schema = json!({ "type": "object" });
    let tool = |script: Script, (name, behaviour)| script.tool_with(name, &schema, behaviour);
    let tools = [("lost", Behaviour::Garbage), ("broken", Behaviour::Garbage)];
    let tools = ["read", "write", "asked"]
        .map(|name| (name, Behaviour::Answers))
        .into_iter()
        .chain(tools);
    let oracle = tools.fold(Script::new(), tool).start().await;
    let bound = "secrets: [], side_effect: { writes: test, rollback: { tool: oracle__undo } }";
    let policy = format!(
        "contracts:
  oracle__read: {{ purpose: p, actions: [read], secrets: [] }}
  oracle__broken: {{ purpose: p, actions: [read], secrets: [] }}
  oracle__write: {{ purpose: p, actions: [write], permission: anyone, {bound} }}
  oracle__lost: {{ purpose: p, actions: [write], permission: anyone, {bound} }}
  oracle__asked: {{ purpose: p, actions: [pay], permission: anyone, {bound}, approval: {{ approvers: [finance], hold: 0s }} }}
  oracle__undo: {{ purpose: p, actions: [write], permission: anyone, secrets: [], side_effect: {{ writes: test, rollback: {{ tool: oracle__write }} }} }}
"
    );
    let setup = Setup::new()
        .server("oracle", &oracle)
        .policy(&policy)
        .unwatched()
        .callers(&format!(
            "  - {{ agent: good, token: {GOOD} }}\n  - {{ agent: greedy, token: {GREEDY} }}"
        ))
        .operators(&format!(
            "tokens: [ {{ name: ann, token: {OPERATOR}, roles: [finance] }} ]"
        ));
    (oracle, setup.start().await)
}

/// What the ledger has of the greedy agent, once toolgate has ended.
async fn left(mut gate: Gate) -> (Setup, Vec<Value>) {
    let setup = gate.setup.clone();
    gate.terminate();
    assert!(gate.wait().await.success());
    let data = setup.directory().join("data");
    let listed = setup
        .run(&["ledger", "list", "--json", "--data", data.to_str().unwrap()])
        .await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    (
        setup,
        listed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

/// threat-model §13 F14 as a class: what was asked before, 4 attacks of 2,000 calls. What belongs
/// to an earlier call says to which.
#[tokio::test]
async fn f14_what_is_asked_again_is_summed_up_and_says_of_what() {
    let [earlier, _] = neighbours();
    asked_again(earlier).await;
}

/// threat-model §13 F14 as a class: 200 reads that fail, and 2,000 plans.
#[tokio::test]
async fn f14_what_comes_to_nothing_is_summed_up() {
    let [_, nothing] = neighbours();
    asked_again(nothing).await;
}

async fn asked_again(attacks: Vec<Again>) {
    for again in attacks {
        let (name, times) = (again.name, again.times);
        let (_oracle, gate) = remembering().await;
        let greedy = gate.agent().token(GREEDY);
        greedy.modern("tools/call", again.call.clone()).await;
        if name == "what was denied" {
            deny(&gate).await;
        }
        let good = Good::beside(&gate);
        good.ask(2).await;
        let (call, differs) = (again.call.clone(), again.differs);
        let asked = move |number: u64| {
            let mut call = call.clone();
            if differs {
                call["arguments"]["x"] = json!(number);
            }
            call
        };
        pipelined(&greedy, times, ("tools/call", &asked)).await;
        let good = good.end().await;
        let (setup, entries) = left(gate).await;
        let words = judge_entries(&again, &entries);
        let verified = setup.run(&["ledger", "verify", "--data", "data"]).await;
        assert!(verified.status.success(), "{name}: {verified:?}");
        tell(&format!("{words}, {good} good calls"));
    }
}

/// None is lost, none is counted twice, and what is written has its bound; says how much it is.
fn judge_entries(again: &Again, entries: &[Value]) -> String {
    let (name, outcome, times) = (again.name, again.outcome, again.times);
    let own = entries.iter().filter(|entry| entry["user_id"] == "greedy");
    let same = own.clone().filter(|entry| {
        entry["outcome"] == outcome && entry["aborted_reason"].as_str() == again.code
    });
    let same: Vec<&Value> = same
        .filter(|entry| again.of.is_none_or(|of| entry[of].is_string()))
        .collect();
    let summed: u64 = same
        .iter()
        .map(|entry| entry["count"].as_u64().unwrap_or(1))
        .sum();
    let alone = u64::from(matches!(outcome, "failed" | "planned"));
    assert_eq!(
        summed,
        times + alone,
        "{name}: none is lost, none is counted twice"
    );
    assert!(
        same.len() as u64 <= ENTRIES / 2,
        "{name}: {} entries",
        same.len()
    );
    let bytes: usize = own.map(|entry| entry.to_string().len()).sum();
    assert!(bytes as u64 <= BYTES, "{name}: {bytes} bytes");
    assert!(
        same.iter().any(|entry| entry["first_time"].is_string()),
        "{name}"
    );
    if let Some(of) = again.of {
        assert!(
            same.iter().all(|entry| entry[of] == same[0][of]),
            "{name}: {same:?}"
        );
    }
    format!(
        "{name}: {times} calls, {} entries, {bytes} bytes",
        same.len()
    )
}

/// An operator denies the one call that is held.
async fn deny(gate: &Gate) {
    let hold = gate.entries(1).await[0]["approval"]
        .as_str()
        .unwrap_or_else(|| panic!("no hold"))
        .to_owned();
    let headers = [
        ("authorization", &*format!("Bearer {OPERATOR}")),
        ("content-type", "application/json"),
    ];
    let said = r#"{ "decision": "deny", "why": "no" }"#;
    let denied = gate
        .asks_operators(("POST", &format!("/api/approvals/{hold}")), &headers, said)
        .await;
    assert_eq!(denied.status, 200, "{denied:?}");
}

async fn counted(gate: &Gate) -> u64 {
    let metrics = gate.operators("/metrics").await;
    let is_counted = |line: &&str| {
        line.starts_with("toolgate_calls_total") || line.starts_with("toolgate_side_messages_total")
    };
    let refused = metrics
        .lines()
        .filter(is_counted)
        .filter(|line| line.contains("refused"));
    refused
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// threat-model §13 F14 and its neighbours: 7 attacks of 2,000 refusals.
#[tokio::test]
async fn f14_refusals_beyond_a_rate_are_summed_up_and_none_is_lost() {
    for (name, method, params) in attacks() {
        let (_oracle, gate) = guarded("").await;
        let good = Good::beside(&gate);
        good.ask(2).await;
        let greedy = gate.agent().token(GREEDY);
        pipelined(&greedy, REFUSALS, (method, &params)).await;
        until("each refusal is counted", || async {
            (counted(&gate).await >= REFUSALS).then_some(())
        })
        .await;
        let asked = good.end().await;
        let (setup, entries) = left(gate).await;
        let data = setup.directory().join("data");
        let data = data.to_str().unwrap();
        let own: Vec<&Value> = entries
            .iter()
            .filter(|entry| entry["user_id"] == "greedy")
            .collect();
        let summed: u64 = own
            .iter()
            .map(|entry| entry["count"].as_u64().unwrap_or(1))
            .sum();
        assert_eq!(
            summed, REFUSALS,
            "{name}: none is lost, none is counted twice"
        );
        assert!(own.len() as u64 <= ENTRIES, "{name}: {} entries", own.len());
        let bytes: usize = own.iter().map(|entry| entry.to_string().len()).sum();
        assert!(bytes as u64 <= BYTES, "{name}: {bytes} bytes");
        assert!(
            own.iter().any(|entry| entry["first_time"].is_string()),
            "{name}"
        );
        assert_eq!(
            entries.len() - own.len(),
            asked,
            "{name}: every good call has its entry"
        );
        let table =
            String::from_utf8(setup.run(&["ledger", "list", "--data", data]).await.stdout).unwrap();
        assert!(table.contains(" ×"), "{name}: {table}");
        let verified = setup.run(&["ledger", "verify", "--data", data]).await;
        assert!(verified.status.success(), "{name}: {verified:?}");
        let report = setup.run(&["report", "--json", "--data", data]).await;
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let calls: u64 = report["versions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["calls"].as_u64().unwrap())
            .sum();
        let reported = if method == "tools/call" { REFUSALS } else { 0 };
        assert_eq!(calls, reported + asked as u64, "{name}: {report}");
        tell(&format!(
            "{name}: {REFUSALS} refusals, {} entries, {bytes} bytes, {asked} good calls",
            own.len()
        ));
    }
}
