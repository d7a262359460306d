//! Lengths of time as people write them: `60s`, `10m`, `1h30m`, `90d`.

use super::diagnostic::Problems;
use jiff::SignedDuration;
use std::ops::RangeInclusive;
use std::time::Duration;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Whole milliseconds of `time`, at most as many as fit.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// `time` in milliseconds, with three places.
pub(crate) fn precise_millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Reads the length of time under `key`; what cannot be read, or is not within `bounds`, is noted.
pub(crate) fn between(
    key: &str,
    text: Option<&str>,
    bounds: RangeInclusive<Duration>,
    problems: &mut Problems,
) -> Option<Duration> {
    let text = text?;
    let read = days(text).or_else(|| text.parse::<SignedDuration>().ok()?.try_into().ok());
    problems.under(key, |problems| match read {
        Some(time) if bounds.contains(&time) => Some(time),
        Some(_) => {
            problems.error(
                "is out of bounds",
                format!(
                    "between {} and {}",
                    written(*bounds.start()),
                    written(*bounds.end())
                ),
            );
            None
        }
        None => {
            problems.error("is no length of time", "write 60s, 10m or 1h30m");
            None
        }
    })
}

/// A number of days, each of 24 hours.
fn days(text: &str) -> Option<Duration> {
    let days: u32 = text
        .strip_suffix('d')
        .filter(|days| days.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()?;
    Some(Duration::from_hours(24 * u64::from(days)))
}

/// `time` to the second, for people, in the largest unit that says all of it: `3 days`, `24 h`, `90 min` or `61 s`.
pub(crate) fn told(time: Duration) -> String {
    let seconds = time.as_secs();
    let fits = |unit: u64, least: u64| seconds >= least * unit && seconds.is_multiple_of(unit);
    if fits(DAY_SECONDS, 2) {
        return format!("{} days", seconds / DAY_SECONDS);
    }
    let unit = [(3600, "h"), (60, "min")];
    let unit = unit.into_iter().find(|(unit, _)| fits(*unit, 1));
    let (unit, word) = unit.unwrap_or((1, "s"));
    format!("{} {word}", seconds / unit)
}

fn written(time: Duration) -> String {
    let days = time.as_secs() / DAY_SECONDS;
    if days > 1 && time.as_secs().is_multiple_of(DAY_SECONDS) {
        return format!("{days}d");
    }
    if time.subsec_millis() > 0 {
        format!("{}ms", time.as_millis())
    } else {
        format!("{}s", time.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_the_largest_unit_that_says_all_of_it() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (61, "61 s"),
            (5400, "90 min"),
            (3600, "1 h"),
            (86_400, "24 h"),
            (90_000, "25 h"),
            (172_800, "2 days"),
            (172_801, "172801 s"),
            (2_592_000, "30 days"),
        ] {
            assert_eq!(told(Duration::from_secs(seconds)), expected);
        }
    }
}
