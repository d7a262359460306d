//! Who came by a token, for what looks for an agent between its messages. Bounded: an issuer names as
//! many agents, tenants and roles as it likes.

use super::super::jwt::key_set::IssuerKey;
use crate::model::caller::{Caller, CallerKey};
use crate::model::ids::TenantId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Callers that are remembered.
const MAX_PRESENT_CALLERS: usize = 4096;
/// Agents that are remembered with the person behind each.
const MAX_PROVED_USERS: usize = 8192;
/// Proofs that are remembered of one of either.
const MAX_PROOFS_OF_ONE: usize = 8;

/// Those who came, each without the person it acted for.
#[derive(Debug, Default)]
pub(super) struct PresentCallers(Mutex<HashMap<PresentKey, PresentCaller>>);

/// Agent, tenant and roles.
type PresentKey = (String, Option<String>, Vec<String>);

#[derive(Debug, Clone)]
struct PresentCaller {
    caller: Arc<Caller>,
    /// What its tokens were proved by; one at least.
    proofs: Vec<PresentProof>,
}

/// By what each agent has proved itself for each person behind it, for its calls that wait.
#[derive(Debug, Default)]
pub(super) struct ProvedUsers(Mutex<HashMap<CallerKey, Vec<PresentProof>>>);

/// By what a caller was one, and for how long.
#[derive(Debug, Clone)]
pub(super) struct PresentProof {
    /// The issuer of the token.
    pub(super) issuer: String,
    /// Its key that has signed it.
    pub(super) key: Arc<IssuerKey>,
    /// The roles that it gives.
    pub(super) roles: Vec<String>,
    /// Until when the last token counts that it has signed, in seconds since 1970.
    pub(super) until: f64,
}

impl PresentCallers {
    /// `caller` came by a token of that `proof`. Where there is no room, the one makes room whose token
    /// has been over for longest, or is so first.
    pub(super) fn came(&self, caller: &Caller, proof: PresentProof, now: f64) {
        let mut known = self.0.lock();
        let key = key(caller);
        if let Some(there) = known.get_mut(&key) {
            put(&mut there.proofs, proof, now);
            return;
        }
        make_room(&mut known, MAX_PRESENT_CALLERS, now, |one| {
            until(&one.proofs)
        });
        let caller = Arc::new(Caller {
            issued: None,
            ..caller.as_agent()
        });
        let proofs = vec![proof];
        known.insert(key, PresentCaller { caller, proofs });
    }

    /// Those of that name and tenant, whether or not their tokens count still.
    pub(super) fn of(&self, agent: &str, tenant: Option<&str>) -> Vec<Arc<Caller>> {
        let known = self.0.lock();
        let is_one = |caller: &&Arc<Caller>| {
            let own = caller.tenant.as_ref().map(TenantId::as_str);
            caller.agent.as_str() == agent && own == tenant
        };
        let callers = known.values().map(|one| &one.caller);
        callers.filter(is_one).cloned().collect()
    }

    /// Those of whom a token counts at `now` whose proof is one that `counts`.
    pub(super) fn at(&self, now: f64, counts: impl Fn(&PresentProof) -> bool) -> Vec<Arc<Caller>> {
        let known = self.0.lock();
        let is_there = |one: &&PresentCaller| {
            let mut proofs = one.proofs.iter();
            proofs.any(|proof| now < proof.until && counts(proof))
        };
        let there = known.values().filter(is_there);
        there.map(|one| one.caller.clone()).collect()
    }

    /// Remembers those whom `before` has and who are `still` the same.
    pub(super) fn take_over(&self, before: &Self, still: impl Fn(&Caller) -> bool) {
        let mut known = self.0.lock();
        for (key, one) in before.0.lock().iter().filter(|(_, one)| still(&one.caller)) {
            known.entry(key.clone()).or_insert_with(|| one.clone());
        }
    }
}

impl ProvedUsers {
    /// `caller` came by a token of that `proof`.
    pub(super) fn came(&self, caller: &Caller, proof: PresentProof, now: f64) {
        let mut known = self.0.lock();
        let key = caller.key();
        if !known.contains_key(&key) {
            make_room(&mut known, MAX_PROVED_USERS, now, |proofs| until(proofs));
        }
        put(known.entry(key).or_default(), proof, now);
    }

    /// Whether a token of that agent, tenant and user counts at `now` that gives all of `roles`, and
    /// whose proof is one that `counts`.
    pub(super) fn has(
        &self,
        key: &CallerKey,
        roles: &[String],
        now: f64,
        counts: impl Fn(&PresentProof) -> bool,
    ) -> bool {
        let known = self.0.lock();
        let mut proofs = known.get(key).into_iter().flatten();
        proofs.any(|proof| {
            let gives_all = roles.iter().all(|role| proof.roles.contains(role));
            gives_all && now < proof.until && counts(proof)
        })
    }

    /// Remembers those whom `before` has, by proofs that are `still` ones.
    pub(super) fn take_over(
        &self,
        before: &Self,
        still: impl Fn(&CallerKey, &PresentProof) -> bool,
    ) {
        let mut known = self.0.lock();
        for (key, proofs) in before.0.lock().iter() {
            let kept = proofs.iter().filter(|proof| still(key, proof));
            let kept: Vec<PresentProof> = kept.cloned().collect();
            if !kept.is_empty() {
                known.entry(key.clone()).or_insert(kept);
            }
        }
    }
}

/// Where `known` has `most` already, those make room that are over, else the one that is so first.
fn make_room<K: Clone + Eq + Hash, V>(
    known: &mut HashMap<K, V>,
    most: usize,
    now: f64,
    until: impl Fn(&V) -> f64,
) {
    if known.len() < most {
        return;
    }
    known.retain(|_, one| now < until(one));
    if known.len() >= most {
        let each = known.iter();
        let first = each.min_by(|(_, one), (_, other)| until(one).total_cmp(&until(other)));
        let first = first.map(|(key, _)| key.clone());
        first.and_then(|key| known.remove(&key));
    }
}

/// When the last of the tokens is over.
fn until(proofs: &[PresentProof]) -> f64 {
    let ends = proofs.iter().map(|proof| proof.until);
    ends.fold(f64::NEG_INFINITY, f64::max)
}

/// Notes `proof` among `proofs`, of which those that are over, and then the one that is so first, make room.
fn put(proofs: &mut Vec<PresentProof>, proof: PresentProof, now: f64) {
    let same = |one: &&mut PresentProof| {
        (&one.issuer, &one.key, &one.roles) == (&proof.issuer, &proof.key, &proof.roles)
    };
    if let Some(there) = proofs.iter_mut().find(same) {
        there.until = there.until.max(proof.until);
        return;
    }
    proofs.retain(|one| now < one.until);
    if proofs.len() >= MAX_PROOFS_OF_ONE {
        let places = proofs.iter().enumerate();
        let first = places.min_by(|(_, one), (_, other)| one.until.total_cmp(&other.until));
        let first = first.map(|(place, _)| place);
        first.map(|place| proofs.swap_remove(place));
    }
    proofs.push(proof);
}

fn key(caller: &Caller) -> PresentKey {
    let tenant = caller.tenant.as_ref().map(ToString::to_string);
    (caller.agent.to_string(), tenant, caller.roles.clone())
}
