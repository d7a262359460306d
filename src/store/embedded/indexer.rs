//! The indexer: brings what was decided into the index, behind everybody's back, one atomic batch
//! at a time.

use super::super::claims::StoreError;
use super::super::journal::{self, Extent, Retention};
use super::super::state::Millis;
use super::SegmentRetention;
use super::heal::HealRetry;
use super::index::{Index, IndexChanges, IndexProgress};
use super::inner::EmbeddedInner;
use super::opening::OpeningJob;
use super::park::block_on;
use super::room::{MIN_FREE_BYTES, room};
use crate::model::digest::Digest;
use std::time::Duration;

/// Milliseconds between checkpoints.
const CHECKPOINT_INTERVAL_MS: Millis = 10_000;
/// Milliseconds between two looks for what is kept in vain.
const TIDY_INTERVAL_MS: Millis = 10 * 60_000;
/// Milliseconds between two looks at how large the journal is.
const MEASURE_INTERVAL_MS: Millis = 2_000;
/// Milliseconds after which segments that could not be dropped are looked at again, the first time;
/// twice as many each time after that, because all that is to go is read for it.
const FIRST_DROP_RETRY_MS: Millis = 4_000;
/// But never more than this.
const MAX_DROP_RETRY_MS: Millis = 10 * 60_000;
/// How long an answer's file is kept without a claim that refers to it: longer than it takes to
/// settle one.
const UNCLAIMED_RESULT_RETENTION: Duration = Duration::from_hours(1);
/// When what is not done each time was done last.
struct IndexerTimes {
    checkpoint: Millis,
    tidying: Millis,
    measuring: Millis,
    failing: DropRetry,
}

/// When old segments could not be dropped.
#[derive(Debug, Default)]
pub(super) struct DropRetry {
    wait: Millis,
    next: Millis,
}

impl DropRetry {
    /// Whether it may be tried at `now`.
    pub(super) fn is_over(&self, now: Millis) -> bool {
        now >= self.next
    }

    /// It was tried at `now`, and `did` or did not work.
    pub(super) fn tried(&mut self, did: bool, now: Millis) {
        self.wait = if did {
            0
        } else {
            (self.wait * 2).clamp(FIRST_DROP_RETRY_MS, MAX_DROP_RETRY_MS)
        };
        self.next = now + self.wait;
    }
}

/// Runs until [`super::pace::IndexerPace::stop`]. When the index breaks, it is made anew as soon as
/// there is room for it; until then what has begun is settled from memory, and nothing is begun. First it
/// ends the `opening`, where that goes on beside calls.
pub(super) fn run(shared: &EmbeddedInner, opening: Option<OpeningJob>) {
    if let Some(job) = opening
        && !job.run_beside(shared)
    {
        shared.lookup.close();
        return;
    }
    let now = shared.time.now();
    let (mut done, mut tries) = (
        IndexerTimes {
            checkpoint: now,
            tidying: now,
            measuring: now,
            failing: DropRetry::default(),
        },
        HealRetry::default(),
    );
    loop {
        let last = shared.pace.wait();
        if shared.lookup.is_whole()
            && let Err(error) = shared.index(&mut done, last)
        {
            tracing::debug!(%error, "the index is behind");
        }
        if shared.lookup.is_whole() {
            if last && shared.has_room() {
                shared.closing.in_good_order();
            }
        } else {
            shared.mend(&mut tries);
        }
        if last {
            shared.lookup.close();
            return;
        }
    }
}

impl EmbeddedInner {
    /// What is to be done about an index that is whole.
    fn index(&self, done: &mut IndexerTimes, last: bool) -> Result<(), StoreError> {
        self.catch_up()?;
        self.lookup.ask(Index::learn)?;
        let now = self.time.now();
        if (last || now >= done.checkpoint + CHECKPOINT_INTERVAL_MS) && self.has_room() {
            self.lookup.change(Index::checkpoint)?;
            self.sweep(now)?;
            done.checkpoint = now;
        }
        if !last && now >= done.measuring + MEASURE_INTERVAL_MS {
            self.measure(&mut done.failing);
            done.measuring = now;
        }
        if !last && now >= done.tidying + TIDY_INTERVAL_MS {
            let did = self.tidy();
            done.failing.tried(did, self.time.now());
            done.tidying = now;
        }
        Ok(())
    }

