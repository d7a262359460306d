//! Callers who are known by a certificate: by a URI that it names (`spiffe://trust/ns/sa`), exactly
//! as the configuration writes it. Who vouches for a certificate was judged before, at the door.
//!
//! A certificate that names two callers proves neither, and a token beside it, also one of an issuer,
//! has to be of the same caller. One that names none proves nothing: then the token alone counts.

use super::{CallerSettings, Identified, Rule, Unauthorized};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use std::collections::HashMap;
use std::sync::Arc;
use url::Url;

/// Bytes of a URI, as the standard of SPIFFE identities bounds them.
const URI_BYTES_MAX: usize = 2048;
const SPIFFE_SCHEME: &str = "spiffe";

/// What a message came with to say who sends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownProof<'a> {
    /// The URIs of the certificate that was shown on its connection; none: none was.
    pub(crate) certificate: Option<&'a [String]>,
    /// Its bearer token.
    pub(crate) bearer: Option<&'a str>,
}

/// The callers that have a certificate, by its URI; each says that it is known so.
#[derive(Debug, Clone, Default)]
pub(super) struct CertifiedCallers(HashMap<String, Arc<Caller>>);

impl CertifiedCallers {
    /// `caller` is known by the certificate of its entry, if that names one.
    pub(super) fn add(
        &mut self,
        settings: &CallerSettings,
        caller: &Caller,
        problems: &mut Problems,
    ) {
        let Some(uri) = &settings.certificate else {
            return;
        };
        problems.under("certificate", |problems| {
            if let Err(why) = judge(uri) {
                let hint = "write the URI that stands in the certificate, such as spiffe://example.org/ns/agents/sa/support";
                problems.error(why, hint);
            }
            let certified = Arc::new(Caller {
                certificate: Some(uri.as_str().into()),
                ..caller.clone()
            });
            if self.0.insert(uri.clone(), certified).is_some() {
                problems.error(
                    "another entry has the same certificate",
                    "a certificate proves one caller: name another URI",
                );
            }
        });
    }

    /// The one caller that a certificate with these `uris` names.
    fn named(&self, uris: &[String]) -> Result<Option<&Arc<Caller>>, Unauthorized> {
        let mut found: Option<&Arc<Caller>> = None;
        for caller in uris.iter().filter_map(|uri| self.0.get(uri)) {
            if found.is_some_and(|found| !Arc::ptr_eq(found, caller)) {
                return Err(Unauthorized::TwoCallers);
            }
            found = Some(caller);
        }
        Ok(found)
    }
}

impl Rule {
    /// Who sent a message, by all that it came with; `header` as of [`Self::identify`].
    pub(crate) fn identify_by<'h>(
        &self,
        shown: ShownProof<'_>,
        header: impl FnOnce(&str) -> Option<&'h str>,
    ) -> Result<Identified<'_>, Unauthorized> {
        let ShownProof {
            certificate,
            bearer,
        } = shown;
        let Some(uris) = certificate.filter(|_| self.anonymous.is_none()) else {
            return self.identify(bearer, header);
        };
        let Some(certified) = self.certified.named(uris)? else {
            return match bearer {
                Some(_) => self.identify(bearer, header),
                None => Err(Unauthorized::UnknownCertificate),
            };
        };
        let by_certificate = |user_header| Identified {
            caller: Arc::clone(certified),
            user_header,
        };
        if bearer.is_none() {
            return Ok(by_certificate(None));
        }
        let by_token = self.identify(bearer, header)?;
        if by_token.caller.issued.is_some() {
            judge_issued(certified, &by_token.caller)?;
            // Such a token may say besides for whom the agent acts; that person stays.
            let both = Caller {
                user: by_token.caller.user.clone(),
                issued: by_token.caller.issued.clone(),
                ..Caller::clone(certified)
            };
            return Ok(Identified {
                caller: Arc::new(both),
                user_header: None,
            });
        }
        let shown_too = Caller {
            certificate: certified.certificate.clone(),
            ..Caller::clone(&by_token.caller)
        };
        if shown_too != **certified {
            return Err(Unauthorized::Contradicted);
        }
        Ok(by_certificate(by_token.user_header))
    }
}

/// Whether a token of an issuer says of the `certified` caller what its entry does, as far as tokens
/// can say it. What else stands in the entry (a model, a parent, `owner`) the certificate alone proves.
fn judge_issued(certified: &Caller, by_token: &Caller) -> Result<(), Unauthorized> {
    if by_token.agent != certified.agent {
        return Err(Unauthorized::Contradicted);
    }
    let has_all = |one: &Caller, of: &Caller| of.roles.iter().all(|role| one.roles.contains(role));
    let has_same_roles = has_all(by_token, certified) && has_all(certified, by_token);
    for (is_same, what) in [
        (by_token.tenant == certified.tenant, "tenant"),
        (by_token.group == certified.group, "group"),
        (has_same_roles, "roles"),
    ] {
        if !is_same {
            return Err(Unauthorized::Unlike(what));
        }
    }
    Ok(())
}

/// Why it is no URI of a certificate, if it is none.
fn judge(uri: &str) -> Result<(), &'static str> {
    let is_seen = |byte: u8| byte.is_ascii_graphic();
    if uri.len() > URI_BYTES_MAX {
        return Err("is longer than 2048 bytes");
    }
    let Some(read) = Url::parse(uri).ok().filter(|_| uri.bytes().all(is_seen)) else {
        return Err("is no URI");
    };
    if read.scheme() != SPIFFE_SCHEME {
        return Ok(());
    }
    let (_, rest) = uri.split_once("://").unwrap_or_default();
    let (trust, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_domain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
    let is_step = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_plain = |step: &str| !matches!(step, "" | "." | "..") && step.bytes().all(is_step);
    let is_id = uri.starts_with("spiffe://")
        && !trust.is_empty()
        && trust.bytes().all(is_domain)
        && path.split('/').all(is_plain);
    if is_id {
        Ok(())
    } else {
        Err("is no SPIFFE ID of a workload")
    }
}

#[cfg(test)]
mod tests;
