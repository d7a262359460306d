//! What became of what was to leave for a collector.

use super::endpoint::OtlpSignal;
use std::sync::atomic::{AtomicU64, Ordering};

/// Those of this process.
pub(crate) static OTLP_TALLIES: OtlpTallies = OtlpTallies {
    requests: [const { [AtomicU64::new(0), AtomicU64::new(0)] }; OtlpSignal::ALL.len()],
    lost_records: AtomicU64::new(0),
};

/// Counts that only grow.
#[derive(Debug)]
pub(crate) struct OtlpTallies {
    /// Of each signal: requests that the collector took, and others.
    requests: [[AtomicU64; 2]; OtlpSignal::ALL.len()],
    lost_records: AtomicU64,
}

impl OtlpTallies {
    /// A request was taken, or was not.
    pub(super) fn count(&self, signal: OtlpSignal, is_taken: bool) {
        self.requests[signal as usize][usize::from(!is_taken)].fetch_add(1, Ordering::Relaxed);
    }

    /// So many log records reach no collector.
    pub(super) fn lose(&self, records: usize) {
        let records = u64::try_from(records).unwrap_or(u64::MAX);
        self.lost_records.fetch_add(records, Ordering::Relaxed);
    }

    /// Requests so far: the signal's word, `sent` or `failed`, and how many.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        OtlpSignal::ALL.into_iter().flat_map(move |signal| {
            let of = &self.requests[signal as usize];
            ["sent", "failed"]
                .into_iter()
                .zip(of)
                .map(move |(outcome, count)| {
                    (signal.word(), outcome, count.load(Ordering::Relaxed))
                })
        })
    }

    /// Log records that reached no collector so far.
    pub(crate) fn lost_records(&self) -> u64 {
        self.lost_records.load(Ordering::Relaxed)
    }
}
