//! Rounds over more calls than one of them reads.

use super::*;
use crate::model::clock::Clock;
use crate::model::ids::{ActionId, ToolName};
use crate::store::memory::MemoryStore;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{Intent, StoreCommand};
use crate::store::state::tests::{entry, intent, named, settle, unknown};
use std::collections::BTreeSet;

/// The tool of calls that can be asked about.
const KNOWN: &str = "bank__known";

/// A store with calls of which so many cannot be asked about, and so many can; the ids of these.
async fn with(deaf: usize, known: usize) -> (MemoryStore, BTreeSet<ActionId>) {
    let store = MemoryStore::new(Clock);
    let mut ids = BTreeSet::new();
    for number in 0..deaf + known {
        let action = ActionId::generate();
        let key = format!("call {number}");
        let mut call = Intent {
            action,
            session: named(&action.to_string()),
            ..intent(&key, store.token())
        };
        if number >= deaf {
            call.price.tool = ToolName::new(KNOWN);
            call.entry = entry(KNOWN);
            ids.insert(action);
        }
        let begun = StoreCommand::Begin(Box::new(call.clone()));
        store.run(begun, None).await.unwrap().unwrap();
        let ended = StoreCommand::Settle(settle(&call, unknown()));
        store.run(ended, None).await.unwrap().unwrap();
    }
    (store, ids)
}

fn can_be_asked(claim: &Claim) -> bool {
    matches!(claim.phase, ClaimPhase::Unknown { .. }) && claim.tool.as_str() == KNOWN
}

async fn found(window: &LookWindow, store: &MemoryStore) -> (BTreeSet<ActionId>, bool) {
    let open = window.next(store, can_be_asked).await.unwrap();
    (
        open.calls.iter().map(|claim| claim.action).collect(),
        open.is_all,
    )
}

/// guarantees §4: calls of which nobody can ask keep no other from being looked at, in one round.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_about_starves_nothing() {
    let (store, ids) = with(2 * MAX_CLAIMS_LISTED, 3).await;
    let window = LookWindow::default();
    for _ in 0..2 {
        assert_eq!(found(&window, &store).await, (ids.clone(), true));
    }
    let few = with(MAX_CLAIMS_LISTED - 3, 3).await;
    assert_eq!(found(&window, &few.0).await, (few.1, true));
}

/// A round reads so many: of more, the next ones go on, and begin anew, so that each call's turn comes.
#[tokio::test(start_paused = true)]
async fn rounds_go_on_where_the_last_one_stopped() {
    let beyond = (MAX_PAGES + 2) * MAX_CLAIMS_LISTED;
    let (store, ids) = with(beyond, 40).await;
    let window = LookWindow::default();
    for _ in 0..2 {
        let (first, is_all) = found(&window, &store).await;
        assert!(!is_all && first.len() < ids.len(), "{}", first.len());
        let (second, is_all) = found(&window, &store).await;
        assert!(!is_all && first.is_disjoint(&second));
        let both: BTreeSet<ActionId> = first.union(&second).copied().collect();
        assert_eq!(both, ids);
    }
}

/// Of more calls that can be asked about than a round chooses among, the others are in the next one.
#[tokio::test(start_paused = true)]
async fn each_has_its_round() {
    let (store, ids) = with(10, MAX_OPEN + 5).await;
    let window = LookWindow::default();
    for _ in 0..2 {
        let (first, is_all) = found(&window, &store).await;
        assert_eq!((first.len(), is_all), (MAX_OPEN, false));
        let (second, is_all) = found(&window, &store).await;
        assert_eq!((second.len(), is_all), (5, false));
        assert!(first.is_disjoint(&second) && second.is_subset(&ids));
    }
    // Exactly as many as a round has room for: whether there are more, the next one finds.
    let (store, ids) = with(0, MAX_OPEN).await;
    let window = LookWindow::default();
    assert_eq!(found(&window, &store).await, (ids, false));
    assert_eq!(found(&window, &store).await, (BTreeSet::new(), false));
}
