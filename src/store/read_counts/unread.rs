//! Reads while the store still opens and cannot say what it knows of their tasks: they are counted
//! here, and written once it can.

use super::{CountedTask, Counts, MAX_COUNTED_TASKS, ReadCounts};
use crate::model::digest::Digest;
use crate::store::state::StoreView;

impl ReadCounts {
    /// Whether the store cannot say yet what it knows.
    pub(super) fn is_opening(&self) -> bool {
        self.opening.as_ref().is_some_and(|opening| opening.is_on())
    }

    /// What has been read of `task` since the store began to open, where its reads may pass until it
    /// has: nobody can have stopped it, and there is room to count them. None: the store has to be asked.
    pub(super) fn since_start(&self, task: Digest) -> Option<StoreView> {
        let opening = self.opening.as_ref().filter(|opening| opening.is_on())?;
        let counts = self.tasks.lock();
        let counted = counts.tasks.get(&task).filter(|_| opening.passes(&task))?;
        Some(counted.told_of(StoreView::default(), self.store.now()))
    }

    /// The place where reads of `task` are counted. It may have been given up since the read began,
    /// which is no reason to forget one that cannot be written yet.
    pub(super) fn counted_mut<'c>(
        &self,
        counts: &'c mut Counts,
        task: Digest,
    ) -> Option<&'c mut CountedTask> {
        if self.is_opening() && counts.tasks.len() < MAX_COUNTED_TASKS {
            return Some(counts.tasks.entry(task).or_default());
        }
        counts.tasks.get_mut(&task)
    }
}
