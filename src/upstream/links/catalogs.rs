//! The tools that an agent reads in sessions of its own.

use super::Links;
use crate::mcp::json::Text;
use crate::mcp::revision::Era;
use crate::model::caller::Caller;
use crate::model::scope::Scope;
use crate::upstream::caller_links::Asker;
use crate::upstream::own_catalogs::OwnCatalogs;
use crate::upstream::server::UpstreamServer;
use std::sync::Arc;
use std::time::Duration;

/// How long a listing in an agent's session may take; what was listed before counts meanwhile.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

impl Links {
    /// What servers show this agent and nobody else, if they do.
    pub(crate) fn own_catalogs(&self) -> Option<Arc<OwnCatalogs>> {
        self.catalogs.own()
    }

    /// Whether a server of `scope` may show this agent other tools than toolgate: it answers it in a
    /// session of its own.
    pub(crate) fn has_own(&self, scope: &Scope) -> bool {
        let may = |server: &Arc<UpstreamServer>| {
            server.up().is_some() && self.wire(server) == Era::Legacy
        };
        match scope {
            Scope::One(name) => self.servers.get(name.as_str()).is_some_and(may),
            Scope::All => self.servers.all().iter().any(may),
        }
    }

    /// Asks the servers of `scope` for their tools in the agent's own sessions.
    pub(crate) async fn list_own(&self, scope: &Scope, caller: &Caller, meta: Option<&Text>) {
        let mut held = self.servers.all().iter().filter(|server| {
            scope.holds(&server.settings.name)
                && server.up().is_some_and(|up| up.verdict.has("tools"))
                && self.wire(server) == Era::Legacy
        });
        let (first, second) = (held.next(), held.next());
        let asker = Asker { caller, meta };
        if let (Some(only), None) = (first, second) {
            return self.list_at(only, asker).await;
        }
        let all = first.into_iter().chain(second).chain(held);
        let listings = all.map(|server| self.list_at(server, asker));
        futures_util::future::join_all(listings).await;
    }

    /// Takes up what was listed before for an agent without a session.
    pub(crate) fn recall_own(&self, scope: &Scope, caller: &Caller, meta: Option<&Text>) {
        if self.session.is_some() {
            return;
        }
        for server in self.servers.all() {
            let is_up = scope.holds(&server.settings.name) && server.up().is_some();
            if is_up && self.wire(server) == Era::Legacy {
                let known = self.servers.callers().known(server, Asker { caller, meta });
                if let Some(known) = known {
                    let name = &server.settings.name;
                    self.catalogs.join(name, known.catalogs.own().as_deref());
                }
            }
        }
    }

    async fn list_at(&self, server: &Arc<UpstreamServer>, asker: Asker<'_>) {
        let name = &server.settings.name;
        let listing = async {
            let reached = self.link(name, asker).await.ok()?;
            let catalogs = reached
                .own
                .as_ref()
                .map_or(&self.catalogs, |own| &own.catalogs);
            if catalogs.is_due(name) {
                catalogs.list(server, &reached.link).await;
            }
            Some(catalogs.own())
        };
        let listed = tokio::time::timeout(LIST_TIMEOUT, listing).await;
        match listed {
            Ok(Some(own)) if self.session.is_none() => self.catalogs.join(name, own.as_deref()),
            Ok(_) => {}
            Err(_) => self.catalogs.rest(name),
        }
    }
}
