//! The end of a call that waited as a task, and whether it is durable: its agent reads it no sooner
//! (guarantees §2).

use crate::mcp::message::Message;
use crate::model::reply::Fault;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::oneshot;

/// What has become of the end of a call, which its agent reads only once it is durable
/// (guarantees §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskSettlement {
    /// It is being written down.
    Pending,
    /// It is durable.
    Kept,
    /// It cannot be recorded.
    Lost,
}

/// The end of a call that has become a task, to be told once, and who has to settle it.
pub(crate) struct TaskEnding {
    /// What is proven of the call when it ends.
    pub(crate) ended: oneshot::Receiver<Result<Message, Fault>>,
    /// To be held until that is durable.
    pub(crate) settling: TaskSettling,
}

/// While it is held the agent reads that its task works; where it is dropped, that the end could not
/// be recorded.
pub(crate) struct TaskSettling(Arc<Mutex<TaskSettlement>>);

impl TaskSettling {
    /// With what has become of the end so far.
    pub(super) fn begun() -> (Self, Arc<Mutex<TaskSettlement>>) {
        let settlement = Arc::new(Mutex::new(TaskSettlement::Pending));
        (Self(settlement.clone()), settlement)
    }

    /// The end is durable: the agent may read it.
    pub(crate) fn keeps(self) {
        *self.0.lock() = TaskSettlement::Kept;
    }
}

impl Drop for TaskSettling {
    fn drop(&mut self) {
        let mut settlement = self.0.lock();
        if *settlement == TaskSettlement::Pending {
            *settlement = TaskSettlement::Lost;
        }
    }
}
