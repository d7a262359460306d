//! What servers show in the sessions of one agent, where that differs from what they show toolgate:
//! tools that depend on what the agent's program can do, that come after a log-in, or that a server
//! adds while it runs.

use super::catalog::Catalog;
use super::link::Link;
use super::server::UpstreamServer;
use crate::model::clock::Clock;
use crate::model::ids::ServerName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A session's tools are not asked for more often than this.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(1);
/// A server that lists nothing in time is not asked again for so long.
const SILENT_SERVER_PAUSE: Duration = Duration::from_secs(30);
/// Mixes two stamps into one that is like neither.
const STAMP_MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The catalogues of one agent that differ from toolgate's own.
#[derive(Debug, Clone)]
pub(crate) struct OwnCatalogs {
    /// Another one for each state of them, in this process.
    pub stamp: u64,
    /// By the servers' names.
    pub servers: Vec<OwnCatalog>,
}

/// What one server shows one agent.
#[derive(Debug, Clone)]
pub(crate) struct OwnCatalog {
    /// The server.
    pub server: ServerName,
    /// Its tools there.
    pub catalog: Arc<Catalog>,
    stamp: u64,
}

/// What is known of an agent's own listings.
#[derive(Default)]
pub(crate) struct KnownCatalogs {
    own: Mutex<Option<Arc<OwnCatalogs>>>,
    asked: Mutex<HashMap<ServerName, Duration>>,
    clock: Clock,
}

impl KnownCatalogs {
    /// Those that differ from toolgate's own, if any do.
    pub(crate) fn own(&self) -> Option<Arc<OwnCatalogs>> {
        self.own.lock().clone()
    }

    /// Whether the server may be asked again; it counts as asked then.
    pub(crate) fn is_due(&self, name: &ServerName) -> bool {
        let (mut asked, now) = (self.asked.lock(), self.clock.steady());
        let before = asked.insert(name.clone(), now);
        let is_due = before.is_none_or(|before| now.saturating_sub(before) >= MIN_LIST_INTERVAL);
        if let (false, Some(before)) = (is_due, before) {
            asked.insert(name.clone(), before);
        }
        is_due
    }

    /// Asks for the tools in the session on `link`.
    pub(crate) async fn list(&self, server: &UpstreamServer, link: &Link) {
        let name = &server.settings.name;
        let catalog = match Catalog::fetch(link).await {
            Ok(catalog) => catalog,
            Err(fault) => {
                tracing::debug!(server = %name, %fault, "a session does not list its tools");
                return;
            }
        };
        let is_shared = server
            .up()
            .is_some_and(|up| up.catalog.offers_the_same(&catalog));
        let mut own = self.own.lock();
        let mut servers = listed(own.as_deref());
        let known = servers.iter().find(|known| known.server == *name);
        let is_known = match known {
            Some(known) => !is_shared && known.catalog.offers_the_same(&catalog),
            None => is_shared,
        };
        if is_known {
            return;
        }
        servers.retain(|known| known.server != *name);
        if !is_shared {
            static LAST_STAMP: AtomicU64 = AtomicU64::new(0);
            servers.push(OwnCatalog {
                server: name.clone(),
                catalog: Arc::new(catalog),
                stamp: LAST_STAMP.fetch_add(1, Ordering::Relaxed) + 1,
            });
            servers.sort_by(|one, other| one.server.cmp(&other.server));
        }
        *own = OwnCatalogs::of(servers);
    }

    /// Takes in what was listed at `server` on an agent's own link, in place of what was known.
    pub(crate) fn join(&self, server: &ServerName, more: Option<&OwnCatalogs>) {
        let mut own = self.own.lock();
        let mut servers = listed(own.as_deref());
        servers.retain(|known| known.server != *server);
        servers.extend(listed(more));
        servers.sort_by(|one, other| one.server.cmp(&other.server));
        *own = OwnCatalogs::of(servers);
    }

    /// A server that does not answer is left alone for a while.
    pub(crate) fn rest(&self, server: &ServerName) {
        let until = self.clock.steady() + SILENT_SERVER_PAUSE;
        self.asked.lock().insert(server.clone(), until);
    }
}

fn listed(own: Option<&OwnCatalogs>) -> Vec<OwnCatalog> {
    own.map(|own| own.servers.clone()).unwrap_or_default()
}

impl OwnCatalogs {
    fn of(servers: Vec<OwnCatalog>) -> Option<Arc<Self>> {
        if servers.is_empty() {
            return None;
        }
        // The same for the same ones, so that what is made of them is found again.
        let mix = |all: u64, one: &OwnCatalog| all.wrapping_mul(STAMP_MIXER) ^ one.stamp;
        let stamp = servers.iter().fold(0, mix);
        Some(Arc::new(Self { stamp, servers }))
    }
}
