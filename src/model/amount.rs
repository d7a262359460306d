//! Sums of numbers that people write, without an error of a double: what a grant may move in all is
//! counted with them.

use serde::{Deserialize, Serialize};
use serde_json::Number;
use std::fmt;

/// Digits behind the point.
const PLACES: u32 = 9;
/// Parts of one.
const PARTS_PER_ONE: u128 = 10_u128.pow(PLACES);
/// The largest one, in parts: 10^18 ones.
const MAX_PARTS: u128 = 10_u128.pow(18) * PARTS_PER_ONE;

/// A decimal number from 0 to 10^18 with at most nine digits behind the point, exact. Written as text,
/// so that no reader makes a double of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Amount(u128);

impl Amount {
    /// The amount that `number` says; none of one that is below 0, too large, or too fine.
    pub fn of(number: &Number) -> Option<Self> {
        match number.as_u64() {
            Some(whole) => Self::within(u128::from(whole).checked_mul(PARTS_PER_ONE)?),
            None => Self::read(&number.to_string()),
        }
    }

    /// The sum; none beyond the largest amount.
    pub fn plus(self, other: Self) -> Option<Self> {
        Self::within(self.0.checked_add(other.0)?)
    }

    /// What is left without `other`, at least nothing.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    fn within(parts: u128) -> Option<Self> {
        (parts <= MAX_PARTS).then_some(Self(parts))
    }

    /// Reads `12`, `12.5` and `1.25e1`.
    fn read(text: &str) -> Option<Self> {
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().ok()?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = [whole, fraction].concat();
        let is_plain = !all.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit());
        let mut parts: u128 = is_plain.then(|| all.parse().ok()).flatten()?;
        let places = i32::try_from(fraction.len()).ok()?;
        let shift = i32::try_from(PLACES).ok()? + exponent.checked_sub(places)?;
        for _ in 0..shift.unsigned_abs() {
            if parts == 0 {
                break;
            }
            parts = if shift > 0 {
                parts.checked_mul(10)?
            } else {
                parts.is_multiple_of(10).then_some(parts / 10)?
            };
        }
        Self::within(parts)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / PARTS_PER_ONE, self.0 % PARTS_PER_ONE);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let rest = format!("{rest:09}");
        write!(f, "{whole}.{}", rest.trim_end_matches('0'))
    }
}

impl TryFrom<String> for Amount {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::read(&text)
            .ok_or("no number from 0 to 10^18 with at most nine digits behind the point")
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Option<Amount> {
        Amount::of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn no_part_is_lost() {
        for (text, expected) in [
            ("0", Some("0")),
            ("12500", Some("12500")),
            ("0.1", Some("0.1")),
            ("1e3", Some("1000")),
            ("1.5e-3", Some("0.0015")),
            ("0.000000001", Some("0.000000001")),
            ("1000000000000000000", Some("1000000000000000000")),
            ("9007199254740993", Some("9007199254740993")),
            ("0.0000000001", None),
            ("1e300", None),
            ("1e-300", None),
            ("1000000000000000001", None),
            ("-1", None),
            ("-0.0", None),
        ] {
            let found = amount(text).map(|amount| amount.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    /// Ten times a tenth is one, which it is not for doubles.
    #[test]
    fn sums_are_exact() {
        let tenth = amount("0.1").unwrap();
        let ten = (0..10).try_fold(Amount::default(), |sum, _| sum.plus(tenth));
        assert_eq!(ten, amount("1"));
        assert_eq!(ten.unwrap().less(amount("1.5").unwrap()), Amount::default());
        let most = amount("1000000000000000000").unwrap();
        assert_eq!(most.plus(tenth), None);
        let text = serde_json::to_string(&tenth).unwrap();
        assert_eq!(serde_json::from_str::<Amount>(&text).unwrap(), tenth);
        assert!(serde_json::from_str::<Amount>("\"x\"").is_err());
    }
}
