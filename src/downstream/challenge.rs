//! What an agent that has proved nothing is told, and how it learns where it gets a token: the challenge
//! of a refusal (RFC 6750) and the metadata of this server (RFC 9728). Both name the address that the
//! configuration has for this server, never one that a request brought along.

use super::body::{HttpAnswer, RefusalReason, error, json_text, overloaded};
use super::{Door, checks};
use crate::guards::identity::Unauthorized;
use crate::guards::identity::issued::IssuedCallers;
use crate::guards::identity::jwt::LackingKey;
use crate::guards::identity::jwt::rejected::TokenRejected;
use crate::mcp::error_codes::INVALID_REQUEST;
use crate::model::scope::Scope;
use crate::policy::Policy;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

/// Where the metadata are; what follows is the path of what they are about.
const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
const METADATA_CACHING: HeaderValue = HeaderValue::from_static("max-age=300");

impl Door {
    /// The metadata that `request` asks for; none where there are none, or it asks for something else.
    pub(super) fn metadata(&self, request: &Request<Incoming>) -> Option<HttpAnswer> {
        let of = request.uri().path().strip_prefix(METADATA_PATH)?;
        let policy = self.policy.current();
        let issued = policy.identity.issued()?;
        let public_url = issued.public_url.as_ref()?;
        if request.method() != Method::GET {
            return None;
        }
        if let Err(refused) = checks::connection(self, request) {
            return Some(refused);
        }
        if !of.is_empty() {
            self.scope(of).ok()?;
        }
        let metadata = json!({
            "resource": format!("{public_url}{of}"),
            "authorization_servers": issued.names().collect::<Vec<_>>(),
            "scopes_supported": issued.scopes(),
            "bearer_methods_supported": ["header"],
        });
        let mut answer = json_text(StatusCode::OK, Bytes::from(metadata.to_string()));
        let headers = answer.headers_mut();
        headers.insert(CACHE_CONTROL, METADATA_CACHING);
        Some(answer)
    }

    /// The key without which the token of `request` cannot be judged, if it helps to fetch it.
    pub(super) fn lacking_key(&self, request: &Request<Incoming>) -> Option<LackingKey> {
        let bearer = checks::bearer(request.headers());
        let lacking = self.policy.current().identity.lacking(bearer)?;
        checks::connection(self, request).is_ok().then_some(lacking)
    }

    /// The answer to an agent that has asked for `scope` and proved nothing by `policy`.
    pub(super) fn refused(&self, policy: &Policy, scope: &Scope, why: Unauthorized) -> HttpAnswer {
        if let Unauthorized::Token(rejected) = why {
            self.metrics.refused_token(rejected.reason());
            if let Some(again) = rejected.again() {
                // Nothing is wrong with the token: an agent that got another one would be no further.
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let mut refused = overloaded(status, &why.to_string(), again);
                refused.extensions_mut().insert(RefusalReason("keys"));
                return refused;
            }
        }
        let lacks_scope = why == Unauthorized::Token(TokenRejected::Scope);
        let status = if lacks_scope {
            StatusCode::FORBIDDEN
        } else {
            StatusCode::UNAUTHORIZED
        };
        let mut refused = error(status, INVALID_REQUEST, &why.to_string());
        if lacks_scope {
            refused.extensions_mut().insert(RefusalReason("scope"));
        }
        let challenge = policy
            .identity
            .issued()
            .map(|issued| challenge(issued, scope, why));
        let challenge = challenge.and_then(|words| HeaderValue::from_str(&words).ok());
        let challenge = challenge.unwrap_or(HeaderValue::from_static("Bearer"));
        refused.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        refused
    }
}

/// What an agent is to do to prove who it is.
fn challenge(issued: &IssuedCallers, scope: &Scope, why: Unauthorized) -> String {
    let mut parts = Vec::new();
    if let Some(public_url) = &issued.public_url {
        let path = match scope {
            Scope::All => "/mcp".to_owned(),
            Scope::One(server) => format!("/mcp/{}", server.as_str()),
        };
        parts.push(format!(
            "resource_metadata=\"{public_url}{METADATA_PATH}{path}\""
        ));
    }
    let error = match why {
        // No token came that would be wrong, or another one would not help.
        Unauthorized::NoToken | Unauthorized::UnknownCertificate | Unauthorized::TwoCallers => None,
        Unauthorized::Token(TokenRejected::Scope) => Some("insufficient_scope"),
        Unauthorized::UnknownToken
        | Unauthorized::UnknownAgent
        | Unauthorized::Contradicted
        | Unauthorized::Unlike(_)
        | Unauthorized::Token(_) => Some("invalid_token"),
    };
    if let Some(error) = error {
        parts.push(format!("error=\"{error}\""));
        parts.push(format!("error_description=\"{why}\""));
    }
    let scopes = issued.scopes();
    if !scopes.is_empty() && error != Some("invalid_token") {
        parts.push(format!("scope=\"{}\"", scopes.join(" ")));
    }
    match parts[..] {
        [] => "Bearer".to_owned(),
        _ => format!("Bearer {}", parts.join(", ")),
    }
}
