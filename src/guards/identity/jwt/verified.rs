//! What was made of tokens that were checked, by their hash, so that a signature is checked once and
//! not with every message. What is kept counts no longer than the token, nor longer than the keys.

use super::key_set::IssuerKey;
use super::rejected::TokenRejected;
use super::{CheckedToken, Issuer, LackingKey, TokenMoment};
use crate::guards::identity::tokens::hash;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Tokens that are kept at once. Only callers and operators that are known put one here.
const MAX_VERIFIED_TOKENS: usize = 4096;

/// The tokens that were checked.
#[derive(Debug)]
pub(crate) struct VerifiedTokens<T>(Mutex<HashMap<[u8; 32], VerifiedToken<T>>>);

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct VerifiedToken<T> {
    /// Which issuer's.
    pub(crate) issuer: usize,
    /// The keys it was checked by.
    generation: u64,
    /// The one of them that has signed it.
    pub(crate) key: Arc<IssuerKey>,
    /// Until when it counts, in seconds since 1970.
    pub(crate) until: f64,
    /// Whom it makes of its sender.
    pub(crate) who: T,
}

impl<T> Default for VerifiedTokens<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> VerifiedTokens<T> {
    /// What `make` makes of `token`, which the one of `issuers` has signed whose number it is told; or
    /// what it made before, while the same keys count.
    ///
    /// # Errors
    /// The token is not taken, or `make` makes nothing of it.
    pub(crate) fn or_check<'i>(
        &self,
        issuers: impl Iterator<Item = &'i Issuer> + Clone,
        token: &str,
        at: TokenMoment,
        make: impl FnOnce(usize, &CheckedToken) -> Result<T, TokenRejected>,
    ) -> Result<VerifiedToken<T>, TokenRejected> {
        let hash = hash(token);
        if let Some(kept) = self.kept(issuers.clone(), &hash, at)? {
            return Ok(kept);
        }
        let (issuer, checked) = super::check(issuers, token, at)?;
        let verified = VerifiedToken {
            issuer,
            generation: checked.generation,
            until: checked.until,
            who: make(issuer, &checked)?,
            key: checked.key,
        };
        self.put(hash, verified.clone(), at.wall);
        Ok(verified)
    }

    /// The key to fetch before `token` can be judged by one of `issuers`, if that helps.
    pub(crate) fn lacking<'i>(
        &self,
        issuers: impl Iterator<Item = &'i Issuer> + Clone,
        token: &str,
        at: TokenMoment,
    ) -> Option<LackingKey> {
        if matches!(self.kept(issuers.clone(), &hash(token), at), Ok(Some(_))) {
            return None;
        }
        super::lacking(issuers, token, at)
    }

    /// The token of that hash, if it was checked by keys that count still.
    fn kept<'i>(
        &self,
        mut issuers: impl Iterator<Item = &'i Issuer>,
        hash: &[u8; 32],
        at: TokenMoment,
    ) -> Result<Option<VerifiedToken<T>>, TokenRejected> {
        let Some(kept) = self.get(hash, at.wall) else {
            return Ok(None);
        };
        let Some(issuer) = issuers.nth(kept.issuer) else {
            return Ok(None);
        };
        let still = issuer.still_checks(kept.generation, at)?;
        Ok(still.then_some(kept))
    }

    /// The token of that hash, if it counts at `now`.
    fn get(&self, hash: &[u8; 32], now: f64) -> Option<VerifiedToken<T>> {
        let known = self.0.lock();
        known.get(hash).filter(|one| now < one.until).cloned()
    }

    /// Keeps it. Where there is no room, those make room whose time is over, else all.
    fn put(&self, hash: [u8; 32], one: VerifiedToken<T>, now: f64) {
        let mut known = self.0.lock();
        if known.len() >= MAX_VERIFIED_TOKENS {
            known.retain(|_, one| now < one.until);
        }
        if known.len() >= MAX_VERIFIED_TOKENS {
            known.clear();
        }
        known.insert(hash, one);
    }
}
