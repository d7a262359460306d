//! A call whose outcome is unknown holds every call that equals it, in whatever session, under
//! whatever key, and whatever its contract says by then; its answer is its own session's alone.

use super::{BOT, bot, contract, is_replayed, words};
use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};

const PAY: &str = "bank__pay";
const SECRET: &str = "receipt of the first session";

fn policy(keys: &str) -> String {
    format!("contracts:\n{}", contract(PAY, keys))
}

/// A bank that pays and hangs up.
async fn stage(keys: &str) -> (ToolServer, Gate) {
    stage_of(keys, Behaviour::HangsUp).await
}

async fn stage_of(keys: &str, pays: Behaviour) -> (ToolServer, Gate) {
    let text = json!({ "type": "string" });
    let properties =
        json!({ "amount": { "type": "integer" }, "to": text, "idempotency_key": text });
    let schema = json!({ "type": "object", "properties": properties });
    let server = Script::new().tool_with("pay", &schema, pays).start().await;
    let setup = Setup::new().server("bank", &server).policy(&policy(keys));
    let setup = setup.callers(BOT).operators(
        "tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [resolver] } ]",
    );
    (server, setup.start().await)
}

async fn pays(agent: &Agent, session: &str, key: Option<&str>) -> Value {
    agent.answered(&payment(agent, session, key)).await
}

fn payment(agent: &Agent, session: &str, key: Option<&str>) -> Value {
    let mut meta = json!({ "dev.toolgate/session": session });
    if let Some(key) = key {
        meta["dev.toolgate/idempotencyKey"] = json!(key);
    }
    let params = json!({ "name": PAY, "arguments": { "amount": 1, "to": "x" }, "_meta": meta });
    agent.request("tools/call", params)
}

fn code(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.toolgate/decision"]["code"]
}

fn action(answer: &Value) -> &str {
    answer["result"]["_meta"]["dev.toolgate/decision"]["action_id"]
        .as_str()
        .unwrap()
}

async fn resolves(gate: &Gate, action: &str, verdict: &[&str]) {
    let admin = gate.operators.to_string();
    let before = ["calls", "--config", "toolgate.yaml", "--admin", &admin];
    let resolve = ["resolve", action, "--why", "looked at the bank's page"];
    let done = gate
        .setup
        .operator("ann")
        .run(&[&before[..], &resolve, verdict].concat())
        .await;
    assert!(done.status.success(), "{done:?}");
}

/// 004-36, 004-37: in each regime, from other sessions and with other keys; also after a restart, and
/// once an operator has given it up.
#[tokio::test]
async fn an_unknown_outcome_holds_equal_calls() {
    for keys in [
        ", idempotency: { derive: retry }",
        ", idempotency: { derive: [/to] }",
        "",
        ", idempotency: { require: true }",
    ] {
        let first_key = keys.contains("require").then_some("1");
        let (server, mut gate) = stage(keys).await;
        let first = pays(&bot(&gate), "one", first_key).await;
        assert_eq!(code(&first), "outcome_unknown", "{keys}: {first}");
        for is_restarted in [false, true] {
            if is_restarted {
                resolves(&gate, action(&first), &["--abandon"]).await;
                gate.kill().await;
                gate = gate.setup.clone().start().await;
            }
            for (session, key) in [("one", Some("2")), ("two", Some("3")), ("two", first_key)] {
                let held = pays(&bot(&gate), session, key).await;
                assert_eq!(code(&held), "outcome_unknown", "{keys}, {session}: {held}");
                let decision = &held["result"]["_meta"]["dev.toolgate/decision"];
                assert_eq!(decision["claimed_by"], action(&first), "{keys}: {held}");
            }
        }
        assert_eq!(server.executions().len(), 1, "{keys}");
        let entries = gate.ledger().await;
        let held: Vec<_> = entries.iter().skip(1).collect();
        let is_said = |entry: &&Value| {
            entry["because"] == "unknown_outcome" && entry["same_as"] == action(&first)
        };
        assert!(held.len() > 5 && held.iter().all(is_said), "{entries:?}");
    }
}

/// 004-24, 004-36: of one user; equal calls of another, and of nobody, are their own.
#[tokio::test]
async fn an_unknown_outcome_holds_no_other_user() {
    for keys in [
        "",
        ", idempotency: { derive: [/to] }",
        ", idempotency: { require: true }",
    ] {
        let (server, gate) = stage(keys).await;
        let callers = BOT.replace(" }", ", users: meta, needs_user: false }");
        let gate = gate.stop().await.callers(&callers).start().await;
        let agent = bot(&gate);
        let pays = async |user: Option<&str>, session: &str| {
            let key = keys.contains("require").then_some("1");
            let mut request = payment(&agent, session, key);
            if let Some(user) = user {
                request["params"]["_meta"]["dev.toolgate/user"] = json!(user);
            }
            agent.answered(&request).await
        };
        let mut first = Vec::new();
        for (number, user) in [Some("ada"), Some("bob"), None].into_iter().enumerate() {
            let own = pays(user, "one").await;
            assert_eq!(code(&own), "outcome_unknown", "{keys} {user:?}: {own}");
            assert_eq!(server.executions().len(), number + 1, "{keys} {user:?}");
            first.push(action(&own).to_owned());
        }
        for (number, user) in [Some("ada"), Some("bob"), None].into_iter().enumerate() {
            let held = pays(user, "two").await;
            let decision = &held["result"]["_meta"]["dev.toolgate/decision"];
            assert_eq!(decision["claimed_by"], first[number], "{keys}: {held}");
        }
        assert_eq!(server.executions().len(), 3, "{keys}");
    }
}

