//! Lines that could come with every call: one a minute is written, and says how many it stands for.

use parking_lot::Mutex;
use std::time::Duration;

/// How long nothing more is written after a line.
const LINE_INTERVAL: Duration = Duration::from_mins(1);

/// One kind of line.
#[derive(Debug)]
pub(crate) struct PacedLog(Mutex<PacedState>);

#[derive(Debug)]
struct PacedState {
    /// When the last line was written, on the steady clock.
    last: Option<Duration>,
    /// What came since.
    since: u64,
}

impl PacedLog {
    /// Nothing was written yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(PacedState {
            last: None,
            since: 0,
        }))
    }

    /// It has come once more, at `now` on the steady clock. A number: now a line is due, for so many of it.
    pub(crate) fn count(&self, now: Duration) -> Option<u64> {
        let mut state = self.0.lock();
        state.since += 1;
        let is_early = |last| now.saturating_sub(last) < LINE_INTERVAL;
        if state.last.is_some_and(is_early) {
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_minute_stands_for_all() {
        let paced = PacedLog::new();
        let at = |seconds| paced.count(Duration::from_secs(seconds));
        assert_eq!(at(1_000), Some(1), "the first is told at once");
        assert_eq!([at(1_000), at(1_030), at(1_059)], [None; 3]);
        assert_eq!([at(1_060), at(1_061), at(1_200)], [Some(4), None, Some(2)]);
    }
}
