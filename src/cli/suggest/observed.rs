//! The calls that the ledger has, tool by tool: what is learned of those that a policy may let through,
//! and why the others are left out.

use super::cut::short;
use super::definitions::Definitions;
use super::hidden::{is_reference, told};
use super::learned::LearnedMembers;
use crate::cli::ledger::recorded::{APPROVAL_CODES, audited};
use crate::guards::allowlist::NO_CONTRACT_WORDS;
use crate::model::entry::Entry;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Calls of one tool that are learned from, at most; the first of them count.
pub(super) const MAX_CALLS_LEARNED: u64 = 10_000;
/// Tools at most.
const MAX_TOOLS: usize = 1_000;
/// Calls of one tool that become samples.
const MAX_SAMPLES: usize = 3;

/// All that was read.
#[derive(Default)]
pub(super) struct LearnedCalls {
    /// By `server__tool`.
    pub(super) tools: BTreeMap<String, ObservedTool>,
    /// Calls that nothing was learned from, by why.
    pub(super) left_out: BTreeMap<LeftOut, u64>,
    /// The numbers of the others.
    learned: HashSet<u64>,
}

/// The calls of one tool.
#[derive(Default)]
pub(super) struct ObservedTool {
    pub(super) calls: u64,
    pub(super) agents: BTreeSet<String>,
    pub(super) arguments: LearnedMembers,
    /// Different ones.
    pub(super) samples: Vec<ObservedSample>,
}

/// A call as it was recorded, without what is not told.
pub(super) struct ObservedSample {
    pub(super) caller: ObservedCaller,
    pub(super) arguments: Map<String, Value>,
    pub(super) action_id: String,
    /// Something stands in place of what is not told.
    is_changed: bool,
    /// Long texts are not whole.
    is_cut: bool,
}

impl ObservedSample {
    /// Where it comes from.
    pub(super) fn because(&self) -> String {
        let changed = if self.is_changed {
            ", with examples in place of what may be a secret"
        } else {
            ""
        };
        let cut = if self.is_cut {
            ", with long texts cut"
        } else {
            ""
        };
        format!("recorded as {}{changed}{cut}", self.action_id)
    }
}

/// Who called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObservedCaller {
    pub(super) agent: String,
    pub(super) tenant: Option<String>,
    pub(super) roles: Vec<String>,
}

/// Why nothing was learned from a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeftOut {
    /// It was refused, or would have been.
    Refused,
    /// It failed, or it is not known what became of it.
    Failed,
    /// Its answer is another call's, or it is one of several in one entry.
    Repeated,
    /// The ledger does not have its arguments.
    Unknown,
    /// Its tool was not there, or is another by now.
    Unfit,
    /// There are too many.
    Many,
}

impl LeftOut {
    pub(super) fn words(self) -> String {
        match self {
            Self::Refused => "refused, or would have been".to_owned(),
            Self::Failed => "failed, or nobody knows".to_owned(),
            Self::Repeated => "the same as another, or several in one entry".to_owned(),
            Self::Unknown => "the ledger does not have all of its arguments".to_owned(),
            Self::Unfit => "its tool was not listed, or does not take it any more".to_owned(),
            Self::Many => format!("more than the first {MAX_CALLS_LEARNED} of its tool"),
        }
    }
}

impl LearnedCalls {
    /// Learns from a recorded call what there is to learn.
    pub(super) fn take(&mut self, seq: u64, entry: &Entry, definitions: &Definitions) {
        match self.learn(entry, definitions) {
            Ok(()) => {
                self.learned.insert(seq);
            }
            Err(why) => *self.left_out.entry(why).or_default() += entry.count.unwrap_or(1),
        }
    }

    /// Whether the call with this number was learned from.
    pub(super) fn has_learned(&self, seq: u64) -> bool {
        self.learned.contains(&seq)
    }

    fn learn(&mut self, entry: &Entry, definitions: &Definitions) -> Result<(), LeftOut> {
        judge(entry)?;
        let Some(Value::Object(arguments)) = audited(entry) else {
            return Err(LeftOut::Unknown);
        };
        if entry.schema_hash.is_none() || !definitions.takes(&entry.tool, &arguments) {
            return Err(LeftOut::Unfit);
        }
        let is_new = !self.tools.contains_key(&entry.tool);
        if is_new && self.tools.len() == MAX_TOOLS {
            return Err(LeftOut::Many);
        }
        let tool = self.tools.entry(entry.tool.clone()).or_default();
        if tool.calls == MAX_CALLS_LEARNED {
            return Err(LeftOut::Many);
        }
        tool.calls += 1;
        tool.agents.insert(entry.agent().to_owned());
        tool.arguments.add(&arguments, entry.agent());
        if tool.samples.len() < MAX_SAMPLES {
            tool.sample(entry, &arguments, definitions);
        }
        Ok(())
    }
}

impl ObservedTool {
    /// Keeps a call as a sample, unless there is one like it.
    fn sample(&mut self, entry: &Entry, arguments: &Map<String, Value>, definitions: &Definitions) {
        if is_reference(&Value::Object(arguments.clone())) {
            return;
        }
        let shown = told(arguments);
        let is_changed = shown != *arguments;
        let Some((shown, is_cut)) = short(shown) else {
            return;
        };
        let is_known = self.samples.iter().any(|known| known.arguments == shown);
        if is_known || !definitions.takes(&entry.tool, &shown) {
            return;
        }
        self.samples.push(ObservedSample {
            caller: ObservedCaller {
                agent: entry.agent().to_owned(),
                tenant: entry.tenant_id.clone(),
                roles: entry.roles.clone(),
            },
            is_changed,
            is_cut,
            arguments: shown,
            action_id: entry.action_id.clone(),
        });
    }
}

/// Whether something is to be learned from a call. That its tool has no contract yet is no reason
/// against it, and a person who would have been asked may have said yes.
fn judge(entry: &Entry) -> Result<(), LeftOut> {
    let is_let_through = match entry.would_refuse.as_deref() {
        None => true,
        Some(code) if APPROVAL_CODES.contains(&code) => true,
        Some(_) => {
            let by = entry
                .decided_by
                .as_deref()
                .and_then(|by| by.strip_prefix("contract: "));
            by == Some(NO_CONTRACT_WORDS)
        }
    };
    if !is_let_through || entry.outcome == "refused" {
        Err(LeftOut::Refused)
    } else if entry.outcome != "answered" || entry.is_error == Some(true) {
        Err(LeftOut::Failed)
    } else if entry.replayed || entry.count.is_some() {
        Err(LeftOut::Repeated)
    } else {
        Ok(())
    }
}
