//! What those who keep standing grants ask of the rules in force.

use super::grant_miss::{GrantDeath, GrantMiss};
use crate::model::ids::ToolName;
use crate::store::state::Millis;
use crate::store::state::grant::Grant;
use serde_json::Value;

/// What a grant for calls of a tool is minted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantRules {
    /// Operators with one of these roles may.
    pub roles: Vec<String>,
    /// May an operator who has the agent's name, or its user's?
    pub self_approval: bool,
    /// JSON pointers to arguments that may be left open.
    pub any: Vec<String>,
    /// SHA-256 of the tool's definition, in hex.
    pub schema_hash: String,
}

/// A call of which an operator asks what covers it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GrantedCall {
    /// Who calls.
    pub agent: String,
    /// Of which tenant.
    pub tenant: Option<String>,
    /// For which user.
    pub user: Option<String>,
    /// What is called: `server__tool`.
    pub tool: ToolName,
    /// The final arguments.
    pub arguments: Value,
}

/// The rules in force, and the tools as they are now.
pub(crate) trait GrantJudge: Send + Sync {
    /// Who reads how the contract of `tool` stands: operators with one of the roles that decide about its calls, or,
    /// where nobody is asked about any, about calls of other tools. Never empty.
    fn roles(&self, tool: &ToolName) -> Vec<String>;
    /// What a grant for calls of `tool` like one with these arguments is minted by, or why there can be
    /// none.
    fn rules(&self, tool: &ToolName, arguments: &Value) -> Result<GrantRules, GrantMiss>;
    /// What a grant for calls of `tool` by the agent of this tenant is bound to, in hex.
    fn bound_to(&self, tool: &ToolName, agent: &str, tenant: Option<&str>) -> String;
    /// Why `grant` covers nothing any more, whatever is left of it.
    fn dead(&self, grant: &Grant) -> Option<GrantDeath>;
    /// Why `grant` does not cover the call at `now`, beside what has ended of it; nothing where it does.
    fn misses(&self, grant: &Grant, call: &GrantedCall, now: Millis) -> Vec<GrantMiss>;
    /// Why `grant` can cover no call, whatever is left of it and whatever a call says.
    fn flaws(&self, grant: &Grant) -> Vec<GrantMiss>;
}
