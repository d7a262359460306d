//! A sliding window: at most so many in any stretch of so much time, wherever that begins.
//!
//! Few calls are known one by one, so that exactly as many fit as the rate says. Of many, those that
//! came close together are known by the last of them: never do more fit, and a place may come free
//! later by a [`GRAINS`]th of the time.

use super::rate::Rate;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// Into how many parts a window is cut for calls beyond as many.
const GRAINS: u64 = 64;

/// What of a rate was used within its last stretch of time. In what unit, its holder knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlidingWindow {
    /// When, and how many; the oldest first.
    used: VecDeque<(u64, u64)>,
}

impl SlidingWindow {
    /// So many that were all used at `at`.
    pub(crate) fn full(at: u64, calls: u64) -> Self {
        Self {
            used: VecDeque::from([(at, calls)]),
        }
    }

    /// Whether nothing was ever used, or all of it was dropped.
    pub(crate) fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// How many of the last `per` are used at `now`.
    pub(crate) fn count(&self, per: u64, now: u64) -> u64 {
        let live = |at: u64| at.saturating_add(per.max(1)) > now;
        let used = self.used.iter().filter(|(at, _)| live(*at));
        used.fold(0, |all, (_, some)| all.saturating_add(*some))
    }

    /// How long it takes at `now` until one more of `calls` per `per` fits.
    pub(crate) fn wait(&self, calls: u64, per: u64, now: u64) -> u64 {
        let per = per.max(1);
        let live = |at: u64| at.saturating_add(per) > now;
        let all = self.count(per, now);
        let mut surplus = (all.saturating_add(1)).saturating_sub(calls.max(1));
        let mut wait = 0;
        for (at, some) in self.used.iter().filter(|(at, _)| live(*at)) {
            if surplus == 0 {
                break;
            }
            surplus = surplus.saturating_sub(*some);
            wait = at.saturating_add(per).saturating_sub(now);
        }
        wait
    }

    /// Uses one at `now`, whether it fits or not.
    pub(crate) fn take(&mut self, per: u64, now: u64) {
        let per = per.max(1);
        while let Some((at, _)) = self.used.front()
            && at.saturating_add(per) <= now
        {
            self.used.pop_front();
        }
        let grain = (per / GRAINS).max(1);
        let is_many = u64::try_from(self.used.len()).unwrap_or(u64::MAX) >= GRAINS;
        match self.used.back_mut() {
            Some((at, some)) if *at >= now || is_many && *at / grain == now / grain => {
                *at = (*at).max(now);
                *some = some.saturating_add(1);
            }
            _ => self.used.push_back((now, 1)),
        }
    }

    /// Gives back one that was used at `at`, unless it has left the window of `per` by `now`.
    pub(crate) fn give_back(&mut self, at: u64, per: u64, now: u64) {
        if at.saturating_add(per) <= now {
            return;
        }
        // What came close together is known by its last.
        let Some(holder) = self.used.iter().position(|(last, _)| *last >= at) else {
            return;
        };
        let grain = (per / GRAINS).max(1);
        let (last, some) = &mut self.used[holder];
        if *last != at && *last / grain != at / grain {
            return;
        }
        *some = some.saturating_sub(1);
        if *some == 0 {
            self.used.remove(holder);
        }
    }
}

/// What callers use together of a rate, counted in nanoseconds.
#[derive(Debug)]
pub(crate) struct WindowMeter {
    rate: Rate,
    used: Mutex<SlidingWindow>,
}

