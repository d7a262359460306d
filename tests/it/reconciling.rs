//! Unknown outcomes that end without their agents, and by the tool server's own key when their agents
//! come again (guarantees §4; issue 19, `reconcile`): what is asked, what is never sent, what ends.

use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::until;
use serde_json::{Value, json};

mod enemies;
mod own_keys;

const PAY: &str = "oracle__pay";
const ANN: &str = "token-of-ann-the-operator";
/// Looks every second, and believes after another one.
const QUICK: &str = "reconcile: { every: 1s, older_than: 1s, settle: 1s, equal_answers: 2 }";
/// The timer never looks while a test runs.
const SLOW: &str = "reconcile: { every: 1h, older_than: 24h, settle: 24h }";
const PROBE: &str = ", idempotency: { derive: [/key], probe: { tool: oracle__look, arguments: { order: arguments#/key }, \
                     found: /orders, nothing: [[]], absent_after: 1s } }";

/// A server that never answers `pay`, and finds the orders that begin with `ran`.
async fn losing() -> ScriptedServer {
    let server = ScriptedServer::with(vec![tool("pay"), tool("look")]).await;
    server.answers(|seen| {
        if name(seen) == "pay" {
            return Reply::Status(503);
        }
        let order = seen.body["params"]["arguments"]["order"].as_str();
        let has_run = order.is_some_and(|order| order.starts_with("ran"));
        let orders = if has_run { json!([{ "id": 1 }]) } else { json!([]) };
        Reply::Result(
            json!({ "content": [], "structuredContent": { "orders": orders }, "resultType": "complete" }),
        )
    });
    server
}

