//! What a store holds in memory: claims, tasks, sessions and held calls, each with the number of
//! the record that changed it last. The memory store has nothing else; the embedded store keeps
//! here what its index does not have yet.

use super::claims::TaskSearch;
use super::state::budget::TaskUsage;
use super::state::claim::{Claim, ClaimPhase};
use super::state::command::StoreCommand;
use super::state::event::StoreEvent;
use super::state::fence::SessionFence;
use super::state::grant::{Grant, LiveGrants};
use super::state::hold::{Hold, WaitingHolds};
use super::state::undo::OpenUndo;
use super::state::{Millis, StoreKeys, StoreView, apply};
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use own_calls::{OwnCalls, undoing_tools};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use undos::MadeUndo;

pub(super) mod own_calls;
pub(super) mod undos;
mod unsettled;

/// One thing, and when it last changed.
#[derive(Debug, Clone)]
pub(super) struct Versioned<T> {
    pub(super) value: T,
    /// The record that made it so.
    pub(super) change: u64,
}

/// Everything by its key.
#[derive(Debug, Default)]
pub(super) struct StateTable {
    pub(super) claims: HashMap<Digest, Versioned<Claim>>,
    pub(super) tasks: HashMap<Digest, Versioned<TaskUsage>>,
    pub(super) sessions: HashMap<Digest, Versioned<SessionFence>>,
    /// All that are open, and others.
    pub(super) holds: HashMap<Digest, Versioned<Hold>>,
    /// All that can still cover a call, and others.
    pub(super) grants: HashMap<Digest, Versioned<Grant>>,
    /// What takes calls back.
    pub(super) undos: HashMap<Digest, Versioned<OpenUndo>>,
    /// Which of them are not done, by the calls that do it.
    pub(super) made: BTreeSet<MadeUndo>,
    /// Claims that hold the calls which equal them, or have held them: what those have in common, and their keys.
    pub(super) held: BTreeSet<(Digest, Digest)>,
    /// What may take calls back though nothing says so.
    pub(super) own: OwnCalls,
    /// The last record applied.
    pub(super) last: u64,
    /// The last record that is in the index, too.
    pub(super) indexed: u64,
    /// The newest fencing token that was ever given out or used.
    pub(super) token: u64,
}

impl StateTable {
    /// What is known here of `place`.
    pub(super) fn view(&self, place: StoreKeys) -> StoreView {
        StoreView {
            claim: known(&self.claims, place.call),
            task: known(&self.tasks, place.task),
            account: known(&self.tasks, place.account),
            session: known(&self.sessions, place.session),
            hold: known(&self.holds, place.hold),
            grant: known(&self.grants, place.grant),
            undo: known(&self.undos, place.undo),
            waiting: WaitingHolds::default(),
            grants: LiveGrants::default(),
        }
    }

    /// How many held calls wait for operators at `now`, as `command` has to know.
    pub(super) fn waiting(&self, command: &StoreCommand, now: Millis) -> WaitingHolds {
        let StoreCommand::Hold(ask) = command else {
            return WaitingHolds::default();
        };
        let holds = self.holds.values().map(|kept| &kept.value);
        let waiting =
            |fits: &dyn Fn(&Hold) -> bool| holds.clone().filter(|hold| fits(hold)).count();
        WaitingHolds {
            all: waiting(&|hold| hold.is_waiting(now)),
            agent: waiting(&|hold| hold.is_alike(&ask.question, now)),
            caller: waiting(&|hold| hold.is_for_same(&ask.question, now)),
        }
    }

    /// How many grants can cover a call at `now`, as `command` has to know.
    pub(super) fn live(&self, command: &StoreCommand, now: Millis) -> LiveGrants {
        let StoreCommand::Mint(mint) = command else {
            return LiveGrants::default();
        };
        let grants = self.grants.values().map(|kept| &kept.value);
        let live = grants.filter(|grant| grant.ended(now).is_none());
        let scope = &mint.grant.scope;
        live.fold(LiveGrants::default(), |live, grant| LiveGrants {
            all: live.all + 1,
            agent: live.agent + usize::from(grant.is_alike(scope)),
        })
    }

    /// The grants for calls of `tool` that can cover one at `now`; those first that end first.
    pub(super) fn grants_of(&self, tool: &ToolName, now: Millis) -> Vec<Grant> {
        let grants = self.grants.values().map(|kept| &kept.value);
        let live = grants.filter(|grant| grant.scope.tool == *tool && grant.ended(now).is_none());
        let mut live: Vec<Grant> = live.cloned().collect();
        live.sort_by_key(|grant| (grant.until, grant.id));
        live
    }

