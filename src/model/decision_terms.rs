//! What a contract says of how operators decide about its calls (`approval` of a contract).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What operators may do with a held call beside allowing and denying it, and what they have to say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionTerms {
    /// JSON pointers to arguments that an operator may change before it is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub may_edit: Vec<String>,
    /// Reasons for a denial to choose from.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub deny_reasons: Vec<String>,
    /// Does an operator who allows it have to say why?
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub needs_why: bool,
}

impl DecisionTerms {
    /// Whether the contract says nothing of it.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}
