//! Holds over restarts and kills of toolgate.

use super::{HoldingGate, call, decision, held};
use crate::harness::answer::code;
use crate::harness::setup::beside;
use crate::kills::{HELD, PROGRAM, build};
use serde_json::json;

/// guarantees §7, threat-model §3E E2: pending stays pending and allowed stays allowed over a
/// restart and a kill, and is used once.
#[tokio::test]
async fn a_hold_outlives_toolgate() {
    for kill in [false, true] {
        let stage = HoldingGate::new().await;
        let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
        let stage = stage.again(kill).await;
        assert_eq!(stage.holds(1).await[0]["id"], *id);
        assert_eq!(
            held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
            id
        );
        stage.allows(&id).await;
        let stage = stage.again(kill).await;
        assert_eq!(
            code(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
            None
        );
        let stage = stage.again(kill).await;
        let replay = call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await;
        assert_eq!(decision(&replay)["replayed"], true, "{replay}");
        assert_ne!(
            held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k2").await),
            id,
            "it is used up"
        );
        assert_eq!(stage.scripted.executions(), 1);
    }
}

/// guarantees §7: toolgate does not wait for people when it ends. Who waits is told to come again,
/// and finds the hold.
#[tokio::test]
async fn toolgate_ends_while_a_call_is_held() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let asked = tokio::spawn(async move { call(&bot, "slow", json!({ "n": 1 }), "k").await });
    let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    let stage = stage.again(false).await;
    assert_eq!(held(&asked.await.unwrap()), id);
    assert_eq!(stage.holds(1).await[0]["id"], *id);
    stage.allows(&id).await;
    assert_eq!(
        code(&call(&stage.bot(), "slow", json!({ "n": 1 }), "k").await),
        None
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// Starts it again so that it is killed at `point`, does `what` and waits for the end; then starts
/// it as it was.
pub async fn killed_at(
    stage: HoldingGate,
    point: &str,
    what: impl AsyncFnOnce(&HoldingGate),
) -> HoldingGate {
    let HoldingGate { scripted, gate } = stage;
    let setup = gate.stop().await;
    let armed = setup
        .clone()
        .program(beside(PROGRAM))
        .environment("TOOLGATE_FAILPOINT", point);
    let mut stage = HoldingGate {
        scripted,
        gate: armed.start().await,
    };
    what(&stage).await;
    stage.gate.wait().await;
    HoldingGate {
        scripted: stage.scripted,
        gate: setup.start().await,
    }
}

/// Sends the call to a toolgate that dies of it.
pub async fn lost(stage: &HoldingGate, key: &str) {
    let bot = stage.bot();
    let meta = json!({ "dev.toolgate/idempotencyKey": key });
    let params = json!({ "name": "bank__pay", "arguments": { "n": 1 }, "_meta": meta });
    let request = bot.request("tools/call", params);
    assert!(
        tokio::spawn(async move { bot.answered(&request).await })
            .await
            .is_err(),
        "nobody answers"
    );
}

/// threat-model §3E E2: killed once the hold is durable, it is there; killed once the intent is
/// durable that uses it, it is used: the call did not run, and is asked for anew.
#[tokio::test]
async fn a_kill_never_makes_two_of_one_decision() {
    build();
    let stage = killed_at(HoldingGate::new().await, HELD[0], async |stage| {
        lost(stage, "k").await;
    })
    .await;
    let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
        id
    );
    stage.allows(&id).await;
    let stage = killed_at(stage, "intent-after-fsync", async |stage| {
        lost(stage, "k").await;
    })
    .await;
    assert_eq!(stage.scripted.executions(), 0);
    let second = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    assert_ne!(second, id);
    stage.allows(&second).await;
    assert_eq!(
        code(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
        None
    );
    assert_eq!(stage.scripted.executions(), 1);
}
