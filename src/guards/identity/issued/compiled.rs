//! From `auth` as written to the issuers as run.

use super::super::jwt::claims::{ClaimPlace, Claims};
use super::super::jwt::{Issuer, judge_names};
use super::super::{ANONYMOUS_AGENT, CallerSettings};
use super::IssuedCallers;
use super::settings::{AuthSettings, CallerClaimSettings, CallerIssuerSettings};
use crate::mcp::canonical;
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// An issuer, and whom its tokens make of their senders.
#[derive(Debug)]
pub(super) struct CallerIssuer {
    pub(super) issuer: Issuer,
    pub(super) agent: ClaimPlace,
    pub(super) tenant: Option<ClaimPlace>,
    pub(super) roles: Option<ClaimPlace>,
    pub(super) on_behalf_of: Option<ClaimPlace>,
    pub(super) scopes: Vec<String>,
    pub(super) group: Option<String>,
    /// None: all that neither `callers` nor another issuer names.
    pub(super) agents: Vec<String>,
    /// What decides about its agents' calls, in canonical JSON.
    pub(super) class: Vec<u8>,
}

impl CallerIssuer {
    /// Whether a token has the scopes that are asked for.
    pub(super) fn gives_scopes(&self, claims: &Claims) -> bool {
        self.scopes.is_empty() || claims.has_scopes(&self.scopes)
    }

    fn compile(written: CallerIssuerSettings, problems: &mut Problems) -> Self {
        let class = json!({
            "issuer": written.issuer,
            "audience": written.audience,
            "claims": [
                written.claims.agent,
                written.claims.tenant,
                written.claims.roles,
                written.claims.on_behalf_of,
            ],
            "scopes": written.scopes,
            "group": written.group,
        });
        let issuer = written.terms().compile(problems);
        judge_each("scopes", &written.scopes, judge_scope, problems);
        judge_each("agents", &written.agents, judge_word, problems);
        if let Some(group) = &written.group {
            problems.under("group", |problems| judge_word(group, problems));
        }
        let CallerClaimSettings {
            agent,
            tenant,
            roles,
            on_behalf_of,
        } = written.claims;
        let mut place = |key: &str, written: &str| {
            problems.under("claims", |problems| {
                problems.under(key, |problems| ClaimPlace::compile(written, problems))
            })
        };
        Self {
            agent: place("agent", &agent),
            tenant: tenant.map(|written| place("tenant", &written)),
            roles: roles.map(|written| place("roles", &written)),
            on_behalf_of: on_behalf_of.map(|written| place("on_behalf_of", &written)),
            issuer,
            scopes: written.scopes,
            group: written.group,
            agents: written.agents,
            class: canonical::exact(&class),
        }
    }
}

/// Judges each of a list under `key`.
fn judge_each(key: &str, list: &[String], judge: fn(&str, &mut Problems), problems: &mut Problems) {
    problems.under(key, |problems| {
        for (index, one) in list.iter().enumerate() {
            problems.under(index.to_string(), |problems| judge(one, problems));
        }
    });
}

fn judge_word(word: &str, problems: &mut Problems) {
    if word.trim() != word || word.is_empty() {
        let hint = "write the name, or take it away";
        problems.error("is blank or has blanks around it", hint);
    }
}

/// Of other letters neither a token's `scope` nor a challenge can have one (RFC 6749 §3.3).
fn judge_scope(scope: &str, problems: &mut Problems) {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    if scope.is_empty() || !scope.bytes().all(is_plain) {
        let hint =
            "write one scope an entry, of letters, digits and signs, without blanks, `\"` and `\\`";
        problems.error("is no scope", hint);
    }
}

impl IssuedCallers {
    /// As run, beside `callers`, who are `known`; what is wrong is noted. None without issuers.
    pub(in super::super) fn compile(
        written: AuthSettings,
        callers: &[CallerSettings],
        known: &[Arc<Caller>],
        problems: &mut Problems,
    ) -> Option<Self> {
        let AuthSettings { public_url, jwt } = written;
        if jwt.is_empty() {
            return None;
        }
        let issuers = problems.under("jwt", |problems| {
            judge_together(&jwt, problems);
            let each = jwt.into_iter().enumerate();
            let issuers = each.map(|(index, one)| {
                problems.under(index.to_string(), |problems| {
                    CallerIssuer::compile(one, problems)
                })
            });
            issuers.collect::<Vec<_>>()
        });
        let listed = issuers.iter().flat_map(|issuer| &issuer.agents);
        let named = callers.iter().map(|caller| &caller.agent).chain(listed);
        let mut kept_agents: HashSet<String> = named.cloned().collect();
        kept_agents.insert(ANONYMOUS_AGENT.to_owned());
        let paces = known
            .iter()
            .filter_map(|caller| Some((caller.agent.clone(), caller.pace.clone()?)));
        let paces: HashMap<_, _> = paces.collect();
        Some(Self {
            public_url,
            issuers,
            kept_agents,
            verified: super::VerifiedTokens::default(),
            present: super::PresentCallers::default(),
            proved: super::ProvedUsers::default(),
            paces: Mutex::new(paces),
            keeps_tokens: super::AtomicBool::new(false),
            clock: super::Clock,
        })
    }
}

/// One token names one issuer, and one agent is named by one issuer unless that is meant.
fn judge_together(jwt: &[CallerIssuerSettings], problems: &mut Problems) {
    let names: Vec<String> = jwt.iter().map(|one| one.issuer.clone()).collect();
    judge_names(&names, problems);
    let mut is_open = false;
    for (index, one) in jwt.iter().enumerate() {
        problems.under(index.to_string(), |problems| {
            if one.agents.is_empty() && std::mem::replace(&mut is_open, true) {
                let hint = "list the `agents` of all issuers but one: an agent that two could name would be one agent";
                problems.error("another issuer may name any agent, too", hint);
            }
        });
    }
}
