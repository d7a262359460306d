//! A held call is among the open ones, and is not an operator's to resolve.

use super::*;

/// `toolgate calls` as an operator who resolves, with standard error.
async fn calls(stage: &HoldingGate, words: &[&str]) -> (i32, String) {
    stage.runs("rita", &[&["calls"], words].concat()).await
}

/// 003-46: `calls list` tells a held call, until when and what it waits for, not its
/// arguments; and no longer once it has run.
#[tokio::test]
async fn a_held_call_is_listed_as_open() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let asks = json!({ "n": 1, "note": "nobody-else-reads-this" });
    let id = held(&call(&bot, "pay", asks.clone(), "k").await);
    let hold = stage.holds(1).await.remove(0);
    let (code, listed) = calls(&stage, &["list", "--json"]).await;
    assert_eq!(code, 0, "{listed}");
    assert!(!listed.contains("nobody-else-reads-this"), "{listed}");
    let open: Value = serde_json::from_str(listed.trim()).unwrap();
    assert_eq!(
        (
            &open["action_id"],
            &open["state"],
            &open["agent"],
            &open["tool"]
        ),
        (
            &json!(id),
            &json!("held"),
            &json!("bot"),
            &json!("bank__pay")
        )
    );
    assert_eq!(
        (&open["until"], &open["needs"]),
        (&hold["approve_by"], &json!("1 operator"))
    );
    let (_, table) = calls(&stage, &["list", "--state", "held"]).await;
    let until = hold["approve_by"].as_str().unwrap();
    assert!(
        table.contains(&format!("until {until}, needs 1 operator")),
        "{table}"
    );
    let (_, none) = calls(&stage, &["list", "--state", "unknown"]).await;
    assert_eq!(none, "no call is unknown\n");
    let (code, refused) = calls(&stage, &["resolve", &id, "--not-applied", "--why", "w"]).await;
    assert!(
        code == 1 && refused.contains("is held and has not run; `toolgate approvals`"),
        "{refused}"
    );
    stage.allows(&id).await;
    let (_, listed) = calls(&stage, &["list", "--json"]).await;
    let allowed: Value = serde_json::from_str(listed.trim()).unwrap();
    assert_eq!(allowed["needs"], "the agent to send it again");
    assert_eq!(
        crate::harness::answer::code(&call(&bot, "pay", asks, "k").await),
        None
    );
    let (_, listed) = calls(&stage, &["list"]).await;
    assert_eq!(
        listed,
        "nothing is open: no call is in flight, unknown or held\n"
    );
}
