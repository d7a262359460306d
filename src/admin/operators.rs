//! Who is an operator: whoever brings a token of `admin.tokens`. Tokens are kept as SHA-256 only, and every one of them is
//! compared each time, so that neither memory nor time tells one.

use super::refusal;
use crate::model::secret::Secret;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The operators that the configuration names.
#[derive(Debug, Default, Clone)]
pub struct Operators(Vec<([u8; 32], Known)>);

/// One operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The name, for the ledger.
    pub name: String,
    /// The operator's roles.
    pub roles: Vec<String>,
}

impl Operators {
    /// Operators, each with the token that proves it.
    pub fn new<'a>(tokens: impl IntoIterator<Item = (Known, &'a Secret)>) -> Self {
        let known = tokens.into_iter().map(|(known, token)| (hash(token.expose()), known));
        Self(known.collect())
    }

    /// The name of who asks, or the answer that says how to prove one.
    pub(super) fn who(&self, headers: &HeaderMap) -> Result<String, Box<Response>> {
        self.known(headers).map(|known| known.name)
    }

    /// Who asks, or the answer that says how to prove it.
    pub(super) fn known(&self, headers: &HeaderMap) -> Result<Known, Box<Response>> {
        if self.0.is_empty() {
            let hint = "configure `admin.tokens: [ { name: …, token: \"${…}\" } ]` and start toolgate anew; while no \
                        toolgate runs, `toolgate calls` works on the data directory without a token";
            return Err(Box::new(refusal(
                StatusCode::FORBIDDEN,
                "no operator has a token, so nobody may do this",
                hint,
            )));
        }
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let bearer = match (given.next(), given.next()) {
            (Some(one), None) => one.to_str().ok().and_then(|value| value.split_once(' ')),
            _ => None,
        };
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        let digest = hash(bearer.unwrap_or_default());
        let mut found = None;
        for (token, known) in &self.0 {
            if bool::from(token.ct_eq(&digest)) {
                found = Some(known);
            }
        }
        found.filter(|_| bearer.is_some()).cloned().ok_or_else(|| {
            let hint = "send `Authorization: Bearer …` with a token of `admin.tokens`";
            let mut answer = refusal(StatusCode::UNAUTHORIZED, "this is for operators who prove that they are", hint);
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            Box::new(answer)
        })
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
