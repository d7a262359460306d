//! What each metric is called in a scrape, and the series that exist from the start.

use super::Metrics;
use super::labels::{LabelPair, MessageLabels, ReloadLabel, user_label};
use crate::model::side::SideDoor;
use prometheus_client::metrics::info::Info;

impl Metrics {
    /// Series whose labels are known beforehand, so that rates have a first value.
    pub(super) fn begin_known_series(&self) {
        for outcome in [ReloadLabel::Swapped, ReloadLabel::Kept] {
            drop(
                self.reloads
                    .get_or_create_owned(&LabelPair("outcome", outcome.word())),
            );
        }
        for outcome in ["kept", "stripped"] {
            drop(
                self.unavailable
                    .get_or_create_owned(&LabelPair("outcome", outcome)),
            );
        }
        for outcome in ["failed", "left"] {
            drop(
                self.heads
                    .get_or_create_owned(&LabelPair("outcome", outcome)),
            );
        }
        for outcome in ["known", "made"] {
            drop(
                self.normalized
                    .get_or_create_owned(&LabelPair("outcome", outcome)),
            );
        }
        for is_named in [true, false] {
            drop(self.by_user.get_or_create_owned(&user_label(is_named)));
        }
        for door in SideDoor::ALL {
            for outcome in ["passed", "refused"] {
                drop(
                    self.messages
                        .get_or_create_owned(&MessageLabels(door.word(), outcome)),
                );
            }
        }
    }

    // The library appends `_total` to counters and `_info` to infos, and a full stop to every help
    // text.
    pub(super) fn register_calls(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "toolgate_calls",
            "Judged calls, by how they ended",
            self.calls.clone(),
        );
        registry.register(
            "toolgate_user_calls",
            "Judged calls, by whether they named a user",
            self.by_user.clone(),
        );
        registry.register(
            "toolgate_tool_calls",
            "Calls sent to a tool server",
            self.sent.clone(),
        );
        registry.register(
            "toolgate_latency_seconds",
            "Seconds from the arrival of a call to its end",
            self.latency.clone(),
        );
        registry.register(
            "toolgate_latency_ms",
            "The same in milliseconds, in OpenMetrics only",
            self.latency_ms.clone(),
        );
        registry.register(
            "toolgate_stage_seconds",
            "Seconds spent in one stage of a call",
            self.stages.family(),
        );
        registry.register(
            "toolgate_upstream_seconds",
            "Seconds from sending a call to its tool server to the end of the answer",
            self.upstream.clone(),
        );
    }

    pub(super) fn register_rest(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "toolgate_upstream_up",
            "1 while the tool server answers",
            self.upstream_up.clone(),
        );
        registry.register(
            "toolgate_quarantined_tools",
            "Tools hidden because their definition cannot be judged, or a profile cannot show it",
            self.quarantined.clone(),
        );
        registry.register(
            "toolgate_normalized_schemas",
            "Schemas fitted to a profile, by whether they were known already",
            self.normalized.clone(),
        );
        registry.register(
            "toolgate_reloads",
            "Reloads of the policy, by what became of them",
            self.reloads.clone(),
        );
        registry.register(
            "toolgate_policy_stale",
            "1 while the files on disk are invalid and the last good policy is kept",
            self.policy_stale.clone(),
        );
        registry.register(
            "toolgate_disabled_tools",
            "Tools that operators have taken away",
            self.disabled.clone(),
        );
        registry.register(
            "toolgate_unavailable_allowlists",
            "Allow lists of policies that came in force naming only tools of disabled servers, by what became of them",
            self.unavailable.clone(),
        );
        registry.register(
            "toolgate_dropped_messages",
            "Messages of tool servers and agents that were dropped without an answer",
            self.dropped.clone(),
        );
        registry.register(
            "toolgate_refused_messages",
            "Messages refused before they were a call to judge",
            self.refused.clone(),
        );
        registry.register(
            "toolgate_side_messages",
            "Messages through side doors, such as resources and sampling, by what became of them",
            self.messages.clone(),
        );
    }

    pub(super) fn register_records(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "toolgate_ledger_entries_dropped",
            "Ledger entries of reads that were lost because the ledger could not be written",
            self.ledger_dropped.clone(),
        );
        registry.register(
            "toolgate_ledger_records_dropped_early",
            "Records of the ledger that went before their age because it had more than `ledger.max_bytes`",
            self.dropped_early.clone(),
        );
        registry.register(
            "toolgate_ledger_heads",
            "Heads of the ledger that were to be kept elsewhere, each place counted",
            self.heads.clone(),
        );
        registry.register(
            "toolgate_secrets_removed",
            "Messages and comments of tool servers that secrets were taken out of",
            self.secrets_removed.clone(),
        );
        registry.register(
            "toolgate_look_alikes",
            "Members of messages that only looked like known ones, refused or taken out",
            self.look_alikes.clone(),
        );
        registry.register(
            "toolgate_long_meta",
            "Messages of agents with a longer `_meta` than `meta_max_bytes`, refused, or in observe mode sent on",
            self.long_meta.clone(),
        );
        registry.register(
            "toolgate_heavy",
            "Calls and results that took too much where calls are served, by what became of them on the pool",
            self.heavy.clone(),
        );
        registry.register(
            "toolgate_sessions",
            "Open sessions of agents",
            self.sessions.clone(),
        );
        registry.register(
            "toolgate_disk_free_bytes",
            "Bytes that toolgate can still write on the disk of its data directory",
            self.disk_free.clone(),
        );
        registry.register(
            "toolgate_disk_total_bytes",
            "Bytes of the disk of the data directory",
            self.disk_total.clone(),
        );
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("toolgate_build", "The running version", build);
    }
}
