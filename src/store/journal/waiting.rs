//! Those who wait for the journal: each a future without a task or channel of its own, woken once,
//! when its wait is over.

use super::chain::Head;
use super::error::JournalError;
use super::queue::{WaitGoal, WaiterPlace, WriteQueue};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A wait. To be dropped at any time.
#[must_use = "nobody waits until this is awaited"]
pub(super) struct SyncWait {
    queue: Arc<WriteQueue>,
    until: WaitGoal,
    place: WaiterPlace,
    over: bool,
}

impl SyncWait {
    pub(super) fn new(queue: &Arc<WriteQueue>, until: WaitGoal) -> Self {
        Self {
            queue: Arc::clone(queue),
            until,
            place: WaiterPlace::default(),
            over: false,
        }
    }
}

impl Future for SyncWait {
    type Output = Result<Head, JournalError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match this.queue.poll(this.until, &mut this.place, cx.waker()) {
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
        if !self.over {
            self.queue.leave(self.until, &self.place);
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
    /// syncs what is queued at that time, at once, when the tasks that can run have queued what they
    /// have, or after the sync it is at. After
    /// `JournalError::NoSpace` it is still queued, and becomes durable when there is space:
    /// `Journal::writable` waits for space, and then `Journal::wait_durable` for its number.
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