fn name(seen: &Seen) -> String {
    let name = seen.body["params"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

/// How often `tool` was called.
fn times(server: &ScriptedServer, tool: &str) -> usize {
    let seen = server.seen();
    let calls = seen.iter().filter(|seen| seen.method() == "tools/call");
    calls.filter(|seen| name(seen) == tool).count()
}

fn policy(keys: &str) -> String {
    format!(
        "contracts:\n{}\n  {PAY}: {}\n  oracle__look: {{ purpose: a look, actions: [read], secrets: [] }}\n",
        undo(PAY),
        contract(PAY, "write", keys)
    )
}

fn setup(server: &ScriptedServer, keys: &str, more: &str) -> Setup {
    Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", server.url()))
        .policy(&policy(keys))
        .unwatched()
        .operators(&format!(
            "tokens: [ {{ name: ann, token: \"{ANN}\", roles: [resolver] }} ]"
        ))
        .more(more)
}

async fn pay(gate: &Gate, key: &str) -> Answer {
    gate.agent().modern_call(PAY, json!({ "key": key })).await
}

/// Pays; nobody knows what became of it. Gives the action id.
async fn lost(gate: &Gate, key: &str) -> String {
    let answer = pay(gate, key).await;
    assert_eq!(answer.refusal(), "outcome_unknown", "{answer:?}");
    let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
    decision["action_id"].as_str().unwrap().to_owned()
}

/// What the looks at the call have found so far, oldest first.
async fn found(gate: &Gate, action: &str) -> Vec<String> {
    let entries = gate.ledger().await;
    let looks = entries
        .iter()
        .filter(|entry| entry["method"] == "probe" && entry["probe_of"] == action);
    let found = looks.map(|look| look["decided_by"].as_str().unwrap().to_owned());
    found.collect()
}

/// Waits until the last look at the call has found this.
async fn finds(gate: &Gate, action: &str, expected: &str) -> Vec<String> {
    until(expected, || async {
        let found = found(gate, action).await;
        let is_last = found.last().is_some_and(|found| found == expected);
        is_last.then_some(found)
    })
    .await
}

async fn calls(gate: &Gate, arguments: &[&str]) -> (i32, String, String) {
    let door = gate.operators.to_string();
    let whole = ["calls", "--config", "toolgate.yaml", "--admin", &door];
    let output = gate
        .setup
        .operator("ann")
        .run(&[&whole, arguments].concat())
        .await;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Calls that nobody comes back for end by looks alone: what is found at once, what is not found the
/// second time. Nothing but reads is sent, each look has its entry, and they are counted.
#[tokio::test]
async fn the_timer_ends_what_nobody_comes_back_for() {
    let server = losing().await;
    let gate = setup(&server, PROBE, QUICK).start().await;
    let (ran, not) = (lost(&gate, "ran-1").await, lost(&gate, "not-1").await);
    finds(&gate, &ran, "probe: found, asked by the timer").await;
    let enough = "probe: absent, found often enough, asked by the timer";
    let looks = finds(&gate, &not, enough).await;
    let once = "probe: absent, 1 of 2 times, asked by the timer";
    assert_eq!(looks, [once, enough]);
    assert_eq!(
        found(&gate, &ran).await.len(),
        1,
        "what is known is not asked again"
    );
    assert_eq!(times(&server, "pay"), 2, "nothing is sent again");
    let absent = "toolgate_outcome_looks_total{found=\"absent\"}";
    assert_eq!(gate.metric(absent).await.to_string(), "2");
    let (code, listed, _) = calls(&gate, &["list"]).await;
    assert!(
        code == 0 && listed.starts_with("nothing is open"),
        "{listed}"
    );
    // What the agents read that come back after all.
    let again = pay(&gate, "ran-1").await;
    assert!(
        again.text().contains("a look at the tool server found it"),
        "{again:?}"
    );
    assert_eq!(times(&server, "pay"), 2);
    assert_eq!(pay(&gate, "not-1").await.refusal(), "outcome_unknown");
    assert_eq!(
        times(&server, "pay"),
        3,
        "what did not run runs when it is sent again"
    );
}

/// What is kept to ask by outlives a kill, and the timer goes on after it.
#[tokio::test]
async fn a_restart_loses_no_question() {
    let server = losing().await;
    let mut gate = setup(&server, PROBE, SLOW).start().await;
    let action = lost(&gate, "ran-1").await;
    gate.kill().await;
    let gate = gate.setup.clone().instead(SLOW, QUICK).start().await;
    finds(&gate, &action, "probe: found, asked by the timer").await;
    assert!(pay(&gate, "ran-1").await.text().contains("found it"));
    assert_eq!(times(&server, "pay"), 1);
}

/// While the call's own answer may still come, the timer does not ask, and nothing that is missing
/// counts.
#[tokio::test]
async fn a_call_on_its_way_is_not_asked_about() {
    let server = losing().await;
    server.answers(|seen| match name(seen).as_str() {
        "pay" if seen.body["params"]["arguments"]["key"] == "slow" => Reply::Silence,
        "pay" => Reply::Status(503),
        _ => Reply::Result(
            json!({ "content": [], "structuredContent": { "orders": [] }, "resultType": "complete" }),
        ),
    });
    let keys = format!("{PROBE}, budget: {{ timeout_ms: 200 }}");
    let gate = setup(&server, &keys, QUICK).start().await;
    let (slow, quick) = (lost(&gate, "slow").await, lost(&gate, "quick").await);
    // The other one was looked at twice: this one could have been.
    let enough = "probe: absent, found often enough, asked by the timer";
    finds(&gate, &quick, enough).await;
    assert!(found(&gate, &slow).await.is_empty());
    let (code, told, error) = calls(&gate, &["ask", &slow]).await;
    assert_eq!(code, 0, "{error}");
    assert!(
        told.starts_with("the probe says: absent, too early to count\n"),
        "{told}"
    );
    assert!(told.contains("it stays unknown"), "{told}");
}

/// An operator has the server asked now: what is found ends the call, with the operator's name in the
/// ledger; what is missing ends nothing before its time. Nothing is asked where nothing is kept.
#[tokio::test]
async fn an_operator_asks_now() {
    let server = losing().await;
    let gate = setup(&server, PROBE, SLOW).start().await;
    let (ran, not) = (lost(&gate, "ran-1").await, lost(&gate, "not-1").await);
    let (code, told, error) = calls(&gate, &["ask", &not]).await;
    assert_eq!(code, 0, "{error}");
    assert!(told.contains("it stays unknown"), "{told}");
    let (code, told, error) = calls(&gate, &["ask", &ran, "--json"]).await;
    assert_eq!(code, 0, "{error}");
    let told: Value = serde_json::from_str(&told).unwrap();
    let expected =
        json!({ "action_id": ran, "found": "found", "words": "found", "state": "completed" });
    assert_eq!(told, expected);
    finds(&gate, &ran, "probe: found, asked by ann").await;
    let (code, _, error) = calls(&gate, &["ask", &ran]).await;
    assert!(
        code == 1 && error.contains("the call is `completed`"),
        "{error}"
    );
    assert_eq!(times(&server, "pay"), 2);
    let off = setup(&server, PROBE, "").start().await;
    let action = lost(&off, "ran-2").await;
    let looks = times(&server, "look");
    let (code, _, error) = calls(&off, &["ask", &action]).await;
    assert!(
        code == 1 && error.contains("nothing is kept to ask by"),
        "{error}"
    );
    assert_eq!(times(&server, "look"), looks);
}

/// A contract that asks otherwise by now is not asked by what was kept for the one before.
#[tokio::test]
async fn another_probe_asks_nothing_by_what_is_kept() {
    let server = losing().await;
    let gate = setup(&server, PROBE, SLOW).start().await;
    let action = lost(&gate, "ran-1").await;
    let stopped = gate.stop().await;
    let other = PROBE.replace("found: /orders", "found: /others");
    let gate = stopped.policy(&policy(&other)).unwatched().start().await;
    let (code, _, error) = calls(&gate, &["ask", &action]).await;
    assert!(code == 1 && error.contains("is another one"), "{error}");
    assert_eq!(times(&server, "look"), 0);
}
