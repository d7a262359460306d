//! Tools that an operator has taken away for now (003-41): which, by whom, and why.

use super::ids::ToolName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tools that are taken away at most.
pub(crate) const MAX_DISABLED_TOOLS: usize = 1_000;

/// All of them, by name.
pub(crate) type Disabled = BTreeMap<ToolName, Reason>;

/// Who took a tool away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The operator.
    pub who: String,
    /// Why, in the operator's words.
    pub why: String,
    /// Since when, RFC 3339 in UTC.
    pub since: String,
}
