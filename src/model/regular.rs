//! Regular expressions of operators: linear, of bounded size, and paid for by what a text costs
//! ([`super::work`]).

use super::work::measured;
use regex::{NoExpand, Regex, RegexBuilder};
use std::borrow::Cow;

/// The longest pattern, in bytes of its compiled form and of what the engine keeps beside it
/// (threat-model §2.2b).
const MAX_PATTERN_BYTES: usize = 256 << 10;
/// Sizes of a compiled pattern, in bytes, and what a byte of text takes then in units of work when
/// the engine's automaton gives up: 0.15 µs at 2 KiB and 4 µs at 256 KiB were measured.
const SEARCH_COST_BY_SIZE: [(usize, u64); 4] = [
    (2 << 10, 16),
    (16 << 10, 128),
    (64 << 10, 512),
    (MAX_PATTERN_BYTES, 2_048),
];

/// One pattern.
#[derive(Debug, Clone)]
pub(crate) struct Regular {
    engine: Regex,
    units: u64,
}

impl Regular {
    /// Compiles it; none if it is not a regular expression of a linear engine, or too large.
    pub(crate) fn new(pattern: &str) -> Option<Self> {
        SEARCH_COST_BY_SIZE.into_iter().find_map(|(size, units)| {
            let engine = RegexBuilder::new(pattern)
                .size_limit(size)
                .dfa_size_limit(MAX_PATTERN_BYTES)
                .build()
                .ok()?;
            Some(Self { engine, units })
        })
    }

    /// Whether it occurs in `text`.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.paid(text, || self.engine.is_match(text))
    }

    /// `text` with `with` for what matches.
    pub(crate) fn replaced<'t>(&self, text: &'t str, with: &str) -> Cow<'t, str> {
        self.paid(text, || self.engine.replace_all(text, NoExpand(with)))
    }

    fn paid<T>(&self, text: &str, look: impl FnOnce() -> T) -> T {
        measured(self.units.saturating_mul(text.len() as u64 + 1), look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::work::{INLINE_WORK_UNITS, WorkExceeded, within};

    /// threat-model §13 F3: a text that a pattern may take long for is not looked at where calls
    /// are served.
    #[test]
    fn a_pattern_is_paid_for_by_the_byte() {
        let pattern = Regular::new("a+b").unwrap();
        assert_eq!(
            within(INLINE_WORK_UNITS, || pattern.is_match("aab")),
            Ok(true)
        );
        assert_eq!(
            within(INLINE_WORK_UNITS, || pattern
                .replaced("xaab", "$0")
                .into_owned()),
            Ok("x$0".to_owned())
        );
        assert_eq!(
            within(INLINE_WORK_UNITS, || pattern.is_match(&"a".repeat(100_000))),
            Err(WorkExceeded)
        );
        assert!(Regular::new(r"(?=a)").is_none() && Regular::new(r"\p{L}{2000}").is_none());
    }
}
