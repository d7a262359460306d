//! What the configuration says that an agent is: what decides about its calls, and not how it proves itself, how fast
//! it may call, or what it is shown.

use super::Rule;
use crate::mcp::canonical;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::{AgentId, TenantId};
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

    /// A digest over what these entries make of the agent. Another token, and one more entry that says the same, is no
    /// other agent; without any entry it is none.
    pub(crate) fn class_of(&self, agent: &str, tenant: Option<&str>) -> Digest {
        let entries = self.configured(agent, tenant);
        let said: BTreeSet<Vec<u8>> = entries
            .map(|caller| canonical::exact(&described(caller)))
            .collect();
        let mut parts: Vec<&[u8]> = said.iter().map(Vec::as_slice).collect();
        if let Some(issued) = &self.issued {
            parts.extend(issued.said_of(agent));
        }
        Digest::of_parts("what an agent is", &parts)
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
