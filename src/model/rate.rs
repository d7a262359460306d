//! How fast something may follow itself: so many in so much time. Tool calls are counted in a
//! sliding window (`window`); what has to flow, such as messages, by a meter that spreads them
//! evenly, with all of them at once at most.

use super::counted::counted;
use super::diagnostic::Problems;
use super::times::{between, millis};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lengths of time in which a policy may count.
const RATE_PERIOD_BOUNDS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24);

/// So many calls in so much time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rate")]
pub(crate) struct RateSettings {
    /// how many calls
    pub calls: u64,
    /// in how much time: 1s to 24h
    pub per: String,
}

impl RateSettings {
    /// As run; what is wrong is noted.
    pub(crate) fn compile(self, problems: &mut Problems) -> Option<Rate> {
        let per = between("per", Some(&self.per), RATE_PERIOD_BOUNDS, problems)?;
        if self.calls == 0 {
            problems.under("calls", |problems| {
                problems.error("no call would ever pass", "allow at least one");
            });
        }
        Some(Rate {
            calls: self.calls,
            per: millis(per),
        })
    }
}

/// So many calls per time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Calls; at least 1.
    pub calls: u64,
    /// Per so many milliseconds; at least 1.
    pub per: u64,
}

impl Rate {
    /// Such as `5 calls in 60 s`, `what` being one of what is counted.
    pub(crate) fn words(self, what: &str) -> String {
        let calls = counted(self.calls, what);
        if self.per.is_multiple_of(1000) {
            format!("{calls} in {} s", self.per / 1000)
        } else {
            format!("{calls} in {} ms", self.per)
        }
    }
}

/// What of a rate was used, evenly spread, counted in nanoseconds, so that thousands a second are
/// told apart.
#[derive(Debug)]
pub struct Meter {
    rate: Rate,
    due: AtomicU64,
}

/// Two of one rate are as good as each other.
impl PartialEq for Meter {
    fn eq(&self, other: &Self) -> bool {
        self.rate == other.rate
    }
}

impl Eq for Meter {}

impl Meter {
    /// Nothing is used yet.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            due: AtomicU64::new(0),
        }
    }

    /// What may be used.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Goes on where `before` is: what was used of that is used of this.
    fn go_on(&self, before: &Self) {
        self.due
            .fetch_max(before.due.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Goes on where `before` is at `now`, whatever that one's rate was: as many are used of this as
    /// were of that, though not more than there are.
    pub fn take_over(&self, before: &Self, now: Duration) {
        if self.rate == before.rate {
            return self.go_on(before);
        }
        let due = before.due.load(Ordering::Relaxed);
        let ahead = u128::from(due.saturating_sub(nanos(now)));
        let ahead = ahead * u128::from(self.step()) / u128::from(before.step());
        let all = self.step().saturating_mul(self.rate.calls);
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX).min(all);
        self.due
            .fetch_max(nanos(now).saturating_add(ahead), Ordering::Relaxed);
    }

    /// Uses one at `now`, on the steady clock; else says how long it takes until one fits.
    pub fn take(&self, now: Duration) -> Result<(), Duration> {
        let now = nanos(now);
        let (step, burst) = (self.step(), self.burst());
        let used = self
            .due
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |due| {
                (due.saturating_sub(burst) <= now).then(|| due.max(now).saturating_add(step))
            });
        used.map(drop)
            .map_err(|due| Duration::from_nanos(due.saturating_sub(burst).saturating_sub(now)))
    }

    /// How long it takes at `now` until one fits; nothing is used.
    pub fn wait(&self, now: Duration) -> Duration {
        let (now, due) = (nanos(now), self.due.load(Ordering::Relaxed));
        Duration::from_nanos(due.saturating_sub(self.burst()).saturating_sub(now))
    }

    /// Nanoseconds that one takes up.
    fn step(&self) -> u64 {
        nanos(Duration::from_millis(self.rate.per))
            .div_ceil(self.rate.calls.max(1))
            .max(1)
    }

    /// Nanoseconds that the next may be due ahead of time.
    fn burst(&self) -> u64 {
        self.step()
            .saturating_mul(self.rate.calls.saturating_sub(1))
    }

    /// Whether nothing of it is used at `now`.
    pub fn is_unused(&self, now: Duration) -> bool {
        self.due.load(Ordering::Relaxed) <= nanos(now)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// threat-model §3I: all at once, then evenly, and a caller that comes too early is told when.
    #[test]
    fn a_meter_gives_all_at_once_and_then_evenly() {
        let meter = Meter::new(Rate {
            calls: 6_000,
            per: 1_000,
        });
        let start = Duration::from_secs(1_000_000);
        assert!(meter.is_unused(start));
        assert!((0..6_000).all(|_| meter.take(start).is_ok()));
        let wait = meter.take(start).unwrap_err();
        assert!(
            wait > Duration::ZERO && wait <= Duration::from_micros(167),
            "{wait:?}"
        );
        assert!(meter.take(start + wait).is_ok() && meter.take(start + wait).is_err());
        let later = start + Duration::from_millis(500);
        let fit = (0..6_000).filter(|_| meter.take(later).is_ok()).count();
        assert!((2_990..3_000).contains(&fit), "{fit}");
        assert!(!meter.is_unused(later) && meter.is_unused(later + Duration::from_secs(1)));
    }

    /// A reload gives no caller a new burst, and takes none away: neither one that changes nothing,
    /// however often, nor one by which fewer calls fit than were made.
    #[test]
    fn a_reload_gives_nothing_and_takes_nothing() {
        let rate = |calls, per| Meter::new(Rate { calls, per });
        let start = Duration::from_secs(1_000_000);
        let mut meter = rate(1, 86_400_000);
        meter.take(start).unwrap();
        for hour in 1..24 {
            let now = start + Duration::from_hours(hour);
            let next = rate(1, 86_400_000);
            next.take_over(&meter, now);
            next.take_over(&next, now);
            assert_eq!(next.wait(now), Duration::from_hours(24 - hour), "{hour}");
            meter = next;
        }
        let many = rate(600, 60_000);
        assert!((0..600).all(|_| many.take(start).is_ok()));
        let few = rate(10, 3_600_000);
        few.take_over(&many, start);
        assert_eq!(few.wait(start), Duration::from_mins(6), "one of ten");
        let twice = rate(1_200, 60_000);
        twice.take_over(&many, start);
        let fit = (0..1_200).filter(|_| twice.take(start).is_ok()).count();
        assert_eq!(fit, 600);
    }
}
