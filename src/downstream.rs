//! Floor 5: the agents' door. Streamable HTTP of every revision on one address, and stdio for
//! agents that launch their servers. A message is classified by its body first (PROTOCOL §4.2).

pub mod accept;
mod alike;
mod body;
mod checks;
pub mod crowd;
mod handshake;
mod heads;
pub mod http;
mod legacy;
mod modern;
mod neighbour;
mod peers;
pub mod room;
mod route;
pub mod session;
mod shelf;
pub mod stdio;
mod stream;

use crate::gate::Gate;
use crate::model::caller::Caller;
use crate::model::clock::Clock;
use crate::policy::Policy;
use crate::policy::live::Live;
use crate::relay::Relay;
use crate::telemetry::metrics::Metrics;
use crate::upstream::links::Links;
use crate::upstream::servers::Servers;
use room::Room;
use session::Sessions;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// Who sent a message, and the policy that says so. The message is judged by that one as a whole:
/// what another policy allows this caller, or another caller by this policy, is nobody's to have.
#[derive(Clone)]
struct Known {
    caller: Arc<Caller>,
    policy: Arc<Policy>,
}

/// What the door leads to.
pub struct Door {
    /// Where calls are judged.
    pub gate: Arc<Gate>,
    /// Where everything else goes.
    pub relay: Arc<Relay>,
    /// The policy, as it stands.
    pub policy: Arc<Live>,
    /// The servers behind.
    pub servers: Arc<Servers>,
    /// The shared modern links.
    pub links: Arc<Links>,
    /// Legacy sessions.
    pub sessions: Sessions,
    /// Room for messages that are still arriving.
    pub room: Room,
    /// What operators count.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
    /// Calls and requests that must end before the process does.
    pub running: TaskTracker,
    /// Host values that are accepted, with ports.
    pub hosts: Vec<String>,
    /// Origins that are accepted.
    pub origins: Vec<String>,
}
