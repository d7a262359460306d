//! Every metric with its name, labels and help text. Names are promises: dashboards and alerts are
//! built on them.

mod approvals;
mod buckets;
mod effects;
mod exposition;
mod incidents;
mod issuers;
mod journal;
mod labels;
mod process;
mod registration;
mod server_tokens;
mod stages;
#[cfg(test)]
mod tests;
mod tls;

pub use effects::{CallEffects, ExecutedEffect};
pub use exposition::MetricsFormat;
pub use journal::Synced;
pub use labels::{CallLabels, CallOutcome, ReloadLabel};

use super::tasks::heavy;
use crate::model::ids::ServerName;
use crate::model::scrub::KNOWN_SECRETS;
use crate::model::tally::{FOREIGN_PROGRESS, LONG_META, LOOK_ALIKE_MEMBERS, UNASKED_TASKS};
use approvals::ApprovalMetrics;
use effects::EffectMetrics;
use incidents::IncidentMetrics;
use issuers::IssuerMetrics;
use journal::JournalMetrics;
use labels::{HiddenLabels, LabelPair, MessageLabels, ServerLabel, user_label};
use parking_lot::Mutex;
use process::ProcessMetrics;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use server_tokens::ServerTokenMetrics;
use stages::Stages;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tls::TlsMetrics;

/// Series of `toolgate_calls_total` at most. Beyond it, new tools are counted as `unknown` and new
/// contract codes as `other`, so that a tool server which renames its tools all day cannot fill the
/// memory (threat-model §3I).
pub const MAX_CALL_SERIES: usize = 10_000;

/// All metrics of one process. Every method is cheap enough for the path of a call, except
/// [`Metrics::render`].
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    call_series: AtomicUsize,
    by_user: Family<LabelPair, Counter>,
    sent: Counter,
    latency: Histogram,
    latency_ms: Histogram,
    stages: Stages,
    upstream: Family<ServerLabel, Histogram, Buckets>,
    upstream_up: Family<ServerLabel, Gauge>,
    quarantined: Family<HiddenLabels, Gauge>,
    quarantined_by_server: Mutex<BTreeMap<ServerName, Vec<(&'static str, i64)>>>,
    quarantined_by_profile: Mutex<Vec<HiddenLabels>>,
    normalized: Family<LabelPair, Counter>,
    reloads: Family<LabelPair, Counter>,
    policy_stale: Gauge,
    disabled: Gauge,
    unavailable: Family<LabelPair, Counter>,
    dropped: Family<LabelPair, Counter>,
    refused: Family<LabelPair, Counter>,
    messages: Family<MessageLabels, Counter>,
    ledger_dropped: Counter,
    dropped_early: Counter,
    heads: Family<LabelPair, Counter>,
    secrets_removed: Counter,
    look_alikes: Counter,
    long_meta: Counter,
    heavy: Family<LabelPair, Counter>,
    sessions: Gauge,
    disk_free: Gauge,
    disk_total: Gauge,
    effects: EffectMetrics,
    journal: JournalMetrics,
    approvals: ApprovalMetrics,
    incidents: IncidentMetrics,
    process: ProcessMetrics,
    issuers: IssuerMetrics,
    tls: TlsMetrics,
    server_tokens: ServerTokenMetrics,
}

