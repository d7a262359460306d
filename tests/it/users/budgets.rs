//! Budgets of users: one user's calls count together, whatever tasks they belong to (guarantees §6).

use super::{CALLERS, bot, call_for, decision, order, orders, shop};
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, ToolServer};
use futures_util::future::join_all;
use serde_json::{Value, json};

const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [switch, approver] } ]";

fn limited(server: &ToolServer, budgets: &str) -> Setup {
    let policy = format!(
        "contracts:\n  shop__order: {}\n{}\nbudgets: {{ {budgets} }}\n",
        contract("shop__order", "write", ""),
        undo("shop__order")
    );
    shop(server, "")
        .policy(&policy)
        .callers(CALLERS)
        .operators(OPERATORS)
}

/// One call of `user` in `task`, with arguments of its own.
async fn call(gate: &Gate, user: Option<&str>, task: &str, sku: u32) -> Value {
    let mut call = order(json!({ "sku": sku }), None);
    call["_meta"]["dev.toolgate/task"] = json!(task);
    match user {
        Some(user) => call_for(&bot(gate), user, call).await,
        None => bot(gate).ask("tools/call", call).await,
    }
}

async fn says(gate: &Gate, words: &[&str]) -> String {
    let door = gate.operators.to_string();
    let place = ["--config", "toolgate.yaml", "--admin", &door];
    let (status, out, err) = run(&gate.setup.operator("ann"), &[words, &place].concat()).await;
    assert_eq!(status, 0, "{out}{err}");
    out
}

/// The one account of the user `ada`, as operators see it.
async fn account_of_ada(gate: &Gate) -> Value {
    let listed = says(gate, &["tasks", "list", "--json"]).await;
    let listed = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let of_ada = |task: &Value| task["named_by"] == "user" && task["user"] == "ada";
    let mut accounts = listed.filter(of_ada).collect::<Vec<Value>>();
    assert_eq!(accounts.len(), 1, "{accounts:?}");
    accounts.remove(0)
}

/// 003-87, 003-40, 003-94: all tasks of a user have one budget beside their own, over a restart, too;
/// another user has another one, and so have calls without a user. Operators see it, and give it back.
#[tokio::test]
async fn all_tasks_of_a_user_have_one_budget() {
    let server = orders(Behaviour::Answers).await;
    let budgets = "global: { max_tool_calls: 2 }, agent: { bot: { per: user, max_tool_calls: 3 } }";
    let gate = limited(&server, budgets).start().await;
    let ada = Some("ada");
    let first = call(&gate, ada, "a", 1).await;
    assert_eq!(code(&first), None, "{first}");
    let left = &decision(&first)["budget_remaining"];
    assert_eq!(left["tool_calls"], 1, "of the task: {first}");
    assert_eq!(code(&call(&gate, ada, "a", 2).await), None);
    let of_task = call(&gate, ada, "a", 3).await;
    let words = of_task["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("the task has reached"), "{words}");
    let third = call(&gate, ada, "b", 4).await;
    assert_eq!(decision(&third)["budget_remaining"]["tool_calls"], 0);
    for task in ["b", "c"] {
        let of_user = call(&gate, ada, task, 5).await;
        assert_eq!(code(&of_user).as_deref(), Some("budget_exceeded"));
        let words = of_user["result"]["content"][0]["text"].as_str().unwrap();
        assert!(words.contains("for this user"), "{words}");
        assert!(words.contains("begins anew in 1440 minutes"), "{words}");
    }
    for user in [Some("bob"), Some("Ada"), None] {
        assert_eq!(code(&call(&gate, user, "a", 1).await), None, "{user:?}");
    }
    assert_eq!(server.executions().len(), 6);

    let gate = gate.stop().await.start().await;
    let still = call(&gate, ada, "d", 6).await;
    assert_eq!(code(&still).as_deref(), Some("budget_exceeded"), "{still}");
    let account = account_of_ada(&gate).await;
    assert_eq!(account["tool_calls"], 3, "{account}");
    let id = account["id"].as_str().unwrap();
    says(&gate, &["tasks", "reset", id, "--why", "it goes on"]).await;
    assert_eq!(code(&call(&gate, ada, "d", 7).await), None);
    says(&gate, &["tasks", "stop", id, "--why", "enough"]).await;
    let stopped = call(&gate, ada, "e", 8).await;
    assert_eq!(code(&stopped).as_deref(), Some("task_stopped"), "{stopped}");
    assert_eq!(code(&call(&gate, Some("bob"), "e", 8).await), None);
    assert_eq!(server.executions().len(), 8);
}

/// 003-87: twenty tasks of one user that call at once get what the user has, and no more.
#[tokio::test]
async fn tasks_at_once_share_the_budget_of_their_user() {
    let server = orders(Behaviour::Answers).await;
    let gate = limited(
        &server,
        "global: { per: user, max_cost: 0, max_tool_calls: 4 }",
    )
    .start()
    .await;
    let calls = (0..20).map(|number| {
        let gate = &gate;
        async move { code(&call(gate, Some("ada"), &format!("task {number}"), number).await) }
    });
    let passed = join_all(calls).await.into_iter().filter(Option::is_none);
    assert_eq!(passed.count(), 4);
    assert_eq!(server.executions().len(), 4);
}

/// 003-87, 003-93: what a read costs less than was reserved for it is its user's again, in whatever task.
#[tokio::test]
async fn what_a_read_did_not_cost_is_its_users_again() {
    let server = ScriptedServer::with(vec![tool("look")]).await;
    server.answers(|_| Reply::Result(json!({ "content": [], "structuredContent": { "cost": 1 } })));
    let policy = "contracts:\n  shop__look: { purpose: a test, actions: [read], secrets: [], \
                  budget: { cost: 8, cost_from: /cost } }\n\
                  budgets: { global: { per: user, max_cost: 10 } }\n";
    let gate = Setup::new()
        .server_with("shop", &format!("url: \"{}\"", server.url()))
        .policy(policy)
        .callers("  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1, users: meta, needs_user: false }\n")
        .operators(OPERATORS)
        .start()
        .await;
    for task in ["a", "b", "c"] {
        let meta = json!({ "dev.toolgate/task": task });
        let look = json!({ "name": "shop__look", "arguments": {}, "_meta": meta });
        let read = call_for(&bot(&gate), "ada", look).await;
        assert_eq!(code(&read), None, "{task}: {read}");
    }
    assert_eq!(account_of_ada(&gate).await["cost"], 3.0);
    assert_eq!(server.executions(), 3);
}

/// 003-87: a user's calls count together for as long as is written.
#[tokio::test]
async fn a_refusal_says_when_a_user_begins_anew() {
    let server = orders(Behaviour::Answers).await;
    let budgets = "global: { per: user, max_tool_calls: 1, within: 1h }";
    let gate = limited(&server, budgets).start().await;
    assert_eq!(code(&call(&gate, Some("ada"), "a", 1).await), None);
    let refused = call(&gate, Some("ada"), "b", 2).await;
    assert_eq!(code(&refused).as_deref(), Some("budget_exceeded"));
    let words = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("begins anew in 60 minutes"), "{words}");
}

