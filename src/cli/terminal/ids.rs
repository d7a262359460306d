//! Ids in tables and on command lines. An action id begins with the time, alike for all of a minute,
//! and ends in what tells it from others: there the short form is taken. Other ids are digests, whose
//! beginning is as good.

use crate::mcp::pretty::plain;
use crate::model::ids::ActionId;
use std::collections::HashSet;
use std::str::FromStr;

/// Letters of an action id, whole.
const ACTION_ID_CHARS: usize = 36;
/// Digits of a short id, if no other in its table ends so.
pub(in crate::cli) const SHORT_ID_DIGITS: usize = 8;
/// By how many more it grows if another does.
const SHORT_ID_STEP: usize = 4;
/// Digits that an id on a command line has at least.
const MIN_ID_DIGITS: usize = 4;
/// Ids that are named where several fit.
pub(in crate::cli) const MAX_IDS_NAMED: usize = 5;

/// How many digits tell these ids apart.
pub(in crate::cli) fn digits<'i>(ids: impl Iterator<Item = &'i str>) -> usize {
    let ids: HashSet<&str> = ids.collect();
    let mut digits = SHORT_ID_DIGITS;
    while digits < ACTION_ID_CHARS {
        let shorts: HashSet<String> = ids.iter().map(|id| short(id, digits)).collect();
        if shorts.len() == ids.len() {
            break;
        }
        digits += SHORT_ID_STEP;
    }
    digits
}

/// The short form of `id`, of that many digits.
pub(in crate::cli) fn short(id: &str, digits: usize) -> String {
    if id.len() == ACTION_ID_CHARS && ActionId::from_str(id).is_ok() {
        let plain = bare(id);
        return plain[plain.len().saturating_sub(digits)..].to_owned();
    }
    id.chars().take(digits).collect()
}

/// Whether `id` is `given`, or begins or ends so.
pub(in crate::cli) fn is_meant(id: &str, given: &str) -> bool {
    let (id, given) = (bare(id), bare(given));
    !given.is_empty() && (id.starts_with(&given) || id.ends_with(&given))
}

fn bare(id: &str) -> String {
    let letters = id.chars().filter(|letter| *letter != '-');
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// An action id as an operator types it: whole, or as much of its beginning or its end as no other has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct TypedId(String);

impl FromStr for TypedId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hex = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
        if text.chars().all(is_hex) && (MIN_ID_DIGITS..=ACTION_ID_CHARS).contains(&text.len()) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "give the id whole, or {MIN_ID_DIGITS} or more hex digits of its beginning or its end, as tables show it"
        ))
    }
}

impl TypedId {
    /// The id, if all of it was typed.
    pub(in crate::cli) fn whole(&self) -> Option<ActionId> {
        self.0.parse().ok()
    }

    /// The one of `known` that is meant; `what` they are is said where none is, or several.
    pub(in crate::cli) fn choose<'i>(
        &self,
        known: impl Iterator<Item = &'i str>,
        what: &str,
    ) -> Result<ActionId, String> {
        if let Some(whole) = self.whole() {
            return Ok(whole);
        }
        let fitting: Vec<&str> = known.filter(|id| is_meant(id, &self.0)).collect();
        match fitting.as_slice() {
            [] => Err(format!(
                "no {what} has an id that begins or ends with {}; what is not listed needs its whole id",
                self.0
            )),
            [one] => one
                .parse()
                .map_err(|_| format!("`{}` is no id", plain(one))),
            several => Err(ambiguous(several)),
        }
    }
}

/// What is said where several ids fit.
pub(in crate::cli) fn ambiguous<T: AsRef<str>>(several: &[T]) -> String {
    let more = if several.len() > MAX_IDS_NAMED {
        ", and more"
    } else {
        ""
    };
    let named = several.iter().take(MAX_IDS_NAMED);
    let named: Vec<String> = named.map(|id| plain(id.as_ref())).collect();
    format!(
        "several calls fit, give more of the id: {}{more}",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "019abc00-0000-7001-8000-0000aaaa1111";
    const OTHER: &str = "019abc00-0000-7001-8000-0000bbbb1111";

    #[test]
    fn an_action_id_is_short_by_its_end_and_a_digest_by_its_beginning() {
        assert_eq!(short(ONE, 8), "aaaa1111");
        assert_eq!(short(ONE, 16), "80000000aaaa1111");
        assert_eq!(short("5e884898da280471", 8), "5e884898");
        assert_eq!(short("x", 8), "x");
    }

    /// Two that end alike are told apart, also by their digits beyond a hyphen.
    #[test]
    fn short_ids_of_a_table_differ() {
        assert_eq!(digits([ONE, OTHER, ONE].into_iter()), 8);
        let alike = "019abc00-0000-7001-8001-0000aaaa1111";
        assert_eq!(digits([ONE, alike].into_iter()), 16);
        assert_eq!(
            digits([ONE, "019abd00-0000-7001-8000-0000aaaa1111"].into_iter()),
            28
        );
    }

    #[test]
    fn a_typed_id_is_one_call_or_says_why_not() {
        let choose = |text: &str| {
            let typed: TypedId = text.parse().unwrap();
            typed.choose([ONE, OTHER].into_iter(), "held call")
        };
        for text in [
            ONE,
            "aaaa1111",
            "AAAA1111",
            "0000-aaaa1111",
            "8000-0000aaaa1111",
        ] {
            assert_eq!(choose(text), Ok(ONE.parse().unwrap()), "{text}");
        }
        for text in ["1111", "019abc00"] {
            let why = choose(text).unwrap_err();
            assert!(why.contains(ONE) && why.contains(OTHER), "{why}");
        }
        assert!(choose("cccc").unwrap_err().contains("no held call"));
        for wrong in ["", "abc", "not hex", &"a".repeat(37)] {
            assert!(wrong.parse::<TypedId>().is_err(), "{wrong}");
        }
    }
}
