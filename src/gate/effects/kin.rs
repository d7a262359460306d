//! A call whose outcome is unknown holds every call that equals it, whatever their keys (guarantees
//! §3). Once it is known to have been carried out, those that were held are told so, and nothing of
//! its answer: another session's is nobody's to read. One that never was held runs.

use crate::gate::call::Call;
use crate::gate::effects::{Effects, unavailable};
use crate::guards::idempotency::{Keyed, Regime};
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::times::millis;
use crate::store::state::claim::{Age, Claim, ClaimPhase};
use crate::store::state::kinship::Kinship;
use crate::store::state::undo::OpenUndo;
use crate::store::state::{Millis, StoreKeys};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Keys at most that are known to have been held. Of more, the one that was held first is forgotten, and
/// calls that equal those of before count as held.
const MAX_HELD_KEYS: usize = 4096;

/// The keys that were held, each by which claim. What was held before this process began, or was
/// forgotten, is not known: then a call counts as one that was.
#[derive(Debug)]
pub(in crate::gate) struct HeldKeys(Mutex<KnownKeys>);

#[derive(Debug)]
struct KnownKeys {
    held: HashMap<Digest, HeldBy>,
    /// Since when every key is known.
    complete: Millis,
}

#[derive(Debug, Clone, Copy)]
struct HeldBy {
    key: Digest,
    action: ActionId,
    since: Millis,
    /// When its agent was first told that the call has been carried out.
    told: Option<Millis>,
}

/// What an equal call under another key says of a call that nobody holds under its own.
pub(in crate::gate) enum KinStand {
    /// Nothing.
    Free,
    /// It may have run.
    Unknown(ActionId),
    /// It runs, under the key that another contract gave it.
    InFlight(ActionId),
    /// It was carried out, after this one was held for it.
    Done {
        action: ActionId,
        /// When that was known.
        at: Millis,
    },
}

/// Which other calls a call equals.
pub(super) fn kinship(call: &Call, keyed: &Keyed, past: Option<ActionId>) -> Kinship {
    let trace = call.judged.said.trace.as_ref();
    let is_told_apart = matches!(keyed.regime(), Regime::Reissue { .. });
    Kinship {
        kin: keyed.kin(),
        trace: trace.filter(|_| is_told_apart).cloned(),
        past,
    }
}

impl HeldKeys {
    /// Of a process that begins at `now`.
    pub(in crate::gate) fn new(now: Millis) -> Self {
        Self(Mutex::new(KnownKeys {
            held: HashMap::new(),
            complete: now,
        }))
    }

    fn note(&self, own: Digest, by: HeldBy) {
        let mut known = self.0.lock();
        if known.held.len() >= MAX_HELD_KEYS && !known.held.contains_key(&own) {
            let oldest = known.held.iter().min_by_key(|(_, by)| by.since);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                known.held.remove(&oldest);
                known.complete = by.since;
            }
        }
        known.held.insert(own, by);
    }

    fn of(&self, own: Digest) -> Option<HeldBy> {
        self.0.lock().held.get(&own).copied()
    }

    /// Whether every key is known that was held by a call which began at `began`.
    fn knows_all_since(&self, began: Millis) -> bool {
        self.0.lock().complete <= began
    }

    /// Its agent is told at `now`; gives when it was told first.
    fn tell(&self, own: Digest, now: Millis) -> Millis {
        let mut known = self.0.lock();
        let by = known.held.get_mut(&own);
        by.map_or(now, |by| *by.told.get_or_insert(now))
    }

    fn forget(&self, own: Digest) {
        self.0.lock().held.remove(&own);
    }
}

impl Effects {
    /// How calls that equal this one stand, under other keys; `takes_back`: the call that this one was asked to take
    /// back, if it was. Where the store cannot say, nothing begins.
    pub(in crate::gate) async fn kin(
        &self,
        keyed: &Keyed,
        takes_back: Option<ActionId>,
    ) -> Result<KinStand, Refusal> {
        let own = keyed.call_key();
        let now = self.store.now();
        let found = self.holder(keyed).await?;
        let by = |key: Digest, action: ActionId| HeldBy {
            key,
            action,
            since: now,
            told: None,
        };
        let known = match (self.held.of(own), found) {
            (_, Some((key, claim))) if claim.holds_kin() => {
                self.held.note(own, by(key, claim.action));
                return Ok(KinStand::Unknown(claim.action));
            }
            (_, Some((_, claim))) if !claim.has_held_kin() => {
                return Ok(KinStand::InFlight(claim.action));
            }
            (Some(held), _) => {
                let claim = self.claim_of(held.key).await?;
                claim.filter(|claim| claim.action == held.action)
            }
            (None, Some((key, claim))) if !self.held.knows_all_since(claim.began) => {
                self.held.note(own, by(key, claim.action));
                Some(claim)
            }
            (None, _) => None,
        };
        if let Some(claim) = &known
            && Box::pin(self.is_undone(claim.action)).await?
        {
            // It was taken back since: the call that was held for it is a new one.
            self.held.forget(own);
            return Ok(KinStand::Free);
        }
        if let (Some(of), Some(claim)) = (takes_back, &known)
            && !Box::pin(self.has_taken_back(of, claim)).await?
        {
            // It says nothing of this undo.
            self.held.forget(own);
            return Ok(KinStand::Free);
        }
        Ok(self.ended(keyed, known.as_ref(), now))
    }

