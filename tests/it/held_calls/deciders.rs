//! Who decides, and what one decision is good for.

use super::{ANN, HoldingGate, call, decision, held, policy};
use crate::harness::answer::code;
use serde_json::{Value, json};

/// threat-model §3E E2: many calls, each with a key of its own, and one decision: one of them runs.
#[tokio::test]
async fn one_decision_is_one_execution() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let id = held(&call(&bot, "pay", json!({ "n": 1 }), "k").await);
    stage.allows(&id).await;
    let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let calls = keys
        .iter()
        .map(|key| call(&bot, "pay", json!({ "n": 1 }), key));
    let answers = futures_util::future::join_all(calls).await;
    let passed = answers
        .iter()
        .filter(|answer| code(answer).is_none())
        .count();
    assert_eq!((passed, stage.scripted.executions()), (1, 1));
    let second = stage.holds(1).await[0]["id"].clone();
    assert_ne!(second, json!(id), "the others ask for one more, together");
    for refused in answers.iter().filter(|answer| code(answer).is_some()) {
        let action = &decision(refused)["action_id"];
        let entry = stage.entry(|entry| entry["action_id"] == *action).await;
        assert_eq!(
            (&entry["approval"], &entry["approved_by"]),
            (&second, &Value::Null),
            "{entry}"
        );
    }
}

/// guarantees §7: who may decide, and that the first decision stands.
#[tokio::test]
async fn only_who_has_the_role_decides_and_never_the_agent() {
    let stage = HoldingGate::with(&policy(", required: 2"), "enforce").await;
    let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    for (operator, expected) in [
        ("bob", "expired or not found"),
        ("bot", "an operator of the same name"),
    ] {
        let (status, words) = stage.says(operator, &["allow", &id, "--why", "me"]).await;
        assert_eq!(status, 1, "{words}");
        assert!(words.contains(expected), "{words}");
    }
    let says = |token: &str| {
        [
            ("authorization", format!("Bearer {token}")),
            ("content-type", "application/json".to_owned()),
        ]
    };
    for token in ["token-of-the-agent-bot", "no-token-at-all"] {
        let headers = says(token);
        let headers = headers
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let path = format!("/api/approvals/{id}");
        let asked = stage.gate.asks_operators(
            ("POST", &path),
            &headers,
            r#"{ "decision": "allow", "why": "me" }"#,
        );
        assert_eq!(asked.await.status, 401, "{token}");
    }
    for _ in 0..2 {
        let (status, words) = stage.says(ANN, &["allow", &id, "--why", "due"]).await;
        assert_eq!(status, 0, "{words}");
        assert_eq!(
            held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
            id,
            "one person is not two"
        );
    }
    let (status, words) = stage.says("eve", &["allow", &id, "--why", "due"]).await;
    assert_eq!(status, 0, "{words}");
    let (status, words) = stage.says(ANN, &["deny", &id, "--why", "no"]).await;
    assert_eq!(status, 1, "{words}");
    assert_eq!(
        code(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
        None
    );
    let entry = stage.entry(|entry| entry["outcome"] == "answered").await;
    assert_eq!(entry["approved_by"], json!(["ann", "eve"]));
    let (status, words) = stage.says("eve", &["deny", &id, "--why", "too late"]).await;
    assert_eq!(status, 1, "{words}");
}

/// 001-59, guarantees §4: who hangs up while the call is held leaves the hold as it is, and nothing
/// runs for nobody.
#[tokio::test]
async fn who_hangs_up_can_come_again() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let asked = tokio::spawn({
        let bot = bot.clone();
        async move { call(&bot, "slow", json!({ "n": 1 }), "k").await }
    });
    let id = stage.holds(1).await[0]["id"].as_str().unwrap().to_owned();
    asked.abort();
    let gone = stage
        .entry(|entry| entry["aborted_reason"] == "cancelled")
        .await;
    assert_eq!(gone["stage"], "approval", "{gone}");
    stage.allows(&id).await;
    assert_eq!(stage.scripted.executions(), 0, "nobody is there to read it");
    assert_eq!(
        code(&call(&bot, "slow", json!({ "n": 1 }), "k").await),
        None
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// threat-model §8: nothing is held where nothing is enforced; the record says what would be.
#[tokio::test]
async fn observing_asks_nobody() {
    let stage = HoldingGate::with(&policy(""), "observe").await;
    assert_eq!(
        code(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await),
        None
    );
    let entry = stage.entry(|entry| entry["outcome"] == "answered").await;
    assert_eq!(entry["would_refuse"], "approval_pending", "{entry}");
    assert_eq!(
        (stage.scripted.executions(), stage.holds(0).await.len()),
        (1, 0)
    );
}
