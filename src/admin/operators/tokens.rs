//! What an operator's request brings to prove whose it is: a token of the configuration, or one of an
//! issuer, as a bearer token or in the header of a proxy.

use super::Operators;
use crate::admin::issued::IssuedOperator;
use crate::admin::refusal;
use crate::guards::identity::jwt::key_ring::KeyRing;
use crate::guards::identity::jwt::rejected::TokenRejected;
use crate::guards::identity::jwt::{self, LackingKey};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use std::sync::Arc;

impl Operators {
    /// The token that a request brings.
    pub(super) fn token<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        bearer(headers).or_else(|| self.issued.token_in_header(headers))
    }

    /// Whether a request brings a token, whatever it is worth.
    pub(in crate::admin) fn brings_token(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(header::AUTHORIZATION)
            || self.issued.token_in_header(headers).is_some()
    }

    /// The keys of the issuers of operators.
    pub(crate) fn issuer_rings(&self) -> Vec<Arc<KeyRing>> {
        self.issued.rings()
    }

    /// Whom an issuer has named in `token`; why nobody, if it is no token of an issuer.
    pub(in crate::admin) fn of_issued(
        &self,
        token: &str,
    ) -> Result<IssuedOperator, Option<TokenRejected>> {
        if self.issued.is_empty() || !jwt::is_token(token) {
            return Err(None);
        }
        self.issued.identify(token).map_err(Some)
    }

    /// The operator whose token a proxy has set, if one has.
    pub(in crate::admin) fn of_proxy(&self, headers: &HeaderMap) -> Option<IssuedOperator> {
        let token = self.issued.token_in_header(headers)?;
        self.of_issued(token).ok()
    }

    /// The key to fetch before a request can be judged, if that helps.
    pub(crate) fn lacking_key(&self, headers: &HeaderMap) -> Option<LackingKey> {
        let token = self.token(headers).filter(|token| jwt::is_token(token))?;
        if self.issued.is_empty() || self.of_token(token).is_some() {
            return None;
        }
        self.issued.lacking(token)
    }
}

/// The bearer token of a request that has one.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (given.next(), given.next()) else {
        return None;
    };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The answer to who is no operator: `why` a token of an issuer is not taken, if one came.
pub(super) fn refused(why: Option<TokenRejected>) -> Response {
    let Some(why) = why else {
        let hint = "send `Authorization: Bearer …` with a token of `admin.tokens`";
        let words = "this is for operators who prove that they are";
        return challenged(refusal(StatusCode::UNAUTHORIZED, words, hint));
    };
    let words = why.to_string();
    if let Some(again) = why.again() {
        let hint = "see what toolgate's log says of the issuer's keys";
        let mut answer = refusal(StatusCode::SERVICE_UNAVAILABLE, &words, hint);
        let seconds = HeaderValue::from(again.as_secs().max(1));
        answer.headers_mut().insert(header::RETRY_AFTER, seconds);
        return answer;
    }
    if why == TokenRejected::Scope {
        let hint = "ask the identity provider for a role of `admin.jwt[].roles`";
        let words = "the token gives no operator's role";
        return refusal(StatusCode::FORBIDDEN, words, hint);
    }
    let hint = "get another token from an issuer of `admin.jwt`";
    challenged(refusal(StatusCode::UNAUTHORIZED, &words, hint))
}

fn challenged(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}
