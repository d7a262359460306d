//! Which calls are one and the same: by the agent's key, by what the contract declares, or only
//! where a call is sent again because its answer was lost.

use super::derive::{self, DeriveRule};
use super::{KeyRequest, Rule};
use crate::model::digest::Digest;
use crate::model::tally::REGIME_WORDS;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long after its end an equal call is taken for a re-issue: agents and gateways send calls again
/// for up to 90 s (004-01).
pub(super) const REISSUE_WINDOW: Duration = Duration::from_mins(2);
pub(super) const REISSUE_WINDOW_BOUNDS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(1);

/// Which calls are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regime {
    /// Those with the same key of their agent's.
    Keyed,
    /// Those that agree in what the contract names.
    Declared,
    /// Those that are sent again.
    Reissue {
        /// Only while the first is in flight: the server says that a second one changes nothing.
        joins_only: bool,
    },
}

impl Regime {
    /// The word in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Keyed => REGIME_WORDS[0],
            Self::Declared => REGIME_WORDS[1],
            Self::Reissue { .. } => REGIME_WORDS[2],
        }
    }
}

/// What holds where a contract says nothing.
pub(super) const UNSAID: DeriveRule = DeriveRule::Retry;

/// What a call would be known by in each regime.
#[derive(Debug, Clone, Copy)]
pub struct RegimeKeys {
    /// By its agent's key, if it gave one.
    pub given: Option<Digest>,
    /// By what its contract declares; by all arguments where that is nothing.
    pub declared: Digest,
    /// Where only what is sent again is the same.
    pub retry: Digest,
}

/// Where a call is made, as its agent says: within one place calls follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPlace {
    /// SHA-256 over caller and task or session; over the caller alone where the agent names none.
    pub key: Digest,
    /// Whether the agent names one.
    pub is_named: bool,
}

impl Rule {
    /// The regime of calls without a key of their agent's; none where they are refused.
    pub fn regime(&self, hints_idempotent: bool) -> Option<Regime> {
        Some(match self.derive.as_ref()? {
            DeriveRule::Retry => Regime::Reissue {
                joins_only: hints_idempotent,
            },
            DeriveRule::Arguments | DeriveRule::Pointers(_) | DeriveRule::Seed => Regime::Declared,
        })
    }

    /// What the call would be known by in each regime.
    pub fn keys_by_regime(&self, asked: &KeyRequest<'_>) -> RegimeKeys {
        let fingerprint = derive::fingerprint(asked);
        let key = |rule: &DeriveRule| {
            let derived = rule.apply(asked, fingerprint);
            derived.map(|derived| derive::call_key(asked, derived.kind, &derived.bytes))
        };
        let all = derive::call_key(asked, derive::KeyKind::Arguments, fingerprint.as_bytes());
        let given = asked.given.one().ok().flatten();
        let written = self
            .derive
            .as_ref()
            .filter(|rule| **rule != DeriveRule::Retry);
        RegimeKeys {
            given: given.map(|(_, given)| {
                derive::call_key(asked, derive::KeyKind::Given, given.as_bytes())
            }),
            declared: written.and_then(key).unwrap_or(all),
            retry: key(&DeriveRule::Retry).unwrap_or(all),
        }
    }

    /// How long an equal call would be the same by what the contract declares.
    pub fn declared_window(&self) -> Duration {
        if self.is_retry() {
            self.ttl
        } else {
            self.window
        }
    }

    /// How long a call that is sent again would be the same.
    pub fn retry_window(&self) -> Duration {
        if self.is_retry() {
            self.window
        } else {
            REISSUE_WINDOW
        }
    }

    /// Whether the contract says which calls are the same.
    pub fn is_said(&self) -> bool {
        self.is_said
    }

    /// Whether agents are shown an argument for a key.
    pub fn is_exposed(&self) -> bool {
        self.expose
    }

    /// Whether only what is sent again is the same call.
    pub fn is_retry(&self) -> bool {
        self.derive == Some(DeriveRule::Retry)
    }
}
