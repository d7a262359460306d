//! Whether a call can be taken back, and what became of that, as its ledger tells it.

use super::text::plain;
use crate::model::ids::ActionId;
use crate::store::operator::time;
use crate::store::state::event::{Carried, StoreEvent};
use crate::store::state::undo::{OpenUndo, UndoAsking, UndoChange, UndoPhase};
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
        match event {
            StoreEvent::Settled(settled) => match settled.undo.as_deref() {
                Some(UndoChange::Offered(undo)) if undo.of.to_string() == of => {
                    self.undo = Some((**undo).clone());
                }
                Some(UndoChange::Ended { of: meant, phase }) => {
                    self.come_to(of, *meant, *phase);
                }
                Some(UndoChange::Offered(_)) | None => {}
            },
            StoreEvent::Carried(Carried::Undo(_, undo)) if undo.of.to_string() == of => {
                self.undo = Some((**undo).clone());
            }
            StoreEvent::Intended(intended) => {
                if let Some(meant) = intended.undoes {
                    let by = intended.action;
                    self.come_to(of, meant, UndoPhase::Running { by });
                }
            }
            StoreEvent::UndoAsked(asked) if asked.of.to_string() == of => {
                self.come_to(of, asked.of, UndoPhase::Requested);
                let undo = self.undo.iter_mut();
                undo.for_each(|undo| undo.asked = Some(asked.asked.clone()));
            }
            StoreEvent::Reserved(_)
            | StoreEvent::Spent(_)
            | StoreEvent::Tallied(_)
            | StoreEvent::Entered { .. }
            | StoreEvent::Planned { .. }
            | StoreEvent::Steered(_)
            | StoreEvent::Fenced { .. }
            | StoreEvent::Held(_)
            | StoreEvent::Decided(_)
            | StoreEvent::Edited(_)
            | StoreEvent::Extended(_)
            | StoreEvent::Granted(_)
            | StoreEvent::Revoked(_)
            | StoreEvent::UndoAsked(_)
            | StoreEvent::Carried(_)
            | StoreEvent::Noted(_) => {}
        }
    }

    fn come_to(&mut self, of: &str, meant: ActionId, phase: UndoPhase) {
        let undo = self.undo.iter_mut().filter(|_| meant.to_string() == of);
        undo.for_each(|undo| undo.phase = phase);
    }

    /// For people, in a sentence.
    pub(super) fn words(&self) -> Option<String> {
        let undo = self.undo.as_ref()?;
        let (tool, until) = (plain(undo.terms.tool.as_str()), time(undo.until));
        let asked = undo.asked.as_ref();
        let asked = asked.map_or_else(String::new, |UndoAsking { who, why, at }| {
            let (who, why) = (plain(who), plain(why));
            format!(", asked for by {who} at {}: {why}", time(*at))
        });
        Some(match undo.phase {
            UndoPhase::Offered => format!("by a call of {tool}, until {until}"),
            UndoPhase::Requested => format!("not sent yet, until {until}{asked}"),
            UndoPhase::Running { by } => format!("right now, by {by}{asked}"),
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
        Some(json!({
            "state": undo.phase.word(), "tool": undo.terms.tool, "until": time(undo.until), "compensated_by": by, "asked": asked,
        }))
    }
}
