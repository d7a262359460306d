//! What the journal's disk does.

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// Its metrics.
#[derive(Debug, Default)]
pub(super) struct JournalMetrics {
    syncs: Syncs,
    unsynced: Gauge,
}

impl JournalMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "toolgate_journal_sync_seconds",
            "Seconds that the disk took to make a batch of the journal durable",
            self.syncs.clone(),
        );
        registry.register(
            "toolgate_journal_unsynced_records",
            "Records of the journal that are not yet durable: what a power cut would take",
            self.unsynced.clone(),
        );
    }

    pub(super) fn unsynced(&self, records: u64) {
        self.unsynced
            .set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    pub(super) fn synced(&self, syncs: Synced) {
        *self.syncs.0.lock() = syncs;
    }
}

/// How long syncs took so far, counted by who made them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Synced {
    /// Upper boundaries in seconds, rising, and how many syncs took at most so long and longer
    /// than the one before; the last boundary is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// Seconds in all.
    pub seconds: f64,
}

/// A histogram that is counted elsewhere and shown here.
#[derive(Debug, Clone, Default)]
struct Syncs(Arc<Mutex<Synced>>);

impl EncodeMetric for Syncs {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let Synced { buckets, seconds } = self.0.lock().clone();
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
