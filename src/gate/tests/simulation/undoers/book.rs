//! The bank's book of what was taken back, and what operators were told of that.

use crate::gate::tests::simulation::{Book, SimulatedWorld};
use crate::model::ids::ActionId;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of calls that were taken back.
#[derive(Default)]
pub(in crate::gate::tests::simulation) struct UndoneBook {
    /// Which receipt was taken back, by the call that did.
    pub(super) taken: BTreeMap<ActionId, String>,
    /// Receipts of which an operator was told that they are taken back.
    pub(super) told: BTreeSet<String>,
    /// Calls that were carried out and of which the bank says that they failed.
    pub(super) misled: BTreeSet<ActionId>,
    /// What happened at the bank, in its order.
    pub(super) log: Vec<ActionId>,
}

impl UndoneBook {
    pub(in crate::gate::tests::simulation) fn is_gone(&self, receipt: &str) -> bool {
        self.taken.values().any(|taken| taken == receipt)
    }

    pub(in crate::gate::tests::simulation) fn misleads(&mut self, action: ActionId) {
        self.misled.insert(action);
    }

    pub(in crate::gate::tests::simulation) fn log(&mut self, action: ActionId) {
        self.log.push(action);
    }
}

impl Book {
    /// What the bank shows of a call that happened, whatever it was.
    pub(in crate::gate::tests::simulation) fn receipt_of(
        &self,
        action: ActionId,
    ) -> Option<String> {
        let receipt = self.done.get(&action);
        receipt.or_else(|| self.undone.taken.get(&action)).cloned()
    }

    /// Whether what the call did was taken back.
    pub(super) fn is_undone(&self, action: ActionId) -> bool {
        let receipt = self.done.get(&action);
        receipt.is_some_and(|receipt| self.undone.is_gone(receipt))
    }
}

impl SimulatedWorld {
    /// The bank takes back what was done with `receipt`. I1, I3 of an undo: once, and only what was done.
    pub(in crate::gate::tests::simulation) fn take_back(
        &self,
        action: ActionId,
        receipt: &str,
    ) -> String {
        assert!(
            self.has_intent(action),
            "I3: {action} took {receipt} back before its intent was durable"
        );
        let mut book = self.book.borrow_mut();
        assert!(
            book.done.values().any(|done| done == receipt),
            "{action} takes back {receipt}, which was never given"
        );
        assert!(
            !book.undone.is_gone(receipt),
            "I1: {action} takes {receipt} back a second time"
        );
        self.tell(|| format!("{action} takes {receipt} back"));
        book.undone.taken.insert(action, receipt.to_owned());
        book.undone.log(action);
        format!("refund of {receipt}")
    }
}
