//! Calls that are too many to know.

use super::*;
use crate::model::ids::ToolName;
use crate::store::journal::{Item, Journal, JournalOptions, Retention};
use crate::store::state::kinship::Kinship;
use std::time::Duration;

/// A call that was not sent, whose key is held.
fn unsent() -> Claim {
    let digest = Digest::of(b"it");
    Claim {
        action: ActionId::generate(),
        fingerprint: digest,
        attempt: 1,
        brought: None,
        answered: Vec::new(),
        phase: ClaimPhase::NotSent,
        began: 1,
        changed: 1,
        ttl: 1,
        keep: 1,
        task: digest,
        account: None,
        session: digest,
        fence: 1,
        reserved: 0,
        tool: ToolName::new("s__t"),
        counted: None,
        agent: "bot".to_owned(),
        user: None,
        kinship: Kinship::default(),
        grant: None,
        is_late: false,
        edited: None,
        was_unknown: false,
        inquiry: None,
        undo: None,
        undoes: None,
        may_undo: None,
    }
}

/// 003-94: a call whose entry was dropped from the ledger is told as long as its key is held.
#[tokio::test]
async fn what_was_carried_over_is_told() {
    let temp = tempfile::tempdir().unwrap();
    let options = JournalOptions {
        segment_bytes: 400,
        reserve_bytes: 0,
        ..JournalOptions::default()
    };
    let journal = Journal::open(temp.path(), options).unwrap();
    for event in 0..24 {
        let item = Item::Event(format!("event {event}").into_bytes());
        journal.append(vec![item]).unwrap().durable().await.unwrap();
    }
    let claim = unsent();
    let carried = StoreEvent::Carried(Carried::Claim(claim.fingerprint, Box::new(claim.clone())));
    let all = Retention {
        upto: 12,
        age: Duration::ZERO,
        archive: None,
    };
    let state = std::iter::once(Ok(carried.encode().unwrap()));
    assert!(journal.compact(all, state).await.unwrap().is_some());
    journal.close().await.unwrap();
    let listed = EndedCalls::list(temp.path(), None, &[]).unwrap();
    let told: Vec<_> = listed
        .calls
        .iter()
        .map(|call| (call.action_id.clone(), call.state.as_str()))
        .collect();
    assert_eq!(told, [(claim.action.to_string(), "not_sent")]);
}

fn put(known: &mut EndedCalls, at: Millis, state: &str) -> String {
    let action = ActionId::generate();
    let call = OpenCall {
        action_id: action.to_string(),
        state: ClaimPhase::Dispatching.word().to_owned(),
        since: time(at),
        agent: "bot".to_owned(),
        user: None,
        tool: "s__t".to_owned(),
        attempt: 1,
        why: None,
        until: None,
        needs: None,
    };
    known.put(action, at, call);
    known.end(action, at, state, None);
    action.to_string()
}

/// 003-94: calls in the state that is asked for are never lost to others, and where there are too
/// many the newest are told, and how many are not.
#[test]
fn what_is_asked_for_is_forgotten_last() {
    let mut all = EndedCalls::knowing(8, None);
    let mut denied = EndedCalls::knowing(8, Some("denied"));
    let mut asked = Vec::new();
    for at in 0..100 {
        let state = if at % 20 == 0 { "denied" } else { "completed" };
        put(&mut all, at, state);
        let id = put(&mut denied, at, state);
        asked.extend((at % 20 == 0).then_some(id));
    }
    let listed = denied.listed(&[]);
    let ids: Vec<String> = listed
        .calls
        .into_iter()
        .map(|call| call.action_id)
        .collect();
    assert_eq!((ids, listed.forgotten), (asked, 0));
    let listed = all.listed(&[]);
    assert_eq!((listed.calls.len(), listed.forgotten), (8, 92));
    assert_eq!(listed.calls[0].since, time(92));
}
