//! What subscriptions hear of held calls that are tasks: how each stands, and each time that changes,
//! though nobody asks after it (protocol §6.4).

use super::{asks, calls, task, words};
use crate::harness::answer::Reading;
use crate::held_calls::{ANN, HoldingGate};
use crate::long_calls::listens;
use serde_json::{Value, json};

/// Reads what is told of the task up to the first that `fits`; gives that.
async fn hears(listening: &mut Reading, id: &str, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let told = listening.message().await;
        assert_eq!(told["method"], "notifications/tasks", "{told}");
        let told = told["params"].clone();
        assert_eq!(told["taskId"], json!(id), "{told}");
        if fits(&told) {
            return told;
        }
        assert_eq!(told["status"], "working", "{told}");
    }
}

fn says(told: &Value, words: &str) -> bool {
    let said = told["statusMessage"].as_str().unwrap_or_default();
    said.contains(words)
}

fn has_ended(told: &Value) -> bool {
    told["status"] != "working"
}

/// That it waits, that it is decided, and with what it has ended; another agent is promised nothing.
#[tokio::test]
async fn a_subscription_hears_of_a_held_task() {
    let stage = HoldingGate::new().await;
    let id = task(&calls(&stage.bot(), "slow", "k").await);
    let (_, promised) = listens(&stage.cat(), &id).await;
    assert_eq!(promised, Value::Null, "it is no task of that agent");
    let (mut listening, promised) = listens(&stage.bot(), &id).await;
    assert_eq!(promised, json!([id]));
    let first = hears(&mut listening, &id, |_| true).await;
    assert!(says(&first, "held: needs a person"), "{first}");
    let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    stage.allows(&hold).await;
    let decided = hears(&mut listening, &id, |told| {
        says(told, "decided: the call goes on") || has_ended(told)
    })
    .await;
    // It may have ended before anything else could be told.
    let ended = if has_ended(&decided) {
        decided
    } else {
        hears(&mut listening, &id, has_ended).await
    };
    assert_eq!(
        (&ended["status"], words(&ended)),
        (&json!("completed"), r#"{"n":1}"#),
        "{ended}"
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// After a restart, too, though the agent does nothing but listen: allowed, it runs once; denied, it has not
/// run; cancelled elsewhere, it never will.
#[tokio::test]
async fn a_subscription_hears_of_a_held_task_after_a_restart() {
    let stage = HoldingGate::new().await;
    let mut ids = Vec::new();
    for key in ["allowed before", "allowed", "denied", "cancelled"] {
        let id = task(&calls_with(&stage, key).await);
        let holds = stage.holds(ids.len() + 1).await;
        let is_it = |hold: &&Value| hold["arguments"]["key"] == key;
        let hold = holds.iter().find(is_it).unwrap()["id"].clone();
        ids.push((id, hold.as_str().unwrap().to_owned()));
    }
    let stage = stage.again(true).await;
    // Nobody sends the calls yet.
    stage.allows(&ids[0].1).await;
    assert_eq!(stage.scripted.executions(), 0);
    let mut heard = Vec::new();
    for (nth, (id, hold)) in ids.iter().enumerate() {
        let (mut listening, promised) = listens(&stage.bot(), id).await;
        assert_eq!(promised, json!([id]));
        match nth {
            1 => stage.allows(hold).await,
            2 => {
                let (status, said) = stage.says(ANN, &["deny", hold, "--why", "not now"]).await;
                assert_eq!(status, 0, "{said}");
            }
            3 => {
                asks(&stage.bot(), "tasks/cancel", id).await;
            }
            _ => {}
        }
        heard.push(hears(&mut listening, id, has_ended).await);
    }
    for told in &heard[..2] {
        assert_eq!(told["status"], "completed", "{told}");
        assert_eq!(told["result"]["isError"], Value::Null, "{told}");
    }
    assert!(
        words(&heard[2]).contains("not now. The tool did not run."),
        "{heard:?}"
    );
    assert_eq!(heard[3]["status"], "cancelled", "{heard:?}");
    assert_eq!(stage.scripted.executions(), 2);
}

/// A call by which its hold is known.
async fn calls_with(stage: &HoldingGate, key: &str) -> Value {
    let meta = json!({ "dev.toolgate/idempotencyKey": key });
    let params =
        json!({ "name": "bank__slow", "arguments": { "n": 1, "key": key }, "_meta": meta });
    super::knowing(&stage.bot(), "tools/call", params).await["result"].clone()
}
