//! Floor 5: the agents' door. Streamable HTTP of every revision on one address, and stdio for
//! agents that launch their servers. A message is classified by its body first (protocol §4.2).

pub(crate) mod accept;
mod acknowledged;
mod alike;
mod answer_place;
mod arriving;
mod batch;
mod batch_answers;
mod body;
mod carried_answer;
mod challenge;
mod checks;
pub(crate) mod connection_limit;
mod farewell;
mod guest_stream;
mod handshake;
mod head_guard;
pub(crate) mod http;
mod legacy;
pub(crate) mod listening;
mod modern;
mod neighbour;
mod own_tasks;
mod patience;
mod peers;
mod pipe_line;
mod poll_bytes;
mod replay_budget;
mod request_origin;
pub(crate) mod room;
mod route;
pub(crate) mod session;
pub(crate) mod stdio;
mod stream;
pub(crate) mod tls;
mod unread;

use crate::gate::Gate;
use crate::mcp::message::{Message, MessageKind};
use crate::model::caller::Caller;
use crate::model::clock::Clock;
use crate::model::scope::Scope;
use crate::outlet::receipt::AgentConnection;
use crate::policy::Policy;
use crate::policy::issuer_keys::IssuerKeys;
use crate::policy::live::LivePolicy;
use crate::relay::Relay;
use crate::telemetry::metrics::Metrics;
use crate::upstream::links::Links;
use crate::upstream::servers::Servers;
use request_origin::RequestOrigin;
use room::MessageRoom;
use session::AgentSessions;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// Who sent a message, and the policy that says so. The message is judged by that one as a whole:
/// what another policy allows this caller, or another caller by this policy, is nobody's to have.
#[derive(Clone)]
struct Authenticated {
    /// The agent, acting for the user whom the message names, if it names one.
    caller: Arc<Caller>,
    /// The same as the head of the message proved it: whose session it is.
    proved: Arc<Caller>,
    policy: Arc<Policy>,
}

/// A request whose sender is known, on its connection.
struct Visit {
    scope: Scope,
    known: Authenticated,
    /// Where it comes from on that.
    origin: RequestOrigin,
    /// The connection, where one is served that can tell what its agent has read.
    connection: Option<Arc<AgentConnection>>,
    /// The names by which a certificate knows its sender, where one was shown.
    certificate: Option<Arc<[String]>>,
}

impl Visit {
    /// A message has come on its connection.
    fn hears(&self, message: &Message) {
        if let (MessageKind::Request, Some(connection)) = (message.kind, &self.connection) {
            connection.hears(self.origin.arrived);
        }
    }

    /// It is `caller` who has sent it, for the user that it names.
    fn speaks(&mut self, caller: Arc<Caller>) {
        self.known.caller = caller;
    }
}

/// What the door leads to.
pub(crate) struct Door {
    /// Where calls are judged.
    pub gate: Arc<Gate>,
    /// Where everything else goes.
    pub relay: Arc<Relay>,
    /// The policy, as it stands.
    pub policy: Arc<LivePolicy>,
    /// What fetches the keys of issuers.
    pub keys: Arc<IssuerKeys>,
    /// The servers behind.
    pub servers: Arc<Servers>,
    /// The shared modern links.
    pub links: Arc<Links>,
    /// Legacy sessions.
    pub sessions: AgentSessions,
    /// Room for messages that are still arriving.
    pub room: MessageRoom,
    /// What operators count.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
    /// Calls and requests that must end before the process does.
    pub running: TaskTracker,
    /// How long requests wait for their first word.
    pub patience: Arc<patience::SharedPatience>,
    /// Host values that are accepted, with ports.
    pub hosts: Vec<String>,
    /// Origins that are accepted.
    pub origins: Vec<String>,
}
