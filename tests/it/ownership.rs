//! What belongs to whom: states that tool servers want back, progress, tasks, and words for one
//! agent only (threat-model §13 F8, F9, L5; §3C C5, C8).

mod errors;
mod states;

use crate::envelopes::{heard, policy, stage};
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, event, tool};
use crate::harness::setup::{Settings, Setup};
use crate::harness::stdio::Launched;
use crate::harness::until;
use serde_json::{Value, json};

fn note(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn progress(token: &Value) -> Value {
    note(
        "notifications/progress",
        &json!({ "progressToken": token, "progress": 1 }),
    )
}

/// This and then the answer.
fn streamed(seen: &Seen, said: &[Value], mut last: Value) -> Reply {
    let (sender, receiver) = tokio::sync::mpsc::channel(said.len() + 1);
    last["id"] = seen.body["id"].clone();
    said.iter()
        .chain([&last])
        .for_each(|said| sender.try_send(event(said)).unwrap());
    Reply::Stream(receiver)
}

/// threat-model §13 F9, §3C C5: progress of another request, notifications that nobody knows, and
/// tasks that nobody asked for reach no agent in enforce mode; in observe mode all but foreign
/// progress pass, and what would not have is recorded.
#[tokio::test]
async fn f9_agents_hear_of_their_own_only() {
    for observe in [false, true] {
        let (scripted, gate) = stage(observe).await;
        scripted.answers(|seen| {
            let foreign = [json!("another's"), json!(1), json!("own "), json!(["own"]), json!(null)];
            let mut said: Vec<Value> = foreign.iter().map(progress).collect();
            said.push(note("notifications/progress", &json!({})));
            said.extend([progress(&json!("own")), note("notifications/evil", &json!({}))]);
            let task = json!({ "resultType": "task", "taskId": "t", "task": { "taskId": "t", "status": "working" } });
            streamed(seen, &said, json!({ "jsonrpc": "2.0", "result": task }))
        });
        for agent in [
            gate.agent().at("/mcp/oracle"),
            gate.legacy("/mcp/oracle").await,
        ] {
            let params = json!({ "name": "read", "_meta": { "progressToken": "own" } });
            let mut reading = agent.post(&agent.request("tools/call", params)).await;
            let mut heard = heard(&mut reading).await;
            let last = heard.pop().unwrap();
            let methods: Vec<&str> = heard
                .iter()
                .map(|said| said["method"].as_str().unwrap())
                .collect();
            let expected = ["notifications/progress", "notifications/evil"];
            assert_eq!(methods, expected[..if observe { 2 } else { 1 }]);
            assert_eq!(heard[0]["params"]["progressToken"], "own");
            assert_eq!(last["result"].get("task").is_some(), observe, "{last}");
            assert_eq!(last["result"]["isError"] == true, !observe, "{last}");
            if agent.is_legacy() && !observe {
                let stranger = agent.ask("tasks/get", json!({ "taskId": "t" })).await;
                assert!(stranger["error"].is_object(), "nobody's task: {stranger}");
            }
        }
        let counted = async |series: &str| gate.metric(series).await.to_string();
        assert_eq!(
            counted("toolgate_dropped_messages_total{reason=\"foreign_progress\"}").await,
            "12"
        );
        let unasked = counted("toolgate_dropped_messages_total{reason=\"unasked_task\"}").await;
        assert_eq!(unasked, if observe { "0" } else { "2" });
        let outcome = if observe { "would_refuse" } else { "refused" };
        let series =
            format!("toolgate_side_messages_total{{door=\"unknown\",outcome=\"{outcome}\"}}");
        assert_eq!(counted(&series).await, "2");
        let entries = gate.entries(3).await;
        let unknown: Vec<&Value> = entries
            .iter()
            .filter(|entry| entry["method"] == "notifications/evil")
            .collect();
        let why = if observe {
            "would_refuse"
        } else {
            "aborted_reason"
        };
        assert_eq!(
            (unknown.len(), &unknown[0][why]),
            (1, &json!("message_not_allowlisted")),
            "{unknown:?}"
        );
    }
}

/// threat-model §13 F9: also what a server says outside any request, on every wire; a name that the
/// configuration allows passes, and any number of names leaves one entry.
#[tokio::test]
async fn f9_unknown_notifications_reach_nobody_outside_requests() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let servers = vec![("oracle", scripted.url())];
    let more = "methods: { allow: [notifications/fine] }";
    let gate = Gate::start(Settings {
        servers,
        callers: "",
        more,
        policy: policy(),
        observe: false,
    })
    .await;
    let modern = gate.agent().at("/mcp/oracle");
    let wanted = json!({ "notifications": { "resourcesListChanged": true } });
    let legacy = gate.legacy("/mcp/oracle").await;
    for agent in [&modern, &legacy] {
        let mut reading = if agent.is_legacy() {
            agent.get(None).await
        } else {
            agent
                .post(&agent.request("subscriptions/listen", wanted.clone()))
                .await
        };
        if !agent.is_legacy() {
            assert_eq!(
                reading.message().await["method"],
                "notifications/subscriptions/acknowledged"
            );
        }
        until("toolgate listens", || async {
            (scripted.listeners() >= 2).then_some(())
        })
        .await;
        for at in 0..20 {
            scripted
                .tells(note(&format!("notifications/evil{at}"), &json!({})))
                .await;
            scripted.tells(progress(&json!(at))).await;
        }
        scripted.tells(note("notifications/fine", &json!({}))).await;
        assert_eq!(reading.message().await["method"], "notifications/fine");
    }
    let data = gate.path("launched");
    let mut launched =
        Launched::start(&gate.setup, &["--data", data.to_str().unwrap()], true).await;
    until("toolgate listens", || async {
        (scripted.listeners() >= 4).then_some(())
    })
    .await;
    scripted.tells(note("notifications/evil", &json!({}))).await;
    scripted.tells(progress(&json!("own"))).await;
    scripted.tells(note("notifications/fine", &json!({}))).await;
    assert_eq!(launched.hears().await["method"], "notifications/fine");
    let entries = gate.entries(1).await;
    let evil = entries.iter().filter(|entry| {
        entry["method"]
            .as_str()
            .is_some_and(|method| method.contains("evil"))
    });
    assert_eq!(evil.count(), 1, "{entries:?}");
}

