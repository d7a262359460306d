//! How far agents have come, as far as they have shown it: a call that an agent sent after it had read
//! the answer to another says that it went on from there. What equals that other call is then a new
//! call (guarantees §3). In memory only: after a restart nothing has been shown, and a call that
//! equals one from before is the same for as long as its window lasts.

use crate::gate::effects::looks::{AwaitedLook, DoneCall, ShownCalls};
use crate::guards::idempotency::CallPlace;
use crate::model::caller::{Caller, CallerKey};
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::ids::ServerName;
use crate::outlet::receipt::{LaterCall, Receipt};
use crate::telemetry::tasks;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places at most of which anything is known; beyond, the one that was used longest ago is
/// forgotten.
const MAX_PLACES: usize = 4096;
/// Places of one caller; beyond, its own that was used longest ago is forgotten: the names of tasks are
/// an agent's own, and those of one must not push out another's.
const MAX_PLACES_PER_CALLER: usize = 512;
/// Calls of one place whose answers may have been read. Beyond, the oldest one is forgotten whose
/// answer is written.
const MAX_CALLS_PER_PLACE: usize = 256;
/// Calls of one place from which its agent is known to have gone on.
const MAX_ENDS_PER_PLACE: usize = 1024;
/// Answers to one call, the first and replays of it.
const MAX_RECEIPTS_PER_CALL: usize = 4;
/// Answers that one call looks after.
const MAX_LOOKS: usize = 16;
/// Calls of one place that look again after a moment; further ones take what is known at once.
const MAX_AWAITED_LOOKS: usize = 4;

/// What is known of all agents. The default knows nothing.
#[derive(Default)]
pub(in crate::gate) struct Progress {
    places: Mutex<HashMap<Digest, PlaceCalls>>,
    /// How many places there are, so that nobody waits for the lock in vain.
    count: AtomicUsize,
    /// Rises with each use of a place.
    uses: AtomicUsize,
}

#[derive(Default)]
struct PlaceCalls {
    /// Ended, the oldest first.
    answered: VecDeque<AnsweredCall>,
    /// Gone on from, the oldest first.
    past: VecDeque<DoneCall>,
    /// Calls of which it is not known yet what they show.
    looks: Vec<Arc<AwaitedLook>>,
    used: usize,
    /// Whose calls they are.
    caller: Option<CallerKey>,
}

/// Where a call of a caller has ended.
#[derive(Debug, Clone, Copy)]
pub(in crate::gate) struct EndedAt<'a> {
    pub(in crate::gate) place: Digest,
    pub(in crate::gate) caller: &'a Caller,
}

struct AnsweredCall {
    call: DoneCall,
    receipts: Vec<Arc<Receipt>>,
}

/// Where calls follow each other: at one server, in one place of its agent.
pub(in crate::gate) fn place_at(place: CallPlace, server: &ServerName) -> Digest {
    Digest::of_parts(
        "toolgate place of calls",
        &[place.key.as_bytes(), server.as_str().as_bytes()],
    )
}

