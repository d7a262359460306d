//! A call that waits, and on which no operator says a word: told in the log, so that an alert can fire where
//! nobody watches a channel.

use super::{ask, held, says, setup, shown};
use crate::harness::gate::Gate;
use crate::harness::setup::has_later;
use crate::harness::until;
use serde_json::json;
use std::time::Duration;
use toolgate::store::state::command::HoldRequest;

const UNATTENDED: &str = "no operator has said a word on it for half of its time";

/// How often the log tells of that call.
fn told(gate: &Gate, id: &str) -> usize {
    let log = gate.log();
    let lines = log.lines().filter(|line| line.contains(UNATTENDED));
    lines.filter(|line| line.contains(id)).count()
}

/// 001-52: once, at half of its time; not where an operator has allowed it and others are waited for, nor where
/// one has given it more time. That an operator has looked at it is no word.
#[tokio::test]
async fn the_log_tells_of_a_call_that_nobody_answers() {
    if !has_later() {
        return;
    }
    let setup = setup();
    setup.write();
    let short = HoldRequest {
        approve_for: 300_000,
        ..ask(1, json!({ "n": 3 }))
    };
    let asks = vec![ask(1, json!({ "n": 1 })), ask(2, json!({ "n": 2 })), short];
    let ids = held(&setup, asks).await;
    let gate = setup.begin().await;
    shown(&gate, &ids[0]).await;
    for words in [
        &["allow", &ids[1], "--why", "due"][..],
        &["extend", &ids[2]],
    ] {
        let (status, said) = says(&gate, "ann", words).await;
        assert_eq!(status, 0, "{said}");
    }
    assert!(!gate.log().contains(UNATTENDED), "{}", gate.log());
    let later = Duration::from_mins(6);
    let gate = gate.stop().await.later(later).begin().await;
    until("the log tells of it", || async {
        (told(&gate, &ids[0]) > 0).then_some(())
    })
    .await;
    let (status, said) = says(&gate, "bob", &["deny", &ids[0], "--why", "not due"]).await;
    assert_eq!(status, 0, "{said}");
    // What is counted anew was looked through before.
    until("the others are counted", || async {
        let pending = gate.metric("toolgate_approvals_pending").await;
        (1.5..2.5).contains(&pending).then_some(())
    })
    .await;
    assert_eq!(
        ids.iter().map(|id| told(&gate, id)).collect::<Vec<_>>(),
        [1, 0, 0],
        "{}",
        gate.log()
    );
}
