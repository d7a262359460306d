//! Tasks of a legacy server whose results toolgate waits for in place of an agent that knows none.

use super::of_legacy_servers::{done, question, request, result_request, stage, stage_for, task};
use super::*;
use crate::harness::scripted_server::event;

/// guarantees §4: an error that a task ends with says not that the call did nothing, whatever its code
/// means in the contract, also where the task has asked its agent before.
#[tokio::test]
async fn an_error_after_a_question_is_no_proof() {
    let (stage, says) = stage(json!({})).await;
    let agent = stage.gate.agent().at("s");
    says.send(question()).await.unwrap();
    let params = call("write", 1, None);
    let first = request(&agent, "tools/call", params.clone(), false);
    let asked = agent.answered(&first).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    stage.stands(task("failed"));
    let next = || {
        let mut next = request(&agent, "tools/call", params.clone(), false);
        next["params"]["requestState"] = asked["result"]["requestState"].clone();
        next["params"]["inputResponses"] = json!({ "question-1": { "action": "decline" } });
        next
    };
    let failing = async {
        let is_answer = |seen: &Seen| seen.body["id"] == "q-1" && seen.method().is_empty();
        stage.server.sees("the answer", is_answer).await;
        let id = result_request(&stage).await.body["id"].clone();
        let error = json!({ "code": -32000, "message": "no funds" });
        let failed = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        says.send(event(&failed)).await.unwrap();
    };
    let round = next();
    let (answer, ()) = tokio::join!(agent.answered(&round), failing);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer.to_string().contains("no funds"), "{answer}");
    // The enemy: the same again, as a round and as a call, would run once more what was not executed.
    for again in [next(), request(&agent, "tools/call", params.clone(), false)] {
        let answer = agent.answered(&again).await;
        assert!(answer.to_string().contains("no funds"), "{answer}");
    }
    assert_eq!(stage.server.executions(), 1);
}

/// A task that asked its agent is asked for its result again where the connection breaks meanwhile, as
/// one that has not asked.
#[tokio::test]
async fn a_task_that_asked_is_still_followed() {
    let (stage, says) = stage(super::of_legacy_servers::done("written")).await;
    let agent = stage.gate.agent().at("s");
    says.send(question()).await.unwrap();
    let params = call("write", 1, None);
    let first = request(&agent, "tools/call", params.clone(), false);
    let asked = agent.answered(&first).await;
    let mut next = request(&agent, "tools/call", params, false);
    next["params"]["requestState"] = asked["result"]["requestState"].clone();
    next["params"]["inputResponses"] = json!({ "question-1": { "action": "decline" } });
    drop(says);
    let answer = agent.answered(&next).await;
    assert_eq!(answer["result"]["content"], text("written"), "{answer}");
    assert_eq!(
        (stage.server.executions(), stage.count("tasks/result")),
        (1, 2)
    );
}

/// guarantees §4: an error in place of a task's result is no word of the task that its server knows no
/// more, or that goes on: nobody knows how it ended, and nothing is called again.
#[tokio::test]
async fn a_task_that_its_server_has_forgotten_is_unknown() {
    let error = json!({ "code": -32602, "message": "no such task" });
    let mut lost = task("working");
    lost["error"] = json!("lost");
    for (standing, is_known) in [
        (lost, false),
        (task("working"), false),
        (task("failed"), true),
    ] {
        let (stage, says) = stage(error.clone()).await;
        drop(says);
        stage.stands(standing);
        let agent = stage.gate.agent().at("s");
        for _ in 0..2 {
            let write = request(&agent, "tools/call", call("write", 1, None), false);
            let answer = agent.answered(&write).await;
            let refusal = code(&answer);
            // The enemy: the same words are what a task ended with that has failed.
            if is_known {
                assert_eq!(
                    (refusal, &answer["result"]["isError"]),
                    (None, &json!(true))
                );
            } else {
                assert_eq!(refusal.as_deref(), Some("outcome_unknown"), "{answer}");
            }
        }
        assert_eq!(stage.server.executions(), 1);
    }
}

/// guarantees §4: nor is it what a task ended with that its server says has completed; the result is asked
/// for again, and the call is not.
#[tokio::test]
async fn an_error_is_no_result_of_a_completed_task() {
    let (stage, says) = stage(super::of_legacy_servers::done("written")).await;
    stage.stands(task("completed"));
    let agent = stage.gate.agent().at("s");
    let write = request(&agent, "tools/call", call("write", 1, None), false);
    let failing = async {
        let id = result_request(&stage).await.body["id"].clone();
        let error = json!({ "code": -32000, "message": "a bad moment" });
        let failed = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        says.send(event(&failed)).await.unwrap();
    };
    let (answer, ()) = tokio::join!(agent.answered(&write), failing);
    assert_eq!(answer["result"]["content"], text("written"), "{answer}");
    assert_eq!(
        (stage.server.executions(), stage.count("tasks/result")),
        (1, 2)
    );
}

/// Protocol §4.3: an agent knows tasks, but no session can be kept for its own, so that toolgate waits
/// for the result. When the task asks later, and one can be kept again, the agent is asked in a round:
/// what ends a followed task is more than an answer, and it is asked for its result again as before.
#[tokio::test]
async fn a_followed_task_that_asks_becomes_no_other_task() {
    // Three quarters of 256 sessions.
    const SESSIONS_THAT_MAY_WAIT: usize = 192;
    let names: Vec<_> = (0..=SESSIONS_THAT_MAY_WAIT)
        .map(|n| format!("holder-{n}"))
        .collect();
    let token = |name: &str| format!("token-of-the-agent-{name}");
    let callers: Vec<_> = names
        .iter()
        .map(|name| format!("\n  - {{ agent: {name}, token: {} }}", token(name)))
        .collect();
    let callers = callers.concat();
    let (stage, says) = stage_for(&callers, done("written")).await;
    let agent = |name: &str| stage.gate.agent().at("s").token(&token(name));
    for name in &names[1..] {
        let agent = agent(name);
        let held = request(&agent, "tools/call", call("read", 1, None), true);
        let held = agent.answered(&held).await;
        assert_eq!(held["result"]["resultType"], "task", "{name}: {held}");
    }
    let own = agent(&names[0]);
    let params = call("write", 1, None);
    let first = request(&own, "tools/call", params.clone(), true);
    let asking = async {
        result_request(&stage).await;
        stage.stands(task("completed"));
        let other = agent(&names[1]);
        let ended = request(&other, "tasks/get", json!({ "taskId": "t-1" }), true);
        let ended = other.answered(&ended).await;
        assert_eq!(ended["result"]["status"], "completed", "{ended}");
        says.send(question()).await.unwrap();
    };
    let (asked, ()) = tokio::join!(own.answered(&first), asking);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let mut next = request(&own, "tools/call", params, true);
    next["params"]["requestState"] = asked["result"]["requestState"].clone();
    next["params"]["inputResponses"] = json!({ "question-1": { "action": "decline" } });
    drop(says);
    let answer = own.answered(&next).await;
    assert_eq!(answer["result"]["content"], text("written"), "{answer}");
    assert_eq!(stage.server.executions(), SESSIONS_THAT_MAY_WAIT + 1);
}