impl WindowMeter {
    /// Nothing is used yet.
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            used: Mutex::default(),
        }
    }

    /// What may be used.
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Goes on where `before` is, whatever that one's rate was.
    pub(crate) fn take_over(&self, before: &Self) {
        if !std::ptr::eq(self, before) {
            let used = before.used.lock().clone();
            *self.used.lock() = used;
        }
    }

    /// Uses one at `now`, on the steady clock; else says how long it takes until one fits.
    pub(crate) fn take(&self, now: Duration) -> Result<(), Duration> {
        let (now, per) = (nanos(now), self.per());
        let mut used = self.used.lock();
        match used.wait(self.rate.calls, per, now) {
            0 => {
                used.take(per, now);
                Ok(())
            }
            wait => Err(Duration::from_nanos(wait)),
        }
    }

    /// How long it takes at `now` until one fits; nothing is used.
    pub(crate) fn wait(&self, now: Duration) -> Duration {
        let used = self.used.lock();
        Duration::from_nanos(used.wait(self.rate.calls, self.per(), nanos(now)))
    }

    /// Whether at `now` nothing of it is used.
    pub(crate) fn is_unused(&self, now: Duration) -> bool {
        self.used.lock().wait(1, self.per(), nanos(now)) == 0
    }

    fn per(&self) -> u64 {
        nanos(Duration::from_millis(self.rate.per))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Calls that passed, by a log of all of them.
    fn by_log(calls: u64, per: u64, times: &[u64]) -> Vec<u64> {
        let mut passed: Vec<u64> = Vec::new();
        for now in times {
            let live = passed.iter().filter(|at| **at + per > *now).count();
            if (live as u64) < calls {
                passed.push(*now);
            }
        }
        passed
    }

    fn by_window(calls: u64, per: u64, times: &[u64]) -> Vec<u64> {
        let mut window = SlidingWindow::default();
        let mut passed = Vec::new();
        for now in times {
            if window.wait(calls, per, *now) == 0 {
                window.take(per, *now);
                passed.push(*now);
            }
        }
        passed
    }

    /// The same of calls of which some are given back later: how many passed, how many stand, and the
    /// most that stood within any `per`.
    fn with_some_back(calls: u64, per: u64, steps: &[(u64, bool)]) -> (usize, usize, usize) {
        let (mut window, mut standing, mut passed) = (SlidingWindow::default(), Vec::new(), 0);
        for (now, is_back) in steps {
            if *is_back && let Some(at) = standing.pop() {
                window.give_back(at, per, *now);
            } else if window.wait(calls, per, *now) == 0 {
                window.take(per, *now);
                standing.push(*now);
                passed += 1;
            }
        }
        let within = |first: usize| {
            let later = standing[first..].iter();
            later.take_while(|at| **at < standing[first] + per).count()
        };
        let most = (0..standing.len()).map(within).max().unwrap_or_default();
        (passed, standing.len(), most)
    }

    fn by_log_with_some_back(calls: u64, per: u64, steps: &[(u64, bool)]) -> usize {
        let (mut standing, mut passed): (Vec<u64>, usize) = (Vec::new(), 0);
        for (now, is_back) in steps {
            if *is_back && standing.pop().is_some() {
                continue;
            }
            let live = standing.iter().filter(|at| **at + per > *now).count();
            if (live as u64) < calls {
                standing.push(*now);
                passed += 1;
            }
        }
        passed
    }

    fn steps(gap: u64) -> impl Strategy<Value = Vec<(u64, bool)>> {
        let gaps = proptest::collection::vec((0..gap, proptest::bool::weighted(0.3)), 1..400);
        gaps.prop_map(|gaps| {
            let mut now = 1_000_000;
            gaps.into_iter()
                .map(|(gap, is_back)| {
                    now += gap;
                    (now, is_back)
                })
                .collect()
        })
    }

    fn times(gap: u64) -> impl Strategy<Value = Vec<u64>> {
        let gaps = proptest::collection::vec(0..gap, 1..400);
        gaps.prop_map(|gaps| {
            let mut now = 1_000_000;
            gaps.into_iter()
                .map(|gap| {
                    now += gap;
                    now
                })
                .collect()
        })
    }

    proptest! {
        /// guarantees §6: as long as few fit, exactly those pass that a log of all calls lets pass.
        #[test]
        fn few_are_counted_exactly(calls in 1..=64_u64, per in 1..5_000_u64, times in times(200)) {
            prop_assert_eq!(by_window(calls, per, &times), by_log(calls, per, &times));
        }

        /// 003-93, guarantees §6: what is given back was never used: of few exactly, and of many no
        /// more pass than may.
        #[test]
        fn what_is_given_back_was_never_used(
            calls in 1..=64_u64, many in 65..300_u64, per in 64..5_000_u64, steps in steps(60),
        ) {
            let (passed, _, most) = with_some_back(calls, per, &steps);
            prop_assert_eq!(passed, by_log_with_some_back(calls, per, &steps));
            prop_assert!(most as u64 <= calls);
            let (_, _, most) = with_some_back(many, per, &steps);
            prop_assert!(most as u64 <= many, "{}", most);
        }

        /// guarantees §6: never more pass in any stretch, however many fit, and what is known of
        /// them is bounded; what a refusal says is when one fits.
        #[test]
        fn never_do_more_pass(calls in 1..300_u64, per in 64..5_000_u64, times in times(30)) {
            let passed = by_window(calls, per, &times);
            for (first, at) in passed.iter().enumerate() {
                let within = passed[first..].iter().take_while(|other| **other < at + per).count();
                prop_assert!(within as u64 <= calls, "{} from {}", within, at);
            }
            let mut window = SlidingWindow::default();
            for now in &times {
                let wait = window.wait(calls, per, *now);
                prop_assert_eq!(window.wait(calls, per, now + wait), 0);
                prop_assert!(wait == 0 || window.wait(calls, per, now + wait - 1) > 0);
                window.take(per, *now);
                prop_assert!(window.used.len() <= 130, "{}", window.used.len());
            }
        }
    }

    /// Of many, a place comes free later by one part of the window at most.
    #[test]
    fn many_are_counted_by_parts() {
        let (calls, per) = (1_000, 64_000);
        let mut window = SlidingWindow::default();
        for n in 0..calls {
            assert_eq!(window.wait(calls, per, n * 10), 0, "{n}");
            window.take(per, n * 10);
        }
        let now = calls * 10;
        let wait = window.wait(calls, per, now);
        assert!(
            ((per - now)..=(per - now + 1_000)).contains(&wait),
            "{wait}"
        );
    }

    /// A reload gives no caller new calls, whatever the new rate is.
    #[test]
    fn a_reload_gives_nothing() {
        let rate = |calls, per| WindowMeter::new(Rate { calls, per });
        let start = Duration::from_secs(1_000_000);
        let many = rate(600, 60_000);
        assert!((0..600).all(|_| many.take(start).is_ok()));
        let few = rate(10, 3_600_000);
        few.take_over(&many);
        assert_eq!(
            few.wait(start),
            Duration::from_hours(1),
            "600 within the hour"
        );
        let twice = rate(1_200, 60_000);
        twice.take_over(&many);
        twice.take_over(&twice);
        let fit = (0..1_200).filter(|_| twice.take(start).is_ok()).count();
        assert_eq!(fit, 600);
    }
}
