//! What a question and an operator's word make of a held call (guarantees §7).

use super::command::{Decide, EditHold, ExtendHold, HoldBounds, HoldRequest, Withdraw};
use super::event::{CallHeld, HoldDecided, HoldEdited, HoldExtended};
use super::hold::{
    EditedCall, Hold, HoldBound, HoldPhase, HoldStatus, MAX_HOLD_EDITS, OperatorDecision,
    OperatorEdit, Undecided, WaitingHolds, hold_status,
};
use super::{CommandRefusal, Millis, StoreView, undoing};

/// Step 10: the call is held, unless it is held already or too many are.
pub(super) fn open_hold(
    ask: &HoldRequest,
    hold: Option<&Hold>,
    waiting: WaitingHolds,
    now: Millis,
) -> Result<CallHeld, CommandRefusal> {
    let stands = hold_status(hold, now);
    if stands != HoldStatus::Absent {
        return Err(CommandRefusal::Held(stands));
    }
    let HoldBounds { all, agent, caller } = ask.bounds;
    let bounds = [
        (waiting.caller >= caller, HoldBound::Caller),
        (waiting.agent >= agent, HoldBound::Agent),
        (waiting.all >= all, HoldBound::All),
    ];
    if let Some((_, bound)) = bounds.into_iter().find(|(is_reached, _)| *is_reached) {
        return Err(CommandRefusal::TooManyHolds(bound));
    }
    let hold = Hold {
        id: ask.id,
        asked: now,
        approve_by: now.saturating_add(ask.approve_for),
        execute_for: ask.execute_for,
        needed: ask.needed,
        roles: ask.roles.clone(),
        self_approval: ask.self_approval,
        question: ask.question.clone(),
        decisions: Vec::new(),
        edits: Vec::new(),
        extended_by: None,
        phase: HoldPhase::Pending,
    };
    Ok(CallHeld { key: ask.key, hold })
}

/// Step 10, once more: what is allowed is exactly what the call carries, `edited` or as it came.
pub(super) fn allowed(
    hold: Option<&Hold>,
    edited: Option<EditedCall>,
    now: Millis,
) -> Result<(), CommandRefusal> {
    let stands = hold_status(hold, now);
    if stands != HoldStatus::Allowed || hold.and_then(Hold::edited) != edited {
        return Err(CommandRefusal::Held(stands));
    }
    Ok(())
}

/// The agent has cancelled `hold`, or an incident voids it: what was allowed and has not begun does not
/// run, either.
pub(super) fn withdrawn(
    withdraw: &Withdraw,
    hold: Option<&Hold>,
    now: Millis,
) -> Result<HoldDecided, Undecided> {
    let hold = hold.filter(|hold| hold.id == withdraw.id);
    match hold_status(hold, now) {
        HoldStatus::Pending | HoldStatus::Allowed => {}
        HoldStatus::Absent
        | HoldStatus::Denied { .. }
        | HoldStatus::TimedOut
        | HoldStatus::Lapsed { .. } => return Err(Undecided::Gone),
    }
    let Withdraw { key, id, who, void } = withdraw.clone();
    let surface = void.as_ref().map(|void| void.surface.to_owned());
    let void = void.map(|void| void.why);
    Ok(HoldDecided {
        key,
        id,
        decision: OperatorDecision {
            who,
            on_behalf: None,
            allow: false,
            why: void.unwrap_or_else(|| "cancelled by the agent that asked".to_owned()),
            surface,
            at: now,
        },
        phase: HoldPhase::Withdrawn,
    })
}

