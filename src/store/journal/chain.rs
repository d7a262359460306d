//! The hash chain: where it stands, and how it goes on.

use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
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

/// `bytes` in hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes that `text` gives in hex digits; none when it is something else.
pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u32> = text
        .chars()
        .map(|digit| digit.to_digit(16))
        .collect::<Option<_>>()?;
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(pair[0] << 4 | pair[1]).ok()?;
    }
    Some(bytes)
}

/// The first hex digits of `hash`, for people.
pub(super) fn short(hash: &Hash) -> String {
    hex(&hash[..6])
}
