//! Undos are found by the call that makes them, and while they are asked for and not done; in all stores, and
//! after a restart (003-64).

use super::TestStore;
use super::promises::{begin, call, end};
use crate::model::clock::Clock;
use crate::model::clock::hands::TestClock;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::{Store, UndoSearch};
use crate::store::state::claim::{Claim, ClaimPhase};
use crate::store::state::command::{Intent, Settle, StoreCommand};
use crate::store::state::tests::{HOUR_MS, named, result, settle, undone_by};
use crate::store::state::undo::{AnswerWorth, AskUndo, OpenUndo, OwnCall, UndoPieces, UndoTerms};
use std::time::Duration;

/// A call that was carried out, and that a call which is known by `made` takes back.
pub(crate) async fn undoable(store: &dyn Store, key: &str, made: Digest) -> Intent {
    let intent = Intent {
        undo: Some(Box::new(UndoTerms {
            within: 24 * HOUR_MS,
            ..undone_by("bank__bin")
        })),
        ..call(store, key)
    };
    begin(store, &intent).await.unwrap();
    let pieces = UndoPieces {
        values: None,
        call: Some(made),
        lacks: None,
    };
    let done = Settle {
        failed: false,
        worth: AnswerWorth::Kept(Box::new(pieces)),
        ..settle(&intent, ClaimPhase::Completed(result("drafted")))
    };
    end(store, done).await.unwrap();
    intent
}

pub(crate) async fn asks(store: &dyn Store, of: ActionId, drops: bool) {
    let ask = AskUndo {
        of,
        who: "ann".to_owned(),
        why: "a typo".to_owned(),
        caller: None,
        drops,
        made_by: None,
    };
    let asked = store.run(StoreCommand::AskUndo(ask), None).await.unwrap();
    asked.unwrap();
}

async fn ids(store: &dyn Store, search: UndoSearch) -> Vec<ActionId> {
    let found = store.undos(search, 10).await.unwrap();
    let mut ids: Vec<ActionId> = found.into_iter().map(|undo| undo.of).collect();
    ids.sort();
    ids
}

fn sorted<const N: usize>(mut ids: [ActionId; N]) -> Vec<ActionId> {
    ids.sort();
    ids.to_vec()
}

/// Nothing of another call, nothing that is done, nothing that was dropped; and the same after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undos_are_found() {
    for stand in [TestStore::memory(Clock), TestStore::embedded(Clock)] {
        let mut store = stand.open();
        let (made, other) = (named("bin 1"), named("bin 2"));
        let first = undoable(&*store, "first", made).await;
        let second = undoable(&*store, "second", made).await;
        let strange = undoable(&*store, "strange", other).await;
        let done = undoable(&*store, "done", made).await;
        asks(&*store, second.action, false).await;
        asks(&*store, strange.action, false).await;
        asks(&*store, strange.action, true).await;
        asks(&*store, done.action, false).await;
        let undoing = begun(&*store, undo_of(&*store, &done)).await;
        let wanted = ids(&*store, UndoSearch::Wanted).await;
        assert_eq!(wanted, sorted([second.action, done.action]));
        let gone = ClaimPhase::Completed(result("gone"));
        ended(&*store, &undoing, gone, false).await;
        for _ in 0..3 {
            let found = ids(&*store, UndoSearch::MadeBy(made)).await;
            assert_eq!(found, sorted([first.action, second.action]));
            let found = ids(&*store, UndoSearch::MadeBy(other)).await;
            assert_eq!(found, [strange.action]);
            let found = ids(&*store, UndoSearch::MadeBy(named("no"))).await;
            assert!(found.is_empty(), "{found:?}");
            assert_eq!(ids(&*store, UndoSearch::Wanted).await, [second.action]);
            assert_eq!(
                store
                    .undos(UndoSearch::MadeBy(made), 1)
                    .await
                    .unwrap()
                    .len(),
                1
            );
            if !stand.lasts() {
                break;
            }
            drop(store);
            store = stand.open();
        }
    }
}