/// What an operator's word makes of `hold`. Any denial ends it; allowed it is by as many operators
/// as it needs.
pub(super) fn decided(
    decide: &Decide,
    view: &StoreView,
    now: Millis,
) -> Result<HoldDecided, Undecided> {
    let hold = view.hold.as_ref();
    let hold = hold
        .filter(|hold| hold.id == decide.id)
        .ok_or(Undecided::Gone)?;
    let already = match hold_status(Some(hold), now) {
        HoldStatus::Pending => None,
        HoldStatus::Allowed => Some(true),
        HoldStatus::Denied { .. } => Some(false),
        HoldStatus::Absent | HoldStatus::TimedOut | HoldStatus::Lapsed { .. } => {
            return Err(Undecided::Gone);
        }
    };
    if !hold.is_decided_rightly(&decide.who, &decide.right) {
        return Err(Undecided::NotYours);
    }
    undoing::admit_word(hold, view.undo.as_ref(), decide.right.names(&decide.who))?;
    if let Some(allowed) = already {
        return Err(if allowed == decide.allow {
            Undecided::Same
        } else {
            Undecided::Other { allowed }
        });
    }
    // What is allowed is what was looked at; no it means whatever it has become.
    if decide.allow && decide.edits != hold.edits.len() {
        return Err(Undecided::Edited);
    }
    // All decisions of a pending hold allow it.
    if decide.allow && hold.counts(&decide.who, decide.right.on_behalf.as_deref()) {
        return Err(Undecided::Same);
    }
    let is_enough = hold.decisions.len() + 1 >= usize::try_from(hold.needed).unwrap_or(usize::MAX);
    let phase = match (decide.allow, is_enough) {
        (false, _) => HoldPhase::Denied,
        (true, true) => HoldPhase::Allowed,
        (true, false) => HoldPhase::Pending,
    };
    let Decide {
        key,
        id,
        who,
        right,
        allow,
        why,
        surface,
        ..
    } = decide.clone();
    Ok(HoldDecided {
        key,
        id,
        decision: OperatorDecision {
            who,
            on_behalf: right.on_behalf,
            allow,
            why,
            surface,
            at: now,
        },
        phase,
    })
}

/// Changes the arguments of `hold`, as the gate has judged them: what was said before is void.
pub(super) fn edited(
    edit: &EditHold,
    view: &StoreView,
    now: Millis,
) -> Result<HoldEdited, Undecided> {
    let hold = view.hold.as_ref();
    let hold = hold
        .filter(|hold| hold.id == edit.id && hold.is_waiting(now))
        .ok_or(Undecided::Gone)?;
    if !hold.is_decided_rightly(&edit.who, &edit.right) {
        return Err(Undecided::NotYours);
    }
    undoing::admit_word(hold, view.undo.as_ref(), edit.right.names(&edit.who))?;
    if edit.edits != hold.edits.len() {
        return Err(Undecided::Edited);
    }
    if hold.edits.len() >= MAX_HOLD_EDITS {
        return Err(Undecided::EditsSpent);
    }
    let EditHold {
        key,
        id,
        who,
        right,
        why,
        surface,
        pointers,
        arguments,
        ..
    } = edit.clone();
    Ok(HoldEdited {
        key,
        id,
        edit: OperatorEdit {
            who,
            on_behalf: right.on_behalf,
            why,
            surface,
            pointers,
            voided: hold.allowed_by().map(str::to_owned).collect(),
            at: now,
        },
        arguments,
    })
}

/// Gives `hold` as much time again as it had, once.
pub(super) fn extended(
    extend: &ExtendHold,
    view: &StoreView,
    now: Millis,
) -> Result<HoldExtended, Undecided> {
    let hold = view.hold.as_ref();
    let hold = hold
        .filter(|hold| hold.id == extend.id && hold.is_waiting(now))
        .ok_or(Undecided::Gone)?;
    let ExtendHold {
        key,
        id,
        who,
        roles,
        why,
    } = extend.clone();
    if !hold.is_decided_by(&who, &roles) {
        return Err(Undecided::NotYours);
    }
    undoing::admit_word(hold, view.undo.as_ref(), std::iter::once(&who))?;
    if hold.extended_by.is_some() {
        return Err(Undecided::Same);
    }
    let had = hold.approve_by.saturating_sub(hold.asked);
    Ok(HoldExtended {
        key,
        id,
        who,
        why,
        approve_by: hold.approve_by.saturating_add(had),
        at: now,
    })
}
