//! Whether there are the callers whom a server is to be shown by headers or tokens of their own.

use super::declared::DeclaredNames;
use super::servers::{ServerConfig, TransportConfig};
use crate::guards::identity;
use crate::model::diagnostic::Problems;
use crate::model::ids::{AgentId, ServerName, TenantId};
use crate::upstream::credentials::terms::Otherwise;
use std::collections::BTreeMap;

/// Whether there are the callers that `headers_for` names: what nobody is called is misspelt.
pub(super) fn judge(
    servers: &BTreeMap<ServerName, ServerConfig>,
    identity: &identity::Rule,
    named: &DeclaredNames,
    problems: &mut Problems,
) {
    let agents: Vec<&str> = named.agents.iter().map(AgentId::as_str).collect();
    let groups: Vec<&str> = identity.groups().collect();
    let tenants = identity
        .callers()
        .iter()
        .filter_map(|one| one.tenant.as_ref());
    let tenants: Vec<&str> = tenants.map(TenantId::as_str).collect();
    // Tokens name agents and tenants of their own.
    let (any_agent, any_tenant) = (identity.names_any(), identity.issued().is_some());
    for (name, server) in servers {
        let TransportConfig::Http { credentials, .. } = &server.transport else {
            continue;
        };
        let exchange = credentials.oauth.as_ref().and_then(|oauth| oauth.exchange);
        let refuses = exchange.is_some_and(|exchange| exchange.otherwise == Otherwise::Refuse);
        if refuses && !any_tenant {
            let path = [name.to_string(), "oauth".to_owned(), "exchange".to_owned()];
            let hint = "add the issuer to `auth.jwt`, or say `otherwise: client_credentials`";
            deep(
                &mut path.into_iter(),
                &("no caller comes with a token of an issuer", hint),
                problems,
            );
        }
        for (index, class) in credentials.classes.iter().enumerate() {
            let path = [
                name.to_string(),
                "headers_for".to_owned(),
                index.to_string(),
            ];
            let lists = [
                ("agents", "is called", &class.agents, &agents, any_agent),
                ("groups", "is of the group", &class.groups, &groups, false),
                (
                    "tenants",
                    "acts for the tenant",
                    &class.tenants,
                    &tenants,
                    any_tenant,
                ),
            ];
            for (key, what, list, known, _) in lists.into_iter().filter(|(.., any)| !any) {
                let unknown = list.iter().enumerate();
                for (place, one) in unknown.filter(|(_, one)| !known.contains(&one.as_str())) {
                    let path = path
                        .iter()
                        .cloned()
                        .chain([key.to_owned(), place.to_string()]);
                    let words = format!("no caller {what} `{}`", one.escape_debug());
                    let hint = "write it as in `callers`, or take it away";
                    deep(&mut path.into_iter(), &(&words, hint), problems);
                }
            }
        }
    }
}

/// An error at the end of `path`.
fn deep(path: &mut dyn Iterator<Item = String>, said: &(&str, &str), problems: &mut Problems) {
    match path.next() {
        Some(step) => problems.under(step, |problems| deep(path, said, problems)),
        None => problems.error(said.0, said.1),
    }
}