/// A call that its agent makes by itself, and that may take another one back.
pub(crate) fn own_call(store: &dyn Store, key: &str, made: Digest) -> Box<Intent> {
    Box::new(Intent {
        may_undo: Some(made),
        ..call(store, key)
    })
}

/// The call that takes `of` back as it was asked for.
pub(crate) fn undo_of(store: &dyn Store, of: &Intent) -> Box<Intent> {
    Box::new(Intent {
        key: OpenUndo::call_key_of(of.action),
        undoes: Some(of.action),
        ..call(store, "undoing")
    })
}

/// It begins.
pub(crate) async fn begun(store: &dyn Store, intent: Box<Intent>) -> Box<Intent> {
    begin(store, &intent).await.unwrap();
    intent
}

/// It comes to `phase`, which is a failure or not.
pub(crate) async fn ended(store: &dyn Store, intent: &Intent, phase: ClaimPhase, failed: bool) {
    let ended = Settle {
        failed,
        ..settle(intent, phase)
    };
    end(store, ended).await.unwrap();
}

/// An own call that comes to `phase`, and is no failure.
async fn own(store: &dyn Store, key: &str, made: Digest, phase: ClaimPhase) -> Box<Intent> {
    let intent = begun(store, own_call(store, key, made)).await;
    ended(store, &intent, phase, false).await;
    intent
}

async fn own_calls(store: &dyn Store, made: Digest, most: usize) -> Vec<ActionId> {
    let found = store.own_calls(made, most).await.unwrap();
    let of_its_key = |(key, claim): (Digest, Claim)| {
        let known = claim.may_undo.filter(|undo| undo.call == made);
        assert!(known.is_some_and(|undo| !undo.is_over), "{key}: {claim:?}");
        claim.action
    };
    found.into_iter().map(of_its_key).collect()
}

/// Calls that may take another one back are found, the newest first; not what has not run, and not what is known to have
/// taken one back. So are the tools that take calls back. In all stores, and after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_may_be_undos_are_found() {
    let hands = TestClock::new();
    let clock = hands.clock();
    for stand in [TestStore::memory(clock), TestStore::embedded(clock)] {
        let mut store = stand.open();
        let (made, other) = (named("bin 1"), named("bin 2"));
        let [bin, draft] = ["bank__bin", "bank__draft"].map(ToolName::new);
        assert!(!store.takes_back(&bin), "nothing is known of it yet");
        let of = undoable(&*store, "first", made).await;
        let done = || ClaimPhase::Completed(result("gone"));
        let mut found = Vec::new();
        for key in ["one", "two", "three"] {
            found.insert(0, own(&*store, key, made, done()).await.action);
            // The newest is the one that began last.
            hands.pass(Duration::from_secs(1));
        }
        own(&*store, "unsent", made, ClaimPhase::NotSent).await;
        let strange = own(&*store, "strange", other, done()).await;
        let linked = own(&*store, "linked", made, done()).await;
        let ask = AskUndo {
            of: of.action,
            who: "ann".to_owned(),
            why: "a typo".to_owned(),
            caller: None,
            drops: false,
            made_by: None,
        };
        let made_by = Some(OwnCall {
            action: linked.action,
            key: linked.key,
        });
        for made_by in [None, made_by] {
            let said = StoreCommand::AskUndo(AskUndo {
                made_by,
                ..ask.clone()
            });
            store.run(said, None).await.unwrap().unwrap();
        }
        for _ in 0..3 {
            assert_eq!(own_calls(&*store, made, 9).await, found);
            assert_eq!(own_calls(&*store, made, 2).await, found[..2]);
            assert_eq!(own_calls(&*store, other, 9).await, [strange.action]);
            assert!(own_calls(&*store, named("no"), 9).await.is_empty());
            let (_, claim) = store.find(linked.action).await.unwrap().unwrap();
            assert_eq!(claim.undoes, Some(of.action));
            assert!(store.takes_back(&bin) && !store.takes_back(&draft));
            if !stand.lasts() {
                break;
            }
            drop(store);
            store = stand.open();
        }
    }
}
