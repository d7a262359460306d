//! What operators can ask of the rest of the process, and how it answers.

use crate::telemetry::metrics::MetricsFormat;
use crate::telemetry::recent_problems::RecentProblem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What this door asks of the rest of the process. All but `process` must answer at once, without waiting
/// for a disk or a tool server.
pub(crate) trait ProcessStatus: Send + Sync {
    /// Whether calls can be judged, and why not.
    fn ready(&self) -> Readiness;
    /// The tools that are not shown, to nobody or in some profile.
    fn quarantined(&self) -> Vec<Quarantined>;
    /// All metrics as text.
    fn metrics(&self, format: MetricsFormat) -> String;
    /// What tells this process from others that run, as it stands in the lock of its data directory.
    fn instance(&self) -> &str;
    /// What else there is to see of the process. Reads directories: not for an async task.
    fn process(&self) -> ProcessReport;
}

/// What there is to see of a process beside whether it is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ProcessReport {
    /// The running version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// When it started, RFC 3339 in UTC.
    pub started: String,
    /// Where agents come in, as an address; none where they do over standard input.
    pub listen: Option<String>,
    /// `enforce` or `observe`.
    pub mode: String,
    /// Since when the policy has been in force, RFC 3339 in UTC.
    pub policy_since: String,
    /// How many children run of each tool server that toolgate starts itself.
    pub children: BTreeMap<String, usize>,
    /// Open sessions of agents.
    pub sessions: usize,
    /// How much the ledger takes up.
    pub ledger_bytes: Option<u64>,
    /// How much it may, where `ledger.max_bytes` says that.
    pub ledger_max_bytes: Option<u64>,
    /// The disk of the data directory; none until it was looked at.
    pub disk: Option<DiskStatus>,
    /// What takes long and is under way, the oldest first.
    #[serde(default)]
    pub work: Vec<WorkStatus>,
    /// The last warnings and errors of the log, the oldest first.
    pub problems: Vec<RecentProblem>,
}

/// Work that takes long, such as dropping old segments of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WorkStatus {
    /// Which work, in words.
    pub what: String,
    /// What `done` and `all` count: `records`, `rows` or `bytes`.
    pub unit: String,
    /// What is done of it.
    pub done: u64,
    /// Of how much.
    pub all: u64,
    /// Seconds since it began.
    pub seconds: u64,
}

/// The disk of the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DiskStatus {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes that there are.
    pub total_bytes: u64,
    /// Whether that is little: less than 1 GiB, or on a small disk less than a tenth of it.
    pub low: bool,
}

/// The body of `/readyz` for operators, and for every caller while none has a token. No field may
/// hold a secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Readiness {
    /// Calls can be judged and every tool server was probed.
    pub ready: bool,
    /// Why not; also what an operator should know although it is ready.
    pub reasons: Vec<String>,
    /// The policy in force.
    pub policy: PolicyStatus,
    /// Every configured tool server.
    pub servers: Vec<ServerStatus>,
    /// The ledger.
    pub ledger: LedgerStatus,
}

/// The policy in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PolicyStatus {
    /// Its version, as the ledger has it.
    pub version: String,
    /// The files on disk are invalid and this policy is the last good one.
    pub stale: bool,
    /// What is wrong with the files on disk, as `toolgate check` says it.
    pub problems: Vec<String>,
}

/// One tool server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ServerStatus {
    /// Its name in the configuration.
    pub name: String,
    /// One word: how it is.
    pub state: Cow<'static, str>,
    /// `legacy` or `modern`; none until it was probed.
    pub era: Option<Cow<'static, str>>,
    /// How many tools it offers to agents.
    pub tools: usize,
    /// Tools that it lists and agents don't see, whatever the layers say, with the reason.
    pub withheld: Vec<String>,
    /// The last fault in words, without values of calls.
    pub last_fault: Option<String>,
}

/// The ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LedgerStatus {
    /// New entries can be written.
    pub writable: bool,
    /// Entries written since the start.
    pub entries: u64,
    /// Entries of reads lost since the start.
    pub dropped: u64,
    /// The last fault in words.
    pub last_fault: Option<String>,
}

/// One tool that is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Quarantined {
    /// Its server.
    pub server: String,
    /// The profile that cannot show it; none when nobody is shown it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<String>,
    /// As in `toolgate_quarantined_tools{reason}`.
    pub reason: String,
    /// The tool and the reason in words.
    pub why: String,
}
