//! Seals: what only a holder of the key can write (threat-model §3G, G2). The chain shows that
//! something was changed by one who did not write everything after it anew; a seal of every batch
//! shows a change by anybody who lacks the key.

use super::chain::Hash;
use crate::model::hex::{hex, unhex};
use crate::model::secret::Secret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::zeroize::Zeroizing;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

mod watch;

pub use watch::SealedStretch;
pub(super) use watch::{Rekeyed, SealFault, SealWatch};

/// Bytes of a key at least.
pub const MIN_KEY_BYTES: usize = 32;
/// Bytes of a block of SHA-256, which a key is brought to (RFC 2104).
const HMAC_BLOCK_BYTES: usize = 64;
/// What begins the words that a seal is made of, so that no seal can be taken for another kind's.
const BATCH_DOMAIN: &[u8] = b"toolgate batch 1\0";
const HEAD_DOMAIN: &[u8] = b"toolgate head 1\0";
const KEY_DOMAIN: &[u8] = b"toolgate key 1\0";

/// Which key made a seal; tells nothing of the key. Written as 16 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub(super) [u8; 8]);

/// A key that seals. Without `Debug`, wiped when dropped.
#[derive(Clone)]
pub struct SealingKey {
    id: KeyId,
    block: Arc<Zeroizing<[u8; HMAC_BLOCK_BYTES]>>,
}

/// The secret is too short to be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key that seals has {MIN_KEY_BYTES} bytes at least; make one: `openssl rand -hex 32`")]
pub struct SealingKeyTooShort;

/// The keys of a journal. The default has none: nothing is sealed, and no seal can be checked.
#[derive(Clone, Default)]
pub struct SealingKeys {
    /// The key that seals.
    pub current: Option<SealingKey>,
    /// Keys that sealed before.
    pub previous: Vec<SealingKey>,
    /// Keys that sealed before and that nobody has any more: their seals are not checked.
    pub lost: Vec<KeyId>,
}

/// The seal of a batch, as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchSeal {
    pub(super) key: KeyId,
    pub(super) mac: Hash,
    /// What it is to be the seal of: the hash over the frame up to it.
    pub(super) digest: Hash,
}

impl KeyId {
    /// None for the zeros that stand for no key.
    pub(super) fn read(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl FromStr for KeyId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        unhex(text).and_then(Self::read).ok_or(())
    }
}

impl SealingKey {
    /// The key that `secret` is: its bytes as they stand.
    pub fn new(secret: &Secret) -> Result<Self, SealingKeyTooShort> {
        let bytes = secret.expose().as_bytes();
        if bytes.len() < MIN_KEY_BYTES {
            return Err(SealingKeyTooShort);
        }
        let mut block = Zeroizing::new([0; HMAC_BLOCK_BYTES]);
        if bytes.len() > HMAC_BLOCK_BYTES {
            block[..32].copy_from_slice(&Sha256::digest(bytes));
        } else {
            block[..bytes.len()].copy_from_slice(bytes);
        }
        let mut key = Self {
            id: KeyId([0; 8]),
            block: Arc::new(block),
        };
        let id: Hash = key.mac(&[KEY_DOMAIN]).finalize().into_bytes().into();
        key.id.0.copy_from_slice(&id[..8]);
        Ok(key)
    }

    /// Which key it is.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The seal of a batch whose frame up to its seal has the hash `digest`.
    pub(super) fn seal(&self, digest: &Hash) -> Hash {
        self.mac(&[BATCH_DOMAIN, digest])
            .finalize()
            .into_bytes()
            .into()
    }

    fn sealed(&self, seal: &BatchSeal) -> bool {
        self.mac(&[BATCH_DOMAIN, &seal.digest])
            .verify_slice(&seal.mac)
            .is_ok()
    }

    /// The seal of a head, which is `words`.
    pub(super) fn seal_head(&self, words: &str) -> Hash {
        self.mac(&[HEAD_DOMAIN, words.as_bytes()])
            .finalize()
            .into_bytes()
            .into()
    }

    /// Whether `seal` is the seal of a head, which is `words`.
    pub(super) fn sealed_head(&self, words: &str, seal: &Hash) -> bool {
        self.mac(&[HEAD_DOMAIN, words.as_bytes()])
            .verify_slice(seal)
            .is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let block: &[u8; HMAC_BLOCK_BYTES] = &self.block;
        let mut mac = Hmac::<Sha256>::new(block.into());
        for part in parts {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.all().map(|key| key.id.to_string()).collect::<Vec<_>>();
        write!(f, "Keys({})", ids.join(", "))
    }
}

impl SealingKeys {
    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none() && self.lost.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &SealingKey> {
        self.current.iter().chain(&self.previous)
    }

    /// The key of that id.
    pub(super) fn of(&self, id: KeyId) -> Option<&SealingKey> {
        self.all().find(|key| key.id == id)
    }

    /// The id of the key that seals.
    pub fn sealing(&self) -> Option<KeyId> {
        self.current.as_ref().map(SealingKey::id)
    }

    /// Whether the seal is what its key makes of the batch.
    pub(super) fn verify_seal(&self, seal: &BatchSeal) -> SealVerdict {
        match self.of(seal.key) {
            Some(key) if key.sealed(seal) => SealVerdict::Good,
            Some(_) => SealVerdict::Forged,
            None if self.lost.contains(&seal.key) => SealVerdict::Lost,
            None => SealVerdict::Unknown,
        }
    }
}

/// What a seal proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SealVerdict {
    /// The batch, and everything before it, is as it was when it was sealed.
    Good,
    /// Its key did not make it for this batch.
    Forged,
    /// Nothing: nobody has its key any more.
    Lost,
    /// Nothing: its key is not among those given.
    Unknown,
}
