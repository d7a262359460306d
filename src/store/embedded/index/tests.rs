//! What is swept, and when.

use super::names::ENDED_HOLD_RETENTION_MS;
use super::sweep::SWEEP_ITEMS;
use super::*;
use crate::store::state::claim::Age;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::StoreCommand;
use crate::store::state::tests::{START_MS, ask, intent, result, settle, word};
use crate::store::state::{StoreView, apply, decide};
use bytes::Bytes;

/// A held call that is over is kept for as long as it may be looked at, whatever became of it
/// meanwhile, and then forgotten.
#[test]
fn held_calls_are_forgotten_in_their_time() {
    let temp = tempfile::tempdir().unwrap();
    let (index, _) = Index::open(temp.path()).unwrap();
    let (mut view, asked) = (StoreView::default(), ask("key"));
    let commands = [
        StoreCommand::Hold(Box::new(asked.clone())),
        StoreCommand::Decide(word(&asked, "ann", true)),
    ];
    let mut ends = Vec::new();
    for command in commands {
        apply(&decide(&command, &view, START_MS).unwrap(), &mut view);
        let hold = view.hold.clone().unwrap();
        ends.push(hold.ends());
        index
            .write(
                &IndexChanges {
                    holds: vec![(asked.key, hold)],
                    ..IndexChanges::default()
                },
                IndexProgress::default(),
            )
            .unwrap();
    }
    assert!(
        ends[1] < ends[0],
        "it is over before it would have been without a decision"
    );
    index
        .sweep(ends[1] + ENDED_HOLD_RETENTION_MS, |_| false)
        .unwrap();
    assert_eq!(
        index.hold(&asked.key).unwrap(),
        view.hold,
        "until then, it is there"
    );
    index
        .sweep(ends[1] + ENDED_HOLD_RETENTION_MS + 1, |_| true)
        .unwrap();
    assert_eq!(
        index.holds(|hold| hold.id == asked.id).unwrap().len(),
        1,
        "what is in memory stays"
    );
    index
        .sweep(ends[1] + ENDED_HOLD_RETENTION_MS + 60_002, |_| false)
        .unwrap();
    assert_eq!(index.hold(&asked.key).unwrap(), None);
    index
        .sweep(ends[0] + ENDED_HOLD_RETENTION_MS + 1, |_| false)
        .unwrap();
    assert_eq!(
        index.db.len(),
        1,
        "nothing is left but how far the journal is indexed"
    );
}

/// guarantees §3: a tombstone keeps the key and not the answer; it is swept once, not for ever.
#[test]
fn tombstones_are_swept_once_and_forgotten_in_their_time() {
    let temp = tempfile::tempdir().unwrap();
    let (index, _) = Index::open(temp.path()).unwrap();
    let mut changes = IndexChanges::default();
    for n in 0..SWEEP_ITEMS + 5 {
        let (call, mut view) = (intent(&format!("key {n}"), 1), StoreView::default());
        let call = crate::store::state::command::Intent {
            ttl: 100,
            keep: 1000,
            ..call
        };
        let end = StoreCommand::Settle(settle(&call, ClaimPhase::Completed(result("paid"))));
        for command in [StoreCommand::Begin(Box::new(call.clone())), end] {
            let event = decide(&command, &view, START_MS).unwrap();
            apply(&event, &mut view);
        }
        changes.claims.push((call.key, view.claim.unwrap()));
    }
    // As a carried state is read: several writes, one record number.
    for part in changes.claims.chunks(SWEEP_ITEMS / 2) {
        let part = IndexChanges {
            claims: part.to_vec(),
            ..IndexChanges::default()
        };
        index.write(&part, IndexProgress::default()).unwrap();
    }
    let (key, whole) = &changes.claims[0];
    let sweeps = |now| {
        (0..5)
            .take_while(|_| index.sweep(now, |_| false).unwrap())
            .count()
    };
    assert_eq!(sweeps(START_MS + 99), 0);
    assert_eq!(index.claim(key).unwrap().as_ref(), Some(whole));
    assert_eq!(sweeps(START_MS + 101), 1, "as many as there are, each once");
    let left = index.claim(key).unwrap().unwrap();
    assert_eq!(left.phase.stored().unwrap().body, Bytes::new());
    assert_eq!(
        (left.age(START_MS + 101), left.fingerprint),
        (Age::Remembered, whole.fingerprint)
    );
    assert_eq!(sweeps(START_MS + 1101), 1);
    assert!(changes.claims.iter().all(|(key, claim)| {
        index.claim(key).unwrap().is_none() && index.key_of(claim.action).unwrap().is_none()
    }));
    assert_eq!(
        index.db.len(),
        1,
        "nothing is left but how far the journal is indexed"
    );
}
