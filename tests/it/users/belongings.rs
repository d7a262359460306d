//! What belongs to a user: tasks, states, streams, holds, budgets. Another user of the same agent asks
//! for all of it.

use super::{CALLERS, FRONT_ENDS, bot, call_for, desk, order, orders, shop};
use crate::harness::agent::Agent;
use crate::harness::answer::{Block, code};
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, event, tool};
use crate::harness::setup::Setup;
use crate::harness::tool_server::Behaviour;
use crate::mcp_tasks::request;
use serde_json::{Value, json};

/// A server on which a call becomes the task `t`, asks, or is answered on a stream.
async fn stage() -> (ScriptedServer, Gate) {
    let tools = ["work", "ask", "tell"].map(tool).to_vec();
    let scripted = ScriptedServer::with(tools).await;
    scripted.answers(answer);
    let reads = ["work", "ask", "tell"].map(|name| {
        format!("  oracle__{name}: {{ purpose: test, actions: [read], secrets: [] }}\n")
    });
    let setup = Setup::new().server_with("oracle", &format!("url: \"{}\"", scripted.url()));
    let setup = setup.policy(&format!("contracts:\n{}", reads.concat()));
    let setup = setup.callers(CALLERS).more(FRONT_ENDS).open_sides();
    let gate = setup.start().await;
    (scripted, gate)
}

fn answer(seen: &Seen) -> Reply {
    let params = &seen.body["params"];
    let task = json!({ "taskId": "t", "status": "working", "pollInterval": 5 });
    match (seen.method(), params["name"].as_str()) {
        ("tools/call", Some("work")) if params["task"].is_object() => {
            Reply::Result(json!({ "task": task }))
        }
        ("tools/call", Some("work")) => Reply::Result(
            json!({ "resultType": "task", "taskId": "t", "status": "working", "pollInterval": 5 }),
        ),
        ("tools/call", Some("ask")) if params["requestState"].is_null() => {
            let question =
                json!({ "q": { "method": "elicitation/create", "params": { "message": "?" } } });
            Reply::Result(
                json!({ "resultType": "input_required", "requestState": "S", "inputRequests": question }),
            )
        }
        ("tools/call", Some("tell")) => {
            let (sender, receiver) = tokio::sync::mpsc::channel(2);
            let note = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": 1, "progress": 1 } });
            let result = json!({ "content": [{ "type": "text", "text": "ada's own" }] });
            let last = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result });
            for said in [note, last] {
                sender.try_send(event(&said)).unwrap();
            }
            Reply::Stream(receiver)
        }
        ("tasks/list", _) => Reply::Result(json!({ "tasks": [task] })),
        ("tasks/get" | "tasks/cancel", _) => {
            Reply::Result(json!({ "resultType": "complete", "taskId": "t", "status": "working" }))
        }
        ("tasks/result", _) => Reply::Result(json!({ "content": [] })),
        _ => Reply::Result(json!({ "resultType": "complete", "content": [] })),
    }
}

/// As an agent whose front end names the user, or that names it itself.
async fn as_user(gate: &Gate, user: &str, meta: bool, legacy: bool) -> (Agent, Option<String>) {
    let agent = if meta { bot(gate) } else { desk(gate, user) };
    let agent = agent.at("/mcp/oracle");
    let agent = if legacy {
        agent.initialized().await
    } else {
        agent
    };
    (agent, meta.then(|| user.to_owned()))
}

async fn ask(of: &(Agent, Option<String>), method: &str, params: Value) -> Value {
    let mut request = request(&of.0, method, params);
    if let Some(user) = &of.1 {
        request["params"]["_meta"]["dev.toolgate/user"] = json!(user);
    }
    of.0.answered(&request).await
}

