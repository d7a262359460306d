//! Callers that issuers name: each token, once it is checked, makes one immutable caller, as an entry
//! of `callers` does. Who came so is remembered, because what belongs to an agent (its session, its
//! held calls) outlives the message that brought its token.

mod compiled;
mod present;
pub(crate) mod settings;

use super::jwt::claims::Claims;
use super::jwt::rejected::TokenRejected;
use super::jwt::verified::{VerifiedToken, VerifiedTokens};
use super::jwt::{self, LackingKey, TokenMoment};
use super::{ANONYMOUS_AGENT, hash};
use crate::model::caller::{Caller, IssuedIdentity};
use crate::model::clock::Clock;
use crate::model::ids::{AgentId, TenantId, UserId};
use crate::model::rate::Meter;
use compiled::CallerIssuer;
use parking_lot::Mutex;
use present::PresentCallers;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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
    paces: Mutex<HashMap<AgentId, Arc<Meter>>>,
    clock: Clock,
}

impl IssuedCallers {
    /// Who sends `token`.
    pub(super) fn identify(&self, token: &str) -> Result<Arc<Caller>, TokenRejected> {
        let (hash, at) = (hash(token), self.now());
        if let Some(caller) = self.verified(&hash, at)? {
            return Ok(caller);
        }
        let terms = self.issuers.iter().map(|issuer| &issuer.terms);
        let (index, checked) = jwt::check(terms, token, at)?;
        let issuer = self.issuers.get(index).ok_or(TokenRejected::Issuer)?;
        if !issuer.gives_scopes(&checked.claims) {
            return Err(TokenRejected::Scope);
        }
        let caller = Arc::new(self.caller(issuer, &checked.claims)?);
        self.present.came(&caller, checked.until, at.wall);
        let kept = VerifiedToken {
            issuer: index,
            generation: checked.generation,
            until: checked.until,
            who: caller.clone(),
        };
        self.verified.put(hash, kept, at.wall);
        Ok(caller)
    }

    /// Who sends the token of that hash, if it was checked by keys that count still.
    fn verified(
        &self,
        hash: &[u8; 32],
        at: TokenMoment,
    ) -> Result<Option<Arc<Caller>>, TokenRejected> {
        let Some(known) = self.verified.get(hash, at.wall) else {
            return Ok(None);
        };
        let Some(issuer) = self.issuers.get(known.issuer) else {
            return Ok(None);
        };
        let still = issuer.terms.still_checks(known.generation, at)?;
        Ok(still.then_some(known.who))
    }

    /// The keys to fetch before `token` can be judged, if that helps.
    pub(super) fn lacking(&self, token: &str) -> Option<LackingKey> {
        let at = self.now();
        if matches!(self.verified(&hash(token), at), Ok(Some(_))) {
            return None;
        }
        jwt::lacking(self.issuers.iter().map(|issuer| &issuer.terms), token, at)
    }

    fn caller(&self, issuer: &CallerIssuer, claims: &Claims) -> Result<Caller, TokenRejected> {
        let agent = claims.name(&issuer.agent)?;
        if !self.may_name(issuer, &agent) {
            return Err(TokenRejected::Agent);
        }
        let name = |place: &Option<_>| place.as_ref().map(|place| claims.name(place)).transpose();
        let roles = issuer.roles.as_ref().map(|place| claims.names(place));
        let identity = IssuedIdentity {
            issuer: issuer.terms.name.clone(),
            subject: claims.subject(),
        };
        Ok(Caller {
            tenant: name(&issuer.tenant)?.as_deref().map(TenantId::new),
            user: name(&issuer.on_behalf_of)?.as_deref().map(UserId::new),
            roles: roles.transpose()?.unwrap_or_default(),
            issued: Some(Arc::new(identity)),
            ..self.named(issuer, &agent)
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
        pace.or_insert_with(|| Arc::new(Meter::new(super::family::DEFAULT_MESSAGE_RATE)))
            .clone()
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

    /// Those whose token has not expired.
    pub(super) fn present(&self) -> Vec<Arc<Caller>> {
        self.present.at(self.now().wall)
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
        self.issuers.iter().map(|issuer| issuer.terms.name.as_str())
    }

    /// The keys of the issuers.
    pub(crate) fn rings(&self) -> impl Iterator<Item = &Arc<jwt::key_ring::KeyRing>> {
        self.issuers.iter().map(|issuer| &issuer.terms.ring)
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
        for ring in self.rings() {
            before.rings().for_each(|old| ring.take_over(old));
        }
        let mut paces = self.paces.lock();
        for (agent, pace) in before.paces.lock().iter() {
            paces
                .entry(agent.clone())
                .or_insert_with(|| Arc::clone(pace));
        }
        drop(paces);
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
    }

    fn now(&self) -> TokenMoment {
        TokenMoment {
            wall: self.clock.wall().as_duration().as_secs_f64(),
            steady: self.clock.steady(),
        }
    }
}

#[cfg(test)]
mod tests;
