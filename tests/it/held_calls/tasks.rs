//! Held calls as tasks of agents that know them (guarantees §7, protocol §6.4).

mod heard;

use super::{HoldingGate, policy};
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::setup::has_later;
use crate::harness::until;
use serde_json::{Value, json};
use std::time::Duration;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Asks as an agent that declares with the request that it knows tasks.
async fn knowing(agent: &Agent, method: &str, params: Value) -> Value {
    let mut request = agent.request(method, params);
    request["params"]["_meta"][CAPABILITIES] = json!({ "extensions": { EXTENSION: {} } });
    agent.answered(&request).await
}

/// Calls a tool of the bank as an agent that knows tasks; gives the result.
async fn calls(agent: &Agent, tool: &str, key: &str) -> Value {
    let meta = json!({ "dev.toolgate/idempotencyKey": key });
    let params = json!({ "name": format!("bank__{tool}"), "arguments": { "n": 1 }, "_meta": meta });
    knowing(agent, "tools/call", params).await["result"].clone()
}

async fn asks(agent: &Agent, method: &str, id: &str) -> Value {
    knowing(agent, method, json!({ "taskId": id })).await
}

/// How the task stands once it has ended.
async fn ended(agent: &Agent, id: &str) -> Value {
    until("the end of a task", || async {
        let told = asks(agent, "tasks/get", id).await["result"].clone();
        (told["status"] != "working").then_some(told)
    })
    .await
}

/// The id of the task that the call has become.
fn task(handle: &Value) -> String {
    assert_eq!(handle["resultType"], "task", "{handle}");
    assert_eq!(handle["status"], "working", "{handle}");
    assert_eq!(handle["pollIntervalMs"], 5000, "{handle}");
    let words = handle["statusMessage"].as_str().unwrap();
    assert!(
        words.starts_with("held: needs a person with role finance, until 20"),
        "{words}"
    );
    handle["taskId"].as_str().unwrap().to_owned()
}

