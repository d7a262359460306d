//! Lengths of time as people write them: `60s`, `10m`, `1h30m`.

use super::diagnostic::Problems;
use jiff::SignedDuration;
use std::time::Duration;

/// Reads the length of time under `key`; what cannot be read, or is not within `least` and `most`, is noted.
pub fn between(
    key: &str,
    text: Option<&str>,
    (least, most): (Duration, Duration),
    problems: &mut Problems,
) -> Option<Duration> {
    let read = text?.parse::<SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
    problems.under(key, |problems| match read {
        Some(time) if time >= least && time <= most => Some(time),
        Some(_) => {
            problems.error("is out of bounds", format!("between {} and {}", written(least), written(most)));
            None
        }
        None => {
            problems.error("is no length of time", "write 60s, 10m or 1h30m");
            None
        }
    })
}

fn written(time: Duration) -> String {
    if time.subsec_millis() > 0 { format!("{}ms", time.as_millis()) } else { format!("{}s", time.as_secs()) }
}