/// 003-90: at the limit of a user a person decides, where it says so.
#[tokio::test]
async fn a_person_decides_at_the_limit_of_a_user() {
    let server = orders(Behaviour::Answers).await;
    let budgets =
        "global: { per: user, max_tool_calls: 1, within: 1h, on_limit: { tool_calls: ask } }";
    let gate = limited(&server, budgets).start().await;
    assert_eq!(code(&call(&gate, Some("ada"), "a", 1).await), None);
    let waits = async { call(&gate, Some("ada"), "b", 2).await };
    let decides = async {
        let id = crate::harness::until("a held call", || async {
            let listed = says(&gate, &["approvals", "list", "--json"]).await;
            let held: Value = serde_json::from_str(listed.lines().next()?).ok()?;
            Some(held["id"].as_str()?.to_owned())
        })
        .await;
        says(&gate, &["approvals", "allow", &id, "--why", "it is due"]).await;
    };
    let (answer, ()) = tokio::join!(waits, decides);
    assert_eq!(code(&answer), None, "{answer}");
    assert_eq!(server.executions().len(), 2);
}

/// 003-40, 003-87: who reads that a user has no more cost reads what is left of the task beside it, and
/// the ledger has the rest of both, also where a person could have let the task go on.
#[tokio::test]
async fn a_refusal_for_a_user_tells_of_the_task_too() {
    let server = orders(Behaviour::Answers).await;
    let budgets = "global: { max_tool_calls: 2, on_limit: { tool_calls: ask } }, agent: { bot: { per: user, max_cost: 2 } }";
    let policy = |text: String| text.replace("secrets: []", "secrets: [], budget: { cost: 1 }");
    let written = format!(
        "contracts:\n  shop__order: {}\n{}\nbudgets: {{ {budgets} }}\n",
        policy(contract("shop__order", "write", "")),
        undo("shop__order")
    );
    let gate = limited(&server, budgets).policy(&written).start().await;
    let ada = Some("ada");
    for (task, sku) in [("a", 1), ("a", 2)] {
        assert_eq!(code(&call(&gate, ada, task, sku).await), None);
    }
    for (task, calls) in [("a", 0), ("b", 2)] {
        let refused = call(&gate, ada, task, 3).await;
        assert_eq!(code(&refused).as_deref(), Some("budget_exceeded"));
        let words = refused["result"]["content"][0]["text"].as_str().unwrap();
        assert!(
            words.contains("for this user has reached its limit of cost; left: ")
                && words.contains(&format!(" {calls} tool_calls")),
            "{words}"
        );
        let left = &decision(&refused)["budget_remaining"];
        assert_eq!(left["cost"], 0.0, "{refused}");
        assert_eq!(left["tool_calls"], calls, "{refused}");
    }
    assert_eq!(server.executions().len(), 2);
}
