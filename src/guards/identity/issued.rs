//! Callers that issuers name: each token, once it is checked, makes one immutable caller, as an entry
//! of `callers` does. Who came so is remembered, because what belongs to an agent (its session, its
//! held calls) outlives the message that brought its token.

mod compiled;
mod present;
pub(crate) mod settings;

use super::jwt::claims::Claims;
use super::jwt::key_ring::KeyRing;
use super::jwt::rejected::TokenRejected;
use super::jwt::verified::VerifiedTokens;
use super::jwt::{CheckedToken, Issuer, LackingKey, TokenMoment};
use super::{ANONYMOUS_AGENT, hash};
use crate::model::caller::{Caller, CallerKey, CallerProof, IssuedIdentity};
use crate::model::clock::Clock;
use crate::model::ids::{AgentId, TenantId, UserId};
use crate::model::rate::Meter;
use crate::model::secret::Secret;
use compiled::CallerIssuer;
use parking_lot::Mutex;
use present::{PresentCallers, PresentProof, ProvedUsers};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Agents that have a rate of their own; those that come later share one.
const MAX_PACED_AGENTS: usize = 4096;

/// All issuers, and whom they have named.
#[derive(Debug)]
pub(crate) struct IssuedCallers {
    /// Where agents reach toolgate from elsewhere: scheme, host and port.
    pub(crate) public_url: Option<String>,
    issuers: Vec<CallerIssuer>,
    /// The agents that an issuer names only where it lists them.
    kept_agents: HashSet<String>,
    verified: VerifiedTokens<Arc<Caller>>,
    present: PresentCallers,
    proved: ProvedUsers,
    paces: Mutex<HashMap<AgentId, Arc<Meter>>>,
    /// Whether callers keep their tokens: a tool server is shown what is made of them.
    keeps_tokens: AtomicBool,
    clock: Clock,
}

impl IssuedCallers {
    /// The same; `keeps`: callers keep their tokens.
    pub(super) fn keeping_tokens(self, keeps: bool) -> Self {
        self.keeps_tokens.store(keeps, Ordering::Relaxed);
        self
    }

    /// Who sends `token`.
    pub(super) fn identify(&self, token: &str) -> Result<Arc<Caller>, TokenRejected> {
        let at = TokenMoment::at(self.clock);
        let make = |index: usize, checked: &CheckedToken| {
            let own = self.issuers.get(index).ok_or(TokenRejected::Issuer)?;
            if !own.gives_scopes(&checked.claims) {
                return Err(TokenRejected::Scope);
            }
            let keeps = self.keeps_tokens.load(Ordering::Relaxed);
            let proof = keeps.then(|| CallerProof {
                token: Secret::new(token.to_owned()),
                digest: hash(token),
                until: checked.expires,
            });
            let caller = Arc::new(self.caller(own, &checked.claims, proof)?);
            let present = PresentProof {
                issuer: own.issuer.name.clone(),
                key: checked.key.clone(),
                roles: caller.roles.clone(),
                until: checked.until,
            };
            self.present.came(&caller, present.clone(), at.wall);
            self.proved.came(&caller, present, at.wall);
            Ok(caller)
        };
        let verified = self.verified.or_check(self.as_run(), token, at, make);
        verified.map(|verified| verified.who)
    }

    /// The keys to fetch before `token` can be judged, if that helps.
    pub(super) fn lacking(&self, token: &str) -> Option<LackingKey> {
        let at = TokenMoment::at(self.clock);
        self.verified.lacking(self.as_run(), token, at)
    }

    fn as_run(&self) -> impl Iterator<Item = &Issuer> + Clone {
        self.issuers.iter().map(|own| &own.issuer)
    }

    fn caller(
        &self,
        own: &CallerIssuer,
        claims: &Claims,
        proof: Option<CallerProof>,
    ) -> Result<Caller, TokenRejected> {
        let agent = claims.name(&own.agent)?;
        if !self.may_name(own, &agent) {
            return Err(TokenRejected::Agent);
        }
        let name = |place: &Option<_>| place.as_ref().map(|place| claims.name(place)).transpose();
        let roles = own.roles.as_ref().map(|place| claims.names(place));
        let identity = IssuedIdentity {
            issuer: own.issuer.name.clone(),
            subject: claims.subject(),
            proof,
        };
        Ok(Caller {
            tenant: name(&own.tenant)?.as_deref().map(TenantId::new),
            user: name(&own.on_behalf_of)?.as_deref().map(UserId::new),
            roles: roles.transpose()?.unwrap_or_default(),
            issued: Some(Arc::new(identity)),
            ..self.named(own, &agent)
        })
    }

    /// What is known of every agent of that name.
    fn named(&self, issuer: &CallerIssuer, agent: &str) -> Caller {
        Caller {
            group: issuer.group.clone(),
            pace: Some(self.pace(agent)),
            ..Caller::named(agent)
        }
    }

    fn pace(&self, agent: &str) -> Arc<Meter> {
        let mut paces = self.paces.lock();
        let is_full = paces.len() >= MAX_PACED_AGENTS && !paces.contains_key(agent);
        let of = if is_full { ANONYMOUS_AGENT } else { agent };
        let pace = paces.entry(AgentId::new(of));
        pace.or_insert_with(default_pace).clone()
    }

    fn may_name(&self, issuer: &CallerIssuer, agent: &str) -> bool {
        if issuer.agents.is_empty() {
            !self.kept_agents.contains(agent)
        } else {
            issuer.agents.iter().any(|listed| listed == agent)
        }
    }

