//! Time as stores keep it: the wall's when the store is opened, but never before what the store has seen, and from then on
//! the steady clock's. A wall clock that jumps neither revives a claim nor ends one early.

use super::state::Millis;
use crate::model::clock::Clock;
use std::time::Duration;

/// A clock for one store.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    clock: Clock,
    opened: Millis,
    steady: Duration,
}

impl Time {
    /// Starts now, or at `seen` when that is later.
    pub fn starting(clock: Clock, seen: Millis) -> Self {
        let wall = Millis::try_from(clock.wall().as_millisecond()).unwrap_or(0);
        Self { clock, opened: wall.max(seen), steady: clock.steady() }
    }

    /// Milliseconds since 1970; never goes back.
    pub fn now(&self) -> Millis {
        let since = self.clock.steady().saturating_sub(self.steady);
        self.opened + Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX - self.opened)
    }
}
