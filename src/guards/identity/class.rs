//! What the configuration says that an agent is: what decides about its calls, and not how it proves itself, how fast
//! it may call, or what it is shown.

use super::Rule;
use crate::mcp::canonical;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::{AgentId, TenantId};
use crate::model::kept_caller::KeptCaller;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Rule {
    /// The entries of the agent that acts for this tenant, whichever user is behind it; in their order. Of one that an
    /// issuer names: what its tokens say, or, if none has come, a caller of that name without roles.
    pub(crate) fn entries_of(&self, agent: &str, tenant: Option<&str>) -> Vec<Arc<Caller>> {
        self.entries_with(agent, tenant, &[])
    }

    /// As [`Self::entries_of`]; an agent that an issuer names and that has not come is supposed to have `roles`.
    pub(crate) fn entries_with(
        &self,
        agent: &str,
        tenant: Option<&str>,
        roles: &[String],
    ) -> Vec<Arc<Caller>> {
        let mut entries: Vec<Arc<Caller>> = self.configured(agent, tenant).cloned().collect();
        if let Some(issued) = &self.issued {
            entries.extend(issued.entries_of(agent, tenant, roles));
        }
        entries
    }

    fn configured<'a>(
        &'a self,
        agent: &'a str,
        tenant: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Caller>> {
        self.callers.iter().filter(move |caller| {
            let known = caller.tenant.as_ref().map(TenantId::as_str);
            caller.agent.as_str() == agent && known == tenant
        })
    }

    /// The entry of the agent in whose place another call of it is made, of which that was `kept`: the same rights
    /// where one has them, else its only one, as the configuration has it now.
    pub(crate) fn entry_again(
        &self,
        agent: &str,
        tenant: Option<&str>,
        kept: Option<&KeptCaller>,
    ) -> Result<Arc<Caller>, EntryMiss> {
        let roles = kept.map_or(&[][..], |kept| &kept.roles);
        let entries = self.entries_with(agent, tenant, roles);
        let has = |entry: &&Arc<Caller>, rights: Digest| kept_of(entry).rights == rights;
        if let Some(kept) = kept
            && let Some(same) = entries.iter().find(|entry| has(entry, kept.rights))
        {
            return Ok(same.clone());
        }
        let first = entries.first().ok_or(EntryMiss::Gone)?;
        let rights = kept_of(first).rights;
        // What the tokens of others say of the agent is not what its own said.
        let issued = self.issued.as_ref();
        let is_anothers = issued.is_some_and(|issued| issued.has_come(agent, tenant));
        let is_only = entries.iter().all(|entry| has(&entry, rights));
        if is_only && !is_anothers {
            Ok(first.clone())
        } else {
            Err(EntryMiss::OtherRights)
        }
    }

    /// A digest over what these entries make of the agent. Another token, and one more entry that says the same, is no
    /// other agent; without any entry it is none.
    pub(crate) fn class_of(&self, agent: &str, tenant: Option<&str>) -> Digest {
        let entries = self.configured(agent, tenant);
        let said: BTreeSet<Vec<u8>> = entries
            .map(|caller| canonical::exact(&described(caller)))
            .collect();
        // Neither the order of entries nor that of issuers says anything.
        let issued = self.issued.iter().flat_map(|all| all.said_of(agent));
        let issued: BTreeSet<&[u8]> = issued.collect();
        let parts: Vec<&[u8]> = said.iter().map(Vec::as_slice).chain(issued).collect();
        Digest::of_parts("what an agent is", &parts)
    }
}

/// Why nobody is known in whose place a call can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EntryMiss {
    /// The agent is gone.
    #[error("the configuration does not know the agent any more")]
    Gone,
    /// Others of its name have other rights, and nobody has those that were kept.
    #[error(
        "the agent that made the call is known with other rights now, and not only with one set of them"
    )]
    OtherRights,
}

/// What is kept of a caller in whose place a call may be made later.
pub(crate) fn kept_of(caller: &Caller) -> KeptCaller {
    let said = canonical::exact(&described(caller));
    KeptCaller {
        rights: Digest::of_parts("rights of a caller", &[&said]),
        roles: caller.roles.clone(),
    }
}

/// What is said of a caller that decides about its calls.
fn described(caller: &Caller) -> Value {
    // What is added to callers and not here does not build.
    let Caller {
        agent,
        tenant,
        user: _,
        names_users,
        needs_user: _,
        roles,
        group,
        model,
        owner,
        profile,
        environment,
        parents,
        reads: _,
        certificate: _,
        pace: _,
        issued: _,
    } = caller;
    let roles: BTreeSet<&String> = roles.iter().collect();
    let parents = parents.iter().map(|parent| described(parent));
    json!({
        "agent": AgentId::as_str(agent),
        "tenant": tenant.as_ref().map(TenantId::as_str),
        "names_users": names_users,
        "roles": roles,
        "group": group,
        "model": model,
        "owner": owner,
        "profile": profile,
        "environment": environment,
        "parents": parents.collect::<Vec<Value>>(),
    })
}
