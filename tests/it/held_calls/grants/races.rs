//! Calls at once, and what comes between them: never more begin than were granted.

use super::super::restarts::killed_at;
use super::*;
use crate::harness::scripted_server::Reply;
use crate::kills::build;
use futures_util::future::join_all;
use std::sync::{Arc, Mutex};

/// The transaction that begins a call takes its use: a hundred at once are as many as were granted.
#[tokio::test]
async fn a_hundred_calls_at_once_take_as_many_uses_as_there_are() {
    let stage = Arc::new(HoldingGate::granting().await);
    let id = stage
        .grants(&["--at-most", "/n=1000", "--uses", "10"])
        .await;
    let calls = (0..100_u64).map(|n| {
        let stage = Arc::clone(&stage);
        async move { pays(&stage, json!({ "n": n }), &format!("k{n}")).await }
    });
    let codes = join_all(calls).await;
    assert_eq!(
        codes.iter().filter(|code| code.is_none()).count(),
        10,
        "{codes:?}"
    );
    assert_eq!(stage.scripted.executions(), 10);
    let grant = stage.grant(&id).await;
    assert_eq!(
        (&grant["uses"], &grant["state"]),
        (&json!(10), &json!("used_up"))
    );
}

/// A grant that is taken back while calls run: what has begun was granted, and nothing begins after it.
#[tokio::test]
async fn nothing_begins_once_a_grant_is_taken_back() {
    let stage = Arc::new(HoldingGate::granting().await);
    let id = stage
        .grants(&["--at-most", "/n=1000", "--uses", "1000"])
        .await;
    let calls = (0..60_u64).map(|n| {
        let stage = Arc::clone(&stage);
        async move { pays(&stage, json!({ "n": n }), &format!("k{n}")).await }
    });
    let revokes = async {
        until("some have run", || async {
            (stage.scripted.executions() > 0).then_some(())
        })
        .await;
        stage.revokes(&id).await;
        let late = pays(&stage, json!({ "n": 999 }), "late").await;
        assert!(late.is_some_and(|code| code.starts_with("approval_")));
    };
    let (codes, ()) = tokio::join!(join_all(calls), revokes);
    let ran = codes.iter().filter(|code| code.is_none()).count();
    assert_eq!(stage.scripted.executions(), ran);
    let grant = stage.grant(&id).await;
    assert_eq!(
        (&grant["uses"], &grant["state"]),
        (&json!(ran), &json!("revoked"))
    );
    let (status, again) = stage
        .says(ANN, &["grants", "revoke", &id, "--why", "again"])
        .await;
    assert!(
        status == 0 && again.contains("taken back before"),
        "{again}"
    );
}

/// What was never sent gives its use back, and what may have been sent does not: a server that is not
/// there, and one that breaks off.
#[tokio::test]
async fn only_what_is_known_not_to_have_run_gives_its_use_back() {
    let stage = HoldingGate::granting().await;
    let id = stage.grants(&["--at-most", "/n=9", "--uses", "2"]).await;
    stage.scripted.down();
    let unsent = pays(&stage, json!({ "n": 1 }), "k1").await;
    assert!(unsent.is_some());
    assert_eq!(stage.grant(&id).await["uses"], 0, "{unsent:?}");
    stage.scripted.up().await;
    until("the server is back", || async {
        pays(&stage, json!({ "n": 1 }), "k1")
            .await
            .is_none()
            .then_some(())
    })
    .await;
    assert_eq!(stage.grant(&id).await["uses"], 1);
    stage
        .scripted
        .answers(|_| crate::harness::scripted_server::Reply::Status(502));
    let lost = pays(&stage, json!({ "n": 2 }), "k2").await;
    assert_eq!(lost.as_deref(), Some("outcome_unknown"));
    assert_eq!(stage.grant(&id).await["uses"], 2);
    assert!(is_asked(
        pays(&stage, json!({ "n": 3 }), "k3").await.as_deref()
    ));
}

/// Killed between the use and the first byte: the call did not run, and its use is there once, not twice.
#[tokio::test]
async fn a_kill_between_use_and_send_gives_no_second_use() {
    build();
    let stage = HoldingGate::granting().await;
    let id = stage.grants(&["--equals", "/n=1", "--uses", "1"]).await;
    let stage = killed_at(stage, "intent-after-fsync", async |stage| {
        super::super::restarts::lost(stage, "k").await;
    })
    .await;
    assert_eq!(stage.scripted.executions(), 0);
    assert_eq!(stage.grant(&id).await["uses"], 0, "it was not sent");
    assert_eq!(pays(&stage, json!({ "n": 1 }), "k").await, None);
    assert!(is_asked(
        pays(&stage, json!({ "n": 1 }), "k2").await.as_deref()
    ));
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: what changes while a call waits for its turn in its session counts for it, too: by a grant of
/// before it does not run.
#[tokio::test]
async fn what_changes_before_its_turn_stops_a_call() {
    let stage = HoldingGate::granting().await;
    stage.grants(&["--at-most", "/n=5"]).await;
    let done = || Reply::Result(json!({ "content": [], "resultType": "complete" }));
    let (lets_go, waits) = tokio::sync::oneshot::channel();
    let waits = Mutex::new(Some(waits));
    stage.scripted.answers(move |_| {
        let first = waits.lock().unwrap().take();
        first.map_or_else(done, Reply::Later)
    });
    let bot = stage.bot();
    let in_turn = async |tool: &str, key: &str| {
        let meta = json!({ "dev.toolgate/idempotencyKey": key, "dev.toolgate/session": "one" });
        let name = format!("bank__{tool}");
        let params = json!({ "name": name, "arguments": { "n": 1 }, "_meta": meta });
        code(&bot.ask("tools/call", params).await)
    };
    let changes = async {
        reloads(&stage, |text| {
            text.replacen("Pay a bill.", "Pay a large bill.", 1)
        })
        .await;
        drop(lets_go.send(done()));
    };
    let follows = async {
        until("the first call", || async {
            (stage.scripted.executions() == 1).then_some(())
        })
        .await;
        tokio::join!(in_turn("pay", "k2"), changes).0
    };
    let (first, covered) = tokio::join!(in_turn("free", "k1"), follows);
    assert_eq!(first, None);
    assert!(
        covered
            .as_ref()
            .is_some_and(|code| code.starts_with("approval_")),
        "{covered:?}"
    );
    assert_eq!(stage.scripted.executions(), 1);
}
