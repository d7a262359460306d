//! The states of a task (003-10, 003-73 … 003-77).

use serde::{Deserialize, Serialize};

/// Where a task is in its work. A task that has none yet is idle (003-08).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It gathers what it needs; where it goes back to when a plan fails or a result does not do.
    Collect,
    /// It asks what would pass. Nothing is sent.
    Plan,
    /// It does what was planned.
    Execute,
    /// It looks at what was done.
    Summarize,
}

/// What named a task or a session, the first of these that was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskSource {
    /// `_meta["dev.toolgate/task"]`; only of a task.
    Task,
    /// `Mcp-Session-Id`, before 2026-07-28.
    Wire,
    /// `_meta["dev.toolgate/session"]`.
    Meta,
    /// The header that the configuration names.
    Header,
    /// The agent's trace.
    Trace,
    /// Nothing: all such calls of an agent belong together.
    Agent,
}

impl TaskSource {
    /// The word for operators.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Wire | Self::Meta => "session",
            Self::Header => "header",
            Self::Trace => "trace",
            Self::Agent => "agent",
        }
    }
}

/// Whose a task is, and what its agent calls it: what operators know it by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrigin {
    /// The agent.
    pub agent: String,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// The user for whom it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// What named it, such as `task` or `session`.
    pub named_by: String,
    /// Its name; none where nothing named it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
}

/// An operator's word that a task is over (003-09).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStopped {
    /// The operator.
    pub who: String,
    /// Why; its agent reads it.
    pub why: String,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

impl TaskState {
    /// All of them, in the order of a task's life.
    pub const ALL: [Self; 4] = [Self::Collect, Self::Plan, Self::Execute, Self::Summarize];

    /// The word on the wire and in the ledger.
    pub fn word(self) -> &'static str {
        match self {
            Self::Collect => "collect",
            Self::Plan => "plan",
            Self::Execute => "execute",
            Self::Summarize => "summarize",
        }
    }

    /// The state of that word.
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether a task whose agent says where it is may come here from `before`: to `execute` with a
    /// plan, to `summarize` with a result, and back to asking from anywhere.
    pub fn may_follow(self, before: Option<Self>) -> bool {
        match self {
            Self::Collect | Self::Plan => true,
            Self::Execute => matches!(before, Some(Self::Plan | Self::Execute)),
            Self::Summarize => matches!(before, Some(Self::Execute | Self::Summarize)),
        }
    }
}
