//! Those who wait for the journal: each a future without a task or channel of its own, woken once,
//! when its wait is over.

use super::chain::Head;
use super::error::JournalError;
use super::queue::{QueueInner, Space, WriteQueue};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitGoal {
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
    pub(super) fn answer(self, inside: &QueueInner) -> Option<Result<Head, JournalError>> {
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
pub(super) struct SyncWaiter {
    pub(super) id: u64,
    pub(super) until: WaitGoal,
    pub(super) waker: Waker,
}

/// A wait. To be dropped at any time.
#[must_use = "nobody waits until this is awaited"]
pub(super) struct SyncWait {
    queue: Arc<WriteQueue>,
    until: WaitGoal,
    id: Option<u64>,
    over: bool,
}

impl SyncWait {
    pub(super) fn new(queue: &Arc<WriteQueue>, until: WaitGoal) -> Self {
        Self {
            queue: Arc::clone(queue),
            until,
            id: None,
            over: false,
        }
    }
}

impl Future for SyncWait {
    type Output = Result<Head, JournalError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match this.queue.poll(this.until, &mut this.id, cx.waker()) {
            Some(answer) => {
                this.over = true;
                Poll::Ready(answer)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for SyncWait {
    fn drop(&mut self) {
        if let (Some(id), false) = (self.id, self.over) {
            self.queue.remove_waiter(id);
        }
    }
}

/// What was queued, as its caller holds it. Dropped, it is written and synced all the same, as soon
/// as it suits the writer.
#[must_use = "what was queued is durable only once this says so"]
pub struct Ticket {
    queue: Arc<WriteQueue>,
    seq: u64,
    awaited: bool,
}

impl Ticket {
    pub(super) fn new(queue: &Arc<WriteQueue>, seq: u64) -> Self {
        Self {
            queue: Arc::clone(queue),
            seq,
            awaited: false,
        }
    }

    /// The number of its last record.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Waits for one sync that covers it. Nothing is gathered for any longer: the writer writes and
    /// syncs what is queued at that time, at once or after the sync it is at. After
    /// [`Error::NoSpace`] it is still queued, and becomes durable when there is space: `until`
    /// its number says when.
    pub async fn durable(mut self) -> Result<Head, JournalError> {
        self.awaited = true;
        SyncWait::new(&self.queue, WaitGoal::Durable(self.seq)).await
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.awaited {
            self.queue.nudge();
        }
    }
}
