//! From `auth` as written to the issuers as run.

use super::super::jwt::Issuer;
use super::super::jwt::claims::{ClaimPlace, Claims};
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

/// Issuers at most.
const MAX_ISSUERS: usize = 16;

/// An issuer, and whom its tokens make of their senders.
#[derive(Debug)]
pub(super) struct CallerIssuer {
    pub(super) terms: Issuer,
    pub(super) agent: ClaimPlace,
    pub(super) tenant: Option<ClaimPlace>,
    pub(super) roles: Option<ClaimPlace>,
    pub(super) on_behalf_of: Option<ClaimPlace>,
    pub(super) scopes: Vec<String>,
    pub(super) group: Option<String>,
    /// None: those that nobody else names.
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
        let terms = written.terms().compile(problems);
        for (key, list) in [("scopes", &written.scopes), ("agents", &written.agents)] {
            judge_listed(key, list, problems);
        }
        if let Some(group) = &written.group {
            judge_listed("group", std::slice::from_ref(group), problems);
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
            terms,
            scopes: written.scopes,
            group: written.group,
            agents: written.agents,
            class: canonical::exact(&class),
        }
    }
}

/// Each is one word of a list.
fn judge_listed(key: &str, list: &[String], problems: &mut Problems) {
    let is_blank = |name: &String| name.trim() != name || name.is_empty();
    for (index, _) in list.iter().enumerate().filter(|(_, name)| is_blank(name)) {
        problems.under(key, |problems| {
            let judge = |problems: &mut Problems| {
                let hint = "write the name, or take it away";
                problems.error("is blank or has blanks around it", hint);
            };
            if key == "group" {
                judge(problems);
            } else {
                problems.under(index.to_string(), judge);
            }
        });
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
            paces: Mutex::new(paces),
            clock: super::Clock,
        })
    }
}

/// One token names one issuer, and one agent is named by one issuer unless that is meant.
fn judge_together(jwt: &[CallerIssuerSettings], problems: &mut Problems) {
    if jwt.len() > MAX_ISSUERS {
        let hint = "let one provider issue the tokens of several";
        problems.error(format!("more than {MAX_ISSUERS} issuers"), hint);
    }
    let mut open = false;
    for (index, one) in jwt.iter().enumerate() {
        problems.under(index.to_string(), |problems| {
            if jwt[..index].iter().any(|before| before.issuer == one.issuer) {
                problems.under("issuer", |problems| {
                    let hint = "keep one entry an issuer";
                    problems.error("another entry is of the same issuer", hint);
                });
            }
            if one.agents.is_empty() && std::mem::replace(&mut open, true) {
                let hint = "list the `agents` of all issuers but one: an agent that two could name would be one agent";
                problems.error("another issuer may name any agent, too", hint);
            }
        });
    }
}
