//! The names of servers and agents that a configuration declares.

use crate::guards::identity::ANONYMOUS_AGENT;
use crate::model::ids::{AgentId, ServerName};
use serde_json::Value;

/// The names that policies may use: also those of entries that are wrong otherwise, so that one
/// flaw is one problem.
pub(super) struct DeclaredNames {
    pub(super) servers: Vec<ServerName>,
    pub(super) agents: Vec<AgentId>,
    /// No caller is configured, so that every agent may call.
    pub(super) is_open: bool,
}

impl DeclaredNames {
    /// Those that are written, and those that were meant: a key may be misspelt.
    pub(super) fn in_trees(written: &Value, meant: Option<&Value>) -> Self {
        let mut named = Self::in_tree(written);
        let Some(meant) = meant.map(Self::in_tree) else {
            return named;
        };
        for server in meant.servers {
            if !named.servers.contains(&server) {
                named.servers.push(server);
            }
        }
        for agent in meant.agents {
            if !named.agents.contains(&agent) {
                named.agents.push(agent);
            }
        }
        named.is_open &= meant.is_open;
        named
    }

    fn in_tree(tree: &Value) -> Self {
        let servers = tree["servers"]
            .as_object()
            .into_iter()
            .flat_map(|servers| servers.keys());
        let callers = tree["callers"].as_array().into_iter().flatten();
        let issuers = tree["auth"]["jwt"].as_array().into_iter().flatten();
        let listed = issuers.flat_map(|issuer| issuer["agents"].as_array().into_iter().flatten());
        let agents = callers
            .map(|caller| &caller["agent"])
            .chain(listed)
            .filter_map(Value::as_str)
            .map(AgentId::new);
        let wanted = |pointer: &str| {
            tree.pointer(pointer)
                .is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty()))
        };
        let is_open = !["/callers", "/front_ends", "/auth/jwt"]
            .into_iter()
            .any(wanted);
        let anonymous = is_open.then(|| AgentId::new(ANONYMOUS_AGENT));
        Self {
            servers: servers.map(|name| ServerName::new(name)).collect(),
            agents: agents.chain(anonymous).collect(),
            is_open,
        }
    }
}
