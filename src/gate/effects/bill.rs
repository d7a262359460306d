//! Who pays for a call and whose turn it takes, and what that leaves to spend (guarantees §5, §6).

use crate::gate::call::Call;
use crate::gate::record::hashes::params_hash;
use crate::gate::record::hashes::seen_call;
use crate::guards::budget::BudgetDemand;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::store::state::budget::{SeenCall, TaskUsage};
use crate::store::state::settlement::Charge;

/// What steps 7 to 12 need to know of a call's surroundings.
pub(in crate::gate) struct Bill {
    /// Who pays.
    pub(in crate::gate) task: Digest,
    /// Whose turn it takes.
    pub(in crate::gate) session: Digest,
    /// What it asks of the task, and what the task may use.
    pub(in crate::gate) asked: BudgetDemand,
    /// The task so far, when that can matter.
    pub(in crate::gate) before: Option<TaskUsage>,
    /// Does the loop detector watch?
    pub(in crate::gate) watched: bool,
}

impl Bill {
    /// Tool and arguments, as the loop detector knows them; 0 when it does not watch.
    pub(in crate::gate) fn seen(&self, call: &Call) -> u64 {
        let judged = &call.judged;
        if self.watched {
            seen_call(judged.tool.as_str(), &params_hash(&judged.arguments))
        } else {
            0
        }
    }

    /// The task's last calls, oldest first.
    pub(in crate::gate) fn history(&self) -> &[SeenCall] {
        self.before.as_ref().map_or(&[], |task| &task.history)
    }
}

/// A reservation without a claim.
#[derive(Debug)]
pub(in crate::gate) struct Reserved {
    pub(in crate::gate) task: Digest,
    pub(in crate::gate) tool: ToolName,
    pub(in crate::gate) cost: u64,
    /// What becomes of it if the call ends now: given back until something of the call may have
    /// left.
    pub(in crate::gate) charge: Charge,
}
