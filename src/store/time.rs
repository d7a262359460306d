//! Time as stores keep it: the wall's when the store is opened, but never before what the store has
//! seen, and from then on the steady clock's, also over restarts while the machine runs. A wall
//! clock that jumps neither revives a claim nor ends one early.

use super::state::Millis;
use crate::model::clock::Clock;
use crate::model::times::millis;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock for one store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    clock: Clock,
    anchor: Anchor,
}

/// What the store's time was at a moment of the steady clock's; means nothing any more when the
/// machine has started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The store's time.
    pub at: Millis,
    /// Milliseconds since the machine started.
    pub steady: Millis,
}

impl Time {
    /// Starts now, or at `seen` when that is later.
    pub(crate) fn starting(clock: Clock, seen: Millis) -> Self {
        let wall = Millis::try_from(clock.wall().as_millisecond()).unwrap_or(0);
        Self {
            clock,
            anchor: Anchor {
                at: wall.max(seen),
                steady: millis(clock.steady()),
            },
        }
    }

    /// Goes on from `anchor`, which was taken since the machine started; the wall is not asked.
    pub(crate) fn continuing(clock: Clock, seen: Millis, anchor: Anchor) -> Self {
        let continued = Self { clock, anchor };
        match continued.now() {
            now if now < seen => Self::starting(clock, seen),
            _ => continued,
        }
    }

    /// What [`Time::continuing`] goes on from.
    pub(crate) fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// Milliseconds since 1970; never goes back.
    pub(crate) fn now(&self) -> Millis {
        let since = millis(self.clock.steady()).saturating_sub(self.anchor.steady);
        self.anchor.at.saturating_add(since)
    }
}

/// The clock of a store that learns only once it is opened what it has seen: it can be put ahead.
#[derive(Debug)]
pub(super) struct RaisedTime {
    time: Time,
    /// Milliseconds by which it was.
    ahead: AtomicU64,
}

impl RaisedTime {
    /// Goes as `time` does.
    pub(super) fn new(time: Time) -> Self {
        Self {
            time,
            ahead: AtomicU64::new(0),
        }
    }

    /// It is `at` from now on, or later where it was.
    pub(super) fn raise(&self, at: Millis) {
        let ahead = at.saturating_sub(self.time.now());
        self.ahead.fetch_max(ahead, Ordering::Relaxed);
    }

    /// What [`Time::continuing`] goes on from.
    pub(super) fn anchor(&self) -> Anchor {
        let Anchor { at, steady } = self.time.anchor();
        Anchor {
            at: at.saturating_add(self.ahead.load(Ordering::Relaxed)),
            steady,
        }
    }

    /// Milliseconds since 1970; never goes back.
    pub(super) fn now(&self) -> Millis {
        let ahead = self.ahead.load(Ordering::Relaxed);
        self.time.now().saturating_add(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It never goes back, and goes on from where it was raised to.
    #[test]
    fn a_raised_time_stays_raised() {
        let time = RaisedTime::new(Time::starting(Clock, 0));
        let before = time.now();
        time.raise(before + 3_600_000);
        let raised = time.now();
        assert!(raised >= before + 3_600_000);
        time.raise(before);
        assert!(time.now() >= raised, "an earlier time changes nothing");
        let next = Time::continuing(Clock, 0, time.anchor());
        assert!(next.now() >= raised, "nor does a restart");
    }
}
