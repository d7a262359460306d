//! Who calls: one immutable record, made once when the message arrives (001-60).

use super::ids::{AgentId, TenantId};
use super::rate::Meter;
use super::reads::SchemaReader;
use std::sync::Arc;

/// The identity behind a message. Built by `guards::identity` from a credential, never from what a
/// message claims.
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
    /// The profile whose layer holds for it (001-05).
    pub profile: Option<String>,
    /// Where it runs (001-12).
    pub environment: Option<String>,
    /// Every entry of the agent that started it: it sees nothing that one of them does not see
    /// (001-13).
    pub parents: Vec<Arc<Self>>,
    /// Which schemas and names it can be shown (001-19).
    pub reads: SchemaReader,
    /// How fast its messages may follow each other; none: as fast as they come.
    pub pace: Option<Arc<Meter>>,
}

impl Caller {
    /// That agent, of which nothing else is known.
    pub fn named(agent: &str) -> Self {
        Self {
            agent: AgentId::new(agent),
            tenant: None,
            roles: Vec::new(),
            group: None,
            model: None,
            owner: false,
            profile: None,
            environment: None,
            parents: Vec::new(),
            reads: SchemaReader::default(),
            pace: None,
        }
    }

    /// Whether both are one agent, acting for one tenant: then what belongs to one belongs to the
    /// other.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.agent, &self.tenant) == (&other.agent, &other.tenant)
    }

    /// The provider of its model: what stands before the first `/`.
    pub fn provider(&self) -> Option<&str> {
        self.model.as_deref().map(|model| {
            model
                .split_once('/')
                .map_or(model, |(provider, _)| provider)
        })
    }
}
