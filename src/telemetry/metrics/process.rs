//! The process: since when it runs, what it takes of the machine, and what it sent to collectors.

use super::Metrics;
use super::labels::SignalLabels;
use crate::model::clock::Clock;
use crate::telemetry::otlp::tallies::OTLP_TALLIES;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Its metrics.
#[derive(Debug, Default)]
pub(super) struct ProcessMetrics {
    started: Gauge,
    policy_since: Gauge,
    resident: Gauge,
    open_files: Gauge,
    cpu: Counter<f64, AtomicU64>,
    exports: Family<SignalLabels, Counter>,
    lost_records: Counter,
}

impl ProcessMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        self.started.set(Clock.wall().as_second());
        registry.register(
            "toolgate_started_seconds",
            "When toolgate started, in seconds since 1970",
            self.started.clone(),
        );
        registry.register(
            "toolgate_policy_since_seconds",
            "When the policy in force was read, in seconds since 1970",
            self.policy_since.clone(),
        );
        registry.register(
            "toolgate_resident_bytes",
            "Memory of the process that is in use; children are not in it",
            self.resident.clone(),
        );
        registry.register(
            "toolgate_open_files",
            "Open files and connections of the process",
            self.open_files.clone(),
        );
        registry.register(
            "toolgate_cpu_seconds",
            "Seconds of computing, of all cores",
            self.cpu.clone(),
        );
        registry.register(
            "toolgate_otlp_exports",
            "Requests to collectors, by what they had and what became of them",
            self.exports.clone(),
        );
        registry.register(
            "toolgate_otlp_lost_log_records",
            "Log records that no collector took, and that are lost for it",
            self.lost_records.clone(),
        );
    }

    /// Looks at the process anew, for a scrape.
    pub(super) fn look(&self) {
        if let Some(bytes) = resident_bytes() {
            self.resident.set(bytes);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            self.open_files
                .set(i64::try_from(files.count()).unwrap_or(i64::MAX));
        }
        let seconds = computed().as_secs_f64();
        self.cpu.inner().store(seconds.to_bits(), Ordering::Relaxed);
        for (signal, outcome, count) in OTLP_TALLIES.requests() {
            self.exports
                .get_or_create(&SignalLabels(signal, outcome))
                .inner()
                .store(count, Ordering::Relaxed);
        }
        self.lost_records
            .inner()
            .store(OTLP_TALLIES.lost_records(), Ordering::Relaxed);
    }
}

impl Metrics {
    /// The policy in force was read then.
    pub fn policy_since(&self, since: Timestamp) {
        self.process.policy_since.set(since.as_second());
    }
}

/// What the process has computed so far, on all cores.
fn computed() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(spent.tv_nsec).unwrap_or_default())
}

/// `VmRSS` of the process, where the system tells.
fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
