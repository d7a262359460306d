//! A call that waits, and to which no operator attends: told in the log, so that an alert can fire where nobody watches a
//! channel.

use super::pages::{ANN_TOKEN, signs_in};
use super::{ask, held, says, setup, shown};
use crate::harness::gate::Gate;
use crate::harness::setup::has_later;
use crate::harness::until;
use serde_json::json;
use std::time::Duration;
use toolgate::store::state::command::HoldRequest;

const UNATTENDED: &str = "no operator has looked at it or said a word on it for half of its time";

/// How often the log tells of that call.
fn told(gate: &Gate, id: &str) -> usize {
    let log = gate.log();
    let lines = log.lines().filter(|line| line.contains(UNATTENDED));
    lines.filter(|line| line.contains(id)).count()
}

/// 001-52: once, at half of its time; not where an operator has allowed it and others are waited for, nor where
/// one has given it more time. That an operator has looked at it who may not decide is nothing.
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

/// Asks the operators' door for what is at `path`, with these headers.
async fn gets(gate: &Gate, path: &str, header: (&str, &str)) {
    let answer = gate.asks_operators(("GET", path), &[header], "").await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
}

/// 001-52: a look of who may decide silences a call for a while, on its page, at the API and at the terminal; what shows
/// itself anew is no look, nor is a stream of events or who waits for the decision.
#[tokio::test]
async fn a_look_is_asked_for_by_a_person_who_may_decide() {
    if !has_later() {
        return;
    }
    let setup = setup();
    setup.write();
    // Half of it is over after a minute; a look counts for half a minute.
    let short = |n: u64| HoldRequest {
        approve_for: 120_000,
        ..ask(1, json!({ "n": n }))
    };
    let ids = held(&setup, (0..8).map(short).collect()).await;
    let gate = setup.later(Duration::from_secs(45)).begin().await;
    let (bearer, cookie) = (
        format!("Bearer {ANN_TOKEN}"),
        signs_in(&gate, ANN_TOKEN).await,
    );
    let (token, cookie) = (
        ("authorization", bearer.as_str()),
        ("cookie", cookie.as_str()),
    );
    let (status, said) = says(&gate, "ann", &["show", &ids[0]]).await;
    assert_eq!(status, 0, "{said}");
    gets(&gate, &format!("/api/approvals/{}", ids[1]), token).await;
    gets(&gate, &format!("/approvals/{}", ids[2]), cookie).await;
    // What stands open asks so, and others look for nobody.
    let anew = format!("/api/approvals/{}?refresh=1", ids[3]);
    gets(&gate, &anew, token).await;
    let anew = format!("/approvals/{}?refresh=1", ids[4]);
    gets(&gate, &anew, cookie).await;
    let waits = format!("/api/approvals/{}/wait?timeout=0", ids[5]);
    gets(&gate, &waits, token).await;
    shown(&gate, &ids[6]).await;
    for path in ["/api/approvals?refresh=1", "/approvals?refresh=1"] {
        let header = if path.starts_with("/api") {
            token
        } else {
            cookie
        };
        gets(&gate, path, header).await;
    }
    until("what nobody looks at is told", || async {
        let told_of = |id: &String| told(&gate, id) == 1;
        ids[3..].iter().all(told_of).then_some(())
    })
    .await;
    let looked_at: Vec<_> = ids[..3].iter().map(|id| told(&gate, id)).collect();
    assert_eq!(looked_at, [0, 0, 0], "{}", gate.log());
    until("they are counted", || async {
        let unattended = gate.metric("toolgate_approvals_unattended").await;
        (unattended > 4.5).then_some(())
    })
    .await;
}

/// 001-52: the list is a look at all that it shows.
#[tokio::test]
async fn the_list_is_a_look_at_what_it_shows() {
    if !has_later() {
        return;
    }
    let setup = setup();
    setup.write();
    let other = HoldRequest {
        roles: vec!["owner".to_owned()],
        approve_for: 120_000,
        ..ask(1, json!({ "n": 2 }))
    };
    let own = HoldRequest {
        approve_for: 120_000,
        ..ask(1, json!({ "n": 1 }))
    };
    let ids = held(&setup, vec![own, other]).await;
    let gate = setup.later(Duration::from_secs(45)).begin().await;
    let (status, said) = says(&gate, "ann", &["list"]).await;
    assert_eq!(status, 0, "{said}");
    until("what ann may not decide is told", || async {
        (told(&gate, &ids[1]) == 1).then_some(())
    })
    .await;
    assert_eq!(told(&gate, &ids[0]), 0, "{}", gate.log());
}
