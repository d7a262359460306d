//! Calls that are sent again and again while they are held: each more waits, and is told to come later.
//! In memory only; nobody else waits for it.

use crate::model::digest::Digest;
use crate::model::refusal::people::PENDING_RETRY_MS;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Holds that are counted; beyond, the one that was asked for longest ago is forgotten.
const MAX_HOLDS_COUNTED: usize = 512;
/// How often a call may come within [`PERIOD`] while it is held.
const FREE_ASKS: u32 = 10;
const PERIOD: Duration = Duration::from_mins(1);
/// The longest that one more waits here, at a second more for each.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// What an agent is told to wait at most, in milliseconds.
const MAX_RETRY_MS: u64 = 300_000;
/// Asks too many that are counted.
const MAX_SURPLUS: u32 = 60;

/// How often each held call is sent.
#[derive(Default)]
pub(in crate::gate) struct RepeatedAsks {
    by_hold: Mutex<HashMap<Digest, AskLevel>>,
}

/// A vessel that loses [`FREE_ASKS`] in each [`PERIOD`].
struct AskLevel {
    asks: f64,
    last: Duration,
}

/// How much slower a call is answered than it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) struct Slowed {
    /// How long it waits here at least, unless a decision falls.
    pub(in crate::gate) pause: Duration,
    /// When it may come again, in milliseconds.
    pub(in crate::gate) after_ms: u64,
}

impl RepeatedAsks {
    /// The call of this hold has come once more.
    pub(in crate::gate) fn ask(&self, hold: Digest, now: Duration) {
        let mut by_hold = self.by_hold.lock();
        if !by_hold.contains_key(&hold) && by_hold.len() >= MAX_HOLDS_COUNTED {
            let oldest = by_hold.iter().min_by_key(|(_, level)| level.last);
            let oldest = oldest.map(|(hold, _)| *hold);
            oldest.and_then(|oldest| by_hold.remove(&oldest));
        }
        let level = by_hold.entry(hold).or_insert(AskLevel {
            asks: 0.0,
            last: now,
        });
        level.asks = (level.left(now) + 1.0).min(f64::from(FREE_ASKS + MAX_SURPLUS));
        level.last = now;
    }

    /// How it is slowed now.
    pub(in crate::gate) fn slowed(&self, hold: Digest, now: Duration) -> Slowed {
        let by_hold = self.by_hold.lock();
        let asks = by_hold.get(&hold).map_or(0.0, |level| level.left(now));
        let surplus = (1..=MAX_SURPLUS).filter(|more| f64::from(FREE_ASKS + more) <= asks.ceil());
        let surplus = u32::try_from(surplus.count()).unwrap_or(MAX_SURPLUS);
        let grown = PENDING_RETRY_MS.saturating_mul(1_u64.checked_shl(surplus).unwrap_or(u64::MAX));
        Slowed {
            pause: Duration::from_secs(u64::from(surplus)).min(MAX_PAUSE),
            after_ms: grown.min(MAX_RETRY_MS),
        }
    }
}

impl AskLevel {
    fn left(&self, now: Duration) -> f64 {
        let since = now.saturating_sub(self.last).as_secs_f64();
        let gone = since * f64::from(FREE_ASKS) / PERIOD.as_secs_f64();
        (self.asks - gone).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten are free; each more waits a second longer, ten at most, and is told to wait twice as long,
    /// five minutes at most. A minute of rest forgives ten.
    #[test]
    fn more_than_ten_in_a_minute_are_slowed() {
        let (asks, hold) = (RepeatedAsks::default(), Digest::of(b"hold"));
        let now = Duration::from_secs(1_000);
        let seen = (1..=30).map(|_| {
            asks.ask(hold, now);
            let Slowed { pause, after_ms } = asks.slowed(hold, now);
            (pause.as_secs(), after_ms / 1000)
        });
        let seen: Vec<_> = seen.collect();
        assert!(
            seen[..10].iter().all(|slowed| *slowed == (0, 5)),
            "{seen:?}"
        );
        assert_eq!(seen[10..14], [(1, 10), (2, 20), (3, 40), (4, 80)]);
        assert_eq!(seen[29], (10, 300));
        let other = asks.slowed(Digest::of(b"other"), now);
        assert_eq!((other.pause.as_secs(), other.after_ms), (0, 5_000));
        let later = asks.slowed(hold, now + 2 * PERIOD);
        assert_eq!((later.pause.as_secs(), later.after_ms), (0, 5_000));
    }

    /// Holds are bounded here as they are in the store.
    #[test]
    fn the_oldest_hold_is_forgotten() {
        let asks = RepeatedAsks::default();
        for number in 0..=MAX_HOLDS_COUNTED as u64 {
            asks.ask(
                Digest::of(&number.to_le_bytes()),
                Duration::from_secs(number),
            );
        }
        assert_eq!(asks.by_hold.lock().len(), MAX_HOLDS_COUNTED);
    }
}
