//! What a store holds in memory: claims, tasks and sessions, each with the number of its last change. The memory store
//! has nothing else; the embedded store keeps here what its index does not have yet.

use super::state::budget::Task;
use super::state::claim::Claim;
use super::state::digest::Digest;
use super::state::event::Event;
use super::state::fence::Session;
use super::state::{Place, View, apply};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// One thing, and when it last changed.
#[derive(Debug, Clone)]
pub(super) struct Kept<T> {
    pub(super) value: T,
    /// Counts the changes of the whole table.
    pub(super) change: u64,
}

/// Everything by its key.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) claims: HashMap<Digest, Kept<Claim>>,
    pub(super) tasks: HashMap<Digest, Kept<Task>>,
    pub(super) sessions: HashMap<Digest, Kept<Session>>,
    /// Changes so far.
    pub(super) change: u64,
    /// The newest fencing token that was ever given out or used.
    pub(super) token: u64,
}

impl Table {
    /// What is known here of `place`.
    pub(super) fn view(&self, place: Place) -> View {
        View {
            claim: known(&self.claims, place.call),
            task: known(&self.tasks, place.task),
            session: known(&self.sessions, place.session),
        }
    }

    /// Applies `event` to `view`, which holds all that is known of the event's place, and keeps what comes of it.
    pub(super) fn apply(&mut self, event: &Event, mut view: View) {
        apply(event, &mut view);
        self.change += 1;
        let (place, change) = (event.place(), self.change);
        keep(&mut self.claims, place.call, view.claim, change);
        keep(&mut self.tasks, place.task, view.task, change);
        if let Some(session) = view.session.filter(|_| place.session.is_some()) {
            self.token = self.token.max(session.token);
            keep(&mut self.sessions, place.session, Some(session), change);
        }
    }

    /// The next fencing token: greater than any before, of any session.
    pub(super) fn next_token(&mut self) -> u64 {
        self.token += 1;
        self.token
    }

    /// The things in memory.
    pub(super) fn len(&self) -> usize {
        self.claims.len() + self.tasks.len() + self.sessions.len()
    }
}

fn known<T: Clone>(map: &HashMap<Digest, Kept<T>>, key: Option<Digest>) -> Option<T> {
    map.get(&key?).map(|kept| kept.value.clone())
}

fn keep<T>(map: &mut HashMap<Digest, Kept<T>>, key: Option<Digest>, value: Option<T>, change: u64) {
    if let (Some(key), Some(value)) = (key, value) {
        map.insert(key, Kept { value, change });
    }
}

/// Drops from `map` what has not changed since `change`.
pub(super) fn drop_unchanged<T>(map: &mut HashMap<Digest, Kept<T>>, key: Digest, change: u64) {
    if let Entry::Occupied(kept) = map.entry(key)
        && kept.get().change <= change
    {
        kept.remove();
    }
}