    /// Adds the grants here to those `found` elsewhere, in whose place they come, and leaves up to
    /// `most`, the newest.
    pub(super) fn newest_grants(&self, found: Vec<(Digest, Grant)>, most: usize) -> Vec<Grant> {
        let mut found: HashMap<Digest, Grant> = found.into_iter().collect();
        let here = self.grants.iter();
        found.extend(here.map(|(key, kept)| (*key, kept.value.clone())));
        let mut found: Vec<Grant> = found.into_values().collect();
        found.sort_by_key(|grant| Reverse((grant.minted, grant.id)));
        found.truncate(most);
        found
    }

    /// Up to `most` held calls that are open at `now`, the oldest first.
    pub(super) fn open_holds(&self, now: Millis, most: usize) -> Vec<(Digest, Hold)> {
        let open = self
            .holds
            .iter()
            .filter(|(_, kept)| kept.value.is_open(now));
        let mut open: Vec<_> = open.map(|(key, kept)| (*key, &kept.value)).collect();
        open.sort_by_key(|(_, hold)| (hold.asked, hold.id));
        open.into_iter()
            .take(most)
            .map(|(key, hold)| (key, hold.clone()))
            .collect()
    }

    /// What is held under `key`.
    pub(super) fn hold(&self, key: &Digest) -> Option<Hold> {
        self.holds.get(key).map(|kept| kept.value.clone())
    }

    /// Up to `most` held calls of that kind, or of any, that are not open at `now`, the newest first.
    pub(super) fn past_holds(
        &self,
        kind: Option<Digest>,
        now: Millis,
        most: usize,
    ) -> Vec<(Digest, Hold)> {
        let fits = |hold: &Hold| {
            !hold.is_open(now) && kind.is_none_or(|kind| kind == hold.question.kind())
        };
        let past = self.holds.iter().filter(|(_, kept)| fits(&kept.value));
        let mut past: Vec<_> = past.map(|(key, kept)| (*key, &kept.value)).collect();
        past.sort_by_key(|(_, hold)| Reverse((hold.changed(), hold.id)));
        let newest = past.into_iter().take(most);
        newest.map(|(key, hold)| (key, hold.clone())).collect()
    }

    /// The held call whose id is `id`.
    pub(super) fn find_hold(&self, id: ActionId) -> Option<(Digest, Hold)> {
        let found = self.holds.iter().find(|(_, kept)| kept.value.id == id);
        found.map(|(key, kept)| (*key, kept.value.clone()))
    }

    /// Adds the tasks whose key begins with the hex digits `prefix` to those `found` elsewhere, in
    /// whose place they come, and leaves up to `most`, those that did something last.
    pub(super) fn latest_tasks(
        &self,
        found: Vec<(Digest, TaskUsage)>,
        search: &TaskSearch,
        most: usize,
    ) -> Vec<(Digest, TaskUsage)> {
        let mut found: HashMap<Digest, TaskUsage> = found.into_iter().collect();
        for key in self.tasks.keys() {
            let task = known(&self.tasks, Some(*key));
            let task = task.filter(|task| search.fits(key, task));
            found.extend(task.map(|task| (*key, task)));
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(key, task)| (Reverse(task.last), *key));
        found.truncate(most);
        found
    }

    /// Applies `event`, record `change`, to `view`, which holds all that is known of the event's
    /// place, and keeps what comes of it.
    pub(super) fn apply(&mut self, event: &StoreEvent, mut view: StoreView, change: u64) {
        apply(event, &mut view);
        self.last = self.last.max(change);
        let place = event.place();
        if let (Some(key), Some(claim)) = (place.call, &view.claim)
            && let Some(kin) = claim.kinship.kin
        {
            if claim.concerns_kin() {
                self.held.insert((kin, key));
            } else {
                self.held.remove(&(kin, key));
            }
        }
        if let (Some(key), Some(claim)) = (place.call, &view.claim) {
            let before = self.claims.get(&key).map(|kept| &kept.value);
            self.own.note(&key, before, claim);
        }
        for tool in undoing_tools(view.claim.as_ref(), view.undo.as_ref()) {
            self.own.note_tool(tool);
        }
        keep(&mut self.claims, place.call, view.claim, change);
        keep(&mut self.tasks, place.task, view.task, change);
        keep(&mut self.tasks, place.account, view.account, change);
        keep(&mut self.holds, place.hold, view.hold, change);
        keep(&mut self.grants, place.grant, view.grant, change);
        self.note_made(place.undo, view.undo.as_ref());
        keep(&mut self.undos, place.undo, view.undo, change);
        if let Some(session) = view.session.filter(|_| place.session.is_some()) {
            self.token = self.token.max(session.token);
            keep(&mut self.sessions, place.session, Some(session), change);
        }
    }

