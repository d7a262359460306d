//! How long what a program has shown proves whose it is, for what stays open beyond its request.

use super::Operators;
use super::taken::OperatorTokens;
use super::tokens::bearer;
use crate::model::clock::Clock;
use axum::http::HeaderMap;
use std::time::Duration;

/// The token that a request has brought, by its digest or its end.
pub(in crate::admin) enum StandingProof {
    /// One of the configuration: while it is taken.
    Configured(OperatorTokens, [u8; 32]),
    /// One of an issuer: until then, on the steady clock.
    Issued(Duration),
}

impl Operators {
    /// What a request proves by, whose operator is known; one that proves nothing ends at once.
    pub(in crate::admin) fn proof(&self, headers: &HeaderMap) -> StandingProof {
        let configured = bearer(headers).and_then(|token| self.tokens.proved(token));
        if let Some(proved) = configured {
            return StandingProof::Configured(self.tokens.clone(), proved.token);
        }
        let token = self.token(headers);
        let issued = token.and_then(|token| self.of_issued(token).ok());
        let lasts = issued.map(|issued| issued.lasts).unwrap_or_default();
        StandingProof::Issued(Clock.steady() + lasts)
    }
}

impl StandingProof {
    /// Ends when it proves nothing any more.
    pub(in crate::admin) async fn ends(&self) {
        match self {
            Self::Configured(tokens, digest) => tokens.ends(digest).await,
            Self::Issued(until) => {
                tokio::time::sleep(until.saturating_sub(Clock.steady())).await;
            }
        }
    }
}
