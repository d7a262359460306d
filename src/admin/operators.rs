//! Who is an operator: a caller with a token of `admin.tokens`; and what one may do, by the roles
//! of `admin.verbs`. Tokens are kept as SHA-256 only, and every one of them is compared each time,
//! so that neither memory nor time tells one.

pub(crate) use super::identity::OperatorIdentity;

use super::desk::sign_in::SignIns;
use super::issued::IssuedOperators;
mod tokens;

use super::{OperatorsDoor, refusal};
use crate::model::secret::Secret;
use crate::model::verbs::{OperatorVerb, OperatorVerbs};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The operators that the configuration names, and what their roles allow.
#[derive(Debug, Default, Clone)]
pub(crate) struct Operators {
    known: Vec<([u8; 32], OperatorIdentity)>,
    verbs: OperatorVerbs,
    sign_ins: Arc<SignIns>,
    issued: Arc<IssuedOperators>,
}

impl Operators {
    /// Operators, each with the token that proves it, and what their roles allow.
    pub(crate) fn new<'a>(
        tokens: impl IntoIterator<Item = (OperatorIdentity, &'a Secret)>,
        verbs: OperatorVerbs,
    ) -> Self {
        let known = tokens
            .into_iter()
            .map(|(known, token)| (hash(token.expose()), known));
        Self {
            known: known.collect(),
            verbs,
            sign_ins: Arc::default(),
            issued: Arc::default(),
        }
    }

    /// The same, and those whom issuers name.
    pub(crate) fn with_issued(self, issued: Arc<IssuedOperators>) -> Self {
        Self { issued, ..self }
    }

    /// Whether nobody has a token.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.issued.is_empty()
    }

    /// The answer to one whose roles allow none of `verbs`, which `what` needs.
    pub(super) fn permit(
        &self,
        known: &OperatorIdentity,
        verbs: &[OperatorVerb],
        what: &str,
    ) -> Result<(), Response> {
        if verbs
            .iter()
            .any(|verb| self.verbs.allow(*verb, &known.roles))
        {
            return Ok(());
        }
        Err(self.lacking(known, verbs, what))
    }

    /// Whether their roles allow it.
    pub(super) fn may(&self, known: &OperatorIdentity, verb: OperatorVerb) -> bool {
        self.verbs.allow(verb, &known.roles)
    }

    /// Those who have signed in on the pages.
    pub(super) fn sign_ins(&self) -> &SignIns {
        &self.sign_ins
    }

    /// The operator whose token it is.
    pub(super) fn of_token(&self, token: &str) -> Option<OperatorIdentity> {
        let digest = hash(token);
        let mut found = None;
        for (token, known) in &self.known {
            if bool::from(token.ct_eq(&digest)) {
                found = Some(known);
            }
        }
        found.cloned()
    }

    /// Whether it is theirs to read what others are not shown.
    pub(super) fn audits(&self, known: &OperatorIdentity) -> bool {
        self.may(known, OperatorVerb::Audit)
    }

    /// The answer to one who is an operator, and has none of the roles.
    fn lacking(&self, known: &OperatorIdentity, verbs: &[OperatorVerb], what: &str) -> Response {
        let mut roles: Vec<&str> = verbs
            .iter()
            .flat_map(|verb| self.verbs.roles(*verb))
            .map(String::as_str)
            .collect();
        roles.dedup();
        let keys: Vec<String> = verbs
            .iter()
            .map(|verb| format!("`admin.verbs.{}`", verb.key()))
            .collect();
        let error = match roles[..] {
            [] => format!(
                "no operator may {what}: {} names no role",
                keys.join(" or ")
            ),
            _ => format!(
                "only an operator with one of these roles may {what}: {}",
                roles.join(", ")
            ),
        };
        let hint = format!(
            "ask one who has it, or add it to the `roles` of `{}` in `admin.tokens`, or a role of `{}` to {}; a restart \
             applies that",
            known.name,
            known.name,
            keys.join(" or ")
        );
        refusal(StatusCode::FORBIDDEN, &error, &hint)
    }

    /// Who asks, or the answer that says how to prove it.
    pub(super) fn known(&self, headers: &HeaderMap) -> Result<OperatorIdentity, Response> {
        if self.is_empty() {
            let hint = "configure `admin.tokens: [ { name: …, token: \"${…}\", roles: […] } ]` and start toolgate anew; while no \
                        toolgate runs, `toolgate calls` works on the data directory without a token";
            return Err(refusal(
                StatusCode::FORBIDDEN,
                "no operator has a token, so nobody may do this",
                hint,
            ));
        }
        let configured = tokens::bearer(headers).and_then(|token| self.of_token(token));
        if let Some(known) = configured {
            return Ok(known);
        }
        match self.token(headers).map(|token| self.of_issued(token)) {
            Some(Ok(issued)) => Ok(issued.known),
            Some(Err(why)) => Err(tokens::refused(why)),
            None => Err(tokens::refused(None)),
        }
    }
}

/// Who asks; nobody else comes in.
impl FromRequestParts<Arc<OperatorsDoor>> for OperatorIdentity {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        door: &Arc<OperatorsDoor>,
    ) -> Result<Self, Response> {
        door.operators.known(&parts.headers)
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
