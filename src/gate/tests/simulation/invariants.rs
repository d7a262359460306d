//! What holds after every run, whatever went wrong in it (threat-model §12).

use super::process::{LIMIT, Process};
use super::{Book, SimulatedWorld, TASKS};
use crate::gate::Gate;
use crate::model::ids::ActionId;
use crate::store::state::StoreKeys;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::event::StoreEvent;
use crate::store::state::settlement::Evidence;
use std::collections::BTreeMap;

/// The calls that the bank did, by deed.
type Happened = BTreeMap<u64, Vec<ActionId>>;

impl Book {
    fn happened(&self) -> Happened {
        let mut happened = Happened::new();
        for action in self.done.keys() {
            happened
                .entry(self.actions[action])
                .or_default()
                .push(*action);
        }
        happened
    }

    /// I1, I2, I4: no deed happened twice, and agents were told the truth.
    fn check_deeds(&self, happened: &Happened) {
        for (deed, actions) in happened {
            assert_eq!(
                actions.len(),
                1,
                "I1: deed {deed} happened more than once: {actions:?}"
            );
        }
        for (deed, receipts) in &self.told {
            let actions = happened.get(deed).map(Vec::as_slice).unwrap_or_default();
            assert_eq!(
                actions.len(),
                1,
                "I2: somebody was told that deed {deed} is done: {receipts:?}"
            );
            let receipt = &self.done[&actions[0]];
            assert!(
                receipts.iter().all(|shown| shown == receipt),
                "another call's answer: {receipts:?}, {receipt}"
            );
        }
        let both: Vec<_> = self
            .refused
            .iter()
            .filter(|action| self.done.contains_key(action))
            .collect();
        assert!(
            both.is_empty(),
            "I4: happened although the agent was told that they did not run: {both:?}"
        );
    }

    /// I6: what happened was paid for, and no more than the budget allows.
    async fn check_budgets(&self, happened: &Happened, gate: &Gate) {
        for (number, place) in &self.places {
            let keys = StoreKeys {
                task: Some(*place),
                ..StoreKeys::default()
            };
            let paid = gate.effects.store.load_view(keys).await.unwrap().task;
            let calls = paid.map_or(0, |task| task.calls);
            let of_task = happened
                .keys()
                .filter(|deed| *deed % TASKS == *number)
                .count() as u64;
            assert!(
                of_task <= calls && calls <= LIMIT,
                "I6: {of_task} happened, {calls} paid, {LIMIT} allowed"
            );
        }
    }

    /// I9: every call has ended, and its outcome is known where nothing went wrong.
    pub(super) async fn check_outcomes(&self, gate: &Gate) {
        for action in self.actions.keys() {
            let Some((_, claim)) = gate.effects.store.find(*action).await.unwrap() else {
                continue;
            };
            assert!(
                !matches!(claim.phase, ClaimPhase::Dispatching),
                "nobody cares for {claim:?}"
            );
            let is_unknown = matches!(claim.phase, ClaimPhase::Unknown { .. });
            assert!(
                !is_unknown || self.faults.contains(action),
                "I9: nothing went wrong with {claim:?}"
            );
        }
    }
}

impl SimulatedWorld {
    /// threat-model §12, I1 to I9, as far as they are about gate and store.
    pub(super) async fn check(&self) {
        let process = self.process.take().expect("it was started again");
        let book = self.book.take();
        let happened = book.happened();
        book.check_deeds(&happened);
        book.check_budgets(&happened, &process.gate).await;
        book.check_outcomes(&process.gate).await;
        self.reread(&process, &book);
    }

    /// What the disk says of all that was, not only of how it ended.
    pub(super) fn reread(&self, process: &Process, book: &Book) {
        let mut tokens = BTreeMap::new();
        for event in process.paper.iter().flat_map(|paper| paper.reread()) {
            if let StoreEvent::Intended(intended) = &event {
                let before = tokens.insert(intended.session, intended.fence);
                assert!(
                    before < Some(intended.fence),
                    "a token went back: {before:?}, {intended:?}"
                );
            }
            if let StoreEvent::Settled(settled) = &event {
                let is_unknown = matches!(settled.phase, ClaimPhase::Unknown { .. });
                assert!(
                    !is_unknown || book.faults.contains(&settled.action),
                    "I9: {settled:?}"
                );
                if settled.evidence == Evidence::Late {
                    self.count("late answers");
                }
            }
        }
    }
}
