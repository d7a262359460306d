//! How many incidents are open, and for how long.

use super::Metrics;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct IncidentMetrics {
    open: Gauge,
    oldest: Gauge,
}

impl IncidentMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_incidents_open",
            "Open incidents, whose tools are frozen",
            self.open.clone(),
        );
        registry.register(
            "toolgate_incident_age_seconds",
            "For how long the oldest of them has been open",
            self.oldest.clone(),
        );
    }
}

impl Metrics {
    /// So many incidents are open, the oldest for so long.
    pub fn set_incidents(&self, open: usize, oldest: Duration) {
        let of = &self.incidents;
        of.open.set(i64::try_from(open).unwrap_or(i64::MAX));
        of.oldest
            .set(i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX));
    }
}
