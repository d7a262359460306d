//! Who calls: one immutable record, made once when the message arrives (001-60).

use super::ids::{AgentId, TenantId};

/// The identity behind a message. Built by `guards::identity` from a credential, never from what a message claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The agent.
    pub agent: AgentId,
    /// The tenant it acts for.
    pub tenant: Option<TenantId>,
    /// Its roles.
    pub roles: Vec<String>,
    /// The team it belongs to.
    pub group: Option<String>,
    /// The model it runs on, as `provider/model`.
    pub model: Option<String>,
    /// May it use owner-only tools? Strictly from the configuration (001-03).
    pub owner: bool,
}
