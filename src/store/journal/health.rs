//! How a journal is doing, for operators and for who decides whether anything may run.

use super::chain::Head;
use std::time::Duration;

/// Boundaries, in microseconds, by which syncs are counted.
pub const SYNC_BOUNDS_MICROS: [u64; 12] = [
    50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 100_000, 500_000, 2_500_000,
];

/// Whether a journal can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalState {
    /// It can.
    Writing,
    /// There is no space for more, for this reason. Goes on by itself when there is.
    Full(String),
    /// It was closed.
    Closed,
    /// A write or a sync failed, for this reason; a restart is needed.
    Poisoned(String),
}

/// How a journal is doing, in numbers since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalHealth {
    /// Whether it can be written.
    pub state: JournalState,
    /// Records that wait to be written.
    pub queued: usize,
    /// Records that have a number and are not yet synced: what a power cut would take.
    pub unsynced: u64,
    /// Records refused because the queue was full.
    pub refused: u64,
    /// Records that were queued and never written, because writing failed.
    pub lost: u64,
    /// Records that went before their age, because the journal had more bytes than it may.
    pub dropped_early: u64,
    /// Where the journal stands, as far as it is synced.
    pub head: Head,
    /// Bytes written.
    pub bytes: u64,
    /// Batches written.
    pub batches: u64,
    /// Syncs.
    pub syncs: u64,
    /// Time all syncs took.
    pub sync_time: Duration,
    /// Time the longest sync took.
    pub sync_longest: Duration,
    /// Syncs by the first of [`SYNC_BOUNDS_MICROS`] that was enough for them; those that none was enough
    /// for come last.
    pub sync_counts: [u64; SYNC_BOUNDS_MICROS.len() + 1],
}

impl JournalHealth {
    /// Of a journal that was opened where it stood at `head`.
    pub(super) fn new(head: Head) -> Self {
        Self {
            state: JournalState::Writing,
            queued: 0,
            unsynced: 0,
            refused: 0,
            lost: 0,
            dropped_early: 0,
            head,
            bytes: 0,
            batches: 0,
            syncs: 0,
            sync_time: Duration::ZERO,
            sync_longest: Duration::ZERO,
            sync_counts: [0; SYNC_BOUNDS_MICROS.len() + 1],
        }
    }

    /// One more sync, which took so long.
    pub(super) fn synced(&mut self, took: Duration) {
        self.syncs += 1;
        self.sync_time += took;
        self.sync_longest = self.sync_longest.max(took);
        let enough =
            SYNC_BOUNDS_MICROS.partition_point(|bound| Duration::from_micros(*bound) < took);
        self.sync_counts[enough] += 1;
    }
}
