//! Work that may take long before a process is there for anybody, such as reading a journal through: how far
//! it is, told to what watches, such as a terminal. Nothing is told where nothing watches.

use std::sync::OnceLock;

/// Told of each step of such work.
pub(crate) type WorkWatcher = dyn Fn(WorkStep) + Send + Sync;

static WATCHER: OnceLock<Box<WorkWatcher>> = OnceLock::new();

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkStep {
    /// Which work, such as `bringing the index up to the journal`.
    pub(crate) what: &'static str,
    /// What is done of it, in steps of its own.
    pub(crate) done: u64,
    /// Of how many in all.
    pub(crate) all: u64,
    /// Whether it has come to its end, done or not.
    pub(crate) is_over: bool,
}

/// Has `watcher` told of all such work of this process from now on; only the first one counts.
pub(crate) fn watch(watcher: Box<WorkWatcher>) {
    drop(WATCHER.set(watcher));
}

/// One such work, from its begin to its end.
pub(crate) struct LongWork {
    what: &'static str,
    all: u64,
    done: u64,
}

impl LongWork {
    /// Of `what`, which takes `all` steps.
    pub(crate) fn of(what: &'static str, all: u64) -> Self {
        Self { what, all, done: 0 }
    }

    /// It has come so far in all.
    pub(crate) fn reach(&mut self, done: u64) {
        self.done = done.min(self.all);
        self.tell(false);
    }

    fn tell(&self, is_over: bool) {
        if let Some(watcher) = WATCHER.get() {
            watcher(WorkStep {
                what: self.what,
                done: self.done,
                all: self.all,
                is_over,
            });
        }
    }
}

impl Drop for LongWork {
    fn drop(&mut self) {
        self.tell(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// What watches hears of each step, and of the end also where the work is given up.
    #[test]
    fn work_is_told_from_its_first_step_to_its_end() {
        const WHAT: &str = "counting in a test";
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = heard.clone();
        watch(Box::new(move |step| {
            if step.what == WHAT {
                told.lock().push((step.done, step.all, step.is_over));
            }
        }));
        let mut work = LongWork::of(WHAT, 3);
        work.reach(2);
        work.reach(7);
        drop(work);
        assert_eq!(*heard.lock(), [(2, 3, false), (3, 3, false), (3, 3, true)]);
    }
}
