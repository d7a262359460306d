//! How long calls wait for people, and who was told.

use super::labels::NoticeLabels;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct ApprovalMetrics {
    oldest_wait: Gauge,
    notices: Family<NoticeLabels, Counter>,
}

impl ApprovalMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_approval_oldest_wait_seconds",
            "For how long the oldest call that is held has waited for operators",
            self.oldest_wait.clone(),
        );
        registry.register(
            "toolgate_notifications",
            "What receivers of `notify` were to be told, each try counted",
            self.notices.clone(),
        );
    }

    pub(super) fn set_oldest_wait(&self, oldest: Duration) {
        self.oldest_wait
            .set(i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX));
    }

    pub(super) fn noticed(&self, receiver: &str, outcome: &'static str) {
        self.notices
            .get_or_create(&NoticeLabels(receiver.to_owned(), outcome))
            .inc();
    }
}
