//! What servers show in the sessions of one agent, where that differs from what they show toolgate:
//! tools that depend on what the agent's program can do, that come after a log-in, or that a server
//! adds while it runs.

use super::catalog::Catalog;
use super::link::Link;
use super::server::UpstreamServer;
use crate::model::ids::ServerName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// A session's tools are not asked for more often than this.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(1);
/// Mixes two stamps into one that is like neither.
const STAMP_MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The catalogues of one agent that differ from toolgate's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnCatalogs {
    /// Another one for each state of them, in this process; 0: there are none.
    pub stamp: u64,
    /// By server, in the order in which they were listed first.
    pub servers: Vec<(ServerName, Arc<Catalog>)>,
}

/// What is known of an agent's own listings.
#[derive(Default)]
pub(crate) struct KnownCatalogs {
    own: Mutex<Arc<OwnCatalogs>>,
    asked: Mutex<HashMap<ServerName, Instant>>,
}

impl KnownCatalogs {
    /// Those that differ from toolgate's own.
    pub(crate) fn own(&self) -> Arc<OwnCatalogs> {
        self.own.lock().clone()
    }

    /// Whether the server may be asked again; it counts as asked then.
    pub(crate) fn is_due(&self, name: &ServerName) -> bool {
        let (mut asked, now) = (self.asked.lock(), Instant::now());
        let before = asked.insert(name.clone(), now);
        let is_due = before.is_none_or(|before| now.duration_since(before) >= MIN_LIST_INTERVAL);
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
        let known = own.servers.iter().find(|(known, _)| known == name);
        let is_known = match known {
            Some((_, known)) => !is_shared && known.offers_the_same(&catalog),
            None => is_shared,
        };
        if is_known {
            return;
        }
        let mut servers = own.servers.clone();
        servers.retain(|(known, _)| known != name);
        if !is_shared {
            servers.push((name.clone(), Arc::new(catalog)));
        }
        *own = Arc::new(OwnCatalogs::of(servers));
    }

    /// Takes in what was listed on an agent's own link, for one request.
    pub(crate) fn join(&self, more: &OwnCatalogs) {
        let mut own = self.own.lock();
        match (own.stamp, more.stamp) {
            (_, 0) => {}
            (0, _) => *own = Arc::new(more.clone()),
            (known, other) => {
                // The same for the same two, so that what is made of them is found again.
                let stamp = known.wrapping_mul(STAMP_MIXER) ^ other;
                let servers = own.servers.iter().chain(&more.servers).cloned().collect();
                *own = Arc::new(OwnCatalogs { stamp, servers });
            }
        }
    }
}

impl OwnCatalogs {
    fn of(servers: Vec<(ServerName, Arc<Catalog>)>) -> Self {
        static LAST_STAMP: AtomicU64 = AtomicU64::new(0);
        let stamp = if servers.is_empty() {
            0
        } else {
            LAST_STAMP.fetch_add(1, Ordering::Relaxed) + 1
        };
        Self { stamp, servers }
    }
}
