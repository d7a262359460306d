//! How far the index may fall behind, and who waits for it.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// How long changes gather: what a task or a session changes again meanwhile is written once.
const INDEX_INTERVAL: Duration = Duration::from_secs(1);
/// Changes that are not left to gather any longer: they are in memory, and copied under the lock
/// under which callers decide.
const INDEX_AT_CHANGES: usize = 8192;
/// Records of the journal that so many changes leave behind, two events and their entries for a call.
const INDEX_AT_RECORDS: u64 = 4 * 8192;

/// How indexer and callers keep step.
#[derive(Debug, Default)]
pub(super) struct IndexerPace {
    state: Mutex<IndexerState>,
    nudged: Condvar,
    caught_up: Notify,
}

#[derive(Debug, Default)]
struct IndexerState {
    behind: usize,
    stopping: bool,
    /// Nothing is indexed for now.
    stuck: bool,
}

impl IndexerPace {
    /// Says how much is not indexed; `stuck`: for now it stays so.
    pub(super) fn behind(&self, count: usize, stuck: bool) {
        let mut state = self.state.lock();
        (state.behind, state.stuck) = (count, stuck);
        drop(state);
        self.caught_up.notify_waiters();
    }

    /// Waits while more than `most` is not indexed, unless that would be for long.
    pub(super) async fn keep_up(&self, most: usize) {
        self.until(|| self.is_near(most)).await;
    }

    /// Waits until the indexer has brought it about that `is_so`.
    pub(super) async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let mut caught_up = std::pin::pin!(self.caught_up.notified());
            caught_up.as_mut().enable();
            if is_so() {
                return;
            }
            caught_up.await;
        }
    }

    fn is_near(&self, most: usize) -> bool {
        let state = self.state.lock();
        state.behind <= most || state.stuck
    }

    /// Whether more than `most` is not indexed, and that stays so for now.
    pub(super) fn is_stuck(&self, most: usize) -> bool {
        let state = self.state.lock();
        state.stuck && state.behind > most
    }

    /// Whether the indexer is to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// The index is so many records behind, `more` of them since it was last said: says so to the
    /// indexer when that is more than is left to gather.
    pub(super) fn lags(&self, records: u64, more: u64) {
        if records >= INDEX_AT_RECORDS && records.saturating_sub(more) < INDEX_AT_RECORDS {
            self.nudged.notify_one();
        }
    }

    /// Ends the indexer once everything is indexed.
    pub(super) fn stop(&self) {
        self.state.lock().stopping = true;
        self.nudged.notify_one();
    }

    /// Waits for work; true when it is to be the last.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        if !state.stopping && (state.behind < INDEX_AT_CHANGES || state.stuck) {
            self.nudged.wait_for(&mut state, INDEX_INTERVAL);
        }
        state.stopping
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::clock::Clock;

    // The indexer need not wait for its time when much is to be indexed, and is told once.
    #[test]
    fn much_to_index_ends_the_wait() {
        let pace = IndexerPace::default();
        std::thread::scope(|threads| {
            let indexer = threads.spawn(|| {
                let began = Clock.steady();
                while Clock.steady().saturating_sub(began) < Duration::from_mins(1) {
                    let waits = Clock.steady();
                    assert!(!pace.wait());
                    if Clock.steady().saturating_sub(waits) < INDEX_INTERVAL {
                        return true;
                    }
                }
                false
            });
            while !indexer.is_finished() {
                pace.lags(INDEX_AT_RECORDS + 3, 4);
                std::thread::yield_now();
            }
            assert!(indexer.join().unwrap());
        });
    }

    // What a caller reads of it does not change by that: behind is behind.
    #[test]
    fn who_is_near_does_not_wait() {
        let pace = IndexerPace::default();
        pace.behind(9, false);
        assert!(pace.is_near(9) && !pace.is_near(8) && !pace.is_stuck(8));
        pace.behind(9, true);
        assert!(pace.is_near(8) && pace.is_stuck(8) && !pace.is_stuck(9));
    }
}
