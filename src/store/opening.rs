//! A store that opens beside the calls, because its index has to be made anew: how far it is, and
//! which reads may pass meanwhile.

use super::stopped_tasks::StoppedTasks;
use crate::model::digest::Digest;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use tokio::sync::Notify;

/// What is told at most before it has ended.
const MOST_PERCENT: u8 = 99;

/// How the opening of one store stands.
#[derive(Debug)]
pub struct StoreOpening {
    /// Tasks that an operator may have stopped, as far as that is known before the index is.
    stopped: StoppedTasks,
    percent: AtomicU8,
    is_over: AtomicBool,
    /// Why it cannot be opened.
    failure: OnceLock<String>,
    failed: Notify,
}

impl StoreOpening {
    /// One that begins.
    pub(super) fn new(stopped: StoppedTasks) -> Self {
        Self {
            stopped,
            percent: AtomicU8::new(0),
            is_over: AtomicBool::new(false),
            failure: OnceLock::new(),
            failed: Notify::new(),
        }
    }

    /// Whether the store cannot say yet what it knows, or will never be able to.
    pub fn is_on(&self) -> bool {
        !self.is_over.load(Ordering::Acquire)
    }

    /// How far it is, from 0 to 100.
    pub fn percent(&self) -> u8 {
        self.percent.load(Ordering::Relaxed)
    }

    /// Whether a read of `task` may pass that is only counted: what the store knows of the task could
    /// not refuse it for certain.
    pub(super) fn passes(&self, task: &Digest) -> bool {
        self.is_on() && self.failure.get().is_none() && !self.stopped.may_hold(task)
    }

    /// It has come that far; never back.
    pub(super) fn reach(&self, percent: u64) {
        let percent =
            u8::try_from(percent).map_or(MOST_PERCENT, |percent| percent.min(MOST_PERCENT));
        self.percent.fetch_max(percent, Ordering::Relaxed);
    }

    /// From now on the store says what it knows.
    pub(super) fn end(&self) {
        self.percent.store(100, Ordering::Relaxed);
        self.is_over.store(true, Ordering::Release);
    }

    /// The store cannot be opened.
    pub(super) fn fail(&self, why: String) {
        // Only the first reason counts.
        drop(self.failure.set(why));
        self.failed.notify_waiters();
    }

    /// Why the store cannot be opened.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Waits until the store cannot be opened, if that ever happens; why.
    pub async fn failed(&self) -> &str {
        loop {
            let mut failed = pin!(self.failed.notified());
            failed.as_mut().enable();
            if let Some(why) = self.failure() {
                return why;
            }
            failed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_pass_until_it_has_ended_or_failed() {
        let (task, other) = (Digest::of(b"task"), Digest::of(b"other"));
        let mut stopped = StoppedTasks::none();
        stopped.add(&other);
        let opening = StoreOpening::new(stopped);
        assert!(opening.passes(&task) && !opening.passes(&other));
        for (reached, told) in [(3, 3), (2, 3), (4000, 99)] {
            opening.reach(reached);
            assert_eq!(opening.percent(), told);
        }
        opening.end();
        assert!(!opening.is_on() && !opening.passes(&task));
        assert_eq!((opening.percent(), opening.failure()), (100, None));
        let opening = StoreOpening::new(StoppedTasks::none());
        let (why, ()) = tokio::join!(opening.failed(), async {
            opening.fail("no room".to_owned());
        });
        assert_eq!(why, "no room");
        assert!(opening.is_on() && !opening.passes(&task));
    }

    /// A store that was never told who is stopped lets no read pass.
    #[test]
    fn who_knows_nothing_lets_nothing_pass() {
        let opening = StoreOpening::new(StoppedTasks::read(None));
        assert!(!opening.passes(&Digest::of(b"task")));
    }
}
