//! 32 bytes of SHA-256 that stand for something: a call key, a fingerprint, a session, a task, a
//! result.

use super::hex::{hex, hex_in, unhex};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A SHA-256; written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Takes the bytes as they are.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Hashes `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Hashes `parts` so that no other parts give the same: each with its length, and `purpose` in
    /// front.
    pub fn of_parts(purpose: &str, parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight bytes as a number: enough to tell a task's recent calls apart.
    pub fn short(&self) -> u64 {
        self.0
            .first_chunk()
            .map_or(0, |first| u64::from_be_bytes(*first))
    }

    /// [`Self::short`] of the one that is written in these hex digits, of which the first 16 count.
    pub fn short_of_hex(text: &str) -> Option<u64> {
        unhex(text.get(..16)?).map(u64::from_be_bytes)
    }

    /// Reads 64 hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        unhex(text).map(Self)
    }
}

/// The hash of a call's key as people read it: the first digits of the one in the ledger's events.
pub fn key_digits(hash: u64) -> String {
    format!("{hash:016x}")
}

/// The SHA-256 of `bytes`, in hex digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Digest::of(bytes).as_bytes())
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(hex_in(&self.0, &mut [0; 64]))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(hex_in(&self.0, &mut [0; 64]))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| serde::de::Error::custom("expected 64 hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_is_that_of_the_digits() {
        for text in ["", "a result", "another"] {
            let digest = Digest::of(text.as_bytes());
            assert_eq!(
                Digest::short_of_hex(&digest.to_string()),
                Some(digest.short())
            );
        }
        for wrong in ["", "0123456789abcde", "0123456789abcdeg", "0123456789abcdé"] {
            assert_eq!(Digest::short_of_hex(wrong), None, "{wrong}");
        }
    }
}
