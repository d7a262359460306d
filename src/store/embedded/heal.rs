//! Healing: an index that broke is made anew from the journal while toolgate runs. Nothing is
//! decided meanwhile from less than what is durable: what is in memory stays there until the new
//! index has it, and what cannot be looked up is not guessed.

use super::super::claims::StoreError;
use super::super::state::Millis;
use super::index::{Index, IndexProgress};
use super::index_work::{IndexReach, IndexWork};
use super::inner::EmbeddedInner;
use super::mark::index_path;
use super::open::{aside, set_aside};
use super::replay::IndexReplay;
use super::room::{MIN_FREE_BYTES, room};
use std::path::Path;

/// Milliseconds after which it is tried again, the first time; twice as many each time after that.
const FIRST_RETRY_MS: Millis = 250;
/// But never more than this.
const MAX_RETRY_MS: Millis = 60_000;
/// Records by which the new index may be behind when it takes the old one's place.
const SWITCH_LAG_RECORDS: u64 = 4096;

/// What was tried, so that an index that breaks again and again is not made anew all the time.
#[derive(Debug, Default)]
pub(super) struct HealRetry {
    /// The next start knows that the index broke.
    noted: bool,
    wait: Millis,
    next: Millis,
}

impl HealRetry {
    fn noted(&mut self, now: Millis) {
        self.noted = true;
        if now >= self.next.saturating_add(MAX_RETRY_MS) {
            self.wait = 0;
        }
    }

    /// Whether it is time for a try, which counts from now on.
    fn is_due(&mut self, now: Millis) -> bool {
        let due = now >= self.next;
        if due {
            self.wait = (self.wait * 2).clamp(FIRST_RETRY_MS, MAX_RETRY_MS);
            self.next = now + self.wait;
        }
        due
    }
}

impl EmbeddedInner {
    /// What is to be done about an index that broke.
    pub(super) fn mend(&self, tries: &mut HealRetry) {
        if !tries.noted {
            self.closing.distrust();
            tries.noted(self.time.now());
            self.indexed(None);
        }
        let may_begin =
            self.journal.is_writing() && self.has_room_for_another() && !self.pace.is_stopping();
        if !may_begin || !tries.is_due(self.time.now()) {
            return;
        }
        match self.heal() {
            Ok(()) => tries.noted = false,
            Err(error) => {
                tracing::error!(%error, again_in_ms = tries.wait, "the index cannot be made anew");
                self.indexed(None);
            }
        }
    }

    /// Makes the index anew and puts it in the place of the one that broke.
    fn heal(&self) -> Result<(), StoreError> {
        let dir = index_path(self.closing.data_dir());
        // The old one is asked until the new one is there; sled has its files open, and needs no
        // names any more.
        if dir.exists() {
            set_aside(&dir)?;
        }
        let made =
            Index::open(&dir).and_then(|(index, applied)| match self.make_anew(&index, applied) {
                Ok(applied) => self.put(index, applied),
                Err(error) => {
                    index.close();
                    Err(error)
                }
            });
        if made.is_err() {
            // It only takes room.
            let _ = std::fs::remove_dir_all(&dir);
        }
        made
    }

    /// Brings `index`, which is empty, so near to the journal that what is in memory makes up for
    /// the rest.
    pub(super) fn make_anew(
        &self,
        index: &Index,
        applied: IndexProgress,
    ) -> Result<IndexProgress, StoreError> {
        let (what, last) = ("making the index anew", self.journal.durable_seq());
        let mut work = IndexWork::behind(what, applied.seq, last);
        let replay = self.bring_up(index, applied, |reach| work.reach(reach))?;
        work.end();
        Ok(replay.applied())
    }

    /// Brings `index`, which is as far as `applied`, so near to the journal; `told` hears of each
    /// portion.
    pub(super) fn bring_up<'i>(
        &self,
        index: &'i Index,
        applied: IndexProgress,
        mut told: impl FnMut(IndexReach),
    ) -> Result<IndexReplay<'i>, StoreError> {
        let replay = IndexReplay::begin(self.closing.data_dir(), index, applied)?;
        let mut replay =
            replay.ok_or_else(|| StoreError::Broken("a new index is not empty".to_owned()))?;
        loop {
            let durable = self.journal.durable_seq();
            while replay.step(durable)? {
                if self.pace.is_stopping() {
                    return Err(StoreError::Away("toolgate ends".to_owned()));
                }
                told(IndexReach {
                    read: replay.applied().seq,
                    last: durable,
                    rows: replay.rows(),
                });
            }
            if self.journal.durable_seq().saturating_sub(durable) <= SWITCH_LAG_RECORDS {
                return Ok(replay);
            }
        }
    }

    /// From now on `index` is asked.
    fn put(&self, index: Index, applied: IndexProgress) -> Result<(), StoreError> {
        // What the old one had is not in memory any more.
        if applied.seq < self.table.lock().indexed {
            return Err(StoreError::Broken(
                "the journal ends before the index did".to_owned(),
            ));
        }
        if let Err(error) = self.closing.trust() {
            tracing::warn!(%error, "the index is made anew once more when toolgate is killed");
        }
        self.lookup.put(index);
        self.indexed(Some(applied.seq));
        tracing::info!(
            records = applied.seq,
            "the index is made anew; side effects may run again"
        );
        Ok(())
    }

    /// Whether there is room for an index as large as the one that broke, and for the rows that it is
    /// made of, beside it.
    fn has_room_for_another(&self) -> bool {
        let data = self.closing.data_dir();
        let dir = index_path(data);
        let broken = size(&dir).max(size(&aside(&dir)));
        room(data) >= MIN_FREE_BYTES.saturating_add(broken.saturating_mul(2))
    }
}

/// Bytes of the files in `dir`.
fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files
        .filter_map(|file| file.metadata().ok())
        .map(|about| about.len())
        .sum()
}
