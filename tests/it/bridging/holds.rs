//! Calls that a person has to allow, between an agent of one era and a server of the other: held,
//! allowed, also over a restart, and run once (guarantees §7).

use super::crossings::{BOTH, ELICITED, Towards, call, finishes, next_round};
use super::last;
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::scripted_server::{Offers, Reply, Seen, event};
use crate::held_calls::{HoldingGate, held, policy};
use serde_json::{Value, json};

/// Elicitation is open, beside the contracts of held calls.
fn open_policy() -> String {
    let open =
        "elicitation: { allow: [\"*\"] }, roots: { allow: [\"*\"] }, sampling: { allow: [\"*\"] }";
    policy("") + &format!("layers: {{ global: {{ {open} }} }}\n")
}

async fn stage(towards: Towards) -> HoldingGate {
    let eras = Offers {
        modern: towards == Towards::Modern,
        legacy: towards == Towards::Legacy,
        ..Offers::default()
    };
    let stage = HoldingGate::before(eras, &open_policy(), "enforce").await;
    finishes(&stage.scripted, towards, &json!({ "content": [] }));
    stage
}

/// The agent of the other era, in a session of this process of toolgate.
async fn agent(stage: &HoldingGate, towards: Towards) -> Agent {
    match towards {
        Towards::Legacy => stage.bot(),
        Towards::Modern => stage.bot().initialized().await,
    }
}

fn pay(agent: &Agent) -> Value {
    let mut call = call(agent, "bank__pay", json!({ "n": 1 }));
    call["params"]["_meta"]["dev.toolgate/idempotencyKey"] = json!("k");
    call
}

fn question() -> Value {
    let params =
        json!({ "message": "sure?", "requestedSchema": { "type": "object", "properties": {} } });
    json!({ "jsonrpc": "2.0", "id": "q-1", "method": ELICITED, "params": params })
}

/// Held, allowed, and sent again by its agent: it runs once, also if toolgate was killed between;
/// the same again is a replay. A legacy agent has another session after that, and finds its hold again
/// (guarantees §7).
#[tokio::test]
async fn what_was_allowed_runs_once_across() {
    for towards in BOTH {
        for restarts in [false, true] {
            let mut stage = stage(towards).await;
            let mut bot = agent(&stage, towards).await;
            let id = held(&bot.answered(&pay(&bot)).await);
            if restarts {
                stage = stage.again(true).await;
                bot = agent(&stage, towards).await;
                let now = held(&bot.answered(&pay(&bot)).await);
                assert_eq!(now, id, "{towards:?}");
            }
            stage.allows(&id).await;
            assert_eq!(stage.scripted.executions(), 0, "{towards:?}");
            let done = bot.answered(&pay(&bot)).await;
            assert_eq!(code(&done), None, "{towards:?}: {done}");
            let again = bot.answered(&pay(&bot)).await;
            let decision = &again["result"]["_meta"]["dev.toolgate/decision"];
            assert_eq!(decision["replayed"], true, "{towards:?}: {again}");
            assert_eq!(stage.scripted.executions(), 1, "{towards:?}");
        }
    }
}

