//! The only source of time.

use jiff::Timestamp;
use std::time::Duration;

/// Wall time for records, and a steady time that also counts while the machine sleeps, for deadlines.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Clock {
    /// Now, for people and records.
    pub fn wall(self) -> Timestamp {
        Timestamp::now()
    }

    /// Time since the machine started; never goes back.
    pub fn steady(self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
    }
}