/// threat-model §13 F9, guarantees §4: a write that became a task nobody asked for has run: its key
/// is taken, and it is sent once. A result that only has a member of that name is a result.
#[tokio::test]
async fn f9_an_unasked_task_is_an_answer() {
    for (result, is_task) in [
        (
            json!({ "task": { "taskId": "t", "status": "working" } }),
            true,
        ),
        (
            json!({ "resultType": "task", "taskId": "t", "status": "working" }),
            true,
        ),
        (json!({ "resultType": "task" }), true),
        (json!({ "content": [], "task": { "taskId": "t" } }), false),
        (json!({ "content": [], "taskId": "t" }), false),
    ] {
        let scripted = ScriptedServer::with(vec![tool("pay")]).await;
        let expected = result.clone();
        scripted.answers(move |_| Reply::Result(result.clone()));
        let members = format!("url: \"{}\"", scripted.url());
        let setup = Setup::new()
            .server_with("oracle", &members)
            .contracts(&[("oracle__pay", "write")]);
        let gate = setup.start().await;
        for agent in [
            gate.agent().at("/mcp/oracle"),
            gate.legacy("/mcp/oracle").await,
        ] {
            scripted.forget();
            let meta = json!({ "dev.toolgate/idempotencyKey": format!("k{}", agent.is_legacy()) });
            for _ in 0..3 {
                let said = agent
                    .ask(
                        "tools/call",
                        json!({ "name": "pay", "arguments": {}, "_meta": meta }),
                    )
                    .await;
                assert_eq!(said["result"]["isError"] == true, is_task, "{said}");
                assert_eq!(
                    said["result"].get("task"),
                    expected.get("task").filter(|_| !is_task),
                    "{said}"
                );
            }
            assert_eq!(scripted.executions(), 1, "{expected}");
        }
    }
}

/// threat-model §13 F9: a task's progress goes on under the token of its call; of others' nothing
/// is heard.
#[tokio::test]
async fn f9_progress_of_a_task_is_that_of_its_call() {
    let (scripted, gate) = stage(false).await;
    let agent = gate.legacy("/mcp/oracle").await;
    scripted.answers(|seen| {
        if seen.method() == "tools/call" {
            return Reply::Result(json!({ "task": { "taskId": "t", "status": "working" } }));
        }
        let said = [progress(&json!("another's")), progress(&json!("own"))];
        streamed(
            seen,
            &said,
            json!({ "jsonrpc": "2.0", "result": { "content": [] } }),
        )
    });
    agent
        .ask(
            "tools/call",
            json!({ "name": "read", "task": {}, "_meta": { "progressToken": "own" } }),
        )
        .await;
    let mut reading = agent
        .post(&agent.request("tasks/result", json!({ "taskId": "t" })))
        .await;
    let heard = heard(&mut reading).await;
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0]["params"]["progressToken"], "own");
}
