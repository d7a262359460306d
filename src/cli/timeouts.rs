//! Times that verbs take on the command line.

use std::time::Duration;

/// A time from 1 ms to 10 minutes, such as `30s`.
pub(super) fn timeout(written: &str) -> Result<Duration, String> {
    let read = written.parse::<jiff::SignedDuration>().ok();
    let read = read.and_then(|read| Duration::try_from(read).ok());
    read.filter(|read| (Duration::from_millis(1)..=Duration::from_mins(10)).contains(read))
        .ok_or_else(|| "write a time from 1ms to 10m, such as 30s".to_owned())
}
