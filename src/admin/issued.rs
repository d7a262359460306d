//! Operators whom issuers name: their name and their roles are what their tokens say, in the terms of
//! the configuration. A token comes as a bearer token, or in the header that a proxy before this
//! door sets.

use super::identity::OperatorIdentity;
use crate::guards::identity::jwt::claims::{ClaimPlace, Claims};
use crate::guards::identity::jwt::key_ring::KeyRing;
use crate::guards::identity::jwt::rejected::TokenRejected;
use crate::guards::identity::jwt::verified::{VerifiedToken, VerifiedTokens};
use crate::guards::identity::jwt::{self, Issuer, LackingKey, TokenMoment};
use crate::model::approvers::is_issued_name;
use crate::model::clock::Clock;
use axum::http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Letters of an operator's name, as in the configuration.
const ISSUED_NAME_CHARS_MAX: usize = 128;

/// An issuer of operators' tokens, as run.
#[derive(Debug)]
pub(crate) struct OperatorIssuer {
    /// How its tokens are checked.
    pub(crate) terms: Issuer,
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
    verified: VerifiedTokens<OperatorIdentity>,
    clock: Clock,
}

/// An operator whom a token has named.
#[derive(Debug)]
pub(super) struct IssuedOperator {
    pub(super) known: OperatorIdentity,
    /// For how long the token counts still.
    pub(super) lasts: Duration,
}

impl IssuedOperators {
    /// The operators of these issuers.
    pub(crate) fn new(issuers: Vec<OperatorIssuer>) -> Self {
        Self {
            issuers,
            ..Self::default()
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
        let rings = self.issuers.iter().map(|issuer| &issuer.terms.ring);
        rings.cloned().collect()
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
        let (hash, at): ([u8; 32], _) = (Sha256::digest(token.as_bytes()).into(), self.now());
        if let Some(kept) = self.verified.get(&hash, at.wall)
            && let Some(issuer) = self.issuers.get(kept.issuer)
            && issuer.terms.still_checks(kept.generation, at)?
        {
            return Ok(IssuedOperator::of(kept, at));
        }
        let terms = self.issuers.iter().map(|issuer| &issuer.terms);
        let (index, checked) = jwt::check(terms, token, at)?;
        let issuer = self.issuers.get(index).ok_or(TokenRejected::Issuer)?;
        let kept = VerifiedToken {
            issuer: index,
            generation: checked.generation,
            until: checked.until,
            who: issuer.operator(&checked.claims)?,
        };
        self.verified.put(hash, kept.clone(), at.wall);
        Ok(IssuedOperator::of(kept, at))
    }

    /// The key to fetch before `token` can be judged, if that helps.
    pub(super) fn lacking(&self, token: &str) -> Option<LackingKey> {
        let at = self.now();
        jwt::lacking(self.issuers.iter().map(|issuer| &issuer.terms), token, at)
    }

    fn now(&self) -> TokenMoment {
        TokenMoment {
            wall: self.clock.wall().as_duration().as_secs_f64(),
            steady: self.clock.steady(),
        }
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
            return Err(TokenRejected::Scope);
        }
        Ok(OperatorIdentity {
            name,
            roles,
            stands_in: Vec::new(),
        })
    }
}

impl IssuedOperator {
    fn of(kept: VerifiedToken<OperatorIdentity>, at: TokenMoment) -> Self {
        let lasts = Duration::try_from_secs_f64(kept.until - at.wall);
        Self {
            known: kept.who,
            lasts: lasts.unwrap_or_default(),
        }
    }
}