    /// Brings everything decided so far into the index.
    pub(super) fn catch_up(&self) -> Result<(), StoreError> {
        let (changes, applied) = self.changes();
        if changes.is_empty() {
            return Ok(());
        }
        // What is left of a full disk is the journal's.
        if !self.has_room() {
            self.indexed(None);
            return Ok(());
        }
        // The index must never know more than the journal.
        match block_on(self.journal.wait_durable(applied.seq)) {
            Ok(_) => {}
            // It will be written when there is room again, or never; until then the changes stay in
            // memory.
            Err(error) => {
                tracing::debug!(%error, "the index waits for the journal");
                self.indexed(None);
                return Ok(());
            }
        }
        self.lookup
            .change(|index| index.write(&changes, applied))
            .inspect_err(|_| self.indexed(None))?;
        self.indexed(Some(applied.seq));
        Ok(())
    }

    /// The index has everything up to record `upto`; none: nothing new, and for now it stays so.
    pub(super) fn indexed(&self, upto: Option<u64>) {
        let mut table = self.table.lock();
        // Also those whose outcome had to wait for room.
        let settled = upto
            .map(|upto| table.drop_indexed(upto, self.time.now()))
            .unwrap_or_default();
        let behind = table.unindexed();
        drop(table);
        for action in settled {
            self.marks.clear(action);
        }
        self.pace.behind(behind, upto.is_none());
    }

    /// Whether there is room for the index to grow, as far as that can be known.
    pub(super) fn has_room(&self) -> bool {
        let is_full = !self.journal.is_writing()
            && matches!(self.journal.health().state, journal::JournalState::Full(_));
        !is_full && room(self.closing.data_dir()) >= MIN_FREE_BYTES
    }

    /// Everything that is not indexed, as it is after the last record decided.
    fn changes(&self) -> (IndexChanges, IndexProgress) {
        let table = self.table.lock();
        let applied = IndexProgress {
            seq: table.last,
            token: table.token,
            seen: self.time.now(),
        };
        (IndexChanges::of(&table), applied)
    }

    /// Drops segments of a journal that has become too large.
    fn measure(&self, failing: &mut DropRetry) {
        let measured = match self.journal.measure() {
            Ok(Extent::Beyond | Extent::FarBeyond) if failing.is_over(self.time.now()) => {
                let did = self.tidy();
                failing.tried(did, self.time.now());
                self.journal.measure()
            }
            Ok(Extent::Within | Extent::Lean | Extent::Beyond | Extent::FarBeyond) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = measured {
            tracing::warn!(%error, "how large the journal is cannot be known");
        }
    }

    /// Drops old segments of the journal and answers that nobody can ask for any more. What does
    /// not work is tried again later: it only costs room. False when segments could not be
    /// dropped that may go.
    pub(super) fn tidy(&self) -> bool {
        let Some(SegmentRetention { age, archive }) = &self.keeping else {
            return true;
        };
        let upto = {
            let table = self.table.lock();
            // What changes a state is queued under this lock, so that what follows the last of it
            // is entries and notes on tools taken away: no state needs those, and what
            // is taken away stands in a file of its own.
            if table.indexed >= table.last {
                self.journal.durable_seq().max(table.indexed)
            } else {
                table.indexed
            }
        };
        let retention = Retention {
            upto,
            age: *age,
            archive: archive.as_deref(),
        };
        let compacted = self.lookup.ask(|index| {
            let carried = index.carried().map(|event| {
                event
                    .inspect_err(|error| self.lookup.doubt(error))
                    .map_err(|error| journal::JournalError::NotCarried(error.to_string()))
            });
            Ok(block_on(self.journal.compact(retention, carried)))
        });
        let did = !matches!(compacted, Ok(Err(_)));
        if let Ok(Err(error)) = compacted {
            tracing::warn!(%error, "old segments of the journal cannot be dropped");
        }
        let needed = |digest: &Digest| {
            let is_indexed = self.lookup.ask(|index| index.needs(digest)).unwrap_or(true);
            let is_fresh = || {
                let table = self.table.lock();
                let mut fresh = table
                    .claims
                    .values()
                    .filter_map(|kept| kept.value.phase.stored());
                fresh.any(|stored| stored.kept_digest() == digest)
            };
            is_indexed || is_fresh()
        };
        if let Err(error) = self.results.sweep(UNCLAIMED_RESULT_RETENTION, needed) {
            tracing::warn!(%error, "old results cannot be removed");
        }
        did
    }

    fn sweep(&self, now: Millis) -> Result<(), StoreError> {
        loop {
            let table = self.table.lock();
            let is_busy = |key: &_| {
                let is_paid = table.claims.contains_key(key) || table.tasks.contains_key(key);
                let is_asked = table.holds.contains_key(key) || table.grants.contains_key(key);
                let is_asked = is_asked || table.undos.contains_key(key);
                is_paid || is_asked || table.sessions.contains_key(key)
            };
            if !self.lookup.change(|index| index.sweep(now, is_busy))? {
                return Ok(());
            }
        }
    }
}