fn words(told: &Value) -> &str {
    told["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

/// Its agent reads a task at once, whatever `hold` says; once a person has allowed it, the call runs
/// without the agent, and its result is the task's. The same call again is the same task.
#[tokio::test]
async fn a_held_call_is_a_task_at_once() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let discovered = bot.ask("server/discover", json!({})).await;
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert!(extensions[EXTENSION].is_object(), "{discovered}");
    for (nth, tool) in ["slow", "pay"].into_iter().enumerate() {
        let handle = calls(&bot, tool, "k").await;
        let id = task(&handle);
        assert_eq!(task(&calls(&bot, tool, "k").await), id, "the same task");
        let told = asks(&bot, "tasks/get", &id).await["result"].clone();
        assert_eq!(told["status"], "working", "{told}");
        assert_eq!(told["resultType"], "complete", "{told}");
        let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
        let decision = &handle["_meta"]["dev.toolgate/decision"];
        assert_eq!(decision["approval_id"], json!(hold), "{handle}");
        stage.allows(&hold).await;
        until("the call", || async {
            (stage.scripted.executions() == nth + 1).then_some(())
        })
        .await;
        let told = ended(&bot, &id).await;
        assert_eq!(told["status"], "completed", "{told}");
        assert_eq!(words(&told), r#"{"n":1}"#, "{told}");
        let again = calls(&bot, tool, "k").await;
        assert_eq!(
            again["_meta"]["dev.toolgate/decision"]["replayed"], true,
            "{again}"
        );
        assert_eq!(stage.scripted.executions(), nth + 1);
    }
}

/// Denied, it completes with an error that says that the tool did not run.
#[tokio::test]
async fn a_denied_task_says_that_it_did_not_run() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let id = task(&calls(&bot, "slow", "k").await);
    let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    let (status, said) = stage
        .says("ann", &["deny", &hold, "--why", "not now"])
        .await;
    assert_eq!(status, 0, "{said}");
    let told = ended(&bot, &id).await;
    assert_eq!(
        (&told["status"], &told["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
    assert!(
        words(&told).contains("not now. The tool did not run."),
        "{told}"
    );
    assert_eq!(stage.scripted.executions(), 0);
}

/// Cancelled before it has begun, it never runs, also where a person had allowed it and after a restart;
/// who asks again asks anew.
#[tokio::test]
async fn a_cancelled_task_never_runs() {
    let stage = HoldingGate::new().await;
    let id = task(&calls(&stage.bot(), "slow", "k").await);
    let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    let cancelled = asks(&stage.bot(), "tasks/cancel", &id).await;
    assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
    let told = ended(&stage.bot(), &id).await;
    assert_eq!(told["status"], "cancelled", "{told}");
    assert!(
        told["statusMessage"]
            .as_str()
            .unwrap()
            .contains("did not run"),
        "{told}"
    );
    let (status, said) = stage.says("ann", &["allow", &hold, "--why", "late"]).await;
    assert_eq!(status, 1, "{said}");
    let stage = stage.again(true).await;
    let told = ended(&stage.bot(), &id).await;
    assert_eq!(told["status"], "cancelled", "{told}");
    let anew = task(&calls(&stage.bot(), "slow", "k").await);
    assert_ne!(anew, id);
    assert_eq!(stage.scripted.executions(), 0);
    let again = asks(&stage.bot(), "tasks/cancel", &id).await;
    assert_eq!(again["result"]["resultType"], "complete", "{again}");
    let told = asks(&stage.bot(), "tasks/get", &anew).await;
    assert_eq!(
        told["result"]["status"], "working",
        "the other one goes on: {told}"
    );
}

/// What is cancelled too late has run, and the task says with what it ended.
#[tokio::test]
async fn a_task_that_has_run_is_not_cancelled() {
    let stage = HoldingGate::new().await;
    let id = task(&calls(&stage.bot(), "slow", "k").await);
    let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    stage.allows(&hold).await;
    ended(&stage.bot(), &id).await;
    let cancelled = asks(&stage.bot(), "tasks/cancel", &id).await;
    assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
    let told = ended(&stage.bot(), &id).await;
    assert_eq!(told["status"], "completed", "{told}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// Held for eight hours over two restarts, one of them a kill after the decision, it runs once; its
/// result is there after one more.
#[tokio::test]
async fn a_task_outlives_toolgate() {
    let long = policy(", approve_by: 8h, execute_by: 1h }, idempotency: { ttl: 24h");
    let stage = HoldingGate::with(&long, "enforce").await;
    let id = task(&calls(&stage.bot(), "slow", "k").await);
    let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    let stage = stage.again(false).await;
    // Nobody sends the call now, so that the decision is all there is of it.
    stage.allows(&hold).await;
    let stage = stage.again(true).await;
    assert_eq!(stage.scripted.executions(), 0);
    let told = ended(&stage.bot(), &id).await;
    assert_eq!(
        (&told["status"], words(&told)),
        (&json!("completed"), r#"{"n":1}"#),
        "{told}"
    );
    assert_eq!(stage.scripted.executions(), 1);
    let stage = stage.again(true).await;
    let told = ended(&stage.bot(), &id).await;
    assert_eq!(
        (&told["status"], words(&told)),
        (&json!("completed"), r#"{"n":1}"#),
        "{told}"
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// Held for eight hours, over a kill after four and a stop after nearly eight, a task still waits; allowed
/// then it runs once, and a kill after that changes nothing.
#[tokio::test]
async fn a_task_waits_for_eight_hours_over_two_restarts() {
    if !has_later() {
        return;
    }
    let long = policy(", approve_by: 8h, execute_by: 1h }, idempotency: { ttl: 24h");
    let stage = HoldingGate::with(&long, "enforce").await;
    let id = task(&calls(&stage.bot(), "slow", "k").await);
    let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    let [half, most] = [240, 479].map(Duration::from_mins);
    let stage = stage.again_later(true, half).await;
    let told = asks(&stage.bot(), "tasks/get", &id).await["result"].clone();
    assert_eq!(told["status"], "working", "{told}");
    let stage = stage.again_later(false, most).await;
    let told = asks(&stage.bot(), "tasks/get", &id).await["result"].clone();
    assert_eq!(told["status"], "working", "{told}");
    assert_eq!(stage.scripted.executions(), 0);
    stage.allows(&hold).await;
    let told = ended(&stage.bot(), &id).await;
    let done = (json!("completed"), r#"{"n":1}"#);
    assert_eq!((told["status"].clone(), words(&told)), done, "{told}");
    let stage = stage.again_later(true, most).await;
    let told = ended(&stage.bot(), &id).await;
    assert_eq!((told["status"].clone(), words(&told)), done, "{told}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// The same eight hours, and nobody decides: the task ends, and nothing was sent.
#[tokio::test]
async fn a_task_that_nobody_decides_in_eight_hours_has_not_run() {
    if !has_later() {
        return;
    }
    let long = policy(", approve_by: 8h, execute_by: 1h }, idempotency: { ttl: 24h");
    let stage = HoldingGate::with(&long, "enforce").await;
    let id = task(&calls(&stage.bot(), "slow", "k").await);
    let stage = stage.again_later(true, Duration::from_mins(481)).await;
    let told = ended(&stage.bot(), &id).await;
    assert_eq!(told["result"]["isError"], true, "{told}");
    assert!(words(&told).contains("did not run"), "{told}");
    assert_eq!(stage.scripted.executions(), 0);
}

/// A task that waits again after a restart is woken by the decision.
#[tokio::test]
async fn a_task_waits_on_after_a_restart() {
    let stage = HoldingGate::new().await;
    let id = task(&calls(&stage.bot(), "slow", "k").await);
    let stage = stage.again(true).await;
    let told = asks(&stage.bot(), "tasks/get", &id).await;
    assert_eq!(told["result"]["status"], "working", "{told}");
    let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    stage.allows(&hold).await;
    let told = ended(&stage.bot(), &id).await;
    assert_eq!(
        (&told["status"], words(&told)),
        (&json!("completed"), r#"{"n":1}"#),
        "{told}"
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// A task is its caller's alone, an id is nobody's to guess, and who did not declare the extension on
/// the request reads what to declare.
#[tokio::test]
async fn a_task_is_of_its_caller_alone() {
    let stage = HoldingGate::new().await;
    let id = task(&calls(&stage.bot(), "slow", "k").await);
    let longer = format!("{id}0");
    for (agent, id) in [(stage.cat(), &id), (stage.bot(), &longer)] {
        for method in ["tasks/get", "tasks/cancel"] {
            let refused = asks(&agent, method, id).await;
            assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        }
    }
    let bare = stage.bot().ask("tasks/get", json!({ "taskId": id })).await;
    assert_eq!(bare["error"]["code"], -32021, "{bare}");
    assert_eq!(stage.holds(1).await.len(), 1, "nobody has cancelled it");
    // An agent that knows no tasks finds the same hold, and reads that it is pending.
    let params = json!({
        "name": "bank__pay", "arguments": { "n": 1 }, "_meta": { "dev.toolgate/idempotencyKey": "k" },
    });
    let plain = stage.bot().ask("tools/call", params).await;
    assert_eq!(code(&plain).as_deref(), Some("approval_pending"), "{plain}");
}