    /// A claim that holds the calls of `kin`, with its key; else one that has held them.
    pub(super) fn held(&self, kin: Digest) -> Option<(Digest, Claim)> {
        let first = (kin, Digest::new([0; 32]));
        let of_kin = self.held.range(first..);
        let of_kin = of_kin.take_while(|(found, _)| *found == kin);
        let known = of_kin.filter_map(|(_, key)| Some((key, self.claims.get(key)?)));
        let newest = known.max_by_key(|(_, claim)| (claim.value.holds_kin(), claim.value.changed));
        newest.map(|(key, claim)| (*key, claim.value.clone()))
    }

    /// The next fencing token: greater than any before, of any session.
    pub(super) fn next_token(&mut self) -> u64 {
        self.token += 1;
        self.token
    }

    /// The last record that changed anything of `place` that is still in memory; 0 when none did.
    pub(super) fn changed(&self, place: StoreKeys) -> u64 {
        let claim = place
            .call
            .and_then(|key| Some(self.claims.get(&key)?.change));
        let used = |key: Option<Digest>| Some(self.tasks.get(&key?)?.change);
        let task = used(place.task).max(used(place.account));
        let session = place
            .session
            .and_then(|key| Some(self.sessions.get(&key)?.change));
        let hold = place
            .hold
            .and_then(|key| Some(self.holds.get(&key)?.change));
        let grant = place
            .grant
            .and_then(|key| Some(self.grants.get(&key)?.change));
        let undo = place
            .undo
            .and_then(|key| Some(self.undos.get(&key)?.change));
        let call = claim.max(task).max(session);
        call.max(hold).max(grant).max(undo).unwrap_or_default()
    }

    /// Drops what the index has, whose last record is `upto`; but not calls in flight and their
    /// tasks, grants and undos, which have to be settled whatever becomes of the index, nor held calls that
    /// are open at `now`, nor grants that can cover a call, which are counted. Gives the calls that were dropped.
    pub(super) fn drop_indexed(&mut self, upto: u64, now: Millis) -> Vec<ActionId> {
        self.indexed = upto;
        let is_in_flight = |claim: &Claim| matches!(claim.phase, ClaimPhase::Dispatching);
        let in_flight = self
            .claims
            .values()
            .filter(|kept| is_in_flight(&kept.value));
        let paying = in_flight.map(|kept| {
            let grant = kept.value.grant.map(|used| used.key);
            let undo = kept.value.undoes.map(OpenUndo::key_of);
            [Some(kept.value.task), kept.value.account, grant, undo]
        });
        let paying: HashSet<Digest> = paying.flatten().flatten().collect();
        let dropped = self
            .claims
            .extract_if(|_, kept| kept.change <= upto && !is_in_flight(&kept.value));
        let (held, own) = (&mut self.held, &mut self.own);
        let dropped = dropped
            .map(|(key, kept)| {
                own.forget(&key, &kept.value);
                if let Some(kin) = kept.value.kinship.kin {
                    held.remove(&(kin, key));
                }
                kept.value.action
            })
            .collect();
        self.tasks
            .retain(|key, kept| kept.change > upto || paying.contains(key));
        self.sessions.retain(|_, kept| kept.change > upto);
        self.holds
            .retain(|_, kept| kept.change > upto || kept.value.is_open(now));
        self.forget_undos(|key, change| change > upto || paying.contains(key));
        self.grants.retain(|key, kept| {
            let is_live = kept.value.ended(now).is_none();
            kept.change > upto || is_live || paying.contains(key)
        });
        dropped
    }

    /// The things that changed since the index was last written.
    pub(super) fn unindexed(&self) -> usize {
        let claims = self.claims.values().map(|kept| kept.change);
        let changes = claims.chain(self.tasks.values().map(|kept| kept.change));
        let changes = changes.chain(self.sessions.values().map(|kept| kept.change));
        changes
            .chain(self.holds.values().map(|kept| kept.change))
            .chain(self.grants.values().map(|kept| kept.change))
            .chain(self.undos.values().map(|kept| kept.change))
            .filter(|change| *change > self.indexed)
            .count()
    }

    /// The things in memory.
    pub(super) fn len(&self) -> usize {
        let calls = self.claims.len() + self.tasks.len() + self.sessions.len();
        calls + self.holds.len() + self.grants.len() + self.undos.len()
    }
}

fn known<T: Clone>(map: &HashMap<Digest, Versioned<T>>, key: Option<Digest>) -> Option<T> {
    map.get(&key?).map(|kept| kept.value.clone())
}

fn keep<T>(
    map: &mut HashMap<Digest, Versioned<T>>,
    key: Option<Digest>,
    value: Option<T>,
    change: u64,
) {
    if let (Some(key), Some(value)) = (key, value) {
        map.insert(key, Versioned { value, change });
    }
}
