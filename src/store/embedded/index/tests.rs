//! What is swept, and when.

use super::names::{ENDED_HOLD_RETENTION_MS, HOUR_MS, TOOL_PREFIX};
use super::sweep::SWEEP_ITEMS;
use super::*;
use crate::model::ids::ToolName;
use crate::store::state::claim::Age;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{Intent, Settle, StoreCommand};
use crate::store::state::tests::{START_MS, ask, intent, result, settle, undone_by, word};
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
        let call = Intent {
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

/// Call number `n`, which has ended, and its key.
fn ended(n: u64) -> (Digest, Claim) {
    let (call, mut view) = (intent(&format!("call {n}"), 1), StoreView::default());
    let end = StoreCommand::Settle(settle(&call, ClaimPhase::Completed(result("paid"))));
    for command in [StoreCommand::Begin(Box::new(call.clone())), end] {
        let event = decide(&command, &view, START_MS + n).unwrap();
        apply(&event, &mut view);
    }
    (call.key, view.claim.unwrap())
}

/// An index that is made anew answers from what has gathered; before all of it has come into the
/// index, a crash leaves one that says that it is not whole.
#[test]
fn an_index_that_is_made_anew_is_whole_or_says_so() {
    let claims: Vec<_> = (0..5000).map(ended).collect();
    for crashes in [true, false] {
        let temp = tempfile::tempdir().unwrap();
        let (index, _) = Index::open(temp.path()).unwrap();
        assert!(index.begin_anew());
        let mut last = IndexProgress::default();
        for part in claims.chunks(1000) {
            last.seq += 1000;
            let changes = IndexChanges {
                claims: part.to_vec(),
                ..IndexChanges::default()
            };
            index.write(&changes, last).unwrap();
        }
        let (key, claim) = &claims[7];
        assert_eq!(index.claim(key).unwrap().as_ref(), Some(claim));
        assert_eq!(index.db.len(), 0, "nothing yet");
        assert!(index.finish().unwrap(), "there is more");
        if !crashes {
            while index.finish().unwrap() {}
            assert!(!index.finish().unwrap());
        }
        index.close();
        let (index, found) = Index::open(temp.path()).unwrap();
        assert!(!index.begin_anew(), "it is not empty");
        assert_eq!(found.is_unfinished(), crashes);
        if !crashes {
            assert_eq!(found, last);
            for (key, claim) in &claims {
                assert_eq!(index.claim(key).unwrap().as_ref(), Some(claim));
            }
        }
    }
}

/// An index of nothing is one, too.
#[test]
fn an_index_of_nothing_is_made_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let (index, found) = Index::open(temp.path()).unwrap();
    assert!(index.begin_anew() && !index.finish().unwrap());
    assert_eq!((index.db.len(), found), (0, IndexProgress::default()));
    let last = IndexProgress {
        seq: 1,
        ..IndexProgress::default()
    };
    index.write(&IndexChanges::default(), last).unwrap();
    assert_eq!(index.db.len(), 1, "it is written at once");
}

/// A call that may take another one back is known for 30 days, though its key is free long before, and its answer gone.
#[test]
fn possible_undos_are_forgotten_in_their_time() {
    const DAY_MS: Millis = 24 * HOUR_MS;
    let temp = tempfile::tempdir().unwrap();
    let (index, _) = Index::open(temp.path()).unwrap();
    let (made, mut view) = (Digest::of(b"made"), StoreView::default());
    let call = Intent {
        may_undo: Some(made),
        ttl: 100,
        keep: 1000,
        ..intent("own", 1)
    };
    let done = Settle {
        failed: false,
        ..settle(&call, ClaimPhase::Completed(result("gone")))
    };
    let found = |now| {
        index.sweep(now, |_| false).unwrap();
        let found = index.own_calls(&made, 9, |_| false).unwrap();
        found.into_iter().map(|(_, claim)| claim).next()
    };
    for command in [
        StoreCommand::Begin(Box::new(call.clone())),
        StoreCommand::Settle(done),
    ] {
        let event = decide(&command, &view, START_MS).unwrap();
        apply(&event, &mut view);
        let changes = IndexChanges {
            claims: vec![(call.key, view.claim.clone().unwrap())],
            ..IndexChanges::default()
        };
        index.write(&changes, IndexProgress::default()).unwrap();
        assert_eq!(found(START_MS).map(|claim| claim.action), Some(call.action));
    }
    for past in [101, 1101, 29 * DAY_MS] {
        let claim = found(START_MS + past).expect("it is known");
        assert_eq!(claim.phase.stored().unwrap().body, Bytes::new(), "{past}");
    }
    assert_eq!(found(START_MS + 30 * DAY_MS + 1), None);
    assert_eq!(index.db.len(), 1, "nothing of it is left");
}

/// A call that `tool` takes back.
fn undoable(key: &str, tool: &ToolName) -> Intent {
    Intent {
        undo: Some(Box::new(undone_by(tool.as_str()))),
        ..intent(key, 1)
    }
}

/// The tools that take calls back are named, also those of an index that a release before has written.
#[test]
fn tools_that_take_back_are_known() {
    let temp = tempfile::tempdir().unwrap();
    let [bin, draft] = ["bank__bin", "bank__draft"].map(ToolName::new);
    let (call, mut view) = (undoable("k", &bin), StoreView::default());
    let event = decide(
        &StoreCommand::Begin(Box::new(call.clone())),
        &view,
        START_MS,
    );
    apply(&event.unwrap(), &mut view);
    let changes = IndexChanges {
        claims: vec![(call.key, view.claim.unwrap())],
        ..IndexChanges::default()
    };
    let (index, _) = Index::open(temp.path()).unwrap();
    assert!(!index.takes_back(&bin));
    index.write(&changes, IndexProgress::default()).unwrap();
    for is_named in [true, false, true] {
        // As where it is opened.
        index.learn_undoing().unwrap();
        let names = || index.db.scan_prefix([TOOL_PREFIX]).count();
        assert_eq!(names(), usize::from(is_named));
        assert!(index.takes_back(&bin) && !index.takes_back(&draft));
        index
            .write(&IndexChanges::default(), IndexProgress::default())
            .unwrap();
        assert_eq!(names(), 1, "a release before did not name it");
        if is_named {
            for name in index.db.scan_prefix([TOOL_PREFIX]).keys() {
                index.db.remove(name.unwrap()).unwrap();
            }
        }
    }
}
