//! The only source of time.

use jiff::Timestamp;
use std::time::Duration;

#[cfg(feature = "failpoints")]
pub mod stopped;

/// Wall time for records, and a steady time that also counts while the machine sleeps, for
/// deadlines. Nothing at run time: only tests, and the program with fail points, have clocks whose
/// hands are moved.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    #[cfg(test)]
    hands: Option<&'static hands::TestClock>,
}

/// The machine's clocks.
#[expect(
    non_upper_case_globals,
    reason = "in production there is only this one, and its type has no content"
)]
pub const Clock: Clock = Clock {
    #[cfg(test)]
    hands: None,
};

impl Clock {
    /// Now, for people and records.
    pub fn wall(self) -> Timestamp {
        #[cfg(test)]
        if let Some(hands) = self.hands {
            return hands.wall();
        }
        #[cfg(feature = "failpoints")]
        if let Some(stopped) = stopped::shown() {
            return stopped.wall;
        }
        Timestamp::now()
    }

    /// Time since the machine started; never goes back.
    pub fn steady(self) -> Duration {
        #[cfg(test)]
        if let Some(hands) = self.hands {
            return hands.steady();
        }
        #[cfg(feature = "failpoints")]
        if let Some(stopped) = stopped::shown() {
            return stopped.steady;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(
            u64::try_from(now.tv_sec).unwrap_or(0),
            u32::try_from(now.tv_nsec).unwrap_or(0),
        )
    }

    /// CPU that this thread has used.
    pub fn of_thread(self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(
            u64::try_from(now.tv_sec).unwrap_or(0),
            u32::try_from(now.tv_nsec).unwrap_or(0),
        )
    }
}

#[cfg(test)]
pub(crate) mod hands {
    //! A clock for tests.

    use super::Clock;
    use jiff::Timestamp;
    use parking_lot::Mutex;
    use std::time::Duration;

    /// The hands of a clock. Its wall time jumps and stops as a test likes; its steady time only
    /// passes.
    #[derive(Debug)]
    pub(crate) struct TestClock(Mutex<TestTime>);

    #[derive(Debug)]
    struct TestTime {
        wall: Timestamp,
        steady: Duration,
        is_frozen: bool,
    }

    impl TestClock {
        /// A machine that was started an hour ago, on the day of the revision 2026-07-28. Never
        /// freed.
        pub(crate) fn new() -> &'static Self {
            let wall = Timestamp::from_second(1_785_229_200).unwrap();
            let at = TestTime {
                wall,
                steady: Duration::from_hours(1),
                is_frozen: false,
            };
            Box::leak(Box::new(Self(Mutex::new(at))))
        }

        /// The clock with these hands.
        pub(crate) fn clock(&'static self) -> Clock {
            Clock { hands: Some(self) }
        }

        /// Lets time pass; wall time only while it is not frozen.
        pub(crate) fn pass(&self, time: Duration) {
            let mut at = self.0.lock();
            at.steady += time;
            if !at.is_frozen {
                at.wall = at.wall.checked_add(time).unwrap();
            }
        }

        /// Moves wall time by so many seconds, in an instant.
        pub(crate) fn jump(&self, seconds: i64) {
            let mut at = self.0.lock();
            at.wall =
                Timestamp::from_millisecond(at.wall.as_millisecond() + seconds * 1000).unwrap();
        }

        /// Stops wall time, or lets it go on.
        pub(crate) fn freeze(&self, is_frozen: bool) {
            self.0.lock().is_frozen = is_frozen;
        }

        pub(super) fn wall(&self) -> Timestamp {
            self.0.lock().wall
        }

        pub(super) fn steady(&self) -> Duration {
            self.0.lock().steady
        }
    }
}