/// A modern server asks in a call that a person has allowed: the legacy agent answers in its stream,
/// and nobody else is asked once more; what was allowed is what each round is.
#[tokio::test]
async fn an_allowed_call_asks_a_legacy_agent() {
    let stage = stage(Towards::Modern).await;
    let bot = agent(&stage, Towards::Modern).await;
    let id = held(&bot.answered(&pay(&bot)).await);
    stage.allows(&id).await;
    stage.scripted.answers(|seen| {
        Reply::Result(match seen.body["params"].get("requestState") {
            None => json!({
                "resultType": "input_required", "requestState": "one",
                "inputRequests": { "q": { "method": ELICITED, "params": question()["params"] } },
            }),
            Some(_) => json!({ "content": [], "resultType": "complete" }),
        })
    });
    let mut answer = bot.post(&pay(&bot)).await;
    let asked = answer.message().await;
    assert_eq!(asked["method"], ELICITED, "{asked}");
    let reply = json!({ "action": "accept", "content": { "amount": 7 } });
    bot.post(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": reply }))
        .await;
    let done = answer.whole().await;
    assert_eq!(code(&done), None, "{done}");
    assert_eq!(stage.scripted.executions(), 2, "two rounds");
    let second = last(&stage.scripted, "tools/call");
    assert_eq!(second.body["params"]["inputResponses"]["q"], reply);
    assert_eq!(second.body["params"]["arguments"], json!({ "n": 1 }));
}

/// A legacy server asks in a call that a person has allowed. What the modern agent answers is shown to
/// a person, too; the call that waits goes on once that is allowed, and another answer than the one
/// that was shown is another round. An agent that knows tasks is asked so, too: nobody would see what
/// it brings to a task.
#[tokio::test]
async fn answers_to_a_parked_call_are_allowed() {
    for knows_tasks in [false, true] {
        are_allowed(knows_tasks).await;
    }
}

async fn are_allowed(knows_tasks: bool) {
    let stage = stage(Towards::Legacy).await;
    let bot = stage.bot();
    let id = held(&bot.answered(&pay(&bot)).await);
    stage.allows(&id).await;
    let says = stage.scripted.holds("tools/call");
    says.send(event(&question())).await.unwrap();
    let mut call = pay(&bot);
    if knows_tasks {
        let declared = &mut call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        declared["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
    }
    let asked = bot.answered(&call).await;
    let reply = |amount: u64| json!({ "action": "accept", "content": { "amount": amount } });
    let id = held(
        &bot.answered(&next_round(&bot, &call, &asked, &reply(7)))
            .await,
    );
    let hold = &stage.holds(1).await[0];
    assert!(
        hold["answers"].to_string().contains("\"amount\":7"),
        "{hold}"
    );
    stage.allows(&id).await;
    // The enemy: what was allowed was 7.
    let other = held(
        &bot.answered(&next_round(&bot, &call, &asked, &reply(8)))
            .await,
    );
    assert_ne!(other, id);
    let is_answer = |seen: &Seen| seen.body["id"] == "q-1" && seen.method().is_empty();
    assert!(!stage.scripted.seen().iter().any(is_answer));
    let answering = async {
        let said = stage.scripted.sees("the agent's answer", is_answer).await;
        assert_eq!(said.body["result"], reply(7));
        let id = last(&stage.scripted, "tools/call").body["id"].clone();
        let done = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } });
        says.send(event(&done)).await.unwrap();
    };
    let next = next_round(&bot, &call, &asked, &reply(7));
    let (done, ()) = tokio::join!(bot.answered(&next), answering);
    assert_eq!(code(&done), None, "{done}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// toolgate is killed while a person thinks about the answer to a parked call: the call waits no
/// more, so the answer that is allowed later goes nowhere, and nothing is sent again.
#[tokio::test]
async fn an_answer_that_is_allowed_after_a_restart_goes_nowhere() {
    let stage = stage(Towards::Legacy).await;
    let bot = stage.bot();
    let id = held(&bot.answered(&pay(&bot)).await);
    stage.allows(&id).await;
    let says = stage.scripted.holds("tools/call");
    says.send(event(&question())).await.unwrap();
    let call = pay(&bot);
    let asked = bot.answered(&call).await;
    let next = |bot: &Agent| {
        next_round(
            bot,
            &call,
            &asked,
            &json!({ "action": "accept", "content": {} }),
        )
    };
    let id = held(&bot.answered(&next(&bot)).await);
    let stage = stage.again(true).await;
    let bot = stage.bot();
    stage.allows(&id).await;
    for _ in 0..2 {
        let answer = bot.answered(&next(&bot)).await;
        let refusal = code(&answer);
        assert_eq!(refusal.as_deref(), Some("outcome_unknown"), "{answer}");
    }
    assert_eq!(stage.scripted.executions(), 1);
}

/// A task of a modern server that a legacy agent holds asks something, and its call was allowed by a
/// person: nobody would see the answer, so the agent is not asked, and the task is cancelled.
#[tokio::test]
async fn a_task_of_an_allowed_call_asks_nobody() {
    let extension = "io.modelcontextprotocol/tasks";
    let eras = Offers {
        legacy: false,
        capabilities: json!({ "tools": {}, "extensions": { extension: {} } }),
        ..Offers::default()
    };
    let stage = HoldingGate::before(eras, &open_policy(), "enforce").await;
    let task = |status: &str| {
        json!({ "taskId": "t-1", "status": status, "ttlMs": 60_000, "pollIntervalMs": 50,
                "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z" })
    };
    stage.scripted.answers(move |seen| {
        let mut told = task("input_required");
        told["resultType"] = json!("complete");
        match seen.method() {
            "tools/call" => told["resultType"] = json!("task"),
            "tasks/get" => {
                let question = json!({ "method": ELICITED, "params": question()["params"] });
                told["inputRequests"] = json!({ "q": question });
            }
            _ => told = json!({ "resultType": "complete" }),
        }
        Reply::Result(told)
    });
    let bot = agent(&stage, Towards::Modern).await;
    let mut call = pay(&bot);
    call["params"]["task"] = json!({ "ttl": 60_000 });
    let id = held(&bot.answered(&call).await);
    stage.allows(&id).await;
    call["id"] = bot.request("", json!({}))["id"].clone();
    let handle = bot.answered(&call).await;
    assert_eq!(handle["result"]["task"]["taskId"], "t-1", "{handle}");
    let ended = bot.ask("tasks/result", json!({ "taskId": "t-1" })).await;
    assert!(ended.to_string().contains("is cancelled"), "{ended}");
    let count = |method: &str| {
        let seen = stage.scripted.seen();
        seen.iter().filter(|seen| seen.method() == method).count()
    };
    assert_eq!((count("tasks/cancel"), count("tasks/update")), (1, 0));
    assert_eq!(stage.scripted.executions(), 1);
}
