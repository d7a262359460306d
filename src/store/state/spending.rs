//! What calls without a claim have used, once they have ended.

use super::command::{Spend, TaskTally};
use super::event::{BudgetSettled, ReadsTallied};
use super::{Millis, StoreView, begins, going_on};

/// Reads that took no part of a budget are counted.
pub(super) fn tallied(tally: &TaskTally, view: &StoreView, now: Millis) -> ReadsTallied {
    let known = going_on(view, tally.idle, tally.since);
    ReadsTallied {
        task: tally.task,
        reads: tally.reads.clone(),
        begins: begins(known, Some(&tally.origin)),
        since: tally.since,
        at: now,
    }
}

/// What became of a call without a claim.
pub(super) fn spent(spend: &Spend, now: Millis) -> BudgetSettled {
    BudgetSettled {
        task: spend.task,
        account: spend.account,
        tool: spend.tool.clone(),
        charge: spend.charge,
        failed: spend.failed,
        seen: spend.seen,
        since: spend.since,
        is_refused: spend.is_refused,
        is_past: spend.is_past,
        at: now,
    }
}
