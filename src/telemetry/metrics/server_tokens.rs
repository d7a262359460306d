//! Tokens that toolgate gets for tool servers.

use super::Metrics;
use super::labels::ServerTokenLabels;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::sync::atomic::Ordering;

#[derive(Debug, Default)]
pub(super) struct ServerTokenMetrics {
    fetches: Family<ServerTokenLabels, Counter>,
}

impl ServerTokenMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_server_token_fetches",
            "Fetches of tokens for tool servers, by what became of them",
            self.fetches.clone(),
        );
    }
}

impl Metrics {
    /// So many tokens were fetched for a tool server, which the configuration names, and so many could not be.
    pub(crate) fn server_tokens(&self, server: &str, fetched: u64, failed: u64) {
        for (outcome, count) in [("fetched", fetched), ("failed", failed)] {
            let labels = ServerTokenLabels(server.to_owned(), outcome);
            let counter = self.server_tokens.fetches.get_or_create(&labels);
            counter.inner().store(count, Ordering::Relaxed);
        }
    }
}