/// 004-36: also one that came before that was known, with a key of its own, and has waited for its turn
/// since.
#[tokio::test]
async fn an_unknown_outcome_holds_equal_calls_that_wait() {
    for keys in ["", ", idempotency: { derive: retry }"] {
        let (server, gate) = stage_of(keys, Behaviour::HangsUpOnceReleased).await;
        let agent = bot(&gate);
        // A head comes when a call has waited for a while.
        let mut first = agent.post(&payment(&agent, "one", None)).await;
        let mut second = agent.post(&payment(&agent, "one", Some("2"))).await;
        until("the first call has run", || async {
            (server.executions().len() == 1).then_some(())
        })
        .await;
        server.release();
        server.release();
        for reading in [&mut first, &mut second] {
            let answer = reading.whole().await;
            assert_eq!(code(&answer), "outcome_unknown", "{keys}: {answer}");
        }
        assert_eq!(server.executions().len(), 1, "{keys}");
    }
}

/// 004-36: also where the tool has an argument of its own for a key: two payments that differ in
/// nothing else are equal.
#[tokio::test]
async fn an_unknown_outcome_holds_calls_with_another_key_of_the_tools() {
    for keys in [
        "",
        ", idempotency: { derive: retry }",
        ", idempotency: { require: true }",
    ] {
        let (server, gate) = stage(keys).await;
        for key in ["1", "2", "3"] {
            let paid = json!({ "amount": 1, "to": "x", "idempotency_key": key });
            let answer = bot(&gate).call(PAY, paid).await;
            assert_eq!(code(&answer), "outcome_unknown", "{keys}: {answer}");
        }
        let other = json!({ "amount": 2, "to": "x", "idempotency_key": "4" });
        bot(&gate).call(PAY, other).await;
        assert_eq!(server.executions().len(), 2, "{keys}");
    }
}

/// 004-36: what an operator gave up holds equal calls until an operator knows it after all.
#[tokio::test]
async fn what_was_given_up_can_be_known_after_all() {
    let (server, gate) = stage(", idempotency: { derive: retry }").await;
    let agent = bot(&gate);
    let first = pays(&agent, "one", None).await;
    resolves(&gate, action(&first), &["--abandon"]).await;
    assert_eq!(
        code(&pays(&agent, "two", Some("2")).await),
        "outcome_unknown"
    );
    assert_eq!(server.executions().len(), 1);
    resolves(&gate, action(&first), &["--not-applied"]).await;
    pays(&agent, "two", Some("2")).await;
    assert_eq!(server.executions().len(), 2);
}

/// 004-36: also when another contract counts by now.
#[tokio::test]
async fn an_unknown_outcome_holds_equal_calls_of_another_contract() {
    let regimes = [
        "",
        ", idempotency: { derive: retry }",
        ", idempotency: { derive: [/to] }",
    ];
    for (at, keys) in regimes.iter().enumerate() {
        let (server, gate) = stage(keys).await;
        let first = pays(&bot(&gate), "one", None).await;
        assert_eq!(code(&first), "outcome_unknown");
        let setup = gate.stop().await;
        for other in [regimes[(at + 1) % 3], regimes[(at + 2) % 3]] {
            let gate = setup.clone().policy(&policy(other)).start().await;
            let held = pays(&bot(&gate), "one", None).await;
            assert_eq!(
                code(&held),
                "outcome_unknown",
                "{keys} then {other}: {held}"
            );
            gate.stop().await;
        }
        assert_eq!(server.executions().len(), 1, "{keys}");
    }
}

