//! What operators' words and the ends of calls make of undos, and which calls may take another one
//! back (003-64).

use super::claim::{Claim, ClaimPhase};
use super::command::{Intent, Settle};
use super::hold::{Hold, Undecided};
use super::undo::{
    AnswerWorth, AskUndo, OpenUndo, OwnCall, UndoAsked, UndoAsking, UndoBar, UndoChange, UndoPhase,
};
use super::{CommandRefusal, Millis, StoreView};
use crate::model::ids::ActionId;

/// Whether a call may begin that takes another one back, or be asked for.
pub(super) fn admit(undo: Option<&OpenUndo>, now: Millis) -> Result<(), CommandRefusal> {
    let bar = undo.map_or(Some(UndoBar::NotOffered), |undo| undo.bar(now));
    bar.map_or(Ok(()), |bar| Err(CommandRefusal::NotUndone(bar)))
}

/// Whether the call of `intent` may take `of` back now. One that an operator or its agent has asked for is
/// wanted no more once that is dropped: a person may have done it by hand.
pub(super) fn admit_call(
    of: ActionId,
    intent: &Intent,
    view: &StoreView,
    now: Millis,
) -> Result<(), CommandRefusal> {
    let undo = view.undo.as_ref().filter(|undo| undo.of == of);
    admit(undo, now)?;
    let is_dropped = undo.is_some_and(|undo| {
        undo.phase == UndoPhase::Offered && intent.key == OpenUndo::call_key_of(of)
    });
    if is_dropped {
        return Err(CommandRefusal::NotUndone(UndoBar::NotAsked));
    }
    let hold = view.hold.as_ref().filter(|_| intent.hold.is_some());
    admit_hold(undo, hold)
}

/// Whether what people said of `hold` counts for the call that takes `undo.of` back: not what was held for an asking
/// that was dropped.
fn admit_hold(undo: Option<&OpenUndo>, hold: Option<&Hold>) -> Result<(), CommandRefusal> {
    // What its agent makes by itself is held as any other call.
    let of_undo = hold.filter(|hold| hold.question.undoes.is_some());
    let is_held_for = |hold: &Hold| undo.is_none_or(|undo| undo.is_held_for(hold.asked));
    if of_undo.is_none_or(is_held_for) {
        Ok(())
    } else {
        Err(CommandRefusal::NotUndone(UndoBar::NotAsked))
    }
}

/// Whether `names` may say something of the call that is held to take another one back: nobody may once that is
/// dropped, and who has asked for it may not.
pub(super) fn admit_word(
    hold: &Hold,
    undo: Option<&OpenUndo>,
    mut names: impl Iterator<Item = impl AsRef<str>>,
) -> Result<(), Undecided> {
    let undoes = hold.question.undoes.as_ref();
    let undo = undo.filter(|undo| undoes.is_some_and(|undoes| undoes.of == undo.of));
    let Some(undo) = undo else {
        return Ok(());
    };
    if undo.phase == UndoPhase::Offered || !undo.is_held_for(hold.asked) {
        return Err(Undecided::Gone);
    }
    if !hold.self_approval && names.any(|name| undo.is_asked_by(name.as_ref())) {
        return Err(Undecided::NotYours);
    }
    Ok(())
}

/// An operator asks for it, or drops that.
pub(super) fn asked(
    ask: &AskUndo,
    view: &StoreView,
    now: Millis,
) -> Result<UndoAsked, CommandRefusal> {
    let undo = view.undo.as_ref().filter(|undo| undo.of == ask.of);
    if let Some(made_by) = ask.made_by {
        admit_own(made_by, view.claim.as_ref())?;
    }
    if ask.drops || ask.made_by.is_some() {
        is_open(undo)?;
    } else {
        admit(undo, now)?;
    }
    Ok(UndoAsked {
        drops: ask.drops,
        made_by: ask.made_by.map(|made_by| made_by.action),
        made_key: ask.made_by.map(|made_by| made_by.key),
        of: ask.of,
        asked: UndoAsking {
            who: ask.who.clone(),
            why: ask.why.clone(),
            at: now,
            caller: ask.caller.clone(),
        },
    })
}

/// Whether that call has run and takes no other one back: two undos are not done by one.
fn admit_own(made_by: OwnCall, claim: Option<&Claim>) -> Result<(), CommandRefusal> {
    let claim = claim.filter(|claim| claim.action == made_by.action);
    let is_free = claim.is_some_and(|claim| {
        claim.undoes.is_none() && matches!(claim.phase, ClaimPhase::Completed(_))
    });
    if is_free {
        Ok(())
    } else {
        Err(CommandRefusal::NotUndone(UndoBar::NotOffered))
    }
}

/// What was asked for can be dropped, or is done by another call, whatever its window says; not what runs, or may have
/// run.
fn is_open(undo: Option<&OpenUndo>) -> Result<(), CommandRefusal> {
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
pub(super) fn ask(asked: &UndoAsked, view: &mut StoreView) {
    let own = view.claim.iter_mut();
    let own = own.filter(|claim| Some(claim.action) == asked.made_by);
    own.for_each(|claim| {
        claim.undoes = Some(asked.of);
        claim
            .may_undo
            .iter_mut()
            .for_each(|undo| undo.is_over = true);
    });
    let meant = view.undo.iter_mut().filter(|undo| undo.of == asked.of);
    meant.for_each(|undo| {
        let UndoAsking { who, at, .. } = &asked.asked;
        let is_open = undo.phase != UndoPhase::Offered;
        // Of those before, records of releases before have the last.
        let last = undo.asked.take().filter(|_| is_open).map(|last| last.who);
        undo.asked = Some(asked.asked.clone());
        let phase = if let Some(by) = asked.made_by {
            undo.before = Some(undo.phase);
            UndoPhase::Done { by }
        } else if asked.drops {
            (undo.askers, undo.asked_since) = (Vec::new(), None);
            UndoPhase::Offered
        } else {
            last.iter()
                .chain([who])
                .for_each(|who| undo.note_asker(who));
            if !is_open {
                undo.asked_since = Some(*at);
            }
            UndoPhase::Requested
        };
        undo.come_to(phase, *at);
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
        // A look, an operator or a restart has told of it.
        AnswerWorth::Unread | AnswerWorth::Failed => (None, terms.call, None),
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
        began: Some(claim.began),
        offered: now,
        until: now.saturating_add(terms.within),
        phase: UndoPhase::Offered,
        changed: now,
        asked: None,
        askers: Vec::new(),
        asked_since: None,
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
