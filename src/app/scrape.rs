//! What a scrape shows: counts of calls as they come, and of the journal, the policy and certificates as
//! they are.

use super::App;
use super::doors::show_certificates;
use crate::downstream::Door;
use crate::downstream::tls::TlsDoor;
use crate::store::journal::{self, Journal};
use crate::telemetry::metrics::{MetricsFormat, Synced};
use crate::upstream::credentials::TokenTally;
use std::sync::Arc;

impl App {
    /// What a scrape in `OpenMetrics` shows, whenever it is asked for.
    pub(crate) fn scrapes(&self) -> impl Fn() -> String + Send + Sync + use<> {
        let (door, journal) = (self.door.clone(), self.journal.clone());
        let served = self.tls.clone();
        move || {
            let tls = served.get().map(Vec::as_slice).unwrap_or_default();
            scrape(&door, &journal, tls, MetricsFormat::OpenMetrics)
        }
    }
}

/// All metrics, as they are now; `tls`: the doors at which it is spoken.
pub(super) fn scrape(
    door: &Door,
    journal: &Journal,
    tls: &[Arc<TlsDoor>],
    format: MetricsFormat,
) -> String {
    let health = journal.health();
    door.metrics.synced(syncs(&health));
    door.metrics.unsynced(health.unsynced);
    door.metrics.dropped_early(health.dropped_early);
    door.metrics.policy_since(door.policy.status().since);
    show_certificates(tls, &door.metrics);
    for server in door.servers.all() {
        if let Some(TokenTally {
            fetched, failed, ..
        }) = server.settings.tokens()
        {
            let name = server.settings.name.as_str();
            door.metrics.server_tokens(name, fetched, failed);
        }
    }
    door.metrics.render(format)
}

/// The journal's syncs as metrics show them.
#[expect(clippy::cast_precision_loss, reason = "a boundary is a small number")]
fn syncs(health: &journal::JournalHealth) -> Synced {
    let bounds = journal::SYNC_BOUNDS_MICROS
        .iter()
        .map(|micros| *micros as f64 / 1e6)
        .chain([f64::INFINITY]);
    Synced {
        buckets: bounds.zip(health.sync_counts).collect(),
        seconds: health.sync_time.as_secs_f64(),
    }
}
