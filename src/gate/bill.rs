//! Who pays for a call and whose turn it takes, and what that leaves to spend (SEMANTICS §5, §6).

use super::call::Call;
use super::record::{params_hash, seen_call};
use crate::guards::budget::BudgetDemand;
use crate::store::state::budget::{SeenCall, TaskUsage};
use crate::store::state::digest::Digest;

/// What steps 7 to 12 need to know of a call's surroundings.
pub(super) struct Bill {
    /// Who pays.
    pub(super) task: Digest,
    /// Whose turn it takes.
    pub(super) session: Digest,
    /// What it asks of the task, and what the task may use.
    pub(super) asked: BudgetDemand,
    /// The task so far, when that can matter.
    pub(super) before: Option<TaskUsage>,
    /// Does the loop detector watch?
    pub(super) watched: bool,
}

impl Bill {
    /// Tool and arguments, as the loop detector knows them; 0 when it does not watch.
    pub(super) fn seen(&self, call: &Call) -> u64 {
        let judged = &call.judged;
        if self.watched {
            seen_call(judged.tool.as_str(), &params_hash(&judged.arguments))
        } else {
            0
        }
    }

    /// The task's last calls, oldest first.
    pub(super) fn history(&self) -> &[SeenCall] {
        self.before.as_ref().map_or(&[], |task| &task.history)
    }
}