    /// The callers of that name and tenant, as their tokens described them. One that has not come since
    /// toolgate was started is known by its name alone, with `roles`.
    pub(super) fn entries_of(
        &self,
        agent: &str,
        tenant: Option<&str>,
        roles: &[String],
    ) -> Vec<Arc<Caller>> {
        let known = self.present.of(agent, tenant);
        if !known.is_empty() {
            return known;
        }
        let may_be = |issuer: &&CallerIssuer| {
            issuer.tenant.is_some() == tenant.is_some() && self.may_name(issuer, agent)
        };
        let supposed = |issuer| {
            Arc::new(Caller {
                tenant: tenant.map(TenantId::new),
                roles: roles.to_vec(),
                ..self.named(issuer, agent)
            })
        };
        self.issuers.iter().filter(may_be).map(supposed).collect()
    }

    /// Whether one of that name and tenant has come by a token since toolgate was started.
    pub(super) fn has_come(&self, agent: &str, tenant: Option<&str>) -> bool {
        !self.present.of(agent, tenant).is_empty()
    }

    /// Those of whom a token counts: it has not expired, and the key that signed it is its issuer's.
    pub(super) fn present(&self) -> Vec<Arc<Caller>> {
        let at = TokenMoment::at(self.clock);
        self.present.at(at.wall, |proof| self.counts(proof, at))
    }

    /// Whether a token counts just now that names `caller` with all its roles: the one it came by, or one
    /// that it has shown since.
    pub(super) fn still_names(&self, caller: &Caller) -> bool {
        let at = TokenMoment::at(self.clock);
        let has = |key: &CallerKey| {
            let counts = |proof: &PresentProof| self.counts(proof, at);
            self.proved.has(key, &caller.roles, at.wall, counts)
        };
        // One that names users itself may have come by a token that names none.
        has(&caller.key()) || (caller.names_users && has(&caller.as_agent().key()))
    }

    /// Whether the key of `proof` is one of its issuer's still.
    fn counts(&self, proof: &PresentProof, at: TokenMoment) -> bool {
        let issuer = self.as_run().find(|issuer| issuer.name == proof.issuer);
        issuer.is_some_and(|issuer| issuer.still_signs(&proof.key, at))
    }

    /// What the configuration says of an agent of that name, whatever its tokens say.
    pub(super) fn said_of(&self, agent: &str) -> impl Iterator<Item = &[u8]> {
        let may = move |issuer: &&CallerIssuer| self.may_name(issuer, agent);
        let issuers = self.issuers.iter().filter(may);
        issuers.map(|issuer| issuer.class.as_slice())
    }

    /// Whether a token may name an agent that the configuration does not.
    pub(super) fn names_any(&self) -> bool {
        self.issuers.iter().any(|issuer| issuer.agents.is_empty())
    }

    /// Whether tokens give roles.
    pub(super) fn gives_roles(&self) -> bool {
        self.issuers.iter().any(|issuer| issuer.roles.is_some())
    }

    /// The groups of callers.
    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.issuers
            .iter()
            .filter_map(|issuer| issuer.group.as_deref())
    }

    /// The names of the issuers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.as_run().map(|issuer| issuer.name.as_str())
    }

    /// The keys of the issuers.
    pub(crate) fn rings(&self) -> impl Iterator<Item = &Arc<KeyRing>> {
        self.as_run().map(|issuer| &issuer.ring)
    }

    /// The scopes that tokens need, those of all issuers.
    pub(crate) fn scopes(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for scope in self.issuers.iter().flat_map(|issuer| &issuer.scopes) {
            if !all.contains(&scope.as_str()) {
                all.push(scope);
            }
        }
        all
    }

    /// Goes on with what `before` knows of the same issuers: their keys, and who came. Tokens are
    /// checked anew, by what is configured now.
    pub(super) fn succeed(&self, before: &Self) {
        if std::ptr::eq(self, before) {
            return;
        }
        // A server that is shown what is made of tokens is so until a restart.
        let keeps = before.keeps_tokens.load(Ordering::Relaxed);
        self.keeps_tokens.fetch_or(keeps, Ordering::Relaxed);
        for ring in self.rings() {
            before.rings().for_each(|old| ring.take_over(old));
        }
        self.go_on_counting(before);
        let is_same = |group: Option<&str>, agent: &str| {
            let mut issuers = self.issuers.iter();
            issuers.any(|issuer| {
                issuer.group.as_deref() == group
                    && self.may_name(issuer, agent)
                    && before.issuers.iter().any(|old| old.class == issuer.class)
            })
        };
        self.present.take_over(&before.present, |caller| {
            is_same(caller.group.as_deref(), caller.agent.as_str())
        });
        self.proved.take_over(&before.proved, |key, proof| {
            let mut issuers = self.issuers.iter();
            issuers.any(|issuer| {
                issuer.issuer.name == proof.issuer
                    && self.may_name(issuer, key.agent.as_str())
                    && before.issuers.iter().any(|old| old.class == issuer.class)
            })
        });
    }

    /// What an agent has used of its rate stays used, also where that rate was an entry's that is gone.
    fn go_on_counting(&self, before: &Self) {
        let now = self.clock.steady();
        let mut paces = self.paces.lock();
        for (agent, used) in before.paces.lock().iter() {
            let pace = paces.entry(agent.clone());
            pace.or_insert_with(default_pace).take_over(used, now);
        }
    }
}

/// How fast an agent may send that no entry of `callers` gives a rate.
fn default_pace() -> Arc<Meter> {
    Arc::new(Meter::new(super::family::DEFAULT_MESSAGE_RATE))
}

#[cfg(test)]
mod tests;
