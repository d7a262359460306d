//! The hash chain: where it stands, and how it goes on.

use crate::model::hex::{hex, unhex};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// A SHA-256 hash.
pub(super) type Hash = [u8; 32];

/// Where the journal stands after some record: that record's number, and the hash over everything
/// up to it. Written `SEQ:HASH`, with the hash in 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The last record, counted from 1; 0 before the first.
    pub seq: u64,
    /// The hash over every frame up to it.
    pub hash: [u8; 32],
}

/// The hash over `frame`, which holds the hash of what precedes it.
pub(super) fn hash(frame: &[u8]) -> Hash {
    Sha256::digest(frame).into()
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, hex(&self.hash))
    }
}

/// The text is not a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a head is SEQ:HASH, a number and 64 hex digits, as `toolgate ledger verify` prints it")]
pub struct NoHead;

impl FromStr for Head {
    type Err = NoHead;

    fn from_str(text: &str) -> Result<Self, NoHead> {
        let (seq, hex) = text.trim().split_once(':').ok_or(NoHead)?;
        let hash = unhex(hex).ok_or(NoHead)?;
        Ok(Self {
            seq: seq.parse().map_err(|_| NoHead)?,
            hash,
        })
    }
}

/// The first hex digits of `hash`, for people.
pub(super) fn short(hash: &Hash) -> String {
    hex(&hash[..6])
}