/// 004-36, 004-27: once it is known, its own session reads the answer, one that was held reads that it
/// was done, and one that never was held runs its own.
#[tokio::test]
async fn an_answer_is_its_own_sessions_alone() {
    let (server, gate) = stage(", idempotency: { derive: retry }").await;
    let agent = bot(&gate);
    let first = pays(&agent, "one", None).await;
    assert_eq!(code(&pays(&agent, "two", None).await), "outcome_unknown");
    let result = json!({ "content": [{ "type": "text", "text": SECRET }] }).to_string();
    resolves(&gate, action(&first), &["--applied", "--result", &result]).await;
    let own = pays(&agent, "one", None).await;
    assert!(
        is_replayed(&own) && own.to_string().contains(SECRET),
        "{own}"
    );
    let held = pays(&agent, "two", None).await;
    assert!(
        is_replayed(&held) && !held.to_string().contains(SECRET),
        "{held}"
    );
    assert!(words(&held).contains("Nothing ran now"), "{held}");
    assert_eq!(server.executions().len(), 1);
    let other = pays(&agent, "three", None).await;
    assert_eq!(code(&other), "outcome_unknown", "it ran: {other}");
    assert_eq!(server.executions().len(), 2);
    let entries = gate.entries(5).await;
    let because: Vec<_> = entries
        .iter()
        .filter_map(|entry| entry["because"].as_str())
        .collect();
    assert!(
        because.contains(&"done_elsewhere") && because.contains(&"settled_late"),
        "{because:?}"
    );
}

/// 004-36, 004-44: a process that was killed does not know who was held: whatever equals a call that was
/// unknown then is told that it was done, and does not run.
#[tokio::test]
async fn after_a_kill_every_equal_call_counts_as_held() {
    let (server, mut gate) = stage(", idempotency: { derive: retry }").await;
    let first = pays(&bot(&gate), "one", None).await;
    assert_eq!(
        code(&pays(&bot(&gate), "two", None).await),
        "outcome_unknown"
    );
    gate.kill().await;
    let gate = gate.setup.clone().start().await;
    resolves(&gate, action(&first), &["--applied"]).await;
    for session in ["two", "three"] {
        let held = pays(&bot(&gate), session, None).await;
        assert!(is_replayed(&held), "{session}: {held}");
        assert!(words(&held).contains("Nothing ran now"), "{held}");
    }
    assert_eq!(server.executions().len(), 1);
}

/// 004-29: that it was done elsewhere is told for a window, not for as long as the key is known.
#[tokio::test]
async fn that_it_was_done_elsewhere_is_told_for_a_window() {
    let (server, gate) = stage(", idempotency: { derive: retry, window: 1s }").await;
    let agent = bot(&gate);
    let first = pays(&agent, "one", None).await;
    assert_eq!(code(&pays(&agent, "two", None).await), "outcome_unknown");
    resolves(&gate, action(&first), &["--applied"]).await;
    assert!(is_replayed(&pays(&agent, "two", None).await));
    until("the window is over", || async {
        (!is_replayed(&pays(&agent, "two", None).await)).then_some(())
    })
    .await;
    assert_eq!(server.executions().len(), 2);
}

/// 004-36: a look at the server ends what is unknown for equal calls of other sessions, too, where it
/// does not ask by the key.
#[tokio::test]
async fn another_session_has_the_server_looked_at() {
    let looks = Behaviour::Says(json!({ "content": [], "structuredContent": { "id": "p1" } }));
    for (asked, is_known) in [("to: arguments#/to", true), ("key: key#", false)] {
        let server = Script::new()
            .tool("pay", Behaviour::HangsUp)
            .tool("find", looks.clone())
            .start()
            .await;
        let keys = format!(
            ", idempotency: {{ derive: retry, probe: {{ tool: bank__find, arguments: {{ {asked} }}, found: /id }} }}"
        );
        let reads = "  bank__find: { purpose: a test, actions: [read], secrets: [] }\n";
        let contracts = policy(&keys) + reads;
        let setup = Setup::new().server("bank", &server).policy(&contracts);
        let gate = setup.callers(BOT).start().await;
        let agent = bot(&gate);
        let first = pays(&agent, "one", None).await;
        assert_eq!(code(&first), "outcome_unknown");
        let held = pays(&agent, "two", None).await;
        assert_eq!(is_replayed(&held), is_known, "{held}");
        assert_eq!(code(&held) == "outcome_unknown", !is_known, "{held}");
        let paid = server
            .executions()
            .into_iter()
            .filter(|one| one.tool == "pay");
        assert_eq!(paid.count(), 1, "{asked}");
    }
}

/// 004-08: a call in flight under the key of the contract before holds what equals it under another.
#[tokio::test]
async fn a_call_in_flight_outlives_its_contract() {
    let answers = Behaviour::SaysOnceReleased(json!({ "content": [] }));
    let (server, gate) = stage_of(", idempotency: { derive: arguments }", answers).await;
    let agent = bot(&gate);
    let mut first = agent.post(&payment(&agent, "one", None)).await;
    let reloaded = gate
        .setup
        .clone()
        .policy(&policy(", idempotency: { derive: retry }"));
    reloaded.write();
    gate.hang_up();
    until("the policy is read", || async {
        let read = gate
            .metric("toolgate_reloads_total{outcome=\"swapped\"}")
            .await;
        (read > 0.5).then_some(())
    })
    .await;
    let second = pays(&agent, "one", None).await;
    assert_eq!(code(&second), "duplicate_in_flight", "{second}");
    server.release();
    assert!(!is_replayed(&first.whole().await));
    assert_eq!(server.executions().len(), 1);
}
