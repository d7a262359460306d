//! How long to wait before a server is tried again: twice as long after each failure, never quite
//! as long as others do.

use crate::model::clock::Clock;
use std::time::Duration;

const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);
/// What worked for so long is tried again without waiting longer than at first.
const STEADY_AFTER: Duration = Duration::from_secs(30);

/// The wait before the next try.
#[derive(Debug)]
pub(crate) struct Backoff {
    wait: Duration,
    /// Since when it works, in steady time.
    works: Option<Duration>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            wait: FIRST_RETRY_DELAY,
            works: None,
        }
    }
}

impl Backoff {
    /// It works from now on.
    pub(crate) fn works(&mut self) {
        self.works = Some(Clock.steady());
    }

    /// It does not work, or no longer. What worked and broke at once is no better than what never
    /// worked.
    pub(crate) fn broke(&mut self) {
        if self
            .works
            .take()
            .is_some_and(|since| Clock.steady().saturating_sub(since) >= STEADY_AFTER)
        {
            self.wait = FIRST_RETRY_DELAY;
        }
    }

    /// The longest that the next [`Self::pause`] takes: 500 ms at first, a minute at last.
    pub(crate) fn longest(&self) -> Duration {
        self.wait
    }

    /// Waits, at least half as long as it may take; the next time twice as long.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(MAX_RETRY_DELAY);
        jittered(wait)
    }
}

/// Between half of `wait` and all of it, so that many do not come back at once.
pub(crate) fn jittered(wait: Duration) -> Duration {
    let mut byte = [0_u8; 1];
    let random = getrandom::fill(&mut byte).map_or(128, |()| u32::from(byte[0]));
    wait / 2 + wait * random / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_start_over_only_after_a_steady_time() {
        let mut backoff = Backoff::default();
        let mut longest = FIRST_RETRY_DELAY;
        for _ in 0..12 {
            assert_eq!(backoff.longest(), longest);
            let wait = backoff.next();
            assert!(
                longest / 2 <= wait && wait <= longest,
                "{wait:?} of {longest:?}"
            );
            longest = (longest * 2).min(MAX_RETRY_DELAY);
        }
        assert_eq!(backoff.longest(), MAX_RETRY_DELAY);
        backoff.works();
        backoff.broke();
        assert_eq!(backoff.longest(), MAX_RETRY_DELAY, "it broke at once");
        backoff.works = backoff
            .works
            .or(Some(Clock.steady().saturating_sub(STEADY_AFTER)));
        backoff.broke();
        assert_eq!(backoff.longest(), FIRST_RETRY_DELAY);
    }
}
