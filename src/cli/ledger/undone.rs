//! Whether a call can be taken back, and what became of that, as its ledger tells it.

use super::text::plain;
use crate::model::ids::ActionId;
use crate::store::operator::time;
use crate::store::state::apply_to_undo;
use crate::store::state::event::StoreEvent;
use crate::store::state::undo::{OpenUndo, UndoAsking, UndoPhase};
use serde_json::{Value, json};

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct UndoTold {
    /// As it was offered, and as it stands.
    undo: Option<OpenUndo>,
}

impl UndoTold {
    /// Takes note of an event; `of`: the call that is shown.
    pub(super) fn note(&mut self, of: &str, event: &StoreEvent) {
        let Some(key) = event.place().undo else {
            return;
        };
        let of = of.parse::<ActionId>();
        if of.is_ok_and(|of| OpenUndo::key_of(of) == key) {
            self.undo = apply_to_undo(event, self.undo.take());
        }
    }

    /// For people, in a sentence.
    pub(super) fn words(&self) -> Option<String> {
        let undo = self.undo.as_ref()?;
        if let Some(lacks) = lacks(undo) {
            return Some(format!(
                "not possible: the call that takes it back cannot be made: {}",
                plain(lacks)
            ));
        }
        let (tool, until) = (plain(undo.terms.tool.as_str()), time(undo.until));
        let asked = undo.asked.as_ref();
        let asked = asked.map_or_else(String::new, |UndoAsking { who, why, at, .. }| {
            let (who, why) = (plain(who), plain(why));
            let word = if undo.phase == UndoPhase::Offered {
                "dropped"
            } else {
                "asked for"
            };
            format!(", {word} by {who} at {}: {why}", time(*at))
        });
        Some(match undo.phase {
            UndoPhase::Offered => {
                // A call that an operator or a probe has settled left no answer to look into.
                let unread = if undo.is_whole {
                    ""
                } else {
                    ", if all that it needs is there, which `toolgate undo --dry-run` tells"
                };
                format!("by a call of {tool}, until {until}{unread}{asked}")
            }
            UndoPhase::Requested => format!("not sent yet, until {until}{asked}"),
            UndoPhase::Running { by } => format!("right now, by {by}{asked}"),
            UndoPhase::Done { by } if undo.before.is_some() => {
                format!("done by its agent itself, by {by}{asked}")
            }
            UndoPhase::Done { by } => format!("done, by {by}{asked}"),
            UndoPhase::Failed { by } => format!("failed, by {by}; until {until}{asked}"),
            UndoPhase::Unknown { by } => format!("not known, by {by}{asked}"),
        })
    }

    /// The same for programs: a member of the entry.
    pub(super) fn field(&self) -> Option<Value> {
        let undo = self.undo.as_ref()?;
        let by = undo.phase.by().map(|by| by.to_string());
        let asked = undo.asked.as_ref();
        let asked = asked
            .map(|asked| json!({ "who": asked.who, "why": asked.why, "time": time(asked.at) }));
        let lacks = lacks(undo);
        let state = lacks.map_or(undo.phase.word(), |_| "impossible");
        Some(json!({
            "state": state, "tool": undo.terms.tool, "until": time(undo.until), "lacks": lacks, "compensated_by": by, "asked": asked,
        }))
    }
}

/// Why the call that would take it back cannot be made; none where it can be or was, and where nobody knows.
fn lacks(undo: &OpenUndo) -> Option<&str> {
    let lacks = undo.lacks.as_deref()?;
    (undo.phase == UndoPhase::Offered).then_some(lacks)
}
