//! What is counted where no metrics are at hand; they read it when they are rendered.

use std::sync::atomic::{AtomicU64, Ordering};

/// Which calls are one: by their agent's key, by what a contract declares, where one is sent again.
pub(crate) const REGIME_WORDS: [&str; 3] = ["keyed", "declared", "retry"];

/// A count that only grows.
#[derive(Debug)]
pub(crate) struct Tally(AtomicU64);

/// Members whose names only look like known ones, refused or taken out, in messages of agents and
/// tool servers.
pub(crate) static LOOK_ALIKE_MEMBERS: Tally = Tally::new();

/// Messages of agents with a `_meta` that is longer than the configuration lets go on.
pub(crate) static LONG_META: Tally = Tally::new();

/// Progress that tool servers told of with another token than the request's.
pub(crate) static FOREIGN_PROGRESS: Tally = Tally::new();
/// Tasks that tool servers made of calls whose agents did not ask for one, where such are not
/// handed on.
pub(crate) static UNASKED_TASKS: Tally = Tally::new();

impl Tally {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts `more` of them. True when it is time to say so again: at each power of two, so that
    /// no log is filled.
    pub(crate) fn add(&self, more: usize) -> bool {
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        let before = self.0.fetch_add(more, Ordering::Relaxed);
        before.checked_ilog2() != before.saturating_add(more).checked_ilog2()
    }

    /// How many there were.
    pub(crate) fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
