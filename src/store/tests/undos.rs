//! Undos are found by the call that makes them, and while they are asked for and not done; in all stores, and
//! after a restart (003-64).

use super::TestStore;
use super::promises::{begin, call, end};
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::{Store, UndoSearch};
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{Intent, Settle, StoreCommand};
use crate::store::state::kept_text::KeptText;
use crate::store::state::tests::{named, result, settle};
use crate::store::state::undo::{AnswerWorth, AskUndo, OpenUndo, UndoPieces, UndoTerms};

/// A call that was carried out, and that a call which is known by `made` takes back.
async fn undoable(store: &dyn Store, key: &str, made: Digest) -> Intent {
    let terms = UndoTerms {
        tool: ToolName::new("bank__bin"),
        arguments: KeptText::plain("{}"),
        within: 24 * 3600 * 1000,
        agent: "billing-agent".to_owned(),
        tenant: None,
        user: None,
        place: None,
        by_agent: false,
    };
    let intent = Intent {
        undo: Some(Box::new(terms)),
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

async fn asks(store: &dyn Store, of: ActionId, drops: bool) {
    let ask = AskUndo {
        of,
        who: "ann".to_owned(),
        why: "a typo".to_owned(),
        drops,
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
        let undoing = Intent {
            key: OpenUndo::call_key_of(done.action),
            undoes: Some(done.action),
            ..call(&*store, "undoing")
        };
        asks(&*store, done.action, false).await;
        begin(&*store, &undoing).await.unwrap();
        let wanted = ids(&*store, UndoSearch::Wanted).await;
        assert_eq!(wanted, sorted([second.action, done.action]));
        let gone = Settle {
            failed: false,
            ..settle(&undoing, ClaimPhase::Completed(result("gone")))
        };
        end(&*store, gone).await.unwrap();
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
