//! What operators have said of a held call and made of it, as others read it.

use crate::store::operator::time;
use crate::store::state::hold::{OperatorDecision, OperatorEdit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one operator said, as operators read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DecisionView {
    /// The operator.
    pub who: String,
    /// The operator who was away, and for whom it was said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_behalf: Option<String>,
    /// Was it allowed? Otherwise denied.
    pub allow: bool,
    /// Why.
    pub why: String,
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Where it was said: `page` or `api`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub surface: Option<String>,
}

/// How one operator changed the arguments, as operators read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EditView {
    /// The operator.
    pub who: String,
    /// The operator who was away, and for whom it was done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_behalf: Option<String>,
    /// Why.
    pub why: String,
    /// JSON pointers to what was changed.
    pub pointers: Vec<String>,
    /// The operators who had allowed the call as it was, and have to look again.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub voided: Vec<String>,
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Where it was done: `page` or `api`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub surface: Option<String>,
}

impl EditView {
    pub(super) fn of(edit: &OperatorEdit) -> Self {
        Self {
            who: edit.who.clone(),
            on_behalf: edit.on_behalf.clone(),
            why: edit.why.clone(),
            pointers: edit.pointers.clone(),
            voided: edit.voided.clone(),
            at: time(edit.at),
            surface: edit.surface.clone(),
        }
    }
}

impl DecisionView {
    pub(super) fn of(decision: &OperatorDecision) -> Self {
        Self {
            who: decision.who.clone(),
            on_behalf: decision.on_behalf.clone(),
            allow: decision.allow,
            why: decision.why.clone(),
            at: time(decision.at),
            surface: decision.surface.clone(),
        }
    }
}
