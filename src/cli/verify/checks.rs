//! The guarantees, one file each: what is done to a call, and what has to be counted then. What was seen is judged by
//! functions of their own, which know of nothing else.

pub(super) mod approvals;
pub(super) mod at_most_once;
pub(super) mod budgets;
pub(super) mod closed;
pub(super) mod fences;
pub(super) mod ledgers;
