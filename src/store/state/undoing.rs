//! What operators' words and the ends of calls make of undos, and which calls may take another one
//! back (003-64).

use super::claim::{Claim, ClaimPhase};
use super::command::Settle;
use super::undo::{
    AnswerWorth, AskUndo, OpenUndo, UndoAsked, UndoAsking, UndoBar, UndoChange, UndoPhase,
};
use super::{CommandRefusal, Millis};
use crate::model::digest::Digest;
use crate::model::ids::ActionId;

/// Whether a call may begin that takes another one back, or be asked for.
pub(super) fn admit(undo: Option<&OpenUndo>, now: Millis) -> Result<(), CommandRefusal> {
    let bar = undo.map_or(Some(UndoBar::NotOffered), |undo| undo.bar(now));
    bar.map_or(Ok(()), |bar| Err(CommandRefusal::NotUndone(bar)))
}

/// Whether the call of `key` may take another one back now. One that an operator or its agent has asked for is
/// wanted no more once that is dropped: a person may have done it by hand.
pub(super) fn admit_call(
    undo: Option<&OpenUndo>,
    key: &Digest,
    now: Millis,
) -> Result<(), CommandRefusal> {
    admit(undo, now)?;
    let is_dropped = undo.is_some_and(|undo| {
        undo.phase == UndoPhase::Offered && *key == OpenUndo::call_key_of(undo.of)
    });
    if is_dropped {
        return Err(CommandRefusal::NotUndone(UndoBar::NotAsked));
    }
    Ok(())
}

/// An operator asks for it, or drops that.
pub(super) fn asked(
    ask: &AskUndo,
    undo: Option<&OpenUndo>,
    now: Millis,
) -> Result<UndoAsked, CommandRefusal> {
    let undo = undo.filter(|undo| undo.of == ask.of);
    if ask.drops {
        drop_of(undo)?;
    } else {
        admit(undo, now)?;
    }
    Ok(UndoAsked {
        drops: ask.drops,
        of: ask.of,
        asked: UndoAsking {
            who: ask.who.clone(),
            why: ask.why.clone(),
            at: now,
        },
    })
}

/// What was asked for can be dropped, whatever its window says; not what runs, or may have run.
fn drop_of(undo: Option<&OpenUndo>) -> Result<(), CommandRefusal> {
    let bar = match undo.map(|undo| undo.phase) {
        None => UndoBar::NotOffered,
        Some(UndoPhase::Requested | UndoPhase::Failed { .. }) => return Ok(()),
        Some(UndoPhase::Offered) => UndoBar::NotAsked,
        Some(UndoPhase::Running { by }) => UndoBar::Running(by),
        Some(UndoPhase::Unknown { by }) => UndoBar::Unknown(by),
        Some(UndoPhase::Done { by }) => UndoBar::Done(by),
    };
    Err(CommandRefusal::NotUndone(bar))
}

/// What an operator's word makes of it: one that has failed is asked for anew, and one that is dropped
/// is as it was offered.
pub(super) fn ask(asked: &UndoAsked, undo: &mut Option<OpenUndo>) {
    let meant = undo.iter_mut().filter(|undo| undo.of == asked.of);
    meant.for_each(|undo| {
        undo.asked = Some(asked.asked.clone());
        let phase = if asked.drops {
            UndoPhase::Offered
        } else {
            UndoPhase::Requested
        };
        undo.come_to(phase, asked.asked.at);
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
        let is_asked = matches!(settle.phase, ClaimPhase::AwaitingInput { .. });
        // An agent answers what its own call is asked, and the undo goes on with that; nobody answers an operator's.
        if is_asked && settle.key != OpenUndo::call_key_of(of) {
            return None;
        }
        let phase = after(claim.action, &settle.phase, is_error)?;
        return Some(UndoChange::Ended { of, phase });
    }
    let terms = claim.undo.as_deref()?;
    if !matches!(settle.phase, ClaimPhase::Completed(_)) || is_error {
        return None;
    }
    let (values, call, lacks) = match &settle.worth {
        AnswerWorth::Kept(pieces) => (pieces.values.clone(), pieces.call, pieces.lacks.clone()),
        AnswerWorth::Unread | AnswerWorth::Failed => (None, None, None),
    };
    Some(UndoChange::Offered(Box::new(OpenUndo {
        of: claim.action,
        tool: claim.tool.clone(),
        key: settle.key,
        terms: terms.clone(),
        values,
        call,
        is_whole: settle.worth.is_whole(),
        lacks,
        offered: now,
        until: now.saturating_add(terms.within),
        phase: UndoPhase::Offered,
        changed: now,
        asked: None,
        before: None,
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
