//! Numbers compared as they are written: no whole number becomes the double that is nearest.

use serde_json::Number;
use std::cmp::Ordering;

/// Beyond it, of either sign, no whole number of 64 bits lies.
const BEYOND: f64 = 18_446_744_073_709_551_616.0;

/// How `one` stands to `other`.
pub(crate) fn compare(one: &Number, other: &Number) -> Ordering {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(one), None) => beside(one, real(other)),
        (None, Some(other)) => beside(other, real(one)).reverse(),
        (None, None) => real(one)
            .partial_cmp(&real(other))
            .unwrap_or(Ordering::Equal),
    }
}

/// The number, if it is written as a whole one.
pub(crate) fn whole(number: &Number) -> Option<i128> {
    let negative = number.as_i64().map(i128::from);
    negative.or_else(|| number.as_u64().map(i128::from))
}

fn real(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

fn beside(whole: i128, double: f64) -> Ordering {
    if double.abs() > BEYOND {
        return if double > 0.0 {
            Ordering::Less
        } else {
            Ordering::Greater
        };
    }
    #[expect(clippy::cast_possible_truncation, reason = "it lies within 65 bits")]
    let floor = double.floor() as i128;
    let is_fraction = double.fract() != 0.0;
    whole.cmp(&floor).then(if is_fraction {
        Ordering::Less
    } else {
        Ordering::Equal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digit_is_lost() {
        for (one, other, expected) in [
            ("9007199254740993", "9007199254740992", Ordering::Greater),
            ("9007199254740993", "9007199254740992.0", Ordering::Greater),
            ("9007199254740992", "9007199254740992.0", Ordering::Equal),
            ("9007199254740992.0", "9007199254740993", Ordering::Less),
            (
                "18446744073709551615",
                "1.8446744073709552e19",
                Ordering::Less,
            ),
            ("-9223372036854775808", "-1e300", Ordering::Greater),
            ("9223372036854775807", "1e300", Ordering::Less),
            ("-1", "-1.5", Ordering::Greater),
            ("2", "2.5", Ordering::Less),
            ("0.1", "0.2", Ordering::Less),
            ("-1", "18446744073709551615", Ordering::Less),
        ] {
            let number = |text: &str| serde_json::from_str::<Number>(text).unwrap();
            assert_eq!(
                compare(&number(one), &number(other)),
                expected,
                "{one} {other}"
            );
        }
    }
}
