//! What happens to held calls, for operators' pages and programs that look on: told to all at once,
//! without what the calls say. Nothing depends on it: who misses something looks again.

use super::state::Millis;
use super::state::event::StoreEvent;
use super::state::hold::{Hold, HoldPhase};
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use crate::model::refusal::people::EXPIRED_HOLD_GRACE_MS;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::broadcast;

/// News that one who looks on may be behind; more, and they look at everything anew.
const MAX_NEWS_BEHIND: usize = 256;
/// Held calls that were used and are told of for a while.
const MAX_USED_KNOWN: usize = 256;

/// A held call, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldNews {
    /// The approval.
    pub id: ActionId,
    /// `server__tool`.
    pub tool: ToolName,
    /// Who asks.
    pub agent: String,
    /// Operators with one of these roles may decide.
    pub roles: Vec<String>,
    /// What came of it so far.
    pub phase: HoldPhase,
    /// From then on nobody can decide.
    pub approve_by: Millis,
    /// Whether it has just been held.
    pub is_new: bool,
}

/// Tells what happens to all who look on, and knows for a while what was used: the same call may be held
/// anew then, under the same key.
#[derive(Debug)]
pub(super) struct HoldFeed {
    news: broadcast::Sender<HoldNews>,
    used: Mutex<VecDeque<(Digest, Hold)>>,
}

impl Default for HoldFeed {
    fn default() -> Self {
        Self {
            news: broadcast::Sender::new(MAX_NEWS_BEHIND),
            used: Mutex::default(),
        }
    }
}

impl HoldFeed {
    /// One more who looks on, from now.
    pub(super) fn look_on(&self) -> broadcast::Receiver<HoldNews> {
        self.news.subscribe()
    }

    /// The held call whose id is `id`, with its key, if it was used a short time before `now`.
    pub(super) fn used(&self, id: ActionId, now: Millis) -> Option<(Digest, Hold)> {
        let used = self.used.lock();
        let found = used.iter().find(|(_, hold)| hold.id == id)?;
        let is_told = now < found.1.changed().saturating_add(EXPIRED_HOLD_GRACE_MS);
        is_told.then(|| found.clone())
    }

    /// Tells of `event`, if it changed a held call that `find` knows.
    pub(super) fn tell(&self, event: &StoreEvent, find: impl FnOnce(&Digest) -> Option<Hold>) {
        let Some((key, hold)) = changed(event).and_then(|key| Some((*key, find(key)?))) else {
            return;
        };
        if matches!(hold.phase, HoldPhase::Used { .. }) {
            let mut used = self.used.lock();
            if used.len() == MAX_USED_KNOWN {
                used.pop_front();
            }
            used.push_back((key, hold.clone()));
        }
        // Nobody may look on any more.
        let _ = self.news.send(HoldNews {
            id: hold.id,
            tool: hold.question.tool,
            agent: hold.question.agent,
            roles: hold.roles,
            phase: hold.phase,
            approve_by: hold.approve_by,
            is_new: matches!(event, StoreEvent::Held(_)),
        });
    }
}

/// The key of what is held that `event` changes.
fn changed(event: &StoreEvent) -> Option<&Digest> {
    match event {
        StoreEvent::Held(held) => Some(&held.key),
        StoreEvent::Decided(decided) => Some(&decided.key),
        StoreEvent::Edited(edited) => Some(&edited.key),
        StoreEvent::Extended(extended) => Some(&extended.key),
        StoreEvent::Granted(minted) => minted.allowed.as_ref().map(|allowed| &allowed.key),
        StoreEvent::Intended(intended) => intended.hold.as_ref(),
        StoreEvent::Reserved(reserved) => reserved.hold.as_ref().map(|(key, _)| key),
        StoreEvent::Settled(_)
        | StoreEvent::Spent(_)
        | StoreEvent::Tallied(_)
        | StoreEvent::Entered { .. }
        | StoreEvent::Planned { .. }
        | StoreEvent::Steered(_)
        | StoreEvent::Fenced { .. }
        | StoreEvent::Revoked(_)
        | StoreEvent::UndoAsked(_)
        | StoreEvent::Carried(_)
        | StoreEvent::Noted(_) => None,
    }
}
