//! Events as they are shown.

use super::{Carried, StoreEvent};

impl StoreEvent {
    /// Takes out of it what undos keep of what was sent and came back, so that it can be shown; false
    /// where nothing of the kind is in it.
    pub fn leave_out(&mut self) -> bool {
        if let Self::Carried(Carried::Undo(_, undo)) = self {
            undo.leave_out();
            return true;
        }
        if let Self::Settled(settled) = self {
            let change = settled.undo.as_mut();
            return change.map(|change| change.leave_out()).is_some();
        }
        let terms = if let Self::Intended(intended) = self {
            intended.undo.as_mut()
        } else if let Self::Carried(Carried::Claim(_, claim)) = self {
            claim.undo.as_mut()
        } else {
            None
        };
        terms.map(|terms| terms.leave_out()).is_some()
    }
}
