//! Long work of this process that no verb asks for by itself, such as making the index anew: a line on a
//! terminal while it is waited for, else lines in the log. What is soon done is not told.

use super::progress::{ProgressUnit, WorkProgress};
use crate::model::clock::Clock;
use crate::model::long_work::{self, WorkStep, WorkUnit};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// What takes less is not worth a line of the log.
const LOGGED_AFTER: Duration = Duration::from_secs(2);
/// How often the log says how far it is.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Shows, or logs, how far such work is from now on.
pub(in crate::cli) fn follow_long_work() {
    let followed = Mutex::new(FollowedWork::default());
    long_work::watch(Box::new(move |step| {
        // What is logged is said after the lock is given up.
        let line = followed.lock().follow(step, Clock.steady());
        if let Some(line) = line {
            line.log();
        }
    }));
}

/// All that is under way, by its ids.
#[derive(Default)]
struct FollowedWork(BTreeMap<u64, Followed>);

struct Followed {
    /// The line, while the process waits for the work.
    shown: Option<WorkProgress>,
    began: Duration,
    /// When the log says more of it.
    next: Duration,
    is_logged: bool,
}

/// What the log says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WorkLine {
    step: WorkStep,
    /// How long it has taken so far.
    took: Duration,
}

impl FollowedWork {
    /// What there is to log of `step` at `now`.
    fn follow(&mut self, step: WorkStep, now: Duration) -> Option<WorkLine> {
        let followed = self.0.entry(step.id).or_insert_with(|| Followed {
            shown: (!step.is_behind)
                .then(|| WorkProgress::of(step.what, Some(step.all), unit(step.unit))),
            began: now,
            next: now.saturating_add(LOGGED_AFTER),
            is_logged: false,
        });
        if let Some(shown) = &followed.shown {
            shown.reach(step.done);
        }
        let is_seen = followed
            .shown
            .as_ref()
            .is_some_and(WorkProgress::is_watched);
        let line = WorkLine {
            step,
            took: now.saturating_sub(followed.began),
        };
        if step.is_over {
            let was_logged = followed.is_logged;
            self.0.remove(&step.id);
            return was_logged.then_some(line);
        }
        if is_seen || now < followed.next {
            return None;
        }
        followed.next = now.saturating_add(LOG_INTERVAL);
        followed.is_logged = true;
        Some(line)
    }
}

impl WorkLine {
    fn log(self) {
        let WorkStep {
            what, done, all, ..
        } = self.step;
        let (unit, seconds) = (self.step.unit.word(), self.took.as_secs());
        match (self.step.is_over, done == all) {
            (false, _) => tracing::info!(done, all, unit, seconds, "{what}"),
            (true, true) => tracing::info!(all, unit, seconds, "{what}: done"),
            (true, false) => tracing::warn!(done, all, unit, seconds, "{what}: given up"),
        }
    }
}

fn unit(unit: WorkUnit) -> ProgressUnit {
    match unit {
        WorkUnit::Records | WorkUnit::Rows => ProgressUnit::Steps,
        WorkUnit::Bytes => ProgressUnit::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: u64, done: u64) -> WorkStep {
        WorkStep {
            id,
            what: "counting",
            unit: WorkUnit::Records,
            done,
            all: 9,
            is_behind: true,
            is_over: false,
        }
    }

    fn over(id: u64, done: u64) -> WorkStep {
        let is_over = true;
        WorkStep {
            is_over,
            ..step(id, done)
        }
    }

    /// What is soon done leaves no line; what lasts has one after two seconds, one each five, and one at
    /// its end.
    #[test]
    fn the_log_has_a_few_lines_of_what_lasts() {
        let mut followed = FollowedWork::default();
        let mut told = Vec::new();
        for (second, step) in [
            (100, step(1, 0)),
            (100, step(2, 0)),
            (101, step(1, 1)),
            (101, over(2, 9)),
            (102, step(1, 2)),
            (103, step(1, 3)),
            (106, step(1, 4)),
            (107, step(1, 5)),
            (111, step(1, 6)),
            (113, over(1, 9)),
        ] {
            let line = followed.follow(step, Duration::from_secs(second));
            told.extend(line.map(|line| (second, line.step.done, line.took.as_secs())));
        }
        assert_eq!(told, [(102, 2, 2), (107, 5, 7), (113, 9, 13)]);
        assert!(followed.0.is_empty());
    }

    /// A line is only for what the process waits for.
    #[test]
    fn what_is_waited_for_has_a_line_from_its_begin_to_its_end() {
        let mut followed = FollowedWork::default();
        for is_behind in [false, true] {
            let step = WorkStep {
                is_behind,
                ..step(7, 4)
            };
            followed.follow(step, Duration::ZERO);
            let shown = followed.0[&7].shown.as_ref();
            let position = shown.map(WorkProgress::position);
            assert_eq!(position, (!is_behind).then_some(4));
            followed.follow(over(7, 9), Duration::ZERO);
            assert!(followed.0.is_empty());
        }
    }
}
