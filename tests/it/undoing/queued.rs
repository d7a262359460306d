//! Undos that were made and did not do it, or of which nobody knows: listed, counted, tried again by an
//! operator's word alone, ended by a probe, or dropped.

use super::{OPERATORS, RITA, UndoStage, done, failed, name_of};
use crate::harness::scripted_server::Reply;
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A bank whose first `fails` tries to bin something come to `how`.
pub(super) fn failing(stage: &UndoStage, fails: usize, how: fn() -> Reply) {
    let bins = AtomicUsize::new(0);
    stage.scripted.answers(move |seen| {
        if name_of(seen) == "bin" && bins.fetch_add(1, Ordering::SeqCst) < fails {
            return how();
        }
        done(&json!({ "id": 1 }))
    });
}

impl UndoStage {
    /// Waits until so many undos of that state are counted.
    async fn counts(&self, state: &str, expected: f64) {
        let series = format!("toolgate_open_undos{{state=\"{state}\"}}");
        until(&series, || async {
            let counted = self.gate.metric(&series).await;
            ((counted - expected).abs() < f64::EPSILON).then_some(())
        })
        .await;
    }

    async fn asks_for(&self, token: &str, path: &str) -> (u16, Value) {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        let answer = self.gate.asks_operators(("GET", path), &headers, "").await;
        (answer.status, answer.message())
    }
}

/// 003-64: a failed undo is listed and counted until it is done; nothing but an operator's word sends it again.
#[tokio::test]
async fn a_failed_undo_is_queued_until_it_is_done() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    failing(&stage, 2, failed);
    for tries in 1..=2 {
        assert_eq!(stage.undoes(&id).await.0, 1);
        let (code, listed) = stage.runs("rita", &["undo", "--list"]).await;
        assert!(
            code == 0 && listed.contains("failed") && listed.contains("tries again"),
            "{listed}"
        );
        stage.counts("failed", 1.0).await;
        assert_eq!(stage.sent("bin").len(), tries, "nothing is sent by itself");
    }
    let (status, listed) = stage.asks_for(RITA, "/api/undos?state=failed").await;
    let undo = &listed["undos"][0];
    let told = (
        &undo["action_id"],
        &undo["undo_tool"],
        &undo["who"],
        &undo["why"],
    );
    let expected = (
        &json!(id),
        &json!("bank__bin"),
        &json!("rita"),
        &json!("a typo"),
    );
    assert_eq!((status, told), (200, expected), "{listed}");
    assert_eq!(
        undo["arguments"],
        Value::Null,
        "what is sent is not in a list"
    );
    let (_, others) = stage.asks_for(RITA, "/api/undos?state=unknown").await;
    assert_eq!(others["undos"], json!([]));
    assert_eq!(stage.undoes(&id).await.0, 0);
    let (_, listed) = stage.runs("rita", &["undo", "--list"]).await;
    assert!(listed.contains("no undo is asked for"), "{listed}");
    stage.counts("failed", 0.0).await;
    assert_eq!(stage.sent("bin").len(), 3);
}

/// It takes a role to see them, and one to drop one; words that mean nothing are refused.
#[tokio::test]
async fn the_queue_takes_a_role() {
    let stage = UndoStage::new().await;
    assert!(OPERATORS.contains("token-of-fay-who-decides-too, roles: [finance]"));
    let fay = "token-of-fay-who-decides-too";
    for (token, path, expected) in [
        (fay, "/api/undos", 403),
        (RITA, "/api/undos?state=done", 400),
        (RITA, "/api/undos?agent=bot", 400),
        (RITA, "/api/undos", 200),
    ] {
        let (status, said) = stage.asks_for(token, path).await;
        assert_eq!(status, expected, "{path}: {said}");
    }
    let id = stage.made("draft", "k").await;
    let (code, said) = stage
        .runs("fay", &["undo", &id, "--drop", "--why", "x"])
        .await;
    assert!(code == 1 && said.contains("drop undos"), "{said}");
}

/// Done by hand: an operator says so, once, and it is as it was offered.
#[tokio::test]
async fn a_failed_undo_can_be_dropped() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let drop = ["undo", &id, "--drop", "--why", "binned by hand"];
    let (code, said) = stage.runs("rita", &drop).await;
    assert!(code == 1 && said.contains("nothing is asked for"), "{said}");
    failing(&stage, 1, failed);
    assert_eq!(stage.undoes(&id).await.0, 1);
    let (code, said) = stage.runs("rita", &drop).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(stage.queued(&id).await, None);
    assert_eq!(
        stage.runs("rita", &drop).await.0,
        1,
        "there is nothing any more"
    );
    assert_eq!(
        stage.undoes(&id).await.0,
        0,
        "an operator can change their mind"
    );
    let (_, said) = stage.runs("rita", &drop).await;
    assert!(said.contains("taken back already"), "{said}");
}

/// One of which nobody knows whether it ran is not tried again: a person says what became of it first.
#[tokio::test]
async fn an_unknown_undo_is_resolved_first() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    failing(&stage, 1, || Reply::Status(503));
    let (code, said) = stage.undoes(&id).await;
    assert!(
        code == 1 && said.contains("it is not known whether"),
        "{said}"
    );
    assert_eq!(stage.queued(&id).await.as_deref(), Some("unknown"));
    stage.counts("unknown", 1.0).await;
    for word in [&["--why", "again"][..], &["--drop", "--why", "by hand"]] {
        let words = [&["undo", id.as_str()][..], word].concat();
        let (code, said) = stage.runs("rita", &words).await;
        assert!(code == 1 && said.contains("not known whether"), "{said}");
    }
    let (_, listed) = stage.asks_for(RITA, "/api/undos").await;
    let by = listed["undos"][0]["by"].as_str().unwrap();
    assert!(
        listed["undos"][0]["next"].as_str().unwrap().contains(by),
        "{listed}"
    );
    let resolve = [
        "calls",
        "resolve",
        by,
        "--not-applied",
        "--why",
        "the bank shows it",
    ];
    assert_eq!(stage.runs("rita", &resolve).await.0, 0);
    assert_eq!(stage.queued(&id).await.as_deref(), Some("failed"));
    assert_eq!(stage.sent("bin").len(), 1);
    assert_eq!(stage.undoes(&id).await.0, 0);
    assert_eq!(stage.sent("bin").len(), 2);
}

/// The timer looks at an undo's own call as at any, by the probe of its contract, and ends it.
#[tokio::test]
async fn a_probe_ends_an_unknown_undo() {
    let probe = "ask: never }, arguments: { additionalProperties: true }, idempotency: { derive: [/of], probe: { tool: bank__look, arguments: { id: arguments#/id }, \
                 found: /gone, nothing: [[]], absent_after: 1s }";
    let stage = UndoStage::with(probe).await;
    stage.scripted.answers(|seen| match name_of(seen).as_str() {
        "bin" => Reply::Status(503),
        "look" => done(&json!({ "gone": [1] })),
        _ => done(&json!({ "id": 1 })),
    });
    let timer = "reconcile: { every: 1s, older_than: 1s, settle: 1s, equal_answers: 2 }";
    let mut gate = stage.gate;
    gate.terminate();
    gate.wait().await;
    let stage = UndoStage {
        scripted: stage.scripted,
        gate: gate.setup.clone().more(timer).start().await,
    };
    let id = stage.made("draft", "k").await;
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains("unknown"), "{said}");
    stage.until_taken_back(&id).await;
    assert_eq!(
        (stage.queued(&id).await, stage.sent("bin").len()),
        (None, 1)
    );
    assert!(!stage.sent("look").is_empty());
}
