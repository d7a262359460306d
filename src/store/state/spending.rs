//! What calls without a claim have used, once they have ended.

use super::apply::begun;
use super::command::{Spend, TaskTally};
use super::event::{BudgetSettled, ReadsTallied};
use super::{Millis, StoreView, begins, going_on};
use crate::model::task::TaskOrigin;

/// Reads that took no part of a budget are counted.
pub(super) fn tallied(tally: &TaskTally, view: &StoreView, now: Millis) -> ReadsTallied {
    ReadsTallied {
        task: tally.task,
        reads: tally.reads.clone(),
        begins: begun_by(tally, view),
        since: tally.since,
        at: now,
    }
}

/// Counts them in `view`, as the event of them does: for who keeps no event.
pub(crate) fn count_reads(tally: &TaskTally, view: &mut StoreView, now: Millis) {
    let begins = begun_by(tally, view);
    let task = begun(&mut view.task, begins.as_ref(), tally.since);
    task.tally(&tally.reads, now);
}

/// Whose task begins with these reads, if one does.
fn begun_by(tally: &TaskTally, view: &StoreView) -> Option<TaskOrigin> {
    let known = going_on(view, tally.idle, tally.since);
    begins(known, Some(&tally.origin))
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
