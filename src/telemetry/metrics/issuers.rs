//! Tokens of issuers, and the keys by which they are checked.

use super::Metrics;
use super::labels::{IssuerLabels, LabelPair};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct IssuerMetrics {
    refused: Family<LabelPair, Counter>,
    fetches: Family<IssuerLabels, Counter>,
    age: Family<IssuerLabels, Gauge>,
}

impl IssuerMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_refused_tokens",
            "Tokens of issuers that were not taken, by why",
            self.refused.clone(),
        );
        registry.register(
            "toolgate_issuer_key_fetches",
            "Fetches of the public keys of issuers, by what became of them",
            self.fetches.clone(),
        );
        registry.register(
            "toolgate_issuer_keys_age_seconds",
            "How old the keys of an issuer are; -1 while there are none",
            self.age.clone(),
        );
    }
}

impl Metrics {
    /// A token was not taken; `reason` is fixed in the source.
    pub fn refused_token(&self, reason: &'static str) {
        let reason = LabelPair("reason", reason);
        self.issuers.refused.get_or_create(&reason).inc();
    }

    /// The keys of an issuer, which the configuration names, were fetched or could not be.
    pub(crate) fn issuer_keys_fetched(&self, issuer: &str, is_fetched: bool) {
        let outcome = Some(if is_fetched { "fetched" } else { "failed" });
        let labels = IssuerLabels(issuer.to_owned(), outcome);
        self.issuers.fetches.get_or_create(&labels).inc();
    }

    /// How old the keys of an issuer are; none: there are none.
    pub(crate) fn issuer_keys_age(&self, issuer: &str, age: Option<Duration>) {
        let seconds = age.map_or(-1, |age| i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
        let labels = IssuerLabels(issuer.to_owned(), None);
        self.issuers.age.get_or_create(&labels).set(seconds);
    }

    /// An issuer is no longer configured: how old its keys are is forgotten, what was counted of them
    /// stays.
    pub(crate) fn issuer_keys_gone(&self, issuer: &str) {
        let labels = IssuerLabels(issuer.to_owned(), None);
        self.issuers.age.remove(&labels);
    }
}
