//! What agents hear on their wires while a call is held (guarantees §7).

use super::{ANN, HoldingGate, call, held};
use crate::harness::answer::code;
use crate::harness::until;
use serde_json::{Value, json};

/// guarantees §7: with a progress token the agent hears at once for whom its call waits and how that
/// person finds it, on either wire over HTTP; the call stays open, and runs once.
#[tokio::test]
async fn an_agent_hears_for_whom_its_call_waits() {
    for is_legacy in [false, true] {
        let stage = HoldingGate::new().await;
        let bot = stage.bot();
        let bot = if is_legacy {
            bot.initialized().await
        } else {
            bot
        };
        let meta = json!({ "dev.toolgate/idempotencyKey": "k", "progressToken": 7 });
        let params = json!({ "name": "bank__slow", "arguments": { "n": 1 }, "_meta": meta });
        let request = bot.request("tools/call", params);
        let mut answer = bot.post(&request).await;
        let news = answer.message().await;
        assert_eq!(news["method"], "notifications/progress", "{news}");
        let said = &news["params"];
        assert_eq!(
            (&said["progressToken"], &said["progress"], &said["total"]),
            (&json!(7), &json!(0), &json!(600)),
            "{news}"
        );
        let hold = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
        let words = format!(
            "waiting for a person with the role finance: toolgate approvals show {hold} (10:00 left)"
        );
        assert_eq!(said["message"], json!(words));
        stage.allows(&hold).await;
        let ran: Value = answer.message().await;
        assert_eq!((&ran["id"], code(&ran)), (&request["id"], None), "{ran}");
        assert_eq!(stage.scripted.executions(), 1);
    }
}

/// guarantees §7: an agent that hangs up leaves its hold, and the ledger says that the call was
/// cancelled and refused before anything was sent.
#[tokio::test]
async fn a_hang_up_is_recorded_as_nothing_run() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let meta = json!({ "dev.toolgate/idempotencyKey": "k", "progressToken": "p" });
    let params = json!({ "name": "bank__slow", "arguments": { "n": 1 }, "_meta": meta });
    let mut answer = bot.post(&bot.request("tools/call", params)).await;
    answer.message().await;
    drop(answer);
    let entry = stage
        .entry(|entry| entry["aborted_reason"] == "cancelled")
        .await;
    assert_eq!(entry["outcome"], "refused", "{entry}");
    assert_eq!(stage.holds(1).await.len(), 1, "what was asked stays open");
    assert_eq!(stage.scripted.executions(), 0);
}

/// guarantees §7: what is void waits for nobody, and takes no room among what does.
#[tokio::test]
async fn what_is_void_takes_no_room() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    for n in 0..20 {
        held(&call(&bot, "pay", json!({ "n": n }), &format!("k{n}")).await);
    }
    let full = call(&bot, "pay", json!({ "n": 20 }), "k20").await;
    assert_eq!(
        code(&full).as_deref(),
        Some("approval_queue_full"),
        "{full}"
    );
    let edit = |text: &str| text.replace("Pay a bill.", "Pay a large bill.");
    super::void::reloads(&stage, edit).await;
    let anew = until("room", || async {
        let anew = call(&bot, "pay", json!({ "n": 20 }), "k20").await;
        (code(&anew).as_deref() == Some("approval_pending")).then_some(anew)
    })
    .await;
    let id = held(&anew);
    let (status, said) = stage.says(ANN, &["allow", &id, "--why", "due"]).await;
    assert_eq!(status, 0, "{said}");
    let ran = call(&bot, "pay", json!({ "n": 20 }), "k20").await;
    assert_eq!(code(&ran), None, "{ran}");
}
