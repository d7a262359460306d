//! The clocks of a program with fail points, once a test has stopped them: from then on they show what the
//! test says. No other build has this file.

use super::Clock;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::time::Duration;

/// None while they go as the machine's do.
static STOPPED: Mutex<Option<StoppedClocks>> = Mutex::new(None);

/// What all clocks of the program show.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoppedClocks {
    pub(super) wall: Timestamp,
    pub(super) steady: Duration,
}

/// What they show, if they have been stopped.
pub(super) fn shown() -> Option<StoppedClocks> {
    *STOPPED.lock()
}

/// Stops all clocks of the program, if they go, and moves them on by `time`, which may be nothing. Gives the
/// wall time that they show now.
pub fn pass(time: Duration) -> Timestamp {
    // Read before the lock is taken, which reading takes, too.
    let going = StoppedClocks {
        wall: Clock.wall(),
        steady: Clock.steady(),
    };
    let mut stopped = STOPPED.lock();
    let at = stopped.get_or_insert(going);
    at.wall = at.wall.checked_add(time).unwrap_or(Timestamp::MAX);
    at.steady = at.steady.saturating_add(time);
    at.wall
}
