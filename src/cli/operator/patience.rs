//! How long a verb waits for answers that has a time of its own: a toolgate that takes connections and
//! never answers must not make it longer.

use crate::model::clock::Clock;
use std::time::Duration;

/// What an answer may take that was asked for when the time was nearly over.
const LAST_ANSWER_TIME: Duration = Duration::from_secs(2);

/// Until when answers are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    /// On the steady clock.
    until: Duration,
}

impl Patience {
    /// From now on for `time`.
    pub(super) fn of(time: Duration) -> Self {
        let until = Clock.steady().saturating_add(time);
        Self { until }
    }

    /// What an answer may take: as long as there is time, and that of a last answer.
    pub(super) fn for_answer(&self) -> Duration {
        self.answer_at(Clock.steady())
    }

    /// What it may take to find out whether anybody is there: the last answer needs its time, too.
    pub(super) fn for_look(&self) -> Duration {
        self.look_at(Clock.steady())
    }

    fn answer_at(self, now: Duration) -> Duration {
        let until = self.until.saturating_add(LAST_ANSWER_TIME);
        until.saturating_sub(now)
    }

    fn look_at(self, now: Duration) -> Duration {
        self.until.saturating_sub(now).max(LAST_ANSWER_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// What a toolgate that hangs takes: the time, and two seconds at most for an answer or a look.
    #[test]
    fn nothing_is_waited_for_longer_than_the_time_and_a_last_answer() {
        let until = seconds(103);
        let patience = Patience { until };
        for (now, answer, look) in [
            (100, 5, 3),
            (101, 4, 2),
            (103, 2, 2),
            (104, 1, 2),
            (105, 0, 2),
            (999, 0, 2),
        ] {
            let now = seconds(now);
            assert_eq!(patience.answer_at(now), seconds(answer), "{now:?}");
            assert_eq!(patience.look_at(now), seconds(look), "{now:?}");
        }
        let endless = Patience::of(Duration::MAX);
        assert_eq!(endless.until, Duration::MAX);
        assert!(endless.for_answer() > seconds(1 << 40));
    }
}
