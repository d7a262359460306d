//! What operators can ask of the rest of the process, and how it answers.

use schemars::JsonSchema;
use serde::Serialize;

/// What this door asks of the rest of the process. All must answer at once, without waiting for a
/// disk or a tool server.
pub(crate) trait ProcessStatus: Send + Sync {
    /// Whether calls can be judged, and why not.
    fn ready(&self) -> Readiness;
    /// The tools that are not shown, to nobody or in some profile.
    fn quarantined(&self) -> Vec<Quarantined>;
    /// All metrics as text, of the content type `METRICS_CONTENT_TYPE`.
    fn metrics(&self) -> String;
}

/// The body of `/readyz` for operators, and for every caller while none has a token. No field may
/// hold a secret.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PolicyStatus {
    /// Its version, as the ledger has it.
    pub version: String,
    /// The files on disk are invalid and this policy is the last good one.
    pub stale: bool,
    /// What is wrong with the files on disk, as `toolgate check` says it.
    pub problems: Vec<String>,
}

/// One tool server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ServerStatus {
    /// Its name in the configuration.
    pub name: String,
    /// One word: how it is.
    pub state: &'static str,
    /// `legacy` or `modern`; none until it was probed.
    pub era: Option<&'static str>,
    /// How many tools it offers to agents.
    pub tools: usize,
    /// Tools that it lists and agents don't see, whatever the layers say, with the reason.
    pub withheld: Vec<String>,
    /// The last fault in words, without values of calls.
    pub last_fault: Option<String>,
}

/// The ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Quarantined {
    /// Its server.
    pub server: String,
    /// The profile that cannot show it; none when nobody is shown it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// As in `toolgate_quarantined_tools{reason}`.
    pub reason: String,
    /// The tool and the reason in words.
    pub why: String,
}
