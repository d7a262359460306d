//! Which tasks of the index an operator has stopped.

use super::names::{TASK_PREFIX, named_by};
use super::values::read;
use super::{Index, calmly};
use crate::store::claims::StoreError;
use crate::store::state::budget::TaskUsage;
use crate::store::stopped_tasks::StoppedTasks;

/// Stands in what is kept of a task that an operator has stopped; of others seldom.
const STOPPED_MEMBER: &[u8] = b"\"stopped\":";

impl Index {
    /// Those that are stopped of the tasks that `may` be. Looks through all tasks where any may.
    pub(in crate::store::embedded) fn stopped(
        &self,
        may: &StoppedTasks,
    ) -> Result<StoppedTasks, StoreError> {
        let mut stopped = StoppedTasks::none();
        for beginning in may.beginnings() {
            let names = [&[TASK_PREFIX][..], &beginning].concat();
            let mut tasks = self.db.scan_prefix(names);
            while let Some((name, value)) = calmly(|| tasks.next().transpose())? {
                let mut parts = value.windows(STOPPED_MEMBER.len());
                if parts.any(|part| part == STOPPED_MEMBER)
                    && read::<TaskUsage>(&value)?.stopped.is_some()
                    && let Some(task) = named_by(&name)
                {
                    stopped.add(&task);
                }
            }
        }
        Ok(stopped)
    }
}