/// threat-model §3C C4, 003-94: tasks of one user are unknown to another of the same agent, and to
/// the agent where it names nobody.
#[tokio::test]
async fn c4_a_task_is_its_users_own() {
    for (meta, legacy) in [(false, false), (true, false), (false, true), (true, true)] {
        let (scripted, gate) = stage().await;
        let ada = as_user(&gate, "ada", meta, legacy).await;
        ask(
            &ada,
            "tools/call",
            json!({ "name": "work", "arguments": {} }),
        )
        .await;
        let mut bob = as_user(&gate, "bob", meta, legacy).await;
        if meta && legacy {
            // Both are served in one session of their agent.
            bob.0 = ada.0.clone();
        }
        let nobody = (bob.0.clone(), None);
        let methods: &[&str] = if legacy {
            &["tasks/get", "tasks/result", "tasks/cancel"]
        } else {
            &["tasks/get", "tasks/update", "tasks/cancel"]
        };
        for method in methods {
            let reached = || scripted.seen().iter().any(|seen| seen.method() == *method);
            for other in [&bob, &nobody].into_iter().take(if meta { 2 } else { 1 }) {
                let refused = ask(other, method, json!({ "taskId": "t" })).await;
                assert!(refused["error"].is_object(), "{method} {refused}");
            }
            assert!(!reached(), "{method}");
        }
        for method in ["tasks/get", "tasks/cancel"] {
            let own = ask(&ada, method, json!({ "taskId": "t" })).await;
            assert!(own["result"].is_object(), "{meta} {legacy} {method} {own}");
        }
        if legacy {
            for (of, count) in [(&ada, 1), (&bob, 0)] {
                let listed = ask(of, "tasks/list", json!({})).await;
                let tasks = listed["result"]["tasks"].as_array().map_or(0, Vec::len);
                assert_eq!(tasks, count, "{listed}");
            }
        }
    }
}

/// threat-model §3C C8: a state that was sealed for one user is no other's.
#[tokio::test]
async fn c8_a_state_is_its_users_own() {
    for meta in [false, true] {
        let (_scripted, gate) = stage().await;
        let ada = as_user(&gate, "ada", meta, false).await;
        let bob = as_user(&gate, "bob", meta, false).await;
        let call = json!({ "name": "ask", "arguments": {} });
        let asked = ask(&ada, "tools/call", call.clone()).await;
        let state = asked["result"]["requestState"].as_str();
        assert!(
            state.is_some_and(|state| state.starts_with("tg1.")),
            "{asked}"
        );
        let mut again = call;
        again["requestState"] = asked["result"]["requestState"].clone();
        again["inputResponses"] = json!({ "q": { "action": "decline" } });
        let refused = ask(&bob, "tools/call", again.clone()).await;
        assert!(refused["error"].is_object(), "{refused}");
        let own = ask(&ada, "tools/call", again).await;
        assert!(own["result"]["content"].is_array(), "{own}");
    }
}

/// threat-model §3B B5: a session that a front end opened for one user, and what is left of its
/// streams, is no other's.
#[tokio::test]
async fn b5_a_session_is_its_users_own() {
    let (_scripted, gate) = stage().await;
    let (ada, _) = as_user(&gate, "ada", false, true).await;
    let params = json!({ "name": "tell", "arguments": {}, "_meta": { "progressToken": 1 } });
    let mut reading = ada.post(&ada.request("tools/call", params)).await;
    let last = loop {
        let block = reading.next().await.expect("progress before the end");
        if let Block::Event {
            id: Some(id),
            message: Some(_),
        } = block
        {
            break id;
        }
    };
    let session = ada.session.clone();
    let bob = Agent {
        session,
        ..desk(&gate, "bob").at("/mcp/oracle")
    };
    for after in [None, Some(last.as_str())] {
        assert_eq!(bob.get(after).await.head.status, 404);
    }
    let refused = bob.post(&bob.request("tools/list", json!({}))).await;
    assert_eq!(refused.head.status, 404);
    let answered = ada.get(Some(&last)).await.whole().await;
    assert!(answered.to_string().contains("ada's own"), "{answered}");
}

