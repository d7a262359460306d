//! What became of calls after their agent had been answered: what a late answer, a probe, a restart
//! or an operator found. Their entries stay as they were written.

use super::history::how;
use super::noted::event;
use super::reading;
use crate::cli::terminal::ids;
use crate::mcp::json::Text;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::store::journal::{JournalError, JournalReader};
use crate::store::operator::time;
use crate::store::state::Millis;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::event::{Settled, StoreEvent};
use crate::store::state::settlement::Evidence;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

/// Resolved calls that are known at once, the newest ones.
const MAX_RESOLVED_KNOWN: usize = 1 << 16;

/// How one call came to an end after its agent had been answered.
#[derive(Debug, Clone)]
pub(super) struct Resolved {
    at: Millis,
    state: &'static str,
    by: Evidence,
}

impl Resolved {
    /// What `settled` says of its call; none where it is no late end.
    pub(super) fn of(settled: &Settled) -> Option<Self> {
        let is_end = match &settled.phase {
            ClaimPhase::Completed(_)
            | ClaimPhase::Failed { .. }
            | ClaimPhase::NotSent
            | ClaimPhase::Abandoned => true,
            ClaimPhase::Dispatching
            | ClaimPhase::AwaitingInput { .. }
            | ClaimPhase::Unknown { .. } => false,
        };
        (is_end && settled.evidence != Evidence::Exchange).then(|| Self {
            at: settled.at,
            state: settled.phase.word(),
            by: settled.evidence.clone(),
        })
    }

    /// In a table.
    pub(super) fn short(&self) -> String {
        let by = match &self.by {
            Evidence::Operator { who, .. } => who,
            Evidence::Exchange => "exchange",
            Evidence::Late => "late answer",
            Evidence::UpstreamKey => "server's key",
            Evidence::Restart => "restart",
            Evidence::Probe => "probe",
        };
        format!("resolved: {} by {by}", self.state)
    }

    /// A line for people.
    pub(super) fn words(&self) -> String {
        format!("{}  {}, {}", time(self.at), self.state, how(&self.by))
    }

    /// For programs.
    pub(super) fn field(&self) -> Text {
        let mut field = json!({ "state": self.state, "at": time(self.at), "evidence": self.by, "how": how(&self.by) });
        if let Evidence::Operator { who, why } = &self.by {
            (field["who"], field["why"]) = (json!(who), json!(why));
            field["evidence"] = json!("operator");
        }
        Text::of(&field)
    }

    /// Whether it says more of the call than `entry` does.
    fn is_news(&self, entry: &Entry) -> bool {
        entry.outcome == "unknown" || matches!(self.by, Evidence::Operator { .. })
    }
}

/// All of them in a journal.
#[derive(Debug, Default)]
pub(super) struct ResolvedCalls(BTreeMap<ActionId, Resolved>);

impl ResolvedCalls {
    /// Those in `data` and the `archive`. What cannot be read of a record is left out: its own
    /// reader says so.
    pub(super) fn read(data: &Path, archive: Option<&Path>) -> Result<Self, JournalError> {
        let (mut known, progress) = (BTreeMap::new(), reading());
        for record in JournalReader::after_in(data, archive, 0)? {
            progress.step();
            let settled = match record.and_then(|record| event(&record)) {
                Ok(Some(StoreEvent::Settled(settled))) => settled,
                Ok(_) | Err(JournalError::Unreadable { .. }) => continue,
                Err(_) => break,
            };
            if let Some(resolved) = Resolved::of(&settled) {
                known.insert(settled.action, resolved);
                if known.len() > MAX_RESOLVED_KNOWN {
                    known.pop_first();
                }
            }
        }
        Ok(Self(known))
    }

    /// How the call of `entry` itself was resolved.
    pub(super) fn of(&self, entry: &Entry) -> Option<&Resolved> {
        let action = entry.action_id.parse().ok()?;
        self.0
            .get(&action)
            .filter(|resolved| resolved.is_news(entry))
    }

    /// The short id of the resolved call that answered `entry`, which asked again while
    /// it was unknown.
    pub(super) fn asked_again(&self, entry: &Entry) -> Option<String> {
        let holder = entry.claimed_by.as_deref()?;
        let is_resolved = self.0.contains_key(&holder.parse().ok()?);
        (entry.outcome == "unknown" && is_resolved)
            .then(|| ids::short(holder, ids::SHORT_ID_DIGITS))
    }

    /// Whether it is not known yet what became of the call of `entry`.
    pub(super) fn leave_open(&self, entry: &Entry) -> bool {
        match entry.outcome.as_str() {
            "dispatching" => true,
            "unknown" => self.of(entry).is_none() && self.asked_again(entry).is_none(),
            _ => false,
        }
    }
}
