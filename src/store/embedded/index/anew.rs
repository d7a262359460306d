//! Making an index anew: its rows gather in runs, and sled gets them in order of their names.

use super::names::META_KEY;
use super::runs::IndexRuns;
use super::values::text;
use super::{Index, IndexProgress, calmly, free};
use crate::failpoint;
use crate::store::claims::StoreError;
use crate::store::journal;
use sled::Batch;
use std::io;

/// Rows that sled gets at once. A row may hold an answer of 16 KiB, and three portions are in memory.
const ROWS_PER_PORTION: usize = 1024;
/// How far an index is that is not whole: beyond every journal, so that nobody goes on with it.
const UNFINISHED: IndexProgress = IndexProgress {
    seq: u64::MAX,
    token: 0,
    seen: 0,
};

impl IndexProgress {
    /// Whether the process ended while the index was made anew.
    pub(in crate::store::embedded) fn is_unfinished(self) -> bool {
        self == UNFINISHED
    }
}

impl Index {
    /// What is written from here on gathers until [`Index::finish`]; only for an index that is empty.
    /// False where it is not.
    pub(in crate::store::embedded) fn begin_anew(&self) -> bool {
        let is_empty = calmly(|| Ok(self.db.is_empty())).unwrap_or(false);
        if is_empty {
            *self.runs.lock() = Some(IndexRuns::new(&self.dir));
        }
        is_empty
    }

    /// Brings the next portion of what has gathered into the index; false when that was the last. A
    /// crash before leaves an index that says that it is not whole.
    pub(in crate::store::embedded) fn finish(&self) -> Result<bool, StoreError> {
        let mut gathered = self.runs.lock();
        let Some(runs) = &mut *gathered else {
            return Ok(false);
        };
        let Some(progress) = runs.progress else {
            *gathered = None;
            return Ok(false);
        };
        if !runs.is_merging() {
            let mark = text(&UNFINISHED)?;
            calmly(|| self.db.insert(META_KEY, mark))?;
            failpoint::reached("opening");
        }
        let rows = runs
            .next_rows(ROWS_PER_PORTION)
            .map_err(|error| unkept_run(&error))?;
        let count = rows.len();
        let mut batch = Batch::default();
        for (name, value) in rows {
            if let Some(value) = value {
                batch.insert(name, value);
            }
        }
        let is_last = count < ROWS_PER_PORTION;
        if is_last {
            batch.insert(META_KEY, text(&progress)?);
        }
        calmly(|| self.db.apply_batch(batch))?;
        free(count);
        if is_last {
            *gathered = None;
        }
        Ok(!is_last)
    }

    /// How many rows of all that gathered have come into the index, once they do.
    pub(in crate::store::embedded) fn rows(&self) -> Option<(u64, u64)> {
        let gathered = self.runs.lock();
        let runs = gathered.as_ref().filter(|runs| runs.is_merging())?;
        Some((runs.taken, runs.written))
    }
}

/// Why rows cannot gather.
pub(super) fn unkept_run(error: &io::Error) -> StoreError {
    if journal::is_full(error) {
        StoreError::Full(error.to_string())
    } else {
        StoreError::Broken(format!("the index cannot be made anew: {error}"))
    }
}
