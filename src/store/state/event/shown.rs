//! Events as they are shown.

use super::{Carried, StoreEvent};

impl StoreEvent {
    /// Takes out of it what undos keep of what was sent and came back, so that it can be shown; false
    /// where nothing of the kind is in it.
    pub fn leave_out(&mut self) -> bool {
        if let Self::Settled(settled) = self
            && let Some(change) = &mut settled.undo
        {
            change.leave_out();
            return true;
        }
        if let Self::Carried(Carried::Undo(_, undo)) = self {
            undo.leave_out();
            return true;
        }
        let terms = match self {
            Self::Intended(intended) => intended.undo.as_mut(),
            Self::Carried(Carried::Claim(_, claim)) => claim.undo.as_mut(),
            Self::Settled(_)
            | Self::Reserved(_)
            | Self::Spent(_)
            | Self::Tallied(_)
            | Self::Entered { .. }
            | Self::Planned { .. }
            | Self::Steered(_)
            | Self::Fenced { .. }
            | Self::Held(_)
            | Self::Decided(_)
            | Self::Edited(_)
            | Self::Extended(_)
            | Self::Granted(_)
            | Self::Revoked(_)
            | Self::UndoAsked(_)
            | Self::Carried(_)
            | Self::Noted(_) => None,
        };
        terms.map(|terms| terms.leave_out()).is_some()
    }
}
