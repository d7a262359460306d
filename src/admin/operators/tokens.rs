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
use std::time::Duration;

impl Operators {
    /// The token that a request brings.
    pub(super) fn token<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        bearer(headers).or_else(|| self.in_force.terms().issued.token_in_header(headers))
    }

    /// Whether a request brings a token, whatever it is worth.
    pub(in crate::admin) fn brings_token(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(header::AUTHORIZATION)
            || self
                .in_force
                .terms()
                .issued
                .token_in_header(headers)
                .is_some()
    }

    /// The keys of the issuers of operators.
    pub(crate) fn issuer_rings(&self) -> Vec<Arc<KeyRing>> {
        self.in_force.terms().issued.rings()
    }

    /// Whom an issuer has named in `token`; why nobody, if it is no token of an issuer.
    pub(in crate::admin) fn of_issued(
        &self,
        token: &str,
    ) -> Result<IssuedOperator, Option<TokenRejected>> {
        if self.in_force.terms().issued.is_empty() || !jwt::is_token(token) {
            return Err(None);
        }
        self.in_force.terms().issued.identify(token).map_err(Some)
    }

    /// The operator whose token a proxy has set, if one has.
    pub(in crate::admin) fn of_proxy(&self, headers: &HeaderMap) -> Option<IssuedOperator> {
        let token = self.in_force.terms().issued.token_in_header(headers)?;
        self.of_issued(token).ok()
    }

    /// The key to fetch before a request can be judged, if that helps.
    pub(crate) fn lacking_key(&self, headers: &HeaderMap) -> Option<LackingKey> {
        self.key_for(self.token(headers)?)
    }

    /// The key to fetch before `token` can be judged, if that helps.
    pub(in crate::admin) fn key_for(&self, token: &str) -> Option<LackingKey> {
        let is_judged = self.in_force.terms().issued.is_empty() || !jwt::is_token(token);
        if is_judged || self.of_token(token).is_some() {
            return None;
        }
        self.in_force.terms().issued.lacking(token)
    }

    /// Fetches it, or waits for those who do, a few seconds at most.
    pub(crate) async fn supply(&self, lacking: LackingKey) {
        if let Some(keys) = &self.keys {
            Box::pin(keys.clone().supply(lacking)).await;
        }
    }

    /// Why a token that no operator has is not taken at the pages, where `why` says what an issuer's token lacks.
    pub(in crate::admin) fn rejected(&self, why: Option<TokenRejected>) -> RejectedToken {
        let is_configured_only = self.in_force.terms().issued.is_empty();
        why.map_or_else(
            || RejectedToken::of_nobody(is_configured_only),
            RejectedToken::of,
        )
    }
}

/// Why a token makes no operator of its sender, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::admin) struct RejectedToken {
    pub(in crate::admin) status: StatusCode,
    pub(in crate::admin) words: String,
    pub(in crate::admin) hint: &'static str,
    /// When it may come again, where nothing is wrong with it.
    pub(in crate::admin) again: Option<Duration>,
}

impl RejectedToken {
    /// `is_configured_only`: no issuer names operators.
    fn of_nobody(is_configured_only: bool) -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            words: "this is the token of no operator".to_owned(),
            hint: if is_configured_only {
                "tokens stand in `admin.tokens`"
            } else {
                "tokens stand in `admin.tokens`, or come from an issuer of `admin.jwt`"
            },
            again: None,
        }
    }

    fn of(why: TokenRejected) -> Self {
        let again = why.again();
        let (status, hint) = if again.is_some() {
            let hint = "see what toolgate's log says of the issuer's keys";
            (StatusCode::SERVICE_UNAVAILABLE, hint)
        } else if why == TokenRejected::Role {
            let hint = "ask the identity provider for a role of `admin.jwt[].roles`";
            (StatusCode::FORBIDDEN, hint)
        } else {
            let hint = "get another token from an issuer of `admin.jwt`";
            (StatusCode::UNAUTHORIZED, hint)
        };
        Self {
            status,
            words: why.to_string(),
            hint,
            again,
        }
    }

    /// Says in the headers of `answer` when the token may come again.
    pub(in crate::admin) fn delay(&self, answer: &mut Response) {
        if let Some(again) = self.again {
            let seconds = HeaderValue::from(again.as_secs().max(1));
            answer.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
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

/// The answer to a request that proves no operator: `why` a token of an issuer is not taken, if one came.
pub(super) fn refused(why: Option<TokenRejected>) -> Response {
    let Some(why) = why else {
        let hint = "send `Authorization: Bearer …` with a token of `admin.tokens`";
        let words = "this is for operators who prove that they are";
        return challenged(refusal(StatusCode::UNAUTHORIZED, words, hint));
    };
    let rejected = RejectedToken::of(why);
    let mut answer = refusal(rejected.status, &rejected.words, rejected.hint);
    rejected.delay(&mut answer);
    match rejected.status {
        StatusCode::UNAUTHORIZED => challenged(answer),
        _ => answer,
    }
}

fn challenged(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a token is told where it is shown, and only guesses are 401.
    #[test]
    fn each_token_that_is_not_taken_has_its_reason() {
        for (why, status, words) in [
            (TokenRejected::KeysUnavailable, 503, "keys"),
            (TokenRejected::Role, 403, "no operator's role"),
            (TokenRejected::Expired, 401, "expired"),
        ] {
            let rejected = RejectedToken::of(why);
            assert_eq!(rejected.status.as_u16(), status, "{why:?}");
            assert!(rejected.words.contains(words), "{why:?}: {rejected:?}");
            assert_eq!(rejected.again.is_some(), status == 503, "{why:?}");
        }
        let hint = |is_configured_only| RejectedToken::of_nobody(is_configured_only).hint;
        assert!(!hint(true).contains("jwt") && hint(false).contains("jwt"));
    }
}
