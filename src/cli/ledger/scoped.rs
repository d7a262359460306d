//! What the ledger has of some tools in some time, line by line as `ledger export` writes it: for the file of
//! an incident.

use super::noted::{event, event_line};
use super::text;
use crate::model::ids::ActionId;
use crate::model::wildcard;
use crate::store::journal::{JournalError, JournalRecord};
use crate::store::state::event::StoreEvent;
use jiff::Timestamp;
use std::collections::HashSet;

/// Calls that are remembered, so that what became of them is found.
const MAX_REMEMBERED: usize = 1 << 17;

/// Which rows are wanted.
pub(in crate::cli) struct ScopedRows {
    pattern: String,
    since: Timestamp,
    until: Timestamp,
    /// Calls, held calls and grants of the tools.
    ids: HashSet<String>,
}

impl ScopedRows {
    /// Rows about tools that `pattern` names, from `since` up to `until`.
    pub(in crate::cli) fn of(pattern: &str, since: Timestamp, until: Timestamp) -> Self {
        Self {
            pattern: pattern.to_owned(),
            since,
            until,
            ids: HashSet::new(),
        }
    }

    /// The line for `record`; none when it is about something else. Answers, the arguments of held calls,
    /// and what undos keep of calls are not in it.
    pub(in crate::cli) fn line(
        &mut self,
        record: &JournalRecord,
    ) -> Result<Option<String>, JournalError> {
        if let Some(entry) = record.entry()? {
            // A time that cannot be read must not hide a call.
            let is_in_time = entry.time.parse().map_or(true, |time| self.covers(time));
            let is_wanted = is_in_time && self.names(&entry.tool);
            if is_wanted {
                self.remember(entry.action_id);
            }
            return Ok(is_wanted.then(|| text::line_of(record.seq, "entry", &record.bytes)));
        }
        let Some(event) = event(record)? else {
            return Ok(None);
        };
        let at = at(&event);
        if !self.concerns(&event) || at.is_some_and(|at| !self.covers(at)) {
            return Ok(None);
        }
        Ok(Some(event_line(record, event)))
    }

    fn concerns(&mut self, event: &StoreEvent) -> bool {
        let (tool, id) = match event {
            StoreEvent::Noted(_) => return true,
            StoreEvent::Intended(intended) => (intended.entry.tool.as_str(), intended.action),
            StoreEvent::Held(held) => (held.hold.question.tool.as_str(), held.hold.id),
            StoreEvent::Granted(minted) => (minted.grant.scope.tool.as_str(), minted.grant.id),
            StoreEvent::Settled(settled) => return self.has_met(settled.action),
            StoreEvent::Decided(decided) => return self.has_met(decided.id),
            StoreEvent::Edited(edited) => return self.has_met(edited.id),
            StoreEvent::Extended(extended) => return self.has_met(extended.id),
            StoreEvent::Revoked(revoked) => return self.has_met(revoked.id),
            StoreEvent::UndoAsked(asked) => return self.has_met(asked.of),
            StoreEvent::Reserved(_)
            | StoreEvent::Spent(_)
            | StoreEvent::Tallied(_)
            | StoreEvent::Entered { .. }
            | StoreEvent::Planned { .. }
            | StoreEvent::Steered(_)
            | StoreEvent::Fenced { .. }
            | StoreEvent::Carried(_) => return false,
        };
        let is_wanted = self.names(tool);
        if is_wanted {
            self.remember(id.to_string());
        }
        is_wanted
    }

    fn names(&self, tool: &str) -> bool {
        wildcard::matches(&self.pattern, tool, false)
    }

    fn covers(&self, time: Timestamp) -> bool {
        time >= self.since && time <= self.until
    }

    fn has_met(&self, id: ActionId) -> bool {
        self.ids.contains(&id.to_string())
    }

    fn remember(&mut self, id: String) {
        if self.ids.len() < MAX_REMEMBERED {
            self.ids.insert(id);
        }
    }
}

/// When what `record` tells of was; none where it tells of nothing, or does not say when.
pub(in crate::cli) fn time_of(record: &JournalRecord) -> Result<Option<Timestamp>, JournalError> {
    if let Some(entry) = record.entry()? {
        return Ok(entry.time.parse().ok());
    }
    Ok(event(record)?.as_ref().and_then(at))
}

fn at(event: &StoreEvent) -> Option<Timestamp> {
    let at = i64::try_from(event.at()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(at).ok()
}
