//! Tools that an operator or an incident has taken away for now (003-41): which, by whom, and why.

use super::ids::ToolName;
use super::wildcard;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tools that are taken away at most.
pub(crate) const MAX_DISABLED_TOOLS: usize = 1_000;

/// Those that are taken away one by one, by name.
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

/// Tools that an incident freezes, by the pattern of their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrozenScope {
    /// The incident's number.
    pub incident: u64,
    /// Tools, as layers name them: `server__*`.
    pub pattern: String,
    /// Who opened it, and why.
    pub reason: Reason,
}

/// All that agents may not call for now: tool by tool, and what incidents freeze.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenAway {
    /// Tool by tool.
    pub tools: Disabled,
    /// By pattern.
    pub frozen: Vec<FrozenScope>,
}

impl FrozenScope {
    /// Whether `tool` is one of them.
    pub(crate) fn names(&self, tool: &str) -> bool {
        wildcard::matches(&self.pattern, tool, false)
    }
}

impl TakenAway {
    /// Whether nothing is.
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.frozen.is_empty()
    }

    /// By whom and why `tool` is, if it is.
    pub(crate) fn reason(&self, tool: &ToolName) -> Option<&Reason> {
        let frozen = || self.frozen.iter().find(|scope| scope.names(tool.as_str()));
        let own = self.tools.get(tool);
        own.or_else(|| frozen().map(|scope| &scope.reason))
    }

    /// Whether an incident freezes `tool`.
    pub(crate) fn is_frozen(&self, tool: &ToolName) -> bool {
        self.frozen.iter().any(|scope| scope.names(tool.as_str()))
    }

    /// What tells this from anything else that may be away, line by line.
    pub(crate) fn lines(&self) -> String {
        let tools = self.tools.keys().map(|tool| format!("\n{tool}"));
        let frozen = self.frozen.iter();
        let frozen = frozen.map(|scope| format!("\nfrozen {}", scope.pattern));
        tools.chain(frozen).collect()
    }
}

impl From<Disabled> for TakenAway {
    fn from(tools: Disabled) -> Self {
        Self {
            tools,
            frozen: Vec::new(),
        }
    }
}
