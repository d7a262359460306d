//! What operators see of a running toolgate.

use super::attended::SeenDisk;
use super::scrape::scrape;
use crate::admin::status::{
    DiskStatus, LedgerStatus, PolicyStatus, ProcessReport, ProcessStatus, Quarantined, Readiness,
    ServerStatus, WorkStatus,
};
use crate::downstream::Door;
use crate::downstream::tls::TlsDoor;
use crate::gate::catalogue::contract_mismatch::{self, Unfit};
use crate::gate::catalogue::hidden::Hidden;
use crate::gate::catalogue::pinned::{self, Withheld};
use crate::guards::Mode;
use crate::model::clock::Clock;
use crate::model::listen::ListenAddress;
use crate::model::long_work::{self, WorkUnderWay};
use crate::store::disk_space::DiskSpace;
use crate::store::journal::{self, Journal};
use crate::telemetry::metrics::MetricsFormat;
use crate::telemetry::recent_problems::RECENT_PROBLEMS;
use crate::upstream::leftovers::Leftovers;
use crate::upstream::server::{ServerState, UpstreamServer};
use jiff::Timestamp;
use std::sync::Arc;

/// Withheld tools of one server that operators are told of at once.
const MAX_WITHHELD_LISTED: usize = 64;

/// What operators see.
pub(super) struct OperatorView {
    pub(super) door: Arc<Door>,
    pub(super) journal: Arc<Journal>,
    /// Records of the children that run.
    pub(super) children: Leftovers,
    /// The disk, as it was looked at last.
    pub(super) disk: SeenDisk,
    pub(super) started: Timestamp,
    /// The doors.
    pub(super) doors: ShownDoors,
}

/// What there is to see of the doors.
pub(super) struct ShownDoors {
    /// Where agents come in.
    pub(super) listen: Option<ListenAddress>,
    /// Those at which TLS is spoken.
    pub(super) tls: Vec<Arc<TlsDoor>>,
}

impl ProcessStatus for OperatorView {
    fn ready(&self) -> Readiness {
        let status = self.door.policy.status();
        let health = self.journal.health();
        let writable = matches!(health.state, journal::JournalState::Writing);
        let mut reasons = Vec::new();
        if !self.door.gate.tools.current().settled(&self.door.servers) {
            reasons.push("tool servers are still being connected".to_owned());
        }
        if !writable {
            reasons.push("the ledger cannot be written".to_owned());
        } else if let Some(error) = self.door.gate.effects.store.refuses() {
            reasons.push(error.to_string());
        }
        let ready = reasons.is_empty();
        if status.stale() {
            reasons.push(
                "the policy files have errors: an older policy than theirs is in force".to_owned(),
            );
        }
        if self.disk.lock().is_some_and(DiskSpace::is_low) {
            reasons.push("the disk of the data directory is nearly full".to_owned());
        }
        Readiness {
            ready,
            reasons,
            policy: PolicyStatus {
                version: status.version.clone(),
                stale: status.stale(),
                problems: status.diagnostics.iter().map(ToString::to_string).collect(),
            },
            servers: self
                .door
                .servers
                .all()
                .iter()
                .map(|server| self.server_status(server))
                .collect(),
            ledger: LedgerStatus {
                writable,
                entries: health.head.seq,
                dropped: health.lost + health.refused,
                last_fault: match health.state {
                    journal::JournalState::Full(why) | journal::JournalState::Poisoned(why) => {
                        Some(why)
                    }
                    journal::JournalState::Writing | journal::JournalState::Closed => None,
                },
            },
        }
    }

