//! What all legacy streams keep together for agents that come back: beyond a budget the oldest
//! event of all is forgotten first, whichever stream's it is (threat-model §3H H10, §8).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Bytes of the events of all sessions. One stream may keep 4 MiB of them.
const REPLAY_BYTES_MAX: usize = 64 << 20;

/// Who keeps events.
pub(super) trait EventKeeper: Send + Sync {
    /// Forgets the event of this ticket, which is no longer counted.
    fn forget(&self, ticket: u64);
}

/// Counts the bytes that are kept, and knows who keeps the oldest.
pub(super) struct ReplayBudget {
    budget: usize,
    kept: Mutex<KeptEvents>,
}

#[derive(Default)]
struct KeptEvents {
    bytes: usize,
    last: u64,
    /// By ticket, which is by age.
    events: BTreeMap<u64, (usize, Weak<dyn EventKeeper>)>,
}

impl Default for ReplayBudget {
    fn default() -> Self {
        Self::of(REPLAY_BYTES_MAX)
    }
}

impl ReplayBudget {
    /// A shelf for so many bytes.
    pub(super) fn of(budget: usize) -> Self {
        Self {
            budget,
            kept: Mutex::default(),
        }
    }

    /// Counts an event of so many bytes; the ticket under which it is given back.
    pub(super) fn put(&self, bytes: usize, keeper: Weak<dyn EventKeeper>) -> u64 {
        let mut kept = self.kept.lock();
        kept.last += 1;
        kept.bytes += bytes;
        let ticket = kept.last;
        kept.events.insert(ticket, (bytes, keeper));
        ticket
    }

    /// Its keeper has given the event of this ticket away.
    pub(super) fn give_back(&self, ticket: u64) {
        let mut kept = self.kept.lock();
        if let Some((bytes, _)) = kept.events.remove(&ticket) {
            kept.bytes -= bytes;
        }
    }

    /// Has the oldest events forgotten until the rest is within the budget. A keeper that calls
    /// this holds no lock.
    pub(super) fn clear(&self) {
        while let Some((ticket, keeper)) = self.oldest_too_many() {
            if let Some(keeper) = keeper.upgrade() {
                keeper.forget(ticket);
            }
        }
    }

    fn oldest_too_many(&self) -> Option<(u64, Weak<dyn EventKeeper>)> {
        let mut kept = self.kept.lock();
        if kept.bytes <= self.budget {
            return None;
        }
        let (ticket, (bytes, keeper)) = kept.events.pop_first()?;
        kept.bytes -= bytes;
        Some((ticket, keeper))
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

/// A shelf that several streams share.
pub(super) type SharedReplayBudget = Arc<ReplayBudget>;
