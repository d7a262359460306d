//! The agents' door, put together.

use super::issuers;
use crate::admin;
use crate::config::Config;
use crate::downstream::Door;
use crate::downstream::room::MessageRoom;
use crate::downstream::session::AgentSessions;
use crate::gate::Gate;
use crate::model::clock::Clock;
use crate::relay::Relay;
use crate::upstream::links::Links;
use crate::upstream::servers::Servers;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// Where agents come in.
pub(super) fn door(
    config: &Config,
    gate: Arc<Gate>,
    relay: Arc<Relay>,
    servers: Arc<Servers>,
) -> anyhow::Result<Door> {
    Ok(Door {
        keys: issuers::keys(&gate)?,
        policy: gate.policy.clone(),
        metrics: gate.metrics.clone(),
        gate,
        relay,
        links: Arc::new(Links::shared(servers.clone())),
        servers,
        sessions: AgentSessions::default(),
        room: MessageRoom::default(),
        clock: Clock,
        running: TaskTracker::new(),
        patience: Arc::default(),
        hosts: admin::hosts(config.listen, &config.allowed_hosts),
        origins: config.allowed_origins.clone(),
    })
}
