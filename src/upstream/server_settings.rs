//! A tool server as configured, and what all of them share.

use super::child;
use super::credentials::classes::CredentialName;
use super::credentials::{Credentials, TokenTally};
use super::http::{Connections, ServerEndpoint};
use super::leftovers::Leftovers;
use crate::mcp::json::JsonLimits;
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use http::{HeaderMap, Uri};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A server as configured.
#[derive(Clone)]
pub struct UpstreamServerSettings {
    /// Its name.
    pub name: ServerName,
    /// How it is reached.
    pub transport: ServerTransport,
    /// How long one call may take.
    pub timeout: Duration,
    /// How long a call takes that becomes a task of toolgate's own, where its agent knows tasks; as
    /// long as it may take in all, and none does.
    pub task_after: Duration,
    /// How long it may take from start to its first answer.
    pub start_timeout: Duration,
    /// How old what is known of its tools may get.
    pub refresh: Duration,
    /// How long a legacy session over HTTP is silent before the server is asked whether it knows
    /// it still.
    pub ping_after: Duration,
    /// Which eras it is taken to speak.
    pub era: EraChoice,
    /// Which sessions share its process, where it is one and legacy.
    pub sharing: ChildSharing,
    /// Processes of it that agents use at once, 1 to 256.
    pub max_children: usize,
    /// How long nobody uses such a process before it ends, 1 ms to 1 h.
    pub idle_timeout: Duration,
    /// HTTP statuses, 400 to 599, by which it says that it has not begun what it was asked for:
    /// the operator's word.
    pub not_executed: Arc<[u16]>,
    /// The header that carries the fencing token of a call to it.
    pub fence_header: Option<String>,
    /// What a message to it may be.
    pub limits: JsonLimits,
}

impl UpstreamServerSettings {
    /// Whether it is a process that toolgate starts.
    pub fn is_child(&self) -> bool {
        matches!(self.transport, ServerTransport::Child(_))
    }

    /// How it is reached, ready to be asked in that name.
    pub(super) fn reach(&self, around: &Surroundings, name: CredentialName) -> ServerReach<'_> {
        match &self.transport {
            ServerTransport::Http {
                uri,
                headers,
                credentials,
            } => {
                let (connections, uri) = (around.connections.clone(), uri.clone());
                let (headers, credentials) = (headers.clone(), credentials.clone());
                ServerReach::At(ServerEndpoint::new(
                    connections,
                    uri,
                    headers,
                    credentials,
                    name,
                ))
            }
            ServerTransport::Child(command) => ServerReach::By(command),
        }
    }

    /// In whose name it is asked for `caller`; none where all are shown the same.
    ///
    /// # Errors
    ///
    /// When it is not to be asked for this caller.
    pub(super) fn name_of(&self, caller: &Caller) -> Result<Option<CredentialName>, Fault> {
        match &self.transport {
            ServerTransport::Http { credentials, .. } => credentials.name_of(caller),
            ServerTransport::Child(_) => Ok(None),
        }
    }

    /// What was fetched for it, where it wants tokens.
    pub(crate) fn tokens(&self) -> Option<TokenTally> {
        match &self.transport {
            ServerTransport::Http { credentials, .. } => credentials.tally(),
            ServerTransport::Child(_) => None,
        }
    }

    /// Of an agent's `headers` those that can go to the server beside `ours`: what is ours, or
    /// configured, is said once.
    pub fn beside(
        &self,
        ours: &[(String, String)],
        headers: &[(String, String)],
    ) -> Vec<(String, String)> {
        let ServerTransport::Http {
            headers: configured,
            credentials,
            ..
        } = &self.transport
        else {
            return Vec::new();
        };
        let is_new = |name: &str| {
            // No agent says which token it holds.
            self.fence_header.as_deref() != Some(name)
                && !configured.contains_key(name)
                && credentials
                    .class_headers()
                    .all(|own| !own.contains_key(name))
                && !ours.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
        };
        headers
            .iter()
            .filter(|(name, _)| is_new(name))
            .cloned()
            .collect()
    }
}

/// Which sessions of legacy agents share a process of a server on standard input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChildSharing {
    /// Those of one agent, tenant and user that declare the same, and cannot be asked anything.
    #[default]
    Caller,
    /// All that declare the same, of all agents: the server takes them for one.
    All,
    /// None: each has its own.
    None,
}

/// Which eras a server is taken to speak, as its operator says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
pub enum EraChoice {
    /// What it answers says so: `server/discover` is asked, then `initialize`.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// Up to 2025-11-25: only `initialize` is asked.
    #[serde(rename = "legacy")]
    Legacy,
    /// 2026-07-28: only `server/discover` is asked.
    #[serde(rename = "2026-07-28")]
    Modern,
}

/// How a server is reached.
#[derive(Clone)]
pub enum ServerTransport {
    /// Streamable HTTP.
    Http {
        /// Its address.
        uri: Uri,
        /// Sent with every request.
        headers: HeaderMap,
        /// What is sent besides, by who asks.
        credentials: Arc<Credentials>,
    },
    /// A child process.
    Child(child::ChildCommand),
}

/// How a server is reached, ready to be asked.
pub(super) enum ServerReach<'s> {
    /// At an address.
    At(ServerEndpoint),
    /// By starting it.
    By(&'s child::ChildCommand),
}

/// What servers share.
#[derive(Clone)]
pub struct Surroundings {
    /// Connections to HTTP servers.
    pub connections: Connections,
    /// The program that guards children: toolgate itself.
    pub guard: PathBuf,
    /// Where running children are noted.
    pub leftovers: Arc<Leftovers>,
}
