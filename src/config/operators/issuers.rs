//! The issuers of operators' tokens: `admin.jwt`.

use super::{ConfiguredAgents, PRINTED_NAME_HINT, is_printed};
use crate::admin::issued::{IssuedOperators, OperatorIssuer};
use crate::config::written_operators::OperatorIssuerSettings;
use crate::config::{Operator, auth};
use crate::guards::identity::jwt::claims::ClaimPlace;
use crate::guards::identity::jwt::judge_names;
use crate::mcp::headers::is_reserved;
use crate::model::approvers::is_issued_name;
use crate::model::diagnostic::Problems;
use axum::http::HeaderName;
use std::collections::BTreeMap;
use std::path::Path;

/// As run, beside the operators of the configuration and its agents.
pub(super) fn compile(
    written: Vec<OperatorIssuerSettings>,
    known: &[Operator],
    agents: ConfiguredAgents<'_>,
    directory: &Path,
    problems: &mut Problems,
) -> IssuedOperators {
    let names: Vec<String> = written.iter().map(|one| one.issuer.clone()).collect();
    judge_names(&names, problems);
    let ambiguous = known.iter().find(|one| is_issued_name(&one.name));
    if let Some(operator) = ambiguous.filter(|_| !written.is_empty()) {
        let hint = "rename it: a name with `@` is one that an issuer gives";
        problems.error(
            format!(
                "the operator `{}` of `admin.tokens` could be one of its people",
                operator.name.escape_debug()
            ),
            hint,
        );
    }
    // What it says, and nothing that is secret.
    let as_written = format!("{written:?}");
    let issuers = written.into_iter().enumerate().map(|(index, one)| {
        problems.under(index.to_string(), |problems| {
            if agents.issued.contains(&(&*one.issuer, &*one.audience)) {
                problems.under("audience", |problems| {
                    let hint = "let the provider issue tokens for the operators' door with an audience of its own";
                    problems.error("tokens for agents of this issuer have the same audience", hint);
                });
            }
            issuer(one, directory, problems)
        })
    });
    IssuedOperators::new(issuers.collect(), as_written)
}

fn issuer(
    mut written: OperatorIssuerSettings,
    directory: &Path,
    problems: &mut Problems,
) -> OperatorIssuer {
    auth::settle_file(&mut written.jwks_file, directory, problems);
    let terms = written.terms();
    let OperatorIssuerSettings {
        claims,
        roles,
        header,
        ..
    } = written;
    let mut place = |key: &str, written: &str| {
        problems.under("claims", |problems| {
            problems.under(key, |problems| ClaimPlace::compile(written, problems))
        })
    };
    let (name, in_claim) = (place("name", &claims.name), place("roles", &claims.roles));
    problems.under("roles", |problems| judge_mapping(&roles, problems));
    OperatorIssuer {
        issuer: terms.compile(problems),
        name,
        roles: in_claim,
        mapping: roles,
        header: header.and_then(|name| header_name(&name, problems)),
    }
}

fn judge_mapping(mapping: &BTreeMap<String, Vec<String>>, problems: &mut Problems) {
    if mapping.values().all(Vec::is_empty) {
        let hint = "write which of its roles are which here, such as `{ sre: [approver] }`";
        problems.error("gives no operator a role", hint);
    }
    for (there, here) in mapping {
        problems.under(there.clone(), |problems| {
            for (index, _) in here
                .iter()
                .enumerate()
                .filter(|(_, role)| !is_printed(role))
            {
                problems.under(index.to_string(), |problems| {
                    problems.error("is no name for a role", PRINTED_NAME_HINT);
                });
            }
        });
    }
}

fn header_name(written: &str, problems: &mut Problems) -> Option<HeaderName> {
    let name = written.to_ascii_lowercase();
    let read = HeaderName::try_from(name.as_str()).ok();
    if read.is_none() || is_reserved(&name) {
        problems.under("header", |problems| {
            let hint = "name the one in which the proxy before this door sets a token, such as Cf-Access-Jwt-Assertion";
            problems.error("is no header for a token", hint);
        });
        return None;
    }
    read
}
