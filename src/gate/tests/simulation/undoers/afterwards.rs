//! What holds after a run in which calls were taken back.

use super::super::{Book, SimulatedWorld};
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::store::claims::Store;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::event::{Intended, StoreEvent};
use crate::store::state::undo::UndoPhase;
use crate::store::undos::known;
use std::collections::BTreeMap;

/// What the store says of a call in the end. Each call is one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fared {
    NotRun,
    Executed,
    Undone,
    Unknown,
}

/// What was sent, as the journal tells it in its order.
#[derive(Default)]
struct SentCalls {
    /// Which call held each key last.
    keys: BTreeMap<Digest, ActionId>,
    /// How far each call got.
    phases: BTreeMap<ActionId, ClaimPhase>,
    /// Which call was to take each one back last.
    undoings: BTreeMap<ActionId, ActionId>,
}

impl SentCalls {
    /// Whether it is known of the call that it did not run, by the bank's own book.
    fn is_free(&self, action: ActionId, book: &Book) -> bool {
        match &self.phases[&action] {
            ClaimPhase::NotSent | ClaimPhase::Failed { .. } => true,
            ClaimPhase::Completed(_) => book.receipt_of(action).is_none(),
            ClaimPhase::Dispatching
            | ClaimPhase::AwaitingInput { .. }
            | ClaimPhase::Unknown { .. }
            | ClaimPhase::Abandoned => false,
        }
    }

    /// Whether it was known that the call was taken back.
    fn is_undone(&self, action: ActionId, book: &Book) -> bool {
        let by = self.undoings.get(&action);
        let ended = by.and_then(|by| self.phases.get(by));
        matches!(ended, Some(ClaimPhase::Completed(_))) && book.is_undone(action)
    }

    fn begins(&mut self, intended: &Intended, book: &Book) {
        let action = intended.action;
        if let Some(of) = intended.undoes {
            assert!(
                matches!(self.phases.get(&of), Some(ClaimPhase::Completed(_)))
                    && book.done.contains_key(&of),
                "{action} is to take back {of}, which was not carried out"
            );
            let before = self.undoings.insert(of, action);
            let before = before.filter(|before| *before != action);
            assert!(
                before.is_none_or(|before| self.is_free(before, book)),
                "{action} is sent to take {of} back, which {before:?} may have done"
            );
        } else if intended.round == 0 {
            let before = self.keys.get(&intended.key).copied();
            let before = before.filter(|before| *before != action);
            assert!(
                before.is_none_or(|before| {
                    self.is_free(before, book) || self.is_undone(before, book)
                }),
                "{action} begins with the key of {before:?}, which may have run"
            );
        }
        self.keys.insert(intended.key, action);
        self.phases.insert(action, ClaimPhase::Dispatching);
    }
}

impl Book {
    /// I1, I2, I4: at no time anything was done twice, and agents were told the truth.
    fn check_effects(&self) {
        let mut live = BTreeMap::new();
        for action in &self.undone.log {
            let deed = self.actions[action];
            if let Some(receipt) = self.undone.taken.get(action) {
                let gone: Option<ActionId> = live.remove(&deed);
                let gone = gone.map(|gone| &self.done[&gone]);
                assert_eq!(gone, Some(receipt), "{action} takes back what is not there");
            } else {
                let before = live.insert(deed, *action);
                assert_eq!(before, None, "I1: {action} does deed {deed} once more");
            }
        }
        for (deed, receipts) in &self.told {
            let is_of_deed = |receipt: &String| {
                let mut done = self.done.iter();
                done.any(|(action, done)| done == receipt && self.actions[action] == *deed)
            };
            assert!(
                receipts.iter().all(is_of_deed),
                "I2: an agent of deed {deed} was told of {receipts:?}"
            );
        }
        let mut refused = self.refused.iter();
        let ran = refused.find(|action| self.done.contains_key(action));
        assert_eq!(ran, None, "I4: its agent was told that it did not run");
    }

    /// What the store says of the call is what happened at the bank.
    fn check_end(&self, action: ActionId, fared: Fared) {
        let has_run = self.done.contains_key(&action);
        let is_so = match fared {
            Fared::Unknown => true,
            Fared::Undone => has_run && self.is_undone(action),
            Fared::Executed => has_run && !self.is_undone(action),
            // The bank has said that it failed.
            Fared::NotRun if self.undone.misled.contains(&action) => !self.is_undone(action),
            Fared::NotRun => !has_run,
        };
        assert!(
            is_so,
            "{action} is {fared:?}; at the bank it ran: {has_run}"
        );
    }

    /// How often something was done anew after it was taken back.
    fn repeated(&self) -> usize {
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        for action in self.done.keys() {
            *times.entry(self.actions[action]).or_default() += 1;
        }
        times.values().filter(|times| **times > 1).count()
    }
}

async fn fared(store: &dyn Store, action: ActionId) -> Fared {
    let undo = known(store, action).await.unwrap();
    if let Some(undo) = undo {
        return match undo.phase {
            UndoPhase::Offered | UndoPhase::Requested | UndoPhase::Failed { .. } => Fared::Executed,
            UndoPhase::Done { .. } => Fared::Undone,
            UndoPhase::Unknown { .. } => Fared::Unknown,
            UndoPhase::Running { .. } => panic!("nobody cares for {undo:?}"),
        };
    }
    let claim = store.find(action).await.unwrap();
    match claim.map(|(_, claim)| claim.phase) {
        Some(
            ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned | ClaimPhase::AwaitingInput { .. },
        ) => Fared::Unknown,
        Some(ClaimPhase::Dispatching) => panic!("nobody cares for {action}"),
        Some(ClaimPhase::Completed(_) | ClaimPhase::Failed { .. } | ClaimPhase::NotSent) | None => {
            Fared::NotRun
        }
    }
}

impl SimulatedWorld {
    /// I1 to I4, I9 of calls and of what takes them back.
    pub(super) async fn check_undone(&self) {
        let process = self.process.take().expect("it was started again");
        let book = self.book.take();
        book.check_effects();
        book.check_outcomes(&process.gate).await;
        let mut sent = SentCalls::default();
        for event in process.paper.iter().flat_map(|paper| paper.reread()) {
            if let StoreEvent::Intended(intended) = &event {
                sent.begins(intended, &book);
            }
            if let StoreEvent::Settled(settled) = event {
                sent.phases.insert(settled.action, settled.phase);
            }
        }
        let store = &*process.gate.effects.store;
        for action in book.actions.keys() {
            book.check_end(*action, fared(store, *action).await);
        }
        for _ in 0..book.repeated() {
            self.count("ran again");
        }
        self.reread(&process, &book);
    }
}
