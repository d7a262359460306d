//! The issuers of operators' tokens: `admin.jwt`.

use super::{PRINTED_NAME_HINT, is_printed};
use crate::admin::issued::{IssuedOperators, OperatorIssuer};
use crate::config::written_operators::OperatorIssuerSettings;
use crate::config::{Operator, auth};
use crate::guards::identity::jwt::IssuerTerms;
use crate::guards::identity::jwt::claims::ClaimPlace;
use crate::mcp::headers::is_reserved;
use crate::model::approvers::is_issued_name;
use crate::model::diagnostic::Problems;
use axum::http::HeaderName;
use std::collections::BTreeMap;
use std::path::Path;

/// Issuers at most.
const MAX_OPERATOR_ISSUERS: usize = 16;

/// As run, beside the operators of the configuration.
pub(super) fn compile(
    written: Vec<OperatorIssuerSettings>,
    known: &[Operator],
    directory: &Path,
    problems: &mut Problems,
) -> IssuedOperators {
    if written.len() > MAX_OPERATOR_ISSUERS {
        let hint = "let one provider issue the tokens of several";
        problems.error(format!("more than {MAX_OPERATOR_ISSUERS} issuers"), hint);
    }
    let named = known.iter().find(|one| is_issued_name(&one.name));
    if let Some(named) = named.filter(|_| !written.is_empty()) {
        let hint = "rename it: a name with `@` is one that an issuer gives";
        problems.error(
            format!(
                "the operator `{}` of `admin.tokens` could be one of its people",
                named.name.escape_debug()
            ),
            hint,
        );
    }
    let mut issuers: Vec<OperatorIssuer> = Vec::new();
    for (index, one) in written.into_iter().enumerate() {
        problems.under(index.to_string(), |problems| {
            let issuer = issuer(one, directory, problems);
            let is_twice = |before: &OperatorIssuer| before.terms.name == issuer.terms.name;
            if issuers.iter().any(is_twice) {
                problems.under("issuer", |problems| {
                    let hint = "keep one entry an issuer";
                    problems.error("another entry is of the same issuer", hint);
                });
            }
            issuers.push(issuer);
        });
    }
    IssuedOperators::new(issuers)
}

fn issuer(
    mut written: OperatorIssuerSettings,
    directory: &Path,
    problems: &mut Problems,
) -> OperatorIssuer {
    auth::settle_file(&mut written.jwks_file, directory, problems);
    let OperatorIssuerSettings {
        issuer,
        audience,
        jwks_url,
        jwks_file,
        algs,
        leeway,
        max_stale,
        claims,
        roles,
        header,
    } = written;
    let terms = IssuerTerms {
        issuer,
        audience,
        jwks_url,
        jwks_file,
        algs,
        leeway,
        max_stale,
    };
    let mut place = |key: &str, written: &str| {
        problems.under("claims", |problems| {
            problems.under(key, |problems| ClaimPlace::compile(written, problems))
        })
    };
    let (name, in_claim) = (place("name", &claims.name), place("roles", &claims.roles));
    problems.under("roles", |problems| judge_mapping(&roles, problems));
    OperatorIssuer {
        terms: terms.compile(problems),
        name,
        roles: in_claim,
        mapping: roles,
        header: header.and_then(|name| header_name(&name, problems)),
    }
}

fn judge_mapping(mapping: &BTreeMap<String, Vec<String>>, problems: &mut Problems) {
    if mapping.values().all(Vec::is_empty) {
        let hint = "write which of its roles are which here, such as `{ sre: [approver] }`";
        problems.error("gives nobody a role", hint);
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
