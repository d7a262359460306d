//! What is read of a call that the store did not let begin.

use super::ASK_AGAIN;
use crate::gate::call::Call;
use crate::gate::effects::bill::Bill;
use crate::guards::budget::shown;
use crate::guards::task::stopped_by;
use crate::model::refusal::Refusal;
use crate::store::state::CommandRefusal;
use crate::store::state::budget::Exceeded;
use crate::store::state::undo::UndoBar;
use serde_json::Value;

/// What its agent reads of a call that could not be begun; nothing where the same call was quicker, or
/// another one that takes the same call back.
pub(super) fn not_begun(
    call: &Call,
    refused: CommandRefusal,
    bill: &Bill,
    left: &mut Option<Box<Value>>,
) -> Result<(), Refusal> {
    match refused {
        CommandRefusal::Taken(_) | CommandRefusal::Held(_) | CommandRefusal::Granted(_) => Ok(()),
        CommandRefusal::Budget(exceeded) => Err(exceed(bill, &exceeded, left)),
        CommandRefusal::Stopped(stopped) => Err(stopped_by(&stopped)),
        CommandRefusal::Fenced { .. } => Err(Refusal::Fenced),
        // Nobody has asked this one to: how that stands is looked at anew.
        CommandRefusal::NotUndone(_) if call.takes_back().is_none() => Ok(()),
        CommandRefusal::NotUndone(bar) => Err(not_undone(bar)),
        CommandRefusal::State { .. }
        | CommandRefusal::NoTask
        | CommandRefusal::PlanFull
        | CommandRefusal::Settled
        | CommandRefusal::TooManyHolds(_)
        | CommandRefusal::TooManyGrants(_)
        | CommandRefusal::Undecided(_) => Err(Refusal::InternalError),
    }
}

/// The refusal of what does not fit, and what there is.
pub(super) fn exceed(bill: &Bill, exceeded: &Exceeded, left: &mut Option<Box<Value>>) -> Refusal {
    *left = Some(Box::new(shown(&exceeded.remaining)));
    bill.asked.refuse(exceeded)
}

/// A call that takes another one back, when something was quicker; its operator is told by how the
/// undo stands.
fn not_undone(bar: UndoBar) -> Refusal {
    match bar {
        UndoBar::Running(_) => Refusal::DuplicateInFlight {
            after_ms: ASK_AGAIN,
        },
        UndoBar::Unknown(_) => Refusal::OutcomeUnknown,
        UndoBar::NotOffered
        | UndoBar::NotAsked
        | UndoBar::Done(_)
        | UndoBar::DoneByAgent(_)
        | UndoBar::Over(_) => Refusal::IdempotencyKeyExpired,
    }
}