impl Progress {
    /// Whether nothing is known of any agent.
    pub(in crate::gate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// `call` has ended `at` a place; what `receipt` is for says so to its agent.
    pub(in crate::gate) fn remember(
        &self,
        at: EndedAt<'_>,
        call: DoneCall,
        receipt: &Arc<Receipt>,
    ) {
        let EndedAt { place, caller } = at;
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut places = self.places.lock();
        if !places.contains_key(&place) {
            make_room(&mut places, &caller.key());
        }
        let calls = places.entry(place).or_default();
        calls.used = used;
        calls.caller.get_or_insert_with(|| caller.key());
        calls.remember(call, receipt);
        self.count.store(places.len(), Ordering::Release);
    }

    /// The calls at `place` whose answers the agent had read when it sent `later`, which has another
    /// key. Looks at sockets, under no lock; where they have not said all, a task asks them again.
    pub(in crate::gate) fn shown(
        self: &Arc<Self>,
        place: Digest,
        key: Digest,
        later: LaterCall,
        clock: Clock,
    ) -> ShownCalls {
        let mut shown = ShownCalls::default();
        let mut unsaid = Vec::new();
        for (call, receipt) in self.asked(place, key, later) {
            let Some(receipt) = receipt else {
                shown.read.push(call);
                continue;
            };
            match receipt.asked_before(later) {
                Some(true) => shown.read.push(call),
                Some(false) => {}
                None => unsaid.push((call, receipt)),
            }
        }
        if !unsaid.is_empty() {
            let look = AwaitedLook::new(place, later, unsaid);
            shown.awaited = self.awaits(&look, clock).then_some(look);
        }
        shown
    }

    /// The calls at `place` of which `later` may show something, with the receipts that have to be asked
    /// for at the kernel.
    fn asked(
        &self,
        place: Digest,
        key: Digest,
        later: LaterCall,
    ) -> Vec<(DoneCall, Option<Arc<Receipt>>)> {
        if self.is_empty() {
            return Vec::new();
        }
        let places = self.places.lock();
        let Some(calls) = places.get(&place) else {
            return Vec::new();
        };
        let others = calls.answered.iter().rev();
        let others = others.filter(|known| known.call.key != key);
        let mut looks = 0;
        let known = others.filter_map(|known| known.before(later, &mut looks));
        known.collect()
    }

    /// Has a task look; false where too many do.
    fn awaits(self: &Arc<Self>, look: &Arc<AwaitedLook>, clock: Clock) -> bool {
        {
            let mut places = self.places.lock();
            let calls = places.get_mut(&look.place);
            let Some(calls) = calls.filter(|calls| calls.looks.len() < MAX_AWAITED_LOOKS) else {
                return false;
            };
            calls.looks.push(look.clone());
        }
        let (progress, look) = (self.clone(), look.clone());
        tasks::spawn("look at answers", async move {
            let _guard = look.guard();
            look.ask(clock).await;
            progress.go_on(look.place, &look.found());
            if let Some(calls) = progress.places.lock().get_mut(&look.place) {
                calls.looks.retain(|known| !Arc::ptr_eq(known, &look));
            }
        });
        true
    }

    /// The agent has gone on from what is `shown`, at `place`: a call with side effects was begun after
    /// that.
    pub(in crate::gate) fn begun(&self, place: Digest, shown: Option<&ShownCalls>) {
        let Some(shown) = shown else {
            return;
        };
        self.go_on(place, &shown.read);
        if let Some(look) = &shown.awaited {
            self.go_on(place, &look.begins());
        }
    }

    fn go_on(&self, place: Digest, read: &[DoneCall]) {
        if read.is_empty() {
            return;
        }
        let mut places = self.places.lock();
        let Some(calls) = places.get_mut(&place) else {
            return;
        };
        for call in read {
            let before = calls.answered.len();
            calls.answered.retain(|known| known.call != *call);
            if calls.answered.len() < before {
                calls.past.push_back(*call);
            }
        }
        let surplus = calls.past.len().saturating_sub(MAX_ENDS_PER_PLACE);
        calls.past.drain(..surplus);
    }

    /// Once no call looks any more whether the answer to `call` had been read: 0.1 s at most.
    pub(in crate::gate) async fn looked(&self, place: Digest, call: DoneCall) {
        let looks: Vec<Arc<AwaitedLook>> = {
            let places = self.places.lock();
            let looks = places
                .get(&place)
                .into_iter()
                .flat_map(|calls| &calls.looks);
            looks.filter(|look| look.is_for(call)).cloned().collect()
        };
        for look in looks {
            look.ended().await;
        }
    }

    /// Whether `call` is known to have ended for nobody: no answer to it was handed to its agent whole,
    /// or the agent did not want it any more.
    pub(in crate::gate) fn is_unread(&self, place: Digest, call: DoneCall) -> bool {
        let places = self.places.lock();
        let calls = places.get(&place).into_iter();
        let mut known = calls.flat_map(|calls| &calls.answered);
        known
            .find(|known| known.call == call)
            .is_some_and(|known| known.receipts.iter().all(|one| !one.is_delivered()))
    }

    /// Whether the agent has gone on from `call`.
    pub(in crate::gate) fn has_gone_on(&self, place: Digest, call: DoneCall) -> bool {
        !self.is_empty()
            && self
                .places
                .lock()
                .get(&place)
                .is_some_and(|calls| calls.past.contains(&call))
    }
}

/// Forgets a place, where there are too many for one more of `caller`.
fn make_room(places: &mut HashMap<Digest, PlaceCalls>, caller: &CallerKey) {
    let is_own = |calls: &PlaceCalls| calls.caller.as_ref() == Some(caller);
    let own = places.values().filter(|calls| is_own(calls)).count();
    let is_crowded = own >= MAX_PLACES_PER_CALLER;
    if !is_crowded && places.len() < MAX_PLACES {
        return;
    }
    let meant = places
        .iter()
        .filter(|(_, calls)| !is_crowded || is_own(calls));
    let oldest = meant.min_by_key(|(_, calls)| calls.used);
    if let Some(oldest) = oldest.map(|(key, _)| *key) {
        places.remove(&oldest);
    }
}

impl AnsweredCall {
    /// The call, where its agent may have read an answer to it before `later`, with the receipt that has
    /// to be asked for at the kernel; with none where that is known.
    fn before(
        &self,
        later: LaterCall,
        looks: &mut usize,
    ) -> Option<(DoneCall, Option<Arc<Receipt>>)> {
        let mut unknown = Vec::new();
        for receipt in &self.receipts {
            match receipt.was_known_before(later) {
                Some(true) => return Some((self.call, None)),
                Some(false) => {}
                None => unknown.push(receipt.clone()),
            }
        }
        // What was read last says most.
        let newest = unknown.pop().filter(|_| *looks < MAX_LOOKS)?;
        *looks += 1;
        Some((self.call, Some(newest)))
    }
}

impl PlaceCalls {
    fn remember(&mut self, call: DoneCall, receipt: &Arc<Receipt>) {
        self.past
            .retain(|past| past.key != call.key || *past == call);
        if self.past.contains(&call) {
            return;
        }
        self.answered
            .retain(|known| known.call.key != call.key || known.call == call);
        if let Some(known) = self.answered.iter_mut().find(|known| known.call == call) {
            if known.receipts.len() >= MAX_RECEIPTS_PER_CALL {
                // The first one is what an agent has had for longest.
                known.receipts.remove(1);
            }
            known.receipts.push(receipt.clone());
            return;
        }
        if self.answered.len() >= MAX_CALLS_PER_PLACE {
            let is_written =
                |known: &AnsweredCall| known.receipts.iter().any(|one| one.is_written());
            let oldest = self.answered.iter().position(is_written).unwrap_or(0);
            self.answered.remove(oldest);
        }
        self.answered.push_back(AnsweredCall {
            call,
            receipts: vec![receipt.clone()],
        });
    }
}

#[cfg(test)]
mod tests;
