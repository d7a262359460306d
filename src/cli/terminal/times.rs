//! Times for people.

use jiff::{SignedDuration, Timestamp};

/// Units of time, and from how many seconds on they are told: two of one unit before the next, so
/// that `119s` is not `1m`.
const UNITS: [(i64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
/// Days after which a date says more.
const MAX_DAYS_TOLD: i64 = 14;

/// A time to the second, in UTC.
pub(super) fn second(time: Timestamp) -> String {
    time.strftime("%FT%TZ").to_string()
}

/// How long ago `time` is, or in how long it comes; the day where that is far away.
pub(super) fn relative(time: Timestamp, now: Timestamp) -> String {
    let away = now.duration_since(time);
    let far = SignedDuration::from_hours(24 * MAX_DAYS_TOLD);
    let seconds = away.as_secs().abs();
    if away.abs() > far {
        return time.strftime("%F").to_string();
    }
    if seconds == 0 {
        return "now".to_owned();
    }
    let unit = UNITS.iter().find(|(unit, _)| seconds >= 2 * unit);
    let (unit, letter) = unit.copied().unwrap_or((1, "s"));
    let count = seconds / unit;
    if away.is_negative() {
        format!("in {count}{letter}")
    } else {
        format!("{count}{letter} ago")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_the_largest_unit_that_says_enough() {
        let now: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        for (time, expected) in [
            ("2026-11-28T12:00:00.4Z", "now"),
            ("2026-11-28T11:59:59.9Z", "now"),
            ("2026-11-28T11:59:59Z", "1s ago"),
            ("2026-11-28T11:58:01Z", "119s ago"),
            ("2026-11-28T11:58:00Z", "2m ago"),
            ("2026-11-28T10:00:00Z", "2h ago"),
            ("2026-11-26T12:00:00Z", "2d ago"),
            ("2026-11-14T12:00:00Z", "14d ago"),
            ("2026-11-14T11:59:59Z", "2026-11-14"),
            ("2026-11-28T12:00:45Z", "in 45s"),
            ("2026-11-28T12:10:00Z", "in 10m"),
            ("2027-01-28T12:10:00Z", "2027-01-28"),
        ] {
            assert_eq!(relative(time.parse().unwrap(), now), expected, "{time}");
        }
        assert_eq!(
            second("2026-11-28T11:59:59.987654321Z".parse().unwrap()),
            "2026-11-28T11:59:59Z"
        );
    }
}