/// The boundaries of a labelled histogram.
#[derive(Debug, Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics at zero. Series whose labels are known beforehand exist from the start, so that
    /// rates have a first value.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            calls: Family::default(),
            call_series: AtomicUsize::new(0),
            by_user: Family::default(),
            sent: Counter::default(),
            latency: Histogram::new(buckets::LATENCY_SECONDS.iter().copied()),
            latency_ms: Histogram::new(buckets::LATENCY_MS.iter().copied()),
            stages: Stages::new(),
            upstream: Family::new_with_constructor(Buckets(buckets::UPSTREAM_SECONDS)),
            upstream_up: Family::default(),
            quarantined: Family::default(),
            quarantined_by_server: Mutex::default(),
            quarantined_by_profile: Mutex::default(),
            normalized: Family::default(),
            reloads: Family::default(),
            policy_stale: Gauge::default(),
            disabled: Gauge::default(),
            unavailable: Family::default(),
            dropped: Family::default(),
            refused: Family::default(),
            messages: Family::default(),
            ledger_dropped: Counter::default(),
            dropped_early: Counter::default(),
            heads: Family::default(),
            secrets_removed: Counter::default(),
            look_alikes: Counter::default(),
            long_meta: Counter::default(),
            heavy: Family::default(),
            sessions: Gauge::default(),
            disk_free: Gauge::default(),
            disk_total: Gauge::default(),
            effects: EffectMetrics::new(),
            journal: JournalMetrics::default(),
            approvals: ApprovalMetrics::default(),
            incidents: IncidentMetrics::default(),
            process: ProcessMetrics::default(),
            issuers: IssuerMetrics::default(),
            tls: TlsMetrics::default(),
            server_tokens: ServerTokenMetrics::default(),
        };
        metrics.begin_known_series();
        metrics.register_calls();
        metrics.register_rest();
        metrics.register_records();
        metrics.effects.register(&mut metrics.registry);
        metrics.journal.register(&mut metrics.registry);
        metrics.approvals.register(&mut metrics.registry);
        metrics.incidents.register(&mut metrics.registry);
        metrics.process.register(&mut metrics.registry);
        metrics.issuers.register(&mut metrics.registry);
        metrics.tls.register(&mut metrics.registry);
        metrics.server_tokens.register(&mut metrics.registry);
        metrics
    }

    /// A judged call ended, `latency` after it arrived.
    pub fn call(&self, labels: &CallLabels, latency: Duration) {
        self.latency.observe(latency.as_secs_f64());
        self.latency_ms.observe(latency.as_secs_f64() * 1000.0);
        if let Some(counter) = self.calls.get(labels) {
            counter.inc();
            return;
        }
        if self.call_series.fetch_add(1, Ordering::Relaxed) < MAX_CALL_SERIES {
            self.calls.get_or_create(labels).inc();
        } else {
            self.calls.get_or_create(&labels.folded()).inc();
        }
    }

    /// A judged call named a user, or none. Whom it named is no label: agents name as many as they
    /// like.
    pub fn asked_for(&self, is_named: bool) {
        self.by_user.get_or_create(&user_label(is_named)).inc();
    }

    /// A call left for its tool server.
    pub fn sent(&self) {
        self.sent.inc();
    }

    /// A call spent `time` in `stage`, a name fixed in the source.
    pub fn stage(&self, stage: &'static str, time: Duration) {
        self.stages.observe(stage, time);
    }

    /// A tool server's answer was complete `time` after the call was sent.
    pub fn upstream(&self, server: &ServerName, time: Duration) {
        self.upstream
            .get_or_create(&ServerLabel(server.clone()))
            .observe(time.as_secs_f64());
    }

    /// A tool server answers, or no longer does.
    pub fn upstream_up(&self, server: &ServerName, up: bool) {
        self.upstream_up
            .get_or_create(&ServerLabel(server.clone()))
            .set(i64::from(up));
    }

    /// A tool server is no longer configured: its state is forgotten, what was counted for it
    /// stays.
    pub fn upstream_gone(&self, server: &ServerName) {
        self.upstream_up.remove(&ServerLabel(server.clone()));
        self.quarantined(server, &[]);
    }

    /// All quarantined tools of one tool server, by reason; replaces what was last said of this
    /// server.
    pub fn quarantined(&self, server: &ServerName, tools: &[(&'static str, usize)]) {
        let mut servers = self.quarantined_by_server.lock();
        let new = tools
            .iter()
            .map(|(reason, count)| (*reason, i64::try_from(*count).unwrap_or(i64::MAX)))
            .collect();
        let old = servers.insert(server.clone(), new).unwrap_or_default();
        let reasons = old
            .iter()
            .map(|(reason, _)| *reason)
            .chain(tools.iter().map(|(reason, _)| *reason));
        for reason in reasons {
            let sum = servers
                .values()
                .flatten()
                .filter(|(name, _)| *name == reason)
                .map(|(_, count)| count)
                .sum();
            self.quarantined
                .get_or_create(&HiddenLabels(reason, None))
                .set(sum);
        }
    }

    /// All tools that a profile cannot show, by reason, profile and number; replaces what was last
    /// said of profiles.
    pub fn hidden(&self, tools: &[(&'static str, &'static str, usize)]) {
        let mut old = self.quarantined_by_profile.lock();
        for one in old.drain(..) {
            self.quarantined.get_or_create(&one).set(0);
        }
        for (reason, profile, count) in tools {
            let labels = HiddenLabels(reason, Some(profile));
            self.quarantined
                .get_or_create(&labels)
                .set(i64::try_from(*count).unwrap_or(i64::MAX));
            old.push(labels);
        }
    }

    /// A tool was shown in a profile, by a schema that was made for it now or was known.
    pub fn normalized(&self, known: bool) {
        self.normalized
            .get_or_create(&LabelPair("outcome", if known { "known" } else { "made" }))
            .inc();
    }

    /// The policy was reloaded; also says whether the policy in force is stale.
    pub fn reload(&self, outcome: ReloadLabel) {
        self.reloads
            .get_or_create(&LabelPair("outcome", outcome.word()))
            .inc();
        self.policy_stale(outcome == ReloadLabel::Kept);
    }

    /// Whether the files on disk are invalid, so that the last good policy is kept.
    pub fn policy_stale(&self, stale: bool) {
        self.policy_stale.set(i64::from(stale));
    }

    /// So many tools are taken away by operators.
    pub fn disabled(&self, tools: usize) {
        self.disabled.set(i64::try_from(tools).unwrap_or(i64::MAX));
    }

    /// A policy came in force with an allow list that names only tools of disabled servers: `kept`
    /// or `stripped`.
    pub fn unavailable_allowlist(&self, outcome: &'static str) {
        self.unavailable
            .get_or_create(&LabelPair("outcome", outcome))
            .inc();
    }

    /// A message was dropped without an answer. `reason` is fixed in the source.
    pub fn dropped(&self, reason: &'static str) {
        self.dropped
            .get_or_create(&LabelPair("reason", reason))
            .inc();
    }

    /// A message was refused before it was a call to judge. `reason` is fixed in the source.
    pub fn refused(&self, reason: &'static str) {
        self.refused
            .get_or_create(&LabelPair("reason", reason))
            .inc();
    }

    /// A message through a side door was `passed`, `refused`, or in observe mode one that
    /// `would_refuse`. Both words are fixed in the source.
    pub fn message(&self, door: &'static str, outcome: &'static str) {
        self.messages
            .get_or_create(&MessageLabels(door, outcome))
            .inc();
    }

    /// Ledger entries were lost.
    pub fn ledger_dropped(&self, entries: u64) {
        self.ledger_dropped.inc_by(entries);
    }

    /// So many records went before their age so far.
    pub fn dropped_early(&self, records: u64) {
        self.dropped_early.inner().store(records, Ordering::Relaxed);
    }

    /// A head of the ledger was to go to one place, and did or did not.
    pub fn head_left(&self, did: bool) {
        self.heads
            .get_or_create(&LabelPair("outcome", if did { "left" } else { "failed" }))
            .inc();
    }

    /// So many sessions are open.
    pub fn sessions(&self, open: usize) {
        self.sessions.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    /// A judged call ended at `now`, on the steady clock; whether its effect ran again.
    pub fn effects(&self, tally: &CallEffects<'_>, now: Duration) -> bool {
        self.effects.count(tally, now)
    }

    /// So many outcomes are unknown, the oldest for so long.
    pub fn unknown(&self, count: usize, oldest: Duration) {
        self.effects.unknown(count, oldest);
    }

    /// So many calls are held until operators decide.
    pub fn set_held_calls(&self, count: usize) {
        self.effects.set_held_calls(count);
    }

    /// The oldest of them has waited for so long, and nobody attends to so many.
    pub fn set_waits(&self, oldest: Duration, unattended: usize) {
        self.approvals.set_waits(oldest, unattended);
    }

    /// A receiver that the configuration names was to be told of something: `delivered`, `failed`, `dropped`
    /// or `quiet`.
    pub fn noticed(&self, receiver: &str, outcome: &'static str) {
        self.approvals.noticed(receiver, outcome);
    }

    /// Operators have decided, `allow` or `deny`, so long after the first call.
    pub fn decided(&self, decision: &'static str, waited: Duration) {
        self.effects.decided(decision, waited);
    }

    /// A call has begun with a standing grant.
    pub fn grant_used(&self) {
        self.effects.grant_used();
    }

    /// A before-hook was asked: `passed`, `changed`, `blocked` or `failed`.
    pub fn before_hook(&self, outcome: &'static str) {
        self.effects.before_hook(outcome);
    }

    /// An after-hook was to hear of a call: `delivered`, `failed` or `dropped`.
    pub fn after_hook(&self, outcome: &'static str) {
        self.effects.after_hook(outcome);
    }

    /// How long the journal's syncs took so far.
    pub fn synced(&self, syncs: Synced) {
        self.journal.synced(syncs);
    }

    /// So many records of the journal are not yet synced.
    pub fn unsynced(&self, records: u64) {
        self.journal.unsynced(records);
    }

    /// The disk of the data directory has so many bytes, so many of them free.
    pub fn disk(&self, free: u64, total: u64) {
        self.disk_free.set(i64::try_from(free).unwrap_or(i64::MAX));
        self.disk_total
            .set(i64::try_from(total).unwrap_or(i64::MAX));
    }

    /// All metrics as text in `format`.
    pub fn render(&self, format: MetricsFormat) -> String {
        self.process.look();
        self.secrets_removed
            .inner()
            .store(KNOWN_SECRETS.removed(), Ordering::Relaxed);
        self.look_alikes
            .inner()
            .store(LOOK_ALIKE_MEMBERS.so_far(), Ordering::Relaxed);
        self.long_meta
            .inner()
            .store(LONG_META.so_far(), Ordering::Relaxed);
        for (outcome, count) in heavy::HEAVY_WORK_COUNTS.read() {
            self.heavy
                .get_or_create(&LabelPair("outcome", outcome))
                .inner()
                .store(count, Ordering::Relaxed);
        }
        for (reason, tally) in [
            ("foreign_progress", &FOREIGN_PROGRESS),
            ("unasked_task", &UNASKED_TASKS),
        ] {
            if tally.so_far() > 0 {
                self.dropped
                    .get_or_create(&LabelPair("reason", reason))
                    .inner()
                    .store(tally.so_far(), Ordering::Relaxed);
            }
        }
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            tracing::error!("the metrics could not be written as text; the scrape is cut short");
        }
        match format {
            MetricsFormat::OpenMetrics => text,
            MetricsFormat::Text => exposition::as_text(&text),
        }
    }
}
