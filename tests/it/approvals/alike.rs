//! Calls that are much alike and not the same: a person is asked, and nothing is denied (004-09).

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};

const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [approver] } ]";
const CALLERS: &str =
    "  - { agent: bot, token: token-of-the-agent-bot, users: meta, needs_user: false }\n";

/// A shop whose orders are much alike where item and amount are, behind a toolgate.
async fn shop(keys: &str) -> (ToolServer, Gate) {
    let server = Script::new()
        .tool("order", Behaviour::Answers)
        .tool("note", Behaviour::Answers)
        .tool("slow", Behaviour::Held)
        .start()
        .await;
    let contract =
        "purpose: a test, actions: [write], permission: anyone, additive: true, secrets: []";
    let policy = format!(
        "contracts:\n  shop__order: {{ {contract}, approval: {{ ask: never }}, idempotency: {{ {keys} }} }}\n  \
         shop__note: {{ {contract} }}\n  shop__slow: {{ {contract} }}\n"
    );
    let setup = Setup::new().server("shop", &server).policy(&policy);
    let gate = setup.callers(CALLERS).operators(OPERATORS).start().await;
    (server, gate)
}

fn bot(gate: &Gate) -> Agent {
    gate.agent().token("token-of-the-agent-bot")
}

fn order(item: &str, amount: u32, note: &str) -> Value {
    json!({ "name": "shop__order", "arguments": { "item": item, "amount": amount, "note": note } })
}

/// Runs `toolgate approvals …` as ann.
async fn says(gate: &Gate, words: &[&str]) -> String {
    let door = gate.operators.to_string();
    let place = ["--config", "toolgate.yaml", "--admin", &door];
    let (status, out, err) = run(
        &gate.setup.operator("ann"),
        &[&["approvals"], words, &place].concat(),
    )
    .await;
    assert_eq!(status, 0, "{err}");
    out
}

/// Allows the one call that is held, once it is; gives what ann was shown.
async fn allows_one(gate: &Gate) -> Value {
    let hold: Value = until("a hold", || async {
        let listed = says(gate, &["list", "--json"]).await;
        let holds = listed
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut pending = holds.filter(|hold| hold["state"] == "pending");
        pending.next()
    })
    .await;
    let id = hold["id"].as_str().unwrap();
    says(gate, &["allow", id, "--why", "both are meant"]).await;
    hold
}

/// 004-09: the same user, item and amount within the time: a person is asked, and what is allowed runs.
/// What differs in one of these, another user's, and what is sent again asks nobody.
#[tokio::test]
async fn a_person_is_asked_about_calls_that_are_much_alike() {
    for keys in [
        "near: { by: [/item, /amount] }",
        "derive: arguments, near: { by: [/item, /amount], within: 1h }",
    ] {
        let (server, gate) = shop(keys).await;
        let agent = bot(&gate);
        let asks = async |user: Option<&str>, mut call: Value| {
            if let Some(user) = user {
                call["_meta"]["dev.toolgate/user"] = json!(user);
            }
            agent.ask("tools/call", call).await
        };
        for (user, call) in [
            (None, order("a", 1, "first")),
            (None, order("a", 2, "first")),
            (None, order("b", 1, "first")),
            (Some("ada"), order("a", 1, "first")),
            (Some("bob"), order("a", 1, "first")),
            // It is sent again.
            (Some("bob"), order("a", 1, "first")),
        ] {
            let answer = asks(user, call).await;
            assert_eq!(code(&answer), None, "{keys}: {answer}");
        }
        assert_eq!(server.executions().len(), 5, "{keys}");
        let alike = || order("a", 1, "second");
        let (answer, hold) = tokio::join!(asks(None, alike()), allows_one(&gate));
        assert_eq!(code(&answer), None, "{keys}: {answer}");
        assert_eq!(hold["over"], "near_duplicate", "{hold}");
        assert_eq!(hold["arguments"], alike()["arguments"], "{hold}");
        assert_eq!(server.executions().len(), 6, "{keys}");
        let again = asks(None, alike()).await;
        assert_eq!(
            again["result"]["_meta"]["dev.toolgate/decision"]["replayed"],
            true
        );
    }
}

/// 004-09: so it is of an equal call that is a new one because its agent has gone on, and of one with
/// another key.
#[tokio::test]
async fn equal_calls_that_are_new_are_much_alike() {
    let (server, gate) = shop("near: { by: [/item] }").await;
    let agent = bot(&gate);
    let call = || order("a", 1, "");
    agent.ask("tools/call", call()).await;
    agent.call("shop__note", json!({})).await;
    let (answer, hold) = tokio::join!(agent.ask("tools/call", call()), allows_one(&gate));
    assert_eq!(code(&answer), None, "{answer}");
    assert_eq!(hold["over"], "near_duplicate", "{hold}");
    let mut keyed = call();
    keyed["_meta"]["dev.toolgate/idempotencyKey"] = json!("one");
    let (answer, hold) = tokio::join!(agent.ask("tools/call", keyed), allows_one(&gate));
    assert_eq!(code(&answer), None, "{answer}");
    assert_eq!(hold["over"], "near_duplicate", "{hold}");
    assert_eq!(server.executions().len(), 4);
}

/// 004-09: of two that are sent at once, and wait for their turn side by side, one runs and a person is asked
/// about the other.
#[tokio::test]
async fn of_calls_at_once_a_person_is_asked_about_one() {
    let (server, gate) = shop("near: { by: [/item, /amount] }").await;
    let agent = bot(&gate);
    let in_turn = async |mut call: Value| {
        call["_meta"]["dev.toolgate/session"] = json!("one");
        agent.ask("tools/call", call).await
    };
    let lets_go = async {
        // Both wait for the slow call's end by then, or come to a session where the other one runs.
        let listed = says(&gate, &["list", "--json"]).await;
        assert!(!listed.contains("near_duplicate"), "{listed}");
        server.release();
        allows_one(&gate).await
    };
    let orders = async {
        until("the slow call", || async {
            (server.executions().len() == 1).then_some(())
        })
        .await;
        let (one, other) = (order("a", 1, "first"), order("a", 1, "second"));
        tokio::join!(in_turn(one), in_turn(other), lets_go)
    };
    let slow = in_turn(json!({ "name": "shop__slow", "arguments": {} }));
    let (slow, (one, other, hold)) = tokio::join!(slow, orders);
    for answer in [slow, one, other] {
        assert_eq!(code(&answer), None, "{answer}");
    }
    assert_eq!(hold["over"], "near_duplicate", "{hold}");
    assert_eq!(server.executions().len(), 3);
}

/// 004-09: pointers that lead nowhere are no comparison, and `check` says so.
#[tokio::test]
async fn a_comparison_is_judged_at_load() {
    for (keys, words) in [
        ("near: { by: [] }", "nothing can be compared by this"),
        ("near: { by: [item] }", "not a JSON pointer to an argument"),
        ("near: { by: [/item], within: 2d }", "out of bounds"),
    ] {
        let contract = format!(
            "contracts: {{ shop__order: {{ purpose: a test, actions: [write], permission: anyone, additive: true, secrets: [], \
             idempotency: {{ {keys} }} }} }}\n"
        );
        let setup = Setup::new()
            .server_with("shop", "url: \"http://127.0.0.1:9/mcp\"")
            .policy(&contract);
        setup.write();
        let (exit, out, _) = run(&setup, &["check", "."]).await;
        assert!(exit == 1 && out.contains(words), "{keys}: {out}");
    }
}
