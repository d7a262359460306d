//! Links that are kept for what waits for an agent: a parked call, or a task. It may wait for long, so
//! some links of each server stay for calls.

use super::{CallerLink, CallerLinks, MAX_CALLER_CHILDREN, MAX_CALLER_SESSIONS, ReachedLink};
use std::sync::Arc;

/// Of four links of a server, so many may wait.
const PINNED_OF_FOUR: usize = 3;

/// Keeps a link for what waits on it, as long as it lasts.
#[derive(Clone)]
pub(crate) struct LinkPin {
    _kept: Arc<()>,
}

impl CallerLink {
    fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.pins) > 1
    }
}

impl CallerLinks {
    /// Keeps an agent's own link for what is about to wait on it; false if as many links of its
    /// server wait as may. A link that is kept already is kept for as much as there is.
    pub(crate) fn pin(&self, reached: &mut ReachedLink) -> bool {
        let Some(own) = reached.own.as_ref().filter(|_| reached.pin.is_none()) else {
            return true;
        };
        let all = if own.is_child {
            MAX_CALLER_CHILDREN
        } else {
            MAX_CALLER_SESSIONS
        };
        let open = self.open.lock();
        let is_here = |known: &&Arc<CallerLink>| known.key.server == own.key.server;
        let pinned = open.iter().filter(is_here).filter(|own| own.is_pinned());
        if !own.is_pinned() && pinned.count() >= all / 4 * PINNED_OF_FOUR {
            return false;
        }
        reached.pin = Some(LinkPin {
            _kept: own.pins.clone(),
        });
        true
    }
}
