//! How long calls wait for people, who was told, and which undos are not done.

use super::Metrics;
use super::labels::{LabelPair, NoticeLabels};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct ApprovalMetrics {
    oldest_wait: Gauge,
    unattended: Gauge,
    notices: Family<NoticeLabels, Counter>,
    undos: Family<LabelPair, Gauge>,
}

impl Metrics {
    /// So many undos of that state, a word fixed in the source, were asked for or tried and are not done.
    pub(crate) fn set_open_undos(&self, state: &'static str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let undos = &self.approvals.undos;
        undos.get_or_create(&LabelPair("state", state)).set(count);
    }
}

impl ApprovalMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_approval_oldest_wait_seconds",
            "For how long the oldest call that is held has waited for operators",
            self.oldest_wait.clone(),
        );
        registry.register(
            "toolgate_approvals_unattended",
            "Held calls on which no operator has said a word for half of their time, and at which none looks",
            self.unattended.clone(),
        );
        registry.register(
            "toolgate_notifications",
            "What receivers of `notify` were to be told, each try counted",
            self.notices.clone(),
        );
        registry.register(
            "toolgate_open_undos",
            "Undos that were asked for or tried and are not done, by their state; at most 1000 are counted",
            self.undos.clone(),
        );
    }

    pub(super) fn set_waits(&self, oldest: Duration, unattended: usize) {
        self.oldest_wait
            .set(i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX));
        self.unattended
            .set(i64::try_from(unattended).unwrap_or(i64::MAX));
    }

    pub(super) fn noticed(&self, receiver: &str, outcome: &'static str) {
        self.notices
            .get_or_create(&NoticeLabels(receiver.to_owned(), outcome))
            .inc();
    }
}
