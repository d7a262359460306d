//! Reads while the store cannot say what it knows of their tasks, because it still opens or its index
//! broke: they are counted here, and written once it can.

use super::{CountedTask, Counts, MAX_COUNTED_TASKS, ReadCounts};
use crate::model::digest::Digest;
use crate::store::claims::StoreError;
use crate::store::state::StoreView;
use crate::store::state::budget::TaskUsage;
use crate::store::state::command::TaskTally;
use std::sync::Arc;

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

    /// What has been read of `task` that the store, which answered `error`, does not know of, where its
    /// reads may pass without what the store knows: only its index is away, nobody can have stopped the
    /// task, and there is room to count them.
    pub(super) fn unasked(
        &self,
        task: Digest,
        error: StoreError,
    ) -> Result<Option<Arc<TaskUsage>>, StoreError> {
        let is_away = matches!(error, StoreError::Away(_));
        let counts = self.tasks.lock();
        match counts.tasks.get(&task) {
            Some(counted) if is_away && !self.store.may_have_stopped(&task) => {
                let told = counted.told_of(StoreView::default(), self.store.now());
                Ok(told.task.map(Arc::new))
            }
            _ => Err(error),
        }
    }

    /// Has the store count `one`, whose task is not counted here; where its index is away, that is done
    /// here all the same.
    pub(super) async fn write_one(&self, one: TaskTally) -> Result<(), StoreError> {
        let written = self.write(one.clone()).await;
        if !matches!(written, Err(StoreError::Away(_))) {
            return written;
        }
        let (task, now) = (one.task, self.store.now());
        let mut counts = self.tasks.lock();
        if counts.tasks.len() < MAX_COUNTED_TASKS {
            counts.tasks.entry(task).or_default().count(one, now);
            return Ok(());
        }
        written
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
