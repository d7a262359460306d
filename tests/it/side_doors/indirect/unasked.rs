//! What agents say unasked, and what wants no answer.

use super::super::*;
use crate::harness::stdio::Launched;
use crate::mcp_tasks;

/// threat-model §5: what agents say through a side door unasked is judged, counted and recorded,
/// too.
#[tokio::test]
async fn what_agents_say_unasked_is_recorded() {
    let scripted = docs().await;
    let policy = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }
layers: { agent: { alice: { roots: { allow: [docs] } } } }\n";
    let gate = started(&scripted, policy).await;
    for (token, outcome) in [(CAROL, "refused"), (ALICE, "passed")] {
        let agent = gate
            .agent()
            .token(token)
            .at("/mcp/docs")
            .initialized()
            .await;
        scripted.forget();
        for method in [
            "notifications/roots/list_changed",
            "notifications/tasks/status",
        ] {
            let note = json!({ "jsonrpc": "2.0", "method": method, "params": { "taskId": "t", "status": "working" } });
            assert_eq!(agent.post(&note).await.head.status, 202);
        }
        scripted
            .sees("what is no matter of side doors", |seen| {
                seen.method() == "notifications/tasks/status"
            })
            .await;
        let told = scripted
            .seen()
            .iter()
            .filter(|seen| seen.method() == "notifications/roots/list_changed")
            .count();
        assert_eq!(told, usize::from(outcome == "passed"), "{outcome}");
        let series =
            format!("toolgate_side_messages_total{{door=\"roots\",outcome=\"{outcome}\"}}");
        assert_eq!(gate.metric(&series).await.to_string(), "1");
    }
    let ledger = gate.entries(2).await;
    let told = ledger
        .iter()
        .filter(|entry| entry["method"] == "notifications/roots/list_changed");
    let told: Vec<(&Value, &Value)> = told
        .map(|entry| (&entry["user_id"], &entry["outcome"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("carol"), &json!("refused")),
            (&json!("alice"), &json!("passed"))
        ]
    );
}

/// threat-model §3A A2: on standard output nothing is said to what wants no answer; and a server
/// whose question an agent answers with a look-alike is told, and doesn't wait for ever.
#[tokio::test]
async fn a_refused_message_that_wants_no_answer_gets_none() {
    let scripted = docs().await;
    let policy = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }\n";
    let setup = Setup::new()
        .server_with("docs", &format!("url: \"{}\"", scripted.url()))
        .policy(policy)
        .open_sides();
    setup.write();
    let mut launched = Launched::start(&setup, &["--data", "launched"], true).await;
    // toolgate for itself, and the agent's session.
    until("both listen", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    scripted
        .tells(json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": {} }))
        .await;
    let id = loop {
        let heard = launched.hears().await;
        if heard["method"] == "roots/list" {
            break heard["id"].clone();
        }
    };
    let long = "x".repeat(70_000);
    for evil in [
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {}, "ID": 5 }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "_meta": { "x": long } } }),
        json!({ "jsonrpc": "2.0", "id": "no question", "result": {}, "METHOD": "tools/call" }),
        json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] }, "METHOD": "tools/call" }),
    ] {
        launched.say(&evil).await;
    }
    let told = scripted
        .sees("an error", |seen| seen.body["id"] == "q")
        .await
        .body;
    assert!(
        told["error"]["message"]
            .as_str()
            .unwrap()
            .contains("refused by toolgate"),
        "{told}"
    );
    launched
        .say(&json!({ "jsonrpc": "2.0", "id": "last", "method": "ping" }))
        .await;
    let heard = launched.hears().await;
    assert_eq!(heard["id"], "last", "nothing else was said: {heard}");
    let seen: Vec<Value> = scripted.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(seen.len(), 1, "{seen:?}");
}

/// threat-model §5: each question is recorded once: with how a task stands, and where redacting the
/// answer that asks it is begun anew on the pool.
#[tokio::test]
async fn a_question_is_recorded_once() {
    let (scripted, gate) = mcp_tasks::stage().await;
    let agent = gate.agent().token(mcp_tasks::TOKENS[0]);
    mcp_tasks::begin(&agent, ("bank__pay", "/mcp"), "short").await;
    let asks = |text: &str| {
        let question =
            json!({ "q": { "method": "elicitation/create", "params": { "message": text } } });
        json!({ "resultType": "input_required", "requestState": "s", "inputRequests": question })
    };
    for (at, (method, params, length)) in [
        ("tasks/get", json!({ "taskId": "short" }), 10),
        ("tasks/get", json!({ "taskId": "short" }), 1_500_000),
        (
            "tools/call",
            json!({ "name": "bank__pay", "arguments": { "n": 1 } }),
            1_500_000,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let result = asks(&"x".repeat(length));
        scripted.answers(move |_| Reply::Result(result.clone()));
        let answer = agent
            .answered(&mcp_tasks::request(&agent, method, params))
            .await;
        assert!(
            answer["result"]["inputRequests"]["q"].is_object(),
            "{method}"
        );
        let series = "toolgate_side_messages_total{door=\"elicitation\",outcome=\"passed\"}";
        assert_eq!(
            gate.metric(series).await.to_string(),
            (at + 1).to_string(),
            "{method} {length}"
        );
    }
}
