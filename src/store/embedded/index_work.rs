//! How far an index is that is brought up to the journal, as it is told: the records that are read, and,
//! of an index that is made anew, after them the rows that come into it. Each is a work of its own, so
//! that none says that it is done while the other is not.

use crate::model::long_work::{LongWork, WorkUnit};

/// What is told of the rows.
const ROWS_WORK: &str = "putting rows into the index";

/// How far an index is.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexReach {
    /// The last record that was read.
    pub(super) read: u64,
    /// The last that is wanted.
    pub(super) last: u64,
    /// How many rows of all have come into it, while they do.
    pub(super) rows: Option<(u64, u64)>,
}

/// What is told of it.
pub(super) struct IndexWork {
    what: &'static str,
    /// Whether the process does other things meanwhile.
    is_behind: bool,
    /// The last record that the index had already.
    before: u64,
    is_of_rows: bool,
    /// None only between two.
    under_way: Option<LongWork>,
}

impl IndexWork {
    /// Of `what`, for which the process waits: the records after `before` up to `last`.
    pub(super) fn of(what: &'static str, before: u64, last: u64) -> Self {
        Self::begin(what, before, false).reading(last)
    }

    /// The same, while the process does other things.
    pub(super) fn behind(what: &'static str, before: u64, last: u64) -> Self {
        Self::begin(what, before, true).reading(last)
    }

    fn begin(what: &'static str, before: u64, is_behind: bool) -> Self {
        Self {
            what,
            is_behind,
            before,
            is_of_rows: false,
            under_way: None,
        }
    }

    fn reading(mut self, last: u64) -> Self {
        self.next(self.what, WorkUnit::Records, self.records(last));
        self
    }

    /// It has come so far.
    pub(super) fn reach(&mut self, reach: IndexReach) {
        let is_of_rows = reach.rows.is_some();
        let records = || (self.records(reach.read), self.records(reach.last));
        let (done, all) = reach.rows.unwrap_or_else(records);
        if is_of_rows != self.is_of_rows {
            self.end();
            self.is_of_rows = is_of_rows;
            if is_of_rows {
                self.next(ROWS_WORK, WorkUnit::Rows, all);
            } else {
                self.next(self.what, WorkUnit::Records, all);
            }
        }
        if let Some(work) = &mut self.under_way {
            work.reach(done);
        }
    }

    /// All of what is under way is done.
    pub(super) fn end(&mut self) {
        if let Some(work) = self.under_way.take() {
            work.end();
        }
    }

    fn next(&mut self, what: &'static str, unit: WorkUnit, all: u64) {
        self.under_way = Some(if self.is_behind {
            LongWork::behind(what, unit, all)
        } else {
            LongWork::of(what, unit, all)
        });
    }

    fn records(&self, upto: u64) -> u64 {
        upto.saturating_sub(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::long_work::under_way;

    const WHAT: &str = "indexing in a test";

    /// What is under way of it: the work, and how far it is of how many.
    fn told(work: &IndexWork) -> Option<(&'static str, WorkUnit, u64, u64)> {
        assert!(work.under_way.is_some());
        let all = under_way().into_iter().map(|one| one.step);
        // Other tests make indexes, too; each makes its own of other sizes.
        let mut own =
            all.filter(|step| step.what == WHAT || (step.what, step.all) == (ROWS_WORK, 7_654_321));
        let step = own.next()?;
        assert_eq!(own.next(), None, "one at a time");
        Some((step.what, step.unit, step.done, step.all))
    }

    fn at(read: u64, rows: Option<(u64, u64)>) -> IndexReach {
        IndexReach {
            read,
            last: 110,
            rows,
        }
    }

    /// Issue 17 "progress bars": all records are read, and rows are still to come: then it is not said to be
    /// done, but what is done of the rows; and records that came meanwhile are told after them.
    #[test]
    fn rows_are_a_work_of_their_own() {
        let mut work = IndexWork::behind(WHAT, 10, 110);
        assert_eq!(told(&work), Some((WHAT, WorkUnit::Records, 0, 100)));
        work.reach(at(60, None));
        assert_eq!(told(&work), Some((WHAT, WorkUnit::Records, 50, 100)));
        for came in [1, 1024] {
            work.reach(at(110, Some((came, 7_654_321))));
            let expected = (ROWS_WORK, WorkUnit::Rows, came, 7_654_321);
            assert_eq!(told(&work), Some(expected));
        }
        work.reach(IndexReach {
            last: 210,
            ..at(160, None)
        });
        assert_eq!(told(&work), Some((WHAT, WorkUnit::Records, 150, 200)));
        work.end();
        assert!(under_way().iter().all(|one| one.step.what != WHAT));
    }
}
