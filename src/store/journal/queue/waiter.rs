//! What callers wait for, as the queue knows them.

use super::{QueueInner, Space};
use crate::store::journal::chain::Head;
use crate::store::journal::error::JournalError;
use std::collections::BTreeMap;
use std::task::Waker;

/// What a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::journal) enum WaitGoal {
    /// This record is synced.
    Durable(u64),
    /// The journal is closed, in good order or not.
    Ended,
    /// The journal cannot be written any more.
    Failed,
    /// There is space to write.
    Writing,
}

impl WaitGoal {
    /// The end of the wait, when it has come.
    pub(in crate::store::journal) fn answer(
        self,
        inside: &QueueInner,
    ) -> Option<Result<Head, JournalError>> {
        let head = inside.health.head;
        let over = match self {
            Self::Durable(seq) => head.seq >= seq,
            Self::Ended => matches!(inside.ended, Some(JournalError::Closed)),
            Self::Writing => inside.ended.is_none() && inside.space == Space::Ample,
            Self::Failed => false,
        };
        match (&inside.ended, &inside.space, self) {
            _ if over => Some(Ok(head)),
            (Some(JournalError::Closed), _, Self::Failed) => None,
            (Some(error), _, _) => Some(Err(error.clone())),
            (None, Space::Gone(why), Self::Durable(_)) => {
                Some(Err(JournalError::NoSpace(why.clone())))
            }
            (None, _, _) => None,
        }
    }
}

/// A caller's place among those who wait.
#[derive(Debug, Default)]
pub(in crate::store::journal) struct WaiterPlace {
    /// Its number, once it has one.
    pub(in crate::store::journal) id: Option<u64>,
    /// It let others queue before it wakes the writer.
    pub(super) let_others: bool,
}

/// Callers that wait, each under a number of its own.
#[derive(Default)]
pub(super) struct SyncWaiters {
    /// For the sync of a record, by that: a sync ends the waits in front.
    durable: BTreeMap<(u64, u64), Waker>,
    /// For anything else: there are few.
    others: BTreeMap<u64, (WaitGoal, Waker)>,
    /// The last number given.
    last: u64,
}

impl SyncWaiters {
    /// The caller behind `waker` waits for `goal`; `id` is its number once it has one.
    pub(super) fn note(&mut self, goal: WaitGoal, id: &mut Option<u64>, waker: &Waker) {
        let number = *id.get_or_insert_with(|| {
            self.last += 1;
            self.last
        });
        if let WaitGoal::Durable(seq) = goal {
            let waits = self.durable.entry((seq, number));
            waits
                .and_modify(|known| known.clone_from(waker))
                .or_insert_with(|| waker.clone());
        } else {
            self.others.insert(number, (goal, waker.clone()));
        }
    }

    /// The caller with that number no longer waits for `goal`.
    pub(super) fn remove(&mut self, goal: WaitGoal, id: u64) {
        if let WaitGoal::Durable(seq) = goal {
            self.durable.remove(&(seq, id));
        } else {
            self.others.remove(&id);
        }
    }

    /// Takes those who wait for records up to `last`, and those whose goal `is_reached`.
    pub(super) fn take(&mut self, last: u64, is_reached: impl Fn(WaitGoal) -> bool) -> Vec<Waker> {
        let mut taken = Vec::new();
        while let Some(first) = self.durable.first_entry()
            && first.key().0 <= last
        {
            taken.push(first.remove());
        }
        let others = self.others.extract_if(.., |_, (goal, _)| is_reached(*goal));
        taken.extend(others.map(|(_, (_, waker))| waker));
        taken
    }
}
