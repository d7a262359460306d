//! When a receiver is left alone.

use super::super::written_notify::QuietSettings;
use crate::model::diagnostic::Problems;
use crate::notify::QuietHours;
use jiff::tz::{Offset, TimeZone};

/// Hours by which a clock is ahead of UTC, or behind it, at most.
const MAX_OFFSET_HOURS: i64 = 14;

pub(super) fn quiet(written: &QuietSettings, problems: &mut Problems) -> Option<QuietHours> {
    let QuietSettings {
        from,
        to,
        offset,
        zone,
    } = written;
    let mut minute = |key: &str, text: &str| {
        let read = clock(text).filter(|(hours, _)| *hours < 24);
        problems.under(key.to_owned(), |problems| {
            if read.is_none() {
                problems.error(
                    "is no time of the day",
                    "write hours and minutes, such as \"22:00\"",
                );
            }
        });
        read.map(|(hours, minutes)| hours * 60 + minutes)
    };
    let (from, to) = (minute("from", from.as_str()), minute("to", to.as_str()));
    let clock = match (offset, zone) {
        (Some(_), Some(_)) => {
            problems.error("names two clocks", "keep `zone` or `offset`");
            None
        }
        (None, Some(zone)) => of_zone(zone, problems),
        (offset, None) => of_offset(offset.as_deref().unwrap_or("UTC"), problems),
    };
    if from.is_some() && from == to {
        problems.error("ends when it begins", "write two times");
    }
    Some(QuietHours {
        from: from?,
        to: to?,
        clock: clock?,
    })
}

fn of_zone(name: &str, problems: &mut Problems) -> Option<TimeZone> {
    let zone = TimeZone::get(name).ok();
    if zone.is_none() {
        problems.under("zone", |problems| {
            problems.error(
                "is no time zone",
                "write its IANA name, such as Europe/Berlin",
            );
        });
    }
    zone
}

fn of_offset(text: &str, problems: &mut Problems) -> Option<TimeZone> {
    let ahead = ahead(text).and_then(|minutes| i32::try_from(minutes * 60).ok());
    let offset = ahead.and_then(|seconds| Offset::from_seconds(seconds).ok());
    if offset.is_none() {
        let hint = "write hours and minutes, such as \"+02:00\", or UTC";
        problems.under("offset", |problems| {
            problems.error("is no difference of a clock to UTC", hint);
        });
    }
    offset.map(TimeZone::fixed)
}

fn clock(text: &str) -> Option<(i64, i64)> {
    let (hours, minutes) = text.split_once(':')?;
    let read = |digits: &str| {
        let is_plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<i64>().ok().filter(|_| is_plain)
    };
    Some((read(hours)?, read(minutes).filter(|minutes| *minutes < 60)?))
}

fn ahead(text: &str) -> Option<i64> {
    if matches!(text, "UTC" | "Z") {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = clock(rest)?;
    let minutes = hours * 60 + minutes;
    (minutes <= MAX_OFFSET_HOURS * 60).then_some(sign * minutes)
}
