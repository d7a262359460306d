//! The indexer: brings what was decided into the index, behind everybody's back, one atomic batch at a time.

use super::super::claims::Error;
use super::super::journal::{self, Retention};
use super::super::state::Millis;
use super::super::state::claim::Phase;
use super::super::state::digest::Digest;
use super::super::table::drop_unchanged;
use super::Shared;
use super::index::{Applied, Changes};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use tokio::sync::Notify;

/// How long changes gather.
const EVERY: Duration = Duration::from_millis(250);
/// Changes that are not left to gather any longer.
const MANY: usize = 4096;
/// Milliseconds between checkpoints.
const CHECKPOINT: Millis = 10_000;
/// Milliseconds between two looks for what is kept in vain.
const TIDY: Millis = 10 * 60_000;
/// How long an answer's file is kept without a claim that refers to it: longer than it takes to settle one.
const UNCLAIMED: Duration = Duration::from_hours(1);

/// How indexer and callers keep step.
#[derive(Debug, Default)]
pub(super) struct Pace {
    state: Mutex<State>,
    nudged: Condvar,
    caught_up: Notify,
}

#[derive(Debug, Default)]
struct State {
    behind: usize,
    stopping: bool,
    broken: bool,
}

impl Pace {
    /// Says how much is not indexed; wakes the indexer when that is much.
    pub(super) fn behind(&self, count: usize) {
        let mut state = self.state.lock();
        let was = std::mem::replace(&mut state.behind, count);
        if was < MANY && count >= MANY {
            self.nudged.notify_one();
        }
    }

    /// Waits while more than `most` is not indexed.
    pub(super) async fn keep_up(&self, most: usize) {
        loop {
            let mut caught_up = std::pin::pin!(self.caught_up.notified());
            caught_up.as_mut().enable();
            if self.is_near(most) {
                return;
            }
            caught_up.await;
        }
    }

    /// Whether the indexer has given up.
    pub(super) fn is_broken(&self) -> bool {
        self.state.lock().broken
    }

    fn is_near(&self, most: usize) -> bool {
        let state = self.state.lock();
        state.behind <= most || state.broken
    }

    /// Ends the indexer once everything is indexed.
    pub(super) fn stop(&self) {
        self.state.lock().stopping = true;
        self.nudged.notify_one();
    }

    /// Waits for work; true when it is to be the last.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        if !state.stopping && state.behind < MANY {
            self.nudged.wait_for(&mut state, EVERY);
        }
        state.stopping
    }
}

/// Waits on this thread, which does nothing else meanwhile.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Runs until [`Pace::stop`], or until the index breaks; then what has begun is settled from memory, and nothing is begun.
pub(super) fn run(shared: &Shared) {
    let mut checkpointed = shared.time.now();
    let mut tidied = checkpointed;
    loop {
        let last = shared.pace.wait();
        if shared.pace.is_broken() {
            return;
        }
        let result = shared.catch_up().and_then(|()| {
            let now = shared.time.now();
            if last || (now >= checkpointed + CHECKPOINT && !shared.has_no_room()) {
                shared.index.checkpoint()?;
                shared.sweep(now)?;
                checkpointed = now;
            }
            if !last && now >= tidied + TIDY {
                shared.tidy();
                tidied = now;
            }
            Ok(())
        });
        if let Err(error) = result {
            shared.give_up(&error);
            return;
        }
        if last {
            shared.closing.in_good_order();
            return;
        }
    }
}

impl Shared {
    /// Stops indexing for good.
    pub(super) fn give_up(&self, error: &Error) {
        tracing::error!(%error, "the index is given up: no side effect is begun until toolgate is started again, which makes it anew");
        self.closing.distrust();
        self.pace.state.lock().broken = true;
        self.pace.caught_up.notify_waiters();
    }

    /// Brings everything decided so far into the index.
    pub(super) fn catch_up(&self) -> Result<(), Error> {
        let (changes, applied) = self.changes();
        if changes.claims.is_empty() && changes.tasks.is_empty() && changes.sessions.is_empty() {
            return Ok(());
        }
        // What is left of a full disk is the journal's; sled does not come back from one.
        if self.has_no_room() {
            return Ok(());
        }
        // The index must never know more than the journal.
        match block_on(self.journal.until(applied.seq)) {
            Ok(_) => {}
            // It will be written when there is room again, or never; until then the changes stay in memory.
            Err(error) => {
                tracing::debug!(%error, "the index waits for the journal");
                return Ok(());
            }
        }
        self.index.write(&changes, applied)?;
        // Also those whose outcome had to wait for room.
        let settled = changes.claims.iter().filter(|(_, claim)| !matches!(claim.phase, Phase::Dispatching));
        settled.for_each(|(_, claim)| self.marks.clear(claim.action));
        let behind = {
            let mut table = self.table.lock();
            changes.claims.iter().for_each(|(key, _)| drop_unchanged(&mut table.claims, *key, applied.seq));
            changes.tasks.iter().for_each(|(key, _)| drop_unchanged(&mut table.tasks, *key, applied.seq));
            changes.sessions.iter().for_each(|(key, _)| drop_unchanged(&mut table.sessions, *key, applied.seq));
            table.indexed = applied.seq;
            table.len()
        };
        self.pace.behind(behind);
        self.pace.caught_up.notify_waiters();
        Ok(())
    }

    fn has_no_room(&self) -> bool {
        !self.journal.is_writing() && matches!(self.journal.health().state, journal::State::Full(_))
    }

    /// Everything in memory, as it is after the last record decided.
    fn changes(&self) -> (Changes, Applied) {
        let table = self.table.lock();
        let changes = Changes {
            claims: table.claims.iter().map(|(key, kept)| (*key, kept.value.clone())).collect(),
            tasks: table.tasks.iter().map(|(key, kept)| (*key, kept.value.clone())).collect(),
            sessions: table.sessions.iter().map(|(key, kept)| (*key, kept.value)).collect(),
        };
        (changes, Applied { seq: table.last, token: table.token, seen: self.time.now() })
    }

    /// Drops old segments of the journal and answers that nobody can ask for any more. What does not work is tried again
    /// later: it only costs room.
    pub(super) fn tidy(&self) {
        let upto = self.table.lock().indexed;
        let carried =
            self.index.carried().map(|event| event.map_err(|error| journal::Error::NotCarried(error.to_string())));
        let retention = Retention { upto, age: self.retention };
        if let Err(error) = block_on(self.journal.compact(retention, carried)) {
            tracing::warn!(%error, "old segments of the journal cannot be dropped");
        }
        let needed = |digest: &Digest| {
            let is_indexed = self.index.needs(digest).unwrap_or(true);
            let is_fresh = || {
                let table = self.table.lock();
                let mut fresh = table.claims.values().filter_map(|kept| kept.value.phase.stored());
                fresh.any(|stored| stored.digest == *digest)
            };
            is_indexed || is_fresh()
        };
        if let Err(error) = self.results.sweep(UNCLAIMED, needed) {
            tracing::warn!(%error, "old results cannot be removed");
        }
    }

    fn sweep(&self, now: Millis) -> Result<(), Error> {
        loop {
            let table = self.table.lock();
            let is_busy = |key: &_| {
                table.claims.contains_key(key) || table.tasks.contains_key(key) || table.sessions.contains_key(key)
            };
            if !self.index.sweep(now, is_busy)? {
                return Ok(());
            }
        }
    }
}