/// 003-98, guarantees §7: an operator reads for whom it is; what was allowed for one user is used up
/// by that user's call, and another's waits for its own; nobody allows a call for themselves.
#[tokio::test]
async fn a_held_call_is_its_users_own() {
    let server = orders(Behaviour::Answers).await;
    let setup = shop(&server, ", approval: { approvers: [finance], hold: 0s }");
    let operators = "tokens: [ { name: ann, token: token-of-ann-who-has-the-role, roles: [finance] }, { name: ada, token: token-of-ada-who-has-the-role, roles: [finance] } ]";
    let gate = setup.operators(operators).start().await;
    let door = gate.operators.to_string();
    let says = async |who: &str, args: &[&str]| {
        let around = ["--config", "toolgate.yaml", "--admin", &door];
        let (status, out, err) = run(
            &gate.setup.operator(who),
            &[&["approvals"], args, &around].concat(),
        )
        .await;
        (status, out + &err)
    };
    let call = |user: &'static str| {
        let agent = bot(&gate);
        async move { call_for(&agent, user, order(json!({ "sku": "a" }), None)).await }
    };
    let id = |answer: &Value| {
        assert_eq!(
            code(answer).as_deref(),
            Some("approval_pending"),
            "{answer}"
        );
        super::decision(answer)["approval_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (of_ada, of_bob) = (id(&call("ada").await), id(&call("bob").await));
    assert_ne!(of_ada, of_bob);
    let (_, listed) = says("ann", &["list"]).await;
    assert!(
        listed.contains("bot for ada") && listed.contains("bot for bob"),
        "{listed}"
    );
    let (_, shown) = says("ann", &["show", &of_ada]).await;
    assert!(shown.contains("for user        ada"), "{shown}");
    let allow = ["allow", of_ada.as_str(), "--why", "it is due"];
    let (status, refused) = says("ada", &allow).await;
    assert_eq!(status, 1, "{refused}");
    assert!(refused.contains("of the same name"), "{refused}");
    assert_eq!(says("ann", &allow).await.0, 0);
    assert_eq!(id(&call("bob").await), of_bob);
    assert_eq!(server.executions().len(), 0);
    assert!(!super::is_replay(&call("ada").await));
    assert_eq!(id(&call("bob").await), of_bob);
    assert_eq!(server.executions().len(), 1);
}

/// 003-85, 001-48: a task of one name is another with each user; and each has a share of its own.
#[tokio::test]
async fn a_budget_is_its_users_own() {
    let server = orders(Behaviour::Answers).await;
    let callers = CALLERS.replace(
        "users: meta, needs_user: false }",
        "users: meta, needs_user: false, user_limits: { calls: 3, per: 1h } }",
    );
    let policy = format!(
        "contracts:\n  shop__order: {}\n{}\nbudgets: {{ global: {{ max_tool_calls: 1 }} }}\n",
        crate::harness::setup::contract("shop__order", "write", ""),
        crate::harness::setup::undo("shop__order")
    );
    let gate = shop(&server, "")
        .policy(&policy)
        .callers(&callers)
        .start()
        .await;
    let call = |user: &'static str, sku: u32| {
        let mut call = order(json!({ "sku": sku }), None);
        call["_meta"]["dev.toolgate/task"] = json!("same");
        let agent = bot(&gate);
        async move { code(&call_for(&agent, user, call).await) }
    };
    for user in ["ada", "bob"] {
        assert_eq!(call(user, 1).await, None, "{user}");
        let spent = call(user, 2).await;
        assert_eq!(spent.as_deref(), Some("budget_exceeded"), "{user}");
    }
    assert_eq!(call("ada", 3).await.as_deref(), Some("budget_exceeded"));
    assert_eq!(call("ada", 4).await.as_deref(), Some("rate_exceeded"));
    assert_eq!(call("bob", 3).await.as_deref(), Some("budget_exceeded"));
    assert_eq!(call("eve", 1).await, None);
    assert_eq!(server.executions().len(), 3);
}

/// 003-09: operators see for whom a task is, and none gives an own one its budget back.
#[tokio::test]
async fn nobody_resets_an_own_task() {
    let server = orders(Behaviour::Answers).await;
    let operators = "tokens: [ { name: Ada, token: token-of-ada-the-operator, roles: [switch] }, \
         { name: ann, token: token-of-ann-the-operator, roles: [switch] } ]";
    let gate = shop(&server, "").operators(operators).start().await;
    call_for(&bot(&gate), "ada", order(json!({ "sku": 1 }), None)).await;
    let door = gate.operators.to_string();
    let says = async |who: &str, words: &[&str]| {
        let place = ["--config", "toolgate.yaml", "--admin", &door];
        let (status, out, err) = run(&gate.setup.operator(who), &[words, &place].concat()).await;
        (status, out + &err)
    };
    let (_, listed) = says("ann", &["tasks", "list", "--json"]).await;
    let task: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (&task["agent"], &task["user"]),
        (&json!("bot"), &json!("ada"))
    );
    let id = task["id"].as_str().unwrap();
    let reset = ["tasks", "reset", id, "--why", "more"];
    let (status, said) = says("Ada", &reset).await;
    assert!(status == 1 && said.contains("its user"), "{said}");
    let (status, said) = says("ann", &reset).await;
    assert_eq!(status, 0, "{said}");
}
