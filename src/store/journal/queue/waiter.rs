//! What callers wait for, as the queue knows them.

use super::{QueueInner, Space};
use crate::store::journal::chain::Head;
use crate::store::journal::error::JournalError;
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

/// A caller that waits.
pub(in crate::store::journal) struct SyncWaiter {
    pub(in crate::store::journal) id: u64,
    pub(in crate::store::journal) until: WaitGoal,
    pub(in crate::store::journal) waker: Waker,
}