    fn quarantined(&self) -> Vec<Quarantined> {
        let gate = &self.door.gate;
        let tools = gate.tools.current();
        let global = tools
            .quarantined
            .iter()
            .map(|(server, reason, why)| Quarantined {
                server: server.to_string(),
                profile: None,
                reason: (*reason).to_owned(),
                why: why.clone(),
            });
        let hidden = gate.hidden().into_iter().map(
            |Hidden {
                 server,
                 tool,
                 profile,
                 reason,
             }| Quarantined {
                server: server.to_string(),
                profile: Some(profile.to_string()),
                reason: reason.label().to_owned(),
                why: format!("`{tool}`: {reason}"),
            },
        );
        let withheld =
            pinned::withheld(&self.door.policy.current(), &tools, &self.door.servers).into_iter();
        let withheld = withheld.map(
            |Withheld {
                 server,
                 tool,
                 label,
                 words,
                 ..
             }| Quarantined {
                server: server.to_string(),
                profile: None,
                reason: label.to_owned(),
                why: format!("`{tool}`: {words}"),
            },
        );
        global.chain(hidden).chain(withheld).collect()
    }

    fn metrics(&self, format: MetricsFormat) -> String {
        scrape(&self.door, &self.journal, &self.doors.tls, format)
    }

    fn instance(&self) -> &str {
        self.journal.instance()
    }

    fn process(&self) -> ProcessReport {
        let policy = self.door.policy.current();
        let disk = *self.disk.lock();
        ProcessReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started: format!("{:.0}", self.started),
            listen: self.doors.listen.map(|listen| listen.to_string()),
            mode: match policy.mode {
                Mode::Enforce => "enforce",
                Mode::Observe => "observe",
            }
            .to_owned(),
            policy_since: format!("{:.0}", self.door.policy.status().since),
            children: self.children.running().unwrap_or_default(),
            sessions: self.door.sessions.count(),
            ledger_bytes: self.journal.bytes().ok(),
            ledger_max_bytes: self.journal.max_bytes(),
            disk: disk.map(|disk| DiskStatus {
                free_bytes: disk.free,
                total_bytes: disk.total,
                low: disk.is_low(),
            }),
            work: work(),
            problems: RECENT_PROBLEMS.all(),
        }
    }
}

impl OperatorView {
    fn server_status(&self, server: &UpstreamServer) -> ServerStatus {
        let name = &server.settings.name;
        let tools = self.door.gate.tools.current();
        let quarantined = tools
            .quarantined
            .iter()
            .filter(|(owner, ..)| owner == name)
            .map(|(_, _, words)| words.clone());
        let unfit = contract_mismatch::unfit(&self.door.policy.current(), &tools)
            .into_iter()
            .filter(|unfit| unfit.server == *name);
        let unfit = unfit.map(|Unfit { tool, words, .. }| format!("`{tool}`: {words}"));
        let unpinned =
            pinned::withheld(&self.door.policy.current(), &tools, &self.door.servers).into_iter();
        let unpinned = unpinned.filter(|one| one.server == *name);
        let unpinned = unpinned.map(|Withheld { tool, words, .. }| format!("`{tool}`: {words}"));
        let withheld = quarantined
            .chain(unfit)
            .chain(unpinned)
            .take(MAX_WITHHELD_LISTED)
            .collect();
        let (state, era, tools, last_fault) = match &*server.state().borrow() {
            ServerState::Starting => ("starting", None, 0, None),
            ServerState::Up(up) => {
                let era = up.verdict.words().into();
                let tokens = server.settings.tokens();
                let fault = tokens.and_then(|tokens| tokens.last_error);
                let fault = fault.map(|why| format!("no token for it: {why}"));
                ("up", Some(era), up.catalog.tools.len(), fault)
            }
            ServerState::Down(why) => ("down", None, 0, Some(why.clone())),
        };
        ServerStatus {
            name: name.to_string(),
            state: state.into(),
            era,
            tools,
            withheld,
            last_fault,
        }
    }
}

/// What takes long and is under way.
fn work() -> Vec<WorkStatus> {
    let now = Clock.steady();
    let status = |one: WorkUnderWay| WorkStatus {
        what: one.step.what.to_owned(),
        unit: one.step.unit.word().to_owned(),
        done: one.step.done,
        all: one.step.all,
        seconds: now.saturating_sub(one.began).as_secs(),
    };
    long_work::under_way().into_iter().map(status).collect()
}
