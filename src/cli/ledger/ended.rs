//! Calls that have come to an end, and held ones that did not run, as `toolgate calls list --all` has
//! them beside the open ones: from the events of the journal.

use super::history::how;
use super::noted::event;
use super::reading;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::store::journal::{JournalError, JournalReader};
use crate::store::operator::{OpenCall, time};
use crate::store::state::Millis;
use crate::store::state::claim::{Claim, ClaimPhase};
use crate::store::state::event::{
    BudgetReserved, Carried, HoldDecided, HoldExtended, Intended, Settled, StoreEvent,
};
use crate::store::state::hold::{Hold, HoldPhase};
use crate::store::state::settlement::Evidence;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Calls that are known at once, the newest ones: more than `--limit` takes.
const MAX_ENDED_KNOWN: usize = 1 << 17;
/// The words for how such a call ended: by its server's answer, by a proof that it did not run, without
/// being sent, given up by an operator; and held ones that no operator allowed, or that were not
/// sent again in time.
pub(in crate::cli) const ENDED_STATES: [&str; 6] = [
    "completed",
    "failed",
    "not_sent",
    "abandoned",
    "denied",
    "expired",
];

/// What is known of the calls of a journal, by their action ids, up to some record.
pub(in crate::cli) struct EndedCalls {
    /// The state of the calls that are asked for; none: all.
    state: Option<String>,
    /// Calls that are known at once; now and then a quarter more.
    most: usize,
    /// Calls that are not known any more, the oldest ones.
    forgotten: usize,
    calls: BTreeMap<ActionId, (Millis, OpenCall)>,
    /// By their keys, those whose server waits for an answer.
    asked: BTreeMap<Digest, ActionId>,
    /// By their keys, those that were held, with how long one that is allowed may be sent.
    held: BTreeMap<Digest, (ActionId, u64)>,
}

/// Calls that have come to an end.
pub(in crate::cli) struct EndedList {
    /// The one that ended last is the last.
    pub(in crate::cli) calls: Vec<OpenCall>,
    /// How many more there were before, at most, that are too many to tell of.
    pub(in crate::cli) forgotten: usize,
}

