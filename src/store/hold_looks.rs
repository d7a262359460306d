//! When an operator who may decide has last looked at held calls. It is kept in memory alone: after a restart it is told
//! once more, at worst, that nobody does.

use super::state::Millis;
use crate::model::ids::ActionId;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The last look at each held call that waits.
#[derive(Debug, Default)]
pub(crate) struct HoldLooks(Mutex<HashMap<ActionId, Millis>>);

impl HoldLooks {
    /// Notes a look at a held call that waits.
    pub(crate) fn note(&self, id: ActionId, now: Millis) {
        self.0.lock().insert(id, now);
    }

    /// When it was looked at last, if it was.
    pub(crate) fn last(&self, id: ActionId) -> Option<Millis> {
        self.0.lock().get(&id).copied()
    }

    /// Forgets those that wait no longer, so that no more are known than can wait.
    pub(crate) fn keep(&self, waits: impl Fn(ActionId) -> bool) {
        self.0.lock().retain(|id, _| waits(*id));
    }
}
