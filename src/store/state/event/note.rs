//! What is worth a record beside calls: an operator's word on a tool, incidents, policies and definitions that changed, and
//! the life of toolgate itself. No state needs it.

use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::store::state::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that is to be found again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// When.
    pub at: Millis,
    /// What.
    pub note: Note,
}

/// What is worth a record besides calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// An operator took a tool away (003-41).
    Disabled {
        /// `server__tool`.
        tool: ToolName,
        /// The operator.
        who: String,
        /// Why.
        why: String,
    },
    /// An operator gave a tool back.
    Enabled {
        /// `server__tool`.
        tool: ToolName,
        /// The operator.
        who: String,
        /// Why.
        why: String,
    },
    /// A policy came in force that leaves an `allow` out, since it names only tools of disabled
    /// servers (001-16).
    Stripped {
        /// Such as `profile coding`.
        layer: String,
        /// The version of the policy.
        policy: String,
    },
    /// A toolgate began to serve.
    Started {
        /// Its version.
        version: String,
        /// Its process id.
        pid: u32,
        /// The version of the policy.
        policy: String,
    },
    /// It ended in good order.
    Stopped {
        /// Its process id.
        pid: u32,
        /// The version of the policy.
        policy: String,
    },
    /// The policy files have changed, and what they say came in force; where `before` is the same, they had
    /// errors, and say again what is in force, or name other operators.
    Reloaded {
        /// The version of the policy before.
        before: String,
        /// The version of the policy in force.
        policy: String,
        /// Whether other operators, or other roles of theirs, came in force with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        operators: bool,
    },
    /// The policy files have changed and have errors: what was in force stays.
    ReloadRefused {
        /// The version of the policy in force.
        policy: String,
        /// How many errors.
        errors: u32,
    },
    /// The files of a policy that was in force before were written back (003-42). It is recorded as soon as a
    /// toolgate runs, after a crash perhaps twice: `began` tells.
    RolledBack(PolicyRolledBack),
    /// A definition is no longer as it was approved, and is withheld (threat-model §3D D4).
    Drifted {
        /// `server__tool`.
        tool: ToolName,
        /// SHA-256 of what its server says now, in lower-case hex.
        digest: String,
        /// What is different, in words.
        why: String,
    },
    /// Something has happened in an incident.
    Incident {
        /// Its number.
        incident: u64,
        /// What.
        step: IncidentStep,
        /// The pattern of the tools that it freezes.
        scope: String,
        /// The operator; `toolgate` for what happens by itself, `breaker` for what a breaker did.
        who: String,
        /// Why, or what came of it, in words.
        why: String,
    },
}

/// The files of a policy, written back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRolledBack {
    /// The bundle of the files before.
    pub from: Digest,
    /// The bundle that they are now.
    pub to: Digest,
    /// The account that rolled back.
    pub who: String,
    /// Why, where that was said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// Whether that may come in force although its packs fail.
    pub forced: bool,
    /// When the files began to be written.
    pub began: Millis,
}

/// What happens in an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IncidentStep {
    /// It was opened: its tools are frozen.
    Opened,
    /// Held calls of its tools are void, and grants for them revoked.
    Frozen,
    /// A recorded call has become a sample of the test packs.
    Sampled,
    /// The files of the policy have changed meanwhile.
    Reloaded,
    /// It was not closed, since its samples or the packs do not pass.
    Refused,
    /// It was closed: its tools are back.
    Closed,
}

impl IncidentStep {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Frozen => "frozen",
            Self::Sampled => "sampled",
            Self::Reloaded => "reloaded",
            Self::Refused => "refused",
            Self::Closed => "closed",
        }
    }
}
