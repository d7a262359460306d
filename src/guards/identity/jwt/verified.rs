//! What was made of tokens that were checked, by their hash, so that a signature is checked once and
//! not with every message. What is kept counts no longer than the token, nor longer than the keys.

use parking_lot::Mutex;
use std::collections::HashMap;

/// Tokens that are kept at once. Only who is known already puts one here.
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
    pub(crate) generation: u64,
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
    /// The token of that hash, if it counts at `now`.
    pub(crate) fn get(&self, hash: &[u8; 32], now: f64) -> Option<VerifiedToken<T>> {
        let known = self.0.lock();
        known.get(hash).filter(|one| now < one.until).cloned()
    }

    /// Keeps it. Where there is no room, those make room whose time is over, else all.
    pub(crate) fn put(&self, hash: [u8; 32], one: VerifiedToken<T>, now: f64) {
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
