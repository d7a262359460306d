//! Calls that are much alike and not the same: a person is asked whether both are meant (004-09).

use super::derive::{KeyKind, call_key, of_pointers};
use super::{KeyRequest, Rule, derive};
use crate::model::diagnostic::Problems;
use crate::model::digest::Digest;
use crate::model::pointer::steps;
use crate::model::times::between;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long after a call one that is much like it is asked for, if nothing is said.
const DEFAULT_NEAR_WITHIN: Duration = Duration::from_mins(10);
const NEAR_WITHIN_BOUNDS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24);

/// Which calls are much alike.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Near")]
pub(crate) struct NearSettings {
    /// Calls of one agent, tenant and user are much alike when these arguments are equal, by JSON
    /// pointer, whatever the others are.
    pub by: Vec<String>,
    /// How long after the one a person is asked about the other [default: 10m, 1s to 24h].
    pub within: Option<String>,
}

/// As run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NearRule {
    by: Vec<String>,
    within: Duration,
}

/// What a call is compared by with others that are much like it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Likeness {
    /// SHA-256 over whose call of which tool it is, and the arguments that make calls alike.
    pub key: Digest,
    /// For how long others are asked for.
    pub within: Duration,
}

impl NearSettings {
    pub(super) fn compile(self, problems: &mut Problems) -> NearRule {
        problems.under("by", |problems| derive::judge_all(&self.by, problems));
        let within = between(
            "within",
            self.within.as_deref(),
            NEAR_WITHIN_BOUNDS,
            problems,
        );
        NearRule {
            by: self.by,
            within: within.unwrap_or(DEFAULT_NEAR_WITHIN),
        }
    }
}

impl Rule {
    /// What makes the call much like others, if the contract says so and it has any of these
    /// arguments.
    pub(super) fn likeness(&self, asked: &KeyRequest<'_>) -> Option<Likeness> {
        let near = self.near.as_ref()?;
        let found = of_pointers(&near.by, asked.arguments)?;
        Some(Likeness {
            key: call_key(asked, KeyKind::Near, &found),
            within: near.within,
        })
    }

    /// The arguments by which calls are much alike, as paths from the root.
    pub fn compares(&self) -> Vec<Vec<String>> {
        let by = self.near.iter().flat_map(|near| &near.by);
        by.map(|pointer| steps(pointer)).collect()
    }
}
