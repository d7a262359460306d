//! Who calls at all: the callers that the configuration names, and those whom issuers have named.

use super::Rule;
use super::issued::IssuedCallers;
use super::jwt::{self, LackingKey};
use crate::model::caller::Caller;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Rule {
    /// All callers that the configuration names.
    pub fn callers(&self) -> &[Arc<Caller>] {
        &self.callers
    }

    /// The issuers, and whom their tokens have named.
    pub(crate) fn issued(&self) -> Option<&IssuedCallers> {
        self.issued.as_deref()
    }

    /// The key to fetch before a message with this bearer token can be judged, if that helps.
    pub(crate) fn lacking(&self, bearer: Option<&str>) -> Option<LackingKey> {
        let issued = self.issued.as_ref()?;
        issued.lacking(bearer.filter(|bearer| jwt::is_token(bearer))?)
    }

    /// All callers there are just now: those of the configuration, and those whom a token has named
    /// that counts still.
    pub(crate) fn present(&self) -> Vec<Arc<Caller>> {
        let issued = self.issued.iter().flat_map(|issued| issued.present());
        self.callers.iter().cloned().chain(issued).collect()
    }

    /// Whether `caller` could come as who it is just now: where an issuer's token has named it, one
    /// counts that gives the same agent, tenant and user all its roles.
    pub(crate) fn still_proves(&self, caller: &Caller) -> bool {
        let issued = self.issued.as_ref();
        caller.issued.is_none() || issued.is_some_and(|issued| issued.still_names(caller))
    }

    /// Whether a token may name an agent that the configuration does not.
    pub(crate) fn names_any(&self) -> bool {
        self.issued
            .as_ref()
            .is_some_and(|issued| issued.names_any())
    }

    /// The groups that callers are in.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let issued = self.issued.iter().flat_map(|issued| issued.groups());
        self.callers
            .iter()
            .filter_map(|caller| caller.group.as_deref())
            .chain(issued)
    }

    /// The roles that callers have; none where tokens say so, which may be any.
    pub(crate) fn roles(&self) -> Vec<String> {
        if self
            .issued
            .as_ref()
            .is_some_and(|issued| issued.gives_roles())
        {
            return Vec::new();
        }
        let all = self.callers.iter().flat_map(|caller| &caller.roles);
        let all: BTreeSet<&String> = all.collect();
        all.into_iter().cloned().collect()
    }

    /// The models that callers have, and their providers.
    pub(crate) fn models(&self) -> Vec<String> {
        let models = self.callers.iter().flat_map(|caller| {
            let provider = caller.provider().map(str::to_owned);
            caller.model.clone().into_iter().chain(provider)
        });
        models.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The first caller of that agent, for the command line: `explain --agent`, `stdio`.
    pub fn of_agent(&self, agent: &str) -> Option<Arc<Caller>> {
        self.callers
            .iter()
            .find(|caller| caller.agent.as_str() == agent)
            .cloned()
    }
}
