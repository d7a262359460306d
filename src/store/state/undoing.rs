//! What operators' words and the ends of calls make of undos, and which calls may take another one
//! back (003-64).

use super::claim::{Claim, ClaimPhase};
use super::command::Settle;
use super::undo::{
    AnswerWorth, AskUndo, OpenUndo, UndoAsked, UndoAsking, UndoBar, UndoChange, UndoPhase,
};
use super::{CommandRefusal, Millis};
use crate::model::ids::ActionId;

/// Whether a call may begin that takes another one back, or be asked for.
pub(super) fn admit(undo: Option<&OpenUndo>, now: Millis) -> Result<(), CommandRefusal> {
    let bar = undo.map_or(Some(UndoBar::NotOffered), |undo| undo.bar(now));
    bar.map_or(Ok(()), |bar| Err(CommandRefusal::NotUndone(bar)))
}

/// An operator asks for it.
pub(super) fn asked(
    ask: &AskUndo,
    undo: Option<&OpenUndo>,
    now: Millis,
) -> Result<UndoAsked, CommandRefusal> {
    admit(undo.filter(|undo| undo.of == ask.of), now)?;
    Ok(UndoAsked {
        of: ask.of,
        asked: UndoAsking {
            who: ask.who.clone(),
            why: ask.why.clone(),
            at: now,
        },
    })
}

/// What an operator's word makes of it: one that has failed is asked for anew.
pub(super) fn ask(asked: &UndoAsked, undo: &mut Option<OpenUndo>) {
    let meant = undo.iter_mut().filter(|undo| undo.of == asked.of);
    meant.for_each(|undo| {
        undo.asked = Some(asked.asked.clone());
        undo.come_to(UndoPhase::Requested, asked.asked.at);
    });
}

/// What the end of the call that holds `claim` makes of an undo: of its own, or of the one that it is
/// made for. What takes another call back is not taken back itself.
pub(super) fn change(claim: &Claim, settle: &Settle, now: Millis) -> Option<UndoChange> {
    let says_error = settle.failed || settle.worth == AnswerWorth::Failed;
    let is_error = settle
        .phase
        .stored()
        .is_some_and(|stored| stored.is_error || says_error);
    if let Some(of) = claim.undoes {
        let phase = after(claim.action, &settle.phase, is_error)?;
        return Some(UndoChange::Ended { of, phase });
    }
    let terms = claim.undo.as_deref()?;
    if !matches!(settle.phase, ClaimPhase::Completed(_)) || is_error {
        return None;
    }
    let values = match &settle.worth {
        AnswerWorth::Kept(values) => Some(values.clone()),
        AnswerWorth::Unread | AnswerWorth::Failed => None,
    };
    Some(UndoChange::Offered(Box::new(OpenUndo {
        of: claim.action,
        tool: claim.tool.clone(),
        key: settle.key,
        terms: terms.clone(),
        values,
        offered: now,
        until: now.saturating_add(terms.within),
        phase: UndoPhase::Offered,
        changed: now,
        asked: None,
    })))
}

/// What becomes of an undo whose call `by` comes to `phase`; none where it goes on.
fn after(by: ActionId, phase: &ClaimPhase, is_error: bool) -> Option<UndoPhase> {
    Some(match phase {
        ClaimPhase::Dispatching => return None,
        ClaimPhase::Completed(_) if !is_error => UndoPhase::Done { by },
        ClaimPhase::Completed(_) | ClaimPhase::Failed { .. } | ClaimPhase::NotSent => {
            UndoPhase::Failed { by }
        }
        // Nobody answers what its tool server asks.
        ClaimPhase::AwaitingInput { .. } | ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned => {
            UndoPhase::Unknown { by }
        }
    })
}
