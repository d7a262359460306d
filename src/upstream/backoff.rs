//! How long to wait until a server is connected again: twice as long each time, until one that stayed up for a while
//! starts over. Only says how long; nothing here waits, so that nothing here needs a clock.

use std::time::Duration;

/// The wait after the first loss (SECURITY §8).
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait (SECURITY §8).
const LONGEST: Duration = Duration::from_mins(1);
/// A server that was up for so long is connected again without waiting longer than at first.
const STEADY: Duration = Duration::from_secs(30);

/// The waits for one server.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// Nothing was lost yet.
    pub(super) fn new() -> Self {
        Self { next: FIRST }
    }

    /// The wait after a server was `up` for so long; zero if it did not answer at all. One that answers and dies at once
    /// is no better than one that does not answer.
    pub(super) fn wait(&mut self, up: Duration) -> Duration {
        let wait = if up >= STEADY { FIRST } else { self.next };
        self.next = (wait * 2).min(LONGEST);
        jittered(wait)
    }
}

/// The wait before a stream is opened again that was lost for the `failures`th time in a row.
pub(super) fn linear(failures: u32) -> Duration {
    jittered(FIRST * failures)
}

/// Between half of `wait` and all of it, so that many do not come back at once.
fn jittered(wait: Duration) -> Duration {
    let mut byte = [0_u8; 1];
    let random = getrandom::fill(&mut byte).map_or(128, |()| u32::from(byte[0]));
    wait / 2 + wait * random / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(wait: Duration, whole: Duration) -> bool {
        (whole / 2..=whole).contains(&wait)
    }

    /// SECURITY §3I: no busy loop, whether a server never answers or lists its tools and dies.
    #[test]
    fn restarts_get_farther_apart_until_a_minute() {
        for up in [Duration::ZERO, Duration::from_millis(200), STEADY.checked_sub(Duration::from_millis(1)).unwrap()] {
            let mut backoff = Backoff::new();
            for whole in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000] {
                let wait = backoff.wait(up);
                assert!(within(wait, Duration::from_millis(whole)), "{wait:?} of {whole} ms after {up:?}");
            }
        }
    }

    #[test]
    fn a_server_that_dies_at_once_is_started_a_few_times_in_an_hour() {
        let (mut backoff, mut clock, mut starts) = (Backoff::new(), Duration::ZERO, 0);
        while clock < Duration::from_hours(1) {
            clock += backoff.wait(Duration::ZERO);
            starts += 1;
        }
        assert!((60..=130).contains(&starts), "{starts}");
    }

    #[test]
    fn a_steady_run_starts_over() {
        let mut backoff = Backoff::new();
        for _ in 0..10 {
            backoff.wait(Duration::ZERO);
        }
        assert!(within(backoff.wait(Duration::ZERO), LONGEST));
        assert!(within(backoff.wait(STEADY), FIRST));
        assert!(within(backoff.wait(Duration::ZERO), FIRST * 2), "and is lost again");
        assert!(within(backoff.wait(Duration::from_hours(9)), FIRST));
    }

    #[test]
    fn waits_differ_so_that_many_do_not_come_back_at_once() {
        let waits: std::collections::BTreeSet<_> = (0..64).map(|_| Backoff::new().wait(Duration::ZERO)).collect();
        assert!(waits.len() > 8, "{waits:?}");
    }
}
