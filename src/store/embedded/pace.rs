//! How far the index may fall behind, and who waits for it.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// How long changes gather.
const INDEX_INTERVAL: Duration = Duration::from_millis(250);
/// Changes that are not left to gather any longer.
const INDEX_AT_CHANGES: usize = 4096;
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
