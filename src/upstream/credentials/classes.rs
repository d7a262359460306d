//! Headers that a server is shown with the requests of some callers, and in whose name a request is.

use crate::model::caller::{Caller, CallerKey};
use crate::model::ids::TenantId;
use http::header::HeaderMap;
use std::sync::Arc;

/// Some callers, and what a server is shown of them.
#[derive(Debug, Clone, Default)]
pub struct HeaderClass {
    /// By their names; none: whatever they are called.
    pub agents: Vec<String>,
    /// By their groups; none: whatever group they are of.
    pub groups: Vec<String>,
    /// By the tenants that they act for; none: whomever they act for.
    pub tenants: Vec<String>,
    /// Sent with each of their requests, in place of configured ones of the same names.
    pub headers: HeaderMap,
}

/// In whose name a server is asked: what it is shown of one caller is never shown with a request of
/// another, and a session that was begun in one name goes on in no other. By default toolgate's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct CredentialName {
    /// The class of the caller, by its place in the configuration.
    pub(in crate::upstream) class: Option<usize>,
    /// The caller itself, where the server is shown a token that stands for it.
    pub(super) subject: Option<Arc<SubjectName>>,
}

/// A caller, as far as a token stands for it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SubjectName {
    /// Agent, tenant and user.
    pub(super) whose: CallerKey,
    /// Whose token has named it.
    pub(super) issuer: String,
    /// Whom that token is about.
    pub(super) subject: Option<String>,
}

impl HeaderClass {
    /// Whether `caller` is of it.
    pub(super) fn has(&self, caller: &Caller) -> bool {
        let is_listed = |list: &[String], name: Option<&str>| {
            list.is_empty() || name.is_some_and(|name| list.iter().any(|one| one == name))
        };
        is_listed(&self.agents, Some(caller.agent.as_str()))
            && is_listed(&self.groups, caller.group.as_deref())
            && is_listed(&self.tenants, caller.tenant.as_ref().map(TenantId::as_str))
    }
}
