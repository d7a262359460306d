//! Work that may take long, such as reading a journal through: how far it is, told to what watches, such as
//! a terminal or the log, and there to be looked at while it lasts.

use super::clock::Clock;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Told of each step of such work.
pub(crate) type WorkWatcher = dyn Fn(WorkStep) + Send + Sync;

static WATCHER: OnceLock<Box<WorkWatcher>> = OnceLock::new();
/// What has begun and not ended, the oldest first; each is of a thread that does nothing else meanwhile.
static UNDER_WAY: Mutex<Vec<WorkUnderWay>> = Mutex::new(Vec::new());
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// What the steps of a work are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkUnit {
    /// Records of the journal.
    Records,
    /// Bytes of files.
    Bytes,
    /// Rows of an index.
    Rows,
}

impl WorkUnit {
    /// For people and programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Bytes => "bytes",
            Self::Rows => "rows",
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkStep {
    /// Tells it from all other work of this process.
    pub(crate) id: u64,
    /// Which work, such as `bringing the index up to the journal`.
    pub(crate) what: &'static str,
    /// What its steps are.
    pub(crate) unit: WorkUnit,
    /// What is done of it, in steps of its own.
    pub(crate) done: u64,
    /// Of how many in all.
    pub(crate) all: u64,
    /// Whether the process does other things meanwhile, so that nobody waits for this.
    pub(crate) is_behind: bool,
    /// Whether it has come to its end, done or not.
    pub(crate) is_over: bool,
}

/// Such work, as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkUnderWay {
    /// How far it is.
    pub(crate) step: WorkStep,
    /// When it began, on the steady clock.
    pub(crate) began: Duration,
}

/// All such work of this process, the oldest first.
pub(crate) fn under_way() -> Vec<WorkUnderWay> {
    UNDER_WAY.lock().clone()
}

/// Has `watcher` told of all such work of this process from now on; only the first one counts.
pub(crate) fn watch(watcher: Box<WorkWatcher>) {
    drop(WATCHER.set(watcher));
}

/// One such work, from its begin to its end.
pub(crate) struct LongWork(WorkStep);

impl LongWork {
    /// Of `what`, which takes `all` steps, and for which the process waits.
    pub(crate) fn of(what: &'static str, unit: WorkUnit, all: u64) -> Self {
        Self::begin(what, unit, all, false)
    }

    /// The same, while the process does other things.
    pub(crate) fn behind(what: &'static str, unit: WorkUnit, all: u64) -> Self {
        Self::begin(what, unit, all, true)
    }

    fn begin(what: &'static str, unit: WorkUnit, all: u64, is_behind: bool) -> Self {
        let step = WorkStep {
            id: BEGUN.fetch_add(1, Ordering::Relaxed),
            what,
            unit,
            done: 0,
            all,
            is_behind,
            is_over: false,
        };
        let began = Clock.steady();
        UNDER_WAY.lock().push(WorkUnderWay { step, began });
        Self(step).told()
    }

    /// It has come so far in all.
    pub(crate) fn reach(&mut self, done: u64) {
        self.0.done = done.min(self.0.all);
        let mut under_way = UNDER_WAY.lock();
        if let Some(known) = under_way.iter_mut().find(|one| one.step.id == self.0.id) {
            known.step = self.0;
        }
        drop(under_way);
        self.tell();
    }

    /// It has come to its end.
    pub(crate) fn end(mut self) {
        self.reach(self.0.all);
    }

    fn told(self) -> Self {
        self.tell();
        self
    }

    fn tell(&self) {
        if let Some(watcher) = WATCHER.get() {
            watcher(self.0);
        }
    }
}

impl Drop for LongWork {
    fn drop(&mut self) {
        UNDER_WAY.lock().retain(|one| one.step.id != self.0.id);
        self.0.is_over = true;
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const WHAT: &str = "counting in a test";

    fn counted() -> Vec<u64> {
        let all = under_way().into_iter();
        let own = all.filter(|one| one.step.what == WHAT);
        own.map(|one| one.step.done).collect()
    }

    /// What watches hears of each step, and of the end also where the work is given up; who looks sees it
    /// while it lasts.
    #[test]
    fn work_is_told_from_its_begin_to_its_end() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = heard.clone();
        watch(Box::new(move |step| {
            if step.what == WHAT {
                told.lock().push((step.done, step.all, step.is_over));
            }
        }));
        assert!(counted().is_empty());
        let mut work = LongWork::of(WHAT, WorkUnit::Records, 3);
        let other = LongWork::behind(WHAT, WorkUnit::Bytes, 9);
        assert_eq!(counted(), [0, 0]);
        work.reach(2);
        assert_eq!(counted(), [2, 0]);
        work.reach(7);
        drop(work);
        assert_eq!(counted(), [0]);
        drop(other);
        assert!(counted().is_empty());
        let expected = [
            (0, 3, false),
            (0, 9, false),
            (2, 3, false),
            (3, 3, false),
            (3, 3, true),
            (0, 9, true),
        ];
        assert_eq!(*heard.lock(), expected);
    }
}