    /// Whether `claim`, which equals the call that is to take `of` back, has done that: it began after `of`, was made
    /// for no other call, and did not fail. One that has not ended may have.
    async fn has_taken_back(&self, of: ActionId, claim: &Claim) -> Result<bool, Refusal> {
        match &claim.phase {
            ClaimPhase::Completed(_) => {}
            ClaimPhase::Failed { .. } | ClaimPhase::NotSent => return Ok(false),
            ClaimPhase::Dispatching
            | ClaimPhase::AwaitingInput { .. }
            | ClaimPhase::Unknown { .. }
            | ClaimPhase::Abandoned => return Ok(true),
        }
        let place = StoreKeys {
            undo: Some(OpenUndo::key_of(of)),
            ..StoreKeys::default()
        };
        let undo = self.look(place).await?.undo.filter(|undo| undo.of == of);
        let Some(undo) = undo else { return Ok(false) };
        let since = self.began(&undo).await?;
        let is_its = claim.undoes.is_none_or(|other| other == of) && claim.began >= since;
        Ok(is_its && self.has_succeeded(claim).await?)
    }

    /// When the call began that `undo` takes back.
    pub(in crate::gate) async fn began(&self, undo: &OpenUndo) -> Result<Millis, Refusal> {
        if let Some(began) = undo.began {
            return Ok(began);
        }
        let taken = self.claim_of(undo.key).await?;
        let taken = taken.filter(|taken| taken.action == undo.of);
        // Of a call whose claim is gone, it is known when its outcome was.
        Ok(taken.map_or(undo.offered, |taken| taken.began))
    }

    /// What a call reads that was held for `claim`.
    fn ended(&self, keyed: &Keyed, claim: Option<&Claim>, now: Millis) -> KinStand {
        let own = keyed.call_key();
        let fresh = claim.filter(|claim| claim.age(now) == Age::Fresh);
        let Some(claim) = fresh else {
            self.held.forget(own);
            return KinStand::Free;
        };
        let action = claim.action;
        match claim.phase {
            ClaimPhase::Completed(_) | ClaimPhase::Failed { again: false, .. } => {
                let told = self.held.tell(own, now);
                let is_retry = matches!(keyed.regime(), Regime::Reissue { .. });
                if is_retry && now.saturating_sub(told) > millis(keyed.window()) {
                    // It was told for as long as it may be sent again.
                    return KinStand::Free;
                }
                KinStand::Done {
                    action,
                    at: claim.changed,
                }
            }
            ClaimPhase::Dispatching | ClaimPhase::AwaitingInput { .. } => KinStand::Unknown(action),
            ClaimPhase::Failed { again: true, .. }
            | ClaimPhase::NotSent
            | ClaimPhase::Unknown { .. }
            | ClaimPhase::Abandoned => {
                self.held.forget(own);
                KinStand::Free
            }
        }
    }

    /// The claim that holds this call, with its key, where that is not the call's own.
    async fn holder(&self, keyed: &Keyed) -> Result<Option<(Digest, Claim)>, Refusal> {
        let own = keyed.call_key();
        let kin = keyed.kin().unwrap_or(own);
        let held = self.store.held(kin).await.map_err(unavailable)?;
        let held = held.filter(|(key, _)| *key != own);
        if held.is_some() || kin == own {
            return Ok(held);
        }
        // The key of a call whose contract says nothing, now or before it was changed.
        let claim = self.claim_of(kin).await?;
        let is_retry = matches!(keyed.regime(), Regime::Reissue { .. });
        let holds =
            |claim: &Claim| claim.holds_kin() || is_retry && claim.phase == ClaimPhase::Dispatching;
        Ok(claim.filter(holds).map(|claim| (kin, claim)))
    }

    async fn claim_of(&self, key: Digest) -> Result<Option<Claim>, Refusal> {
        let place = StoreKeys {
            call: Some(key),
            ..StoreKeys::default()
        };
        Ok(self.look(place).await?.claim)
    }
}
