//! Tokens as they are kept: SHA-256 only, and those that are about to go with their end. A new token
//! and the one before it are good side by side, so that agents can change them one after another.

use super::{CallerSettings, FrontEndSettings};
use crate::model::clock::Clock;
use crate::model::diagnostic::Problems;
use crate::model::secret::Secret;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Bytes below which a token can be guessed.
pub(crate) const MIN_TOKEN_BYTES: usize = 16;

/// A token that was in force before, and still is for a while.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PreviousToken")]
pub(crate) struct PreviousTokenSettings {
    /// the token
    pub token: Secret,
    /// Until when it is taken, such as `2026-12-24T08:00:00+01:00`; if absent, for as long as it
    /// stands here.
    pub until: Option<String>,
}

impl CallerSettings {
    /// The tokens that prove it.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &Secret> {
        let before = self.previous.iter().map(|one| &one.token);
        self.token.iter().chain(before)
    }
}

impl FrontEndSettings {
    /// The tokens that prove it.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &Secret> {
        let before = self.previous.iter().map(|one| &one.token);
        std::iter::once(&self.token).chain(before)
    }
}

/// When a token ends: at a moment of both clocks, of which the first to show it counts. A wall clock
/// that is put back prolongs no token, nor does one that was behind when the end was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenEnd {
    steady: Duration,
    wall: Timestamp,
}

impl TokenEnd {
    /// At `until`.
    pub(crate) fn at(until: Timestamp, clock: Clock) -> Self {
        let left = Duration::try_from(until.duration_since(clock.wall()));
        Self {
            steady: clock.steady().saturating_add(left.unwrap_or_default()),
            wall: until,
        }
    }

    fn is_over(self, clock: Clock) -> bool {
        self.left(clock).is_zero()
    }

    /// How long until it is over by the first of both clocks.
    fn left(self, clock: Clock) -> Duration {
        let steady = self.steady.saturating_sub(clock.steady());
        let wall = Duration::try_from(self.wall.duration_since(clock.wall()));
        steady.min(wall.unwrap_or_default())
    }
}

/// When tokens end that do, by their digests.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenEnds(HashMap<[u8; 32], TokenEnd>);

impl TokenEnds {
    /// Whether the token of that digest is still taken.
    pub(crate) fn lasts(&self, token: &[u8; 32]) -> bool {
        self.0.get(token).is_none_or(|end| !end.is_over(Clock))
    }

    /// For how long the token of that digest is taken from now on; none: until another configuration says so.
    pub(crate) fn left(&self, token: &[u8; 32]) -> Option<Duration> {
        let end = self.0.get(token)?;
        Some(end.left(Clock))
    }

    /// The token of that digest is taken until `end`, if that is some.
    pub(crate) fn note(&mut self, token: [u8; 32], end: Option<TokenEnd>) {
        self.0.extend(end.map(|end| (token, end)));
    }
}

/// SHA-256 of a token.
pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The digest of a token that no entry of those `seen` has.
pub(super) fn digest(
    token: &Secret,
    seen: &mut HashSet<[u8; 32]>,
    problems: &mut Problems,
) -> [u8; 32] {
    let bytes = token.expose().len();
    let digest = hash(token.expose());
    problems.under("token", |problems| {
        if bytes == 0 {
            problems.error("the token is empty", "make one: `openssl rand -hex 32`");
        } else if bytes < MIN_TOKEN_BYTES {
            problems.warning(
                format!("the token is shorter than {MIN_TOKEN_BYTES} bytes"),
                "make one: `openssl rand -hex 32`",
            );
        }
        if !seen.insert(digest) {
            problems.error(
                "another entry has the same token",
                "a token proves one caller: make a new one",
            );
        }
    });
    digest
}

/// The digests of tokens that an entry had before, whose ends are noted in `ends`.
pub(super) fn previous(
    settings: Vec<PreviousTokenSettings>,
    seen: &mut HashSet<[u8; 32]>,
    ends: &mut TokenEnds,
    problems: &mut Problems,
) -> Vec<[u8; 32]> {
    problems.under("previous", |problems| {
        let each = settings.into_iter().enumerate();
        each.map(|(index, PreviousTokenSettings { token, until })| {
            problems.under(index.to_string(), |problems| {
                let digest = digest(&token, seen, problems);
                ends.note(digest, end(until.as_deref(), problems));
                digest
            })
        })
        .collect()
    })
}

/// When a token ends that is taken `until` then; none: never.
pub(crate) fn end(until: Option<&str>, problems: &mut Problems) -> Option<TokenEnd> {
    let until = until?;
    problems.under("until", |problems| {
        let Ok(until) = until.parse::<Timestamp>() else {
            let hint = "write date, time and difference to UTC, such as 2026-12-24T08:00:00+01:00";
            problems.error("is no time", hint);
            return None;
        };
        let end = TokenEnd::at(until, Clock);
        if end.is_over(Clock) {
            problems.warning(
                "the time of this token is over: it is not taken any more",
                "take the entry away",
            );
        }
        Some(end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::clock::hands::TestClock;

    /// Issue 20 "tokens rotate with overlap": the overlap ends, whatever becomes of the wall clock.
    #[test]
    fn a_token_ends_by_whichever_clock_is_first() {
        const ONE_HOUR: Duration = Duration::from_hours(1);
        const FIFTY_YEARS: i64 = 50 * 365 * 24 * 3600;
        let end = |hands: &'static TestClock, after: Duration| {
            let until = hands.clock().wall().checked_add(after).unwrap();
            TokenEnd::at(until, hands.clock())
        };
        let hands = TestClock::new();
        let usual = end(hands, ONE_HOUR);
        hands.pass(Duration::from_mins(59));
        assert!(!usual.is_over(hands.clock()));
        hands.pass(Duration::from_mins(1));
        assert!(usual.is_over(hands.clock()));
        let put_back = end(hands, ONE_HOUR);
        hands.jump(-FIFTY_YEARS);
        hands.pass(ONE_HOUR);
        assert!(put_back.is_over(hands.clock()));
        // A machine that starts without the time, and is told it a while later.
        let until = put_back.wall.checked_add(4 * ONE_HOUR).unwrap();
        let behind = TokenEnd::at(until, hands.clock());
        hands.jump(FIFTY_YEARS);
        assert!(!behind.is_over(hands.clock()));
        hands.pass(4 * ONE_HOUR);
        assert!(behind.is_over(hands.clock()));
        assert!(TokenEnd::at(until, hands.clock()).is_over(hands.clock()));
    }
}
