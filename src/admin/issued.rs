//! Operators whom issuers name: their name and their roles are what their tokens say, in the terms of
//! the configuration. A token comes as a bearer token, or in the header that a proxy before this
//! door sets.

use super::identity::OperatorIdentity;
use crate::guards::identity::jwt::claims::{ClaimPlace, Claims};
use crate::guards::identity::jwt::key_ring::KeyRing;
use crate::guards::identity::jwt::key_set::IssuerKey;
use crate::guards::identity::jwt::rejected::TokenRejected;
use crate::guards::identity::jwt::verified::{VerifiedToken, VerifiedTokens};
use crate::guards::identity::jwt::{CheckedToken, Issuer, LackingKey, TokenMoment};
use crate::model::approvers::is_issued_name;
use crate::model::clock::Clock;
use axum::http::{HeaderMap, HeaderName};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Letters of an operator's name, as in the configuration.
const ISSUED_NAME_CHARS_MAX: usize = 128;

/// An issuer of operators' tokens, as run.
#[derive(Debug)]
pub(crate) struct OperatorIssuer {
    /// How its tokens are checked.
    pub(crate) issuer: Issuer,
    /// Where they say who it is.
    pub(crate) name: ClaimPlace,
    /// Where they say which roles the operator has there.
    pub(crate) roles: ClaimPlace,
    /// Which roles those are here.
    pub(crate) mapping: BTreeMap<String, Vec<String>>,
    /// The header that brings them, beside `Authorization`.
    pub(crate) header: Option<HeaderName>,
}

/// All of them. The default: there are none.
#[derive(Debug, Default)]
pub(crate) struct IssuedOperators {
    issuers: Vec<OperatorIssuer>,
    /// What the configuration says of them, as it is written.
    written: String,
    /// Whose operators they are: of no two readings that say different things the same.
    reading: Arc<()>,
    verified: VerifiedTokens<OperatorIdentity>,
    clock: Clock,
}

/// An operator whom a token has named.
#[derive(Debug)]
pub(super) struct IssuedOperator {
    pub(super) known: OperatorIdentity,
    /// For how long the token counts still.
    pub(super) lasts: Duration,
    /// By which key.
    pub(super) proof: IssuedProof,
}

/// What a sign-in keeps of the token that was shown: whose key has signed it.
#[derive(Debug, Clone)]
pub(super) struct IssuedProof {
    /// Which issuer's, of those of that reading.
    issuer: usize,
    reading: Arc<()>,
    key: Arc<IssuerKey>,
}

impl IssuedOperators {
    /// The operators of these issuers, of which the configuration says what is `written`.
    pub(crate) fn new(issuers: Vec<OperatorIssuer>, written: String) -> Self {
        Self {
            issuers,
            written,
            ..Self::default()
        }
    }

    /// Whether the configuration says the same of both.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        self.written == other.written
    }

    /// Goes on with the keys that `before` knows of the same issuers.
    pub(super) fn succeed(&self, before: &Self) {
        for ring in self.rings() {
            before.rings().iter().for_each(|old| ring.take_over(old));
        }
    }

    /// Whether no issuer names any.
    pub(crate) fn is_empty(&self) -> bool {
        self.issuers.is_empty()
    }

    /// The roles that tokens can give.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &String> {
        let mappings = self.issuers.iter().map(|issuer| &issuer.mapping);
        mappings.flat_map(|mapping| mapping.values().flatten())
    }

    /// The keys of the issuers.
    pub(crate) fn rings(&self) -> Vec<Arc<KeyRing>> {
        self.as_run().map(|issuer| issuer.ring.clone()).collect()
    }

    /// The token that a proxy has set, in the header of one of the issuers.
    pub(super) fn token_in_header<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let names = self
            .issuers
            .iter()
            .filter_map(|issuer| issuer.header.as_ref());
        let mut found = names.filter_map(|name| {
            let mut values = headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (Some(one), None) => one.to_str().ok().map(str::trim),
                _ => None,
            }
        });
        found.next()
    }

    /// Whose `token` it is.
    pub(super) fn identify(&self, token: &str) -> Result<IssuedOperator, TokenRejected> {
        let at = TokenMoment::at(self.clock);
        let make = |index: usize, checked: &CheckedToken| {
            let own = self.issuers.get(index).ok_or(TokenRejected::Issuer)?;
            own.operator(&checked.claims)
        };
        let verified = self.verified.or_check(self.as_run(), token, at, make);
        verified.map(|verified| self.operator(verified, at))
    }

    /// Whether the key that has signed a token is its issuer's still, so that a thief who has one is
    /// kept out once the issuer has withdrawn it; and whether issuers and roles are still those by which it was read.
    pub(super) fn still_counts(&self, proof: &IssuedProof) -> bool {
        if !Arc::ptr_eq(&self.reading, &proof.reading) {
            return false;
        }
        let (own, at) = (self.issuers.get(proof.issuer), TokenMoment::at(self.clock));
        own.is_some_and(|own| own.issuer.still_signs(&proof.key, at))
    }

    /// The key to fetch before `token` can be judged, if that helps.
    pub(super) fn lacking(&self, token: &str) -> Option<LackingKey> {
        let at = TokenMoment::at(self.clock);
        self.verified.lacking(self.as_run(), token, at)
    }

    fn operator(&self, kept: VerifiedToken<OperatorIdentity>, at: TokenMoment) -> IssuedOperator {
        let lasts = Duration::try_from_secs_f64(kept.until - at.wall);
        IssuedOperator {
            known: kept.who,
            lasts: lasts.unwrap_or_default(),
            proof: IssuedProof {
                issuer: kept.issuer,
                reading: self.reading.clone(),
                key: kept.key,
            },
        }
    }

    fn as_run(&self) -> impl Iterator<Item = &Issuer> + Clone {
        self.issuers.iter().map(|own| &own.issuer)
    }
}

impl OperatorIssuer {
    /// Whom a token names. One who has no role here is no operator.
    fn operator(&self, claims: &Claims) -> Result<OperatorIdentity, TokenRejected> {
        let name = claims.name(&self.name)?;
        if !is_issued_name(&name) || name.chars().count() > ISSUED_NAME_CHARS_MAX {
            return Err(TokenRejected::Claim);
        }
        let mut roles: Vec<String> = Vec::new();
        for there in claims.names(&self.roles)? {
            for role in self.mapping.get(&there).into_iter().flatten() {
                if !roles.contains(role) {
                    roles.push(role.clone());
                }
            }
        }
        if roles.is_empty() {
            return Err(TokenRejected::Role);
        }
        Ok(OperatorIdentity {
            name,
            roles,
            stands_in: Vec::new(),
        })
    }
}