impl EndedCalls {
    /// Those of the journal in `data` that ended in `state`, if one is named, and are not among `open`;
    /// of what was dropped of it, those whose keys are still held. What cannot be read of a record
    /// is left out: its own reader says so.
    pub(in crate::cli) fn list(
        data: &Path,
        state: Option<&str>,
        open: &[OpenCall],
    ) -> Result<EndedList, JournalError> {
        let mut known = Self::knowing(MAX_ENDED_KNOWN, state);
        let progress = reading();
        for record in JournalReader::replay(data, 0)? {
            progress.step();
            match record.and_then(|record| event(&record)) {
                Ok(Some(event)) => known.take(event),
                Ok(None) | Err(JournalError::Unreadable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(known.listed(open))
    }

    fn knowing(most: usize, state: Option<&str>) -> Self {
        Self {
            state: state.map(str::to_owned),
            most,
            forgotten: 0,
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    fn listed(mut self, open: &[OpenCall]) -> EndedList {
        self.shrink();
        let open: HashSet<&str> = open.iter().map(|open| open.action_id.as_str()).collect();
        let mut ended: Vec<_> = self.calls.into_values().collect();
        ended.retain(|(_, call)| {
            let is_asked_for = self.state.as_ref().is_none_or(|state| call.state == *state);
            let is_open = open.contains(call.action_id.as_str());
            ENDED_STATES.contains(&&*call.state) && is_asked_for && !is_open
        });
        ended.sort_by_key(|(at, _)| *at);
        EndedList {
            calls: ended.into_iter().map(|(_, call)| call).collect(),
            forgotten: self.forgotten,
        }
    }

    /// Forgets what nobody asks for, and then what is too much.
    fn shrink(&mut self) {
        if self.calls.len() <= self.most {
            return;
        }
        if let Some(state) = &self.state {
            // An operator may still decide of these.
            let held: HashSet<ActionId> = self.held.values().map(|(id, _)| *id).collect();
            self.calls.retain(|id, (_, call)| {
                let has_ended = ENDED_STATES.contains(&&*call.state);
                call.state == *state || !has_ended || held.contains(id)
            });
        }
        while self.calls.len() > self.most {
            self.calls.pop_first();
            self.forgotten += 1;
        }
        let calls = &self.calls;
        self.asked.retain(|_, id| calls.contains_key(id));
        self.held.retain(|_, (id, _)| calls.contains_key(id));
    }

    fn take(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Intended(intended) => self.begin(*intended),
            StoreEvent::Settled(settled) => self.settle(&settled),
            StoreEvent::Reserved(BudgetReserved {
                hold: Some((key, _)),
                ..
            }) => self.release(&key),
            StoreEvent::Held(held) => self.hold(held.key, &held.hold),
            StoreEvent::Decided(decided) => self.decide(&decided),
            StoreEvent::Extended(extended) => self.extend(&extended),
            StoreEvent::Granted(minted) => {
                minted
                    .allowed
                    .iter()
                    .for_each(|allowed| self.decide(allowed));
            }
            StoreEvent::Carried(Carried::Claim(key, claim)) => self.carry(key, &claim),
            StoreEvent::Carried(Carried::Hold(key, hold)) => self.hold(key, &hold),
            // It waits on, as before.
            StoreEvent::Edited(_)
            | StoreEvent::Reserved(_)
            | StoreEvent::Spent(_)
            | StoreEvent::Tallied(_)
            | StoreEvent::Entered { .. }
            | StoreEvent::Planned { .. }
            | StoreEvent::Steered(_)
            | StoreEvent::Fenced { .. }
            | StoreEvent::Revoked(_)
            | StoreEvent::UndoAsked(_)
            | StoreEvent::Carried(_)
            | StoreEvent::Noted(_) => {}
        }
    }

    fn begin(&mut self, intended: Intended) {
        if let Some(key) = &intended.hold {
            self.release(key);
        }
        // A later round is the same call.
        if let Some(before) = self.asked.remove(&intended.key) {
            self.calls.remove(&before);
        }
        let Intended {
            entry, attempt, at, ..
        } = intended;
        let call = OpenCall {
            agent: entry.agent().to_owned(),
            user: entry.named_user().map(str::to_owned),
            action_id: entry.action_id,
            state: ClaimPhase::Dispatching.word().to_owned(),
            since: time(at),
            tool: entry.tool,
            attempt,
            why: None,
            until: None,
            needs: None,
        };
        self.put(intended.action, at, call);
    }

    fn settle(&mut self, settled: &Settled) {
        if matches!(settled.phase, ClaimPhase::AwaitingInput { .. }) {
            self.asked.insert(settled.key, settled.action);
        }
        let why = match (&settled.phase, &settled.evidence) {
            (ClaimPhase::Unknown { why }, _) => Some(why.clone()),
            (_, Evidence::Exchange) => None,
            (_, evidence) => Some(how(evidence)),
        };
        self.end(settled.action, settled.at, settled.phase.word(), why);
    }

    fn carry(&mut self, key: Digest, claim: &Claim) {
        if matches!(claim.phase, ClaimPhase::AwaitingInput { .. }) {
            self.asked.insert(key, claim.action);
        }
        self.put(claim.action, claim.changed, OpenCall::of(claim));
    }

    /// A held call, as it stands if nothing more is said of it.
    fn hold(&mut self, key: Digest, hold: &Hold) {
        if matches!(hold.phase, HoldPhase::Used { .. }) {
            return;
        }
        self.held.insert(key, (hold.id, hold.execute_for));
        self.put(hold.id, hold.approve_by, OpenCall::held(hold));
        let why = "no operator decided in time".to_owned();
        self.end(hold.id, hold.approve_by, "expired", Some(why));
        for said in &hold.decisions {
            self.decide(&HoldDecided {
                key,
                id: hold.id,
                decision: said.clone(),
                phase: hold.phase.clone(),
            });
        }
    }

    /// More time, in which it may be decided; without a word it ends so.
    fn extend(&mut self, extended: &HoldExtended) {
        let held = self.held.get(&extended.key);
        if held.is_some_and(|(id, _)| *id == extended.id) {
            let why = "no operator decided in time".to_owned();
            self.end(extended.id, extended.approve_by, "expired", Some(why));
        }
    }

    fn decide(&mut self, decided: &HoldDecided) {
        let held = self
            .held
            .get(&decided.key)
            .filter(|(id, _)| *id == decided.id);
        let (Some((id, execute_for)), said) = (held, &decided.decision) else {
            return;
        };
        let (id, by) = (*id, format!("by the operator {}: {}", said.who, said.why));
        match decided.phase {
            HoldPhase::Denied => self.end(id, said.at, "denied", Some(by)),
            HoldPhase::Withdrawn => {
                let (end, why) = if said.is_void() {
                    ("void", format!("by {}: {}", said.who, said.why))
                } else {
                    ("cancelled", format!("by the agent {}", said.who))
                };
                self.end(id, said.at, end, Some(why));
            }
            HoldPhase::Allowed => {
                let why = format!("allowed {by}; not sent again in time");
                self.end(
                    id,
                    said.at.saturating_add(*execute_for),
                    "expired",
                    Some(why),
                );
            }
            HoldPhase::Pending | HoldPhase::Used { .. } => {}
        }
    }

    /// The call that was held under `key` has run, and is told as what ran.
    fn release(&mut self, key: &Digest) {
        if let Some((id, _)) = self.held.remove(key) {
            self.calls.remove(&id);
        }
    }

    fn end(&mut self, action: ActionId, at: Millis, state: &str, why: Option<String>) {
        if let Some((ended, call)) = self.calls.get_mut(&action) {
            *ended = at;
            state.clone_into(&mut call.state);
            call.since = time(at);
            call.why = why;
            (call.until, call.needs) = (None, None);
        }
    }

    fn put(&mut self, action: ActionId, at: Millis, call: OpenCall) {
        self.calls.insert(action, (at, call));
        if self.calls.len() > self.most + self.most / 4 {
            self.shrink();
        }
    }
}

#[cfg(test)]
mod tests;
