//! The key that encrypts what the ledger keeps of calls, and the answers that are kept for the same
//! call again (`ledger.content.key`, policy §4.13). Losing it loses these, never the ledger.

mod questions;

use super::state::claim::{SealedAnswer, Stored};
use crate::model::content::ContentHead;
use crate::model::digest::Digest;
use crate::model::hex::hex;
use crate::model::secret::Secret;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

mod kept_texts;

/// Bytes of a key at least.
const CONTENT_KEY_BYTES_MIN: usize = 32;
/// What the key for the cipher, and the id, are made of beside the secret: neither tells of the other,
/// nor of a seal with the same secret.
const CIPHER_WORDS: &[u8] = b"toolgate content key 1";
const ID_WORDS: &[u8] = b"toolgate content key id 1";

/// A key. Without `Debug`.
pub struct ContentKey {
    /// Which key it is, in hex; tells nothing of it.
    id: String,
    cipher: LessSafeKey,
}

/// The key that encrypts, and those that did before.
#[derive(Default)]
pub struct ContentKeys {
    /// None: what is kept is not encrypted.
    pub current: Option<ContentKey>,
    /// Those whose contents are still to be read.
    pub previous: Vec<ContentKey>,
}

/// Why a secret cannot be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a key for contents has {CONTENT_KEY_BYTES_MIN} bytes at least; make one: `openssl rand -hex 32`"
)]
pub struct ContentKeyTooShort;

/// Why contents cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentSealed {
    /// The key is not there.
    #[error(
        "encrypted with the key {0}, which is not given: `--key FILE`, or `ledger.content` of the configuration"
    )]
    NoKey(String),
    /// It is not what the key has encrypted.
    #[error("not as it was encrypted with the key {0}")]
    Changed(String),
}

impl ContentKey {
    /// The key that `secret` is.
    pub fn new(secret: &Secret) -> Result<Self, ContentKeyTooShort> {
        let secret = secret.expose().as_bytes();
        if secret.len() < CONTENT_KEY_BYTES_MIN {
            return Err(ContentKeyTooShort);
        }
        let made_of = |words: &[u8]| {
            let mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| ContentKeyTooShort);
            mac.map(|mac| mac.chain_update(words).finalize().into_bytes())
        };
        let key = UnboundKey::new(&AES_256_GCM, &made_of(CIPHER_WORDS)?);
        Ok(Self {
            id: hex(&made_of(ID_WORDS)?[..8]),
            cipher: LessSafeKey::new(key.map_err(|_| ContentKeyTooShort)?),
        })
    }

    /// `text`, encrypted as what `head` says, which names the key from now on. None where there is
    /// no chance for the nonce: then nothing is kept.
    pub fn encrypt(&self, head: &mut ContentHead, text: &[u8]) -> Option<Vec<u8>> {
        head.key = Some(self.id.clone());
        self.seal(serde_json::to_vec(head).ok()?, text)
    }

    /// `text`, encrypted as what `bound` says: it is read as nothing else.
    fn seal(&self, bound: Vec<u8>, text: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut sealed = nonce.to_vec();
        let mut text = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.cipher
            .seal_in_place_append_tag(nonce, Aad::from(bound), &mut text)
            .ok()?;
        sealed.append(&mut text);
        Some(sealed)
    }

    fn open(&self, bound: Vec<u8>, sealed: &[u8]) -> Option<Bytes> {
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let length = self
            .cipher
            .open_in_place(nonce, Aad::from(bound), &mut text)
            .ok()?
            .len();
        text.truncate(length);
        Some(text.into())
    }
}

impl ContentKeys {
    /// What `head` says of `bytes`, decrypted where they are encrypted.
    pub fn read(&self, head: &ContentHead, bytes: Bytes) -> Result<Bytes, ContentSealed> {
        let Some(id) = &head.key else {
            return Ok(bytes);
        };
        // They are no other call's, nor another part of it.
        self.open(id, serde_json::to_vec(head).ok(), &bytes)
    }

    /// An answer as it is kept. None where there is no chance for the nonce: then it is not kept.
    pub fn seal_answer(&self, is_error: bool, body: Bytes) -> Option<Stored> {
        let plain = Stored::inline(is_error, body);
        let Some(key) = &self.current else {
            return Some(plain);
        };
        let sealed = Bytes::from(key.seal(bound(&key.id, &plain)?, &plain.body)?);
        let place = SealedAnswer {
            key: key.id.clone(),
            digest: Digest::of(&sealed),
        };
        Some(Stored {
            sealed: Some(place),
            body: sealed,
            ..plain
        })
    }

    /// The answer `stored`, of which `kept` is kept.
    pub fn open_answer(&self, stored: &Stored, kept: Bytes) -> Result<Bytes, ContentSealed> {
        let Some(SealedAnswer { key, .. }) = &stored.sealed else {
            return Ok(kept);
        };
        self.open(key, bound(key, stored), &kept)
    }

    fn open(
        &self,
        id: &str,
        bound: Option<Vec<u8>>,
        sealed: &[u8],
    ) -> Result<Bytes, ContentSealed> {
        let mut keys = self.current.iter().chain(&self.previous);
        let key = keys
            .find(|key| key.id == id)
            .ok_or_else(|| ContentSealed::NoKey(id.to_owned()))?;
        bound
            .and_then(|bound| key.open(bound, sealed))
            .ok_or_else(|| ContentSealed::Changed(id.to_owned()))
    }
}

/// What an answer's bytes belong to: they are no other answer, and nothing else that is kept.
fn bound(key: &str, answer: &Stored) -> Option<Vec<u8>> {
    let (is_error, size) = (answer.is_error, answer.size);
    serde_json::to_vec(&("answer", key, is_error, size, answer.digest)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::content::{ContentForm, ContentPart};

    fn key(secret: &str) -> ContentKey {
        ContentKey::new(&Secret::new(secret.to_owned())).unwrap()
    }

    fn head() -> ContentHead {
        ContentHead {
            action_id: "one".to_owned(),
            part: ContentPart::Arguments,
            form: ContentForm::Full,
            bytes: 4,
            key: None,
        }
    }

    /// threat-model §3G: what is encrypted is read with its key alone, and only as what it was of the
    /// call that it was of; no two are alike.
    #[test]
    fn contents_are_bound_to_their_call() {
        let (one, two) = ("k".repeat(32), "l".repeat(32));
        let mut head = head();
        let sealed = key(&one).encrypt(&mut head, b"text").unwrap();
        assert_ne!(key(&one).encrypt(&mut head, b"text").unwrap(), sealed);
        assert!(!sealed.windows(4).any(|window| window == b"text"));
        let with = |current: &str, previous: &str| ContentKeys {
            current: Some(key(current)),
            previous: vec![key(previous)],
        };
        let read = |keys: &ContentKeys, head: &ContentHead, sealed: &[u8]| {
            keys.read(head, Bytes::copy_from_slice(sealed))
        };
        let id = head.key.clone().unwrap();
        assert_eq!(read(&with(&two, &one), &head, &sealed).unwrap(), "text");
        let none = ContentSealed::NoKey(id.clone());
        assert_eq!(read(&with(&two, &two), &head, &sealed), Err(none));
        let changed = Err(ContentSealed::Changed(id));
        let other = ContentHead {
            action_id: "two".to_owned(),
            ..head.clone()
        };
        assert_eq!(read(&with(&one, &two), &other, &sealed), changed);
        for end in 0..sealed.len() {
            assert_eq!(read(&with(&one, &two), &head, &sealed[..end]), changed);
        }
        assert!(ContentKey::new(&Secret::new("short".to_owned())).is_err());
        let plain = ContentHead { key: None, ..head };
        assert_eq!(
            read(&ContentKeys::default(), &plain, b"text").unwrap(),
            "text"
        );
    }

    /// threat-model §3G: an answer is kept as nothing that can be read without its key, and is given
    /// again as it was, or not at all.
    #[test]
    fn answers_are_read_with_their_key_alone() {
        let keys = |current: &str, previous: &str| ContentKeys {
            current: Some(key(&current.repeat(32))),
            previous: vec![key(&previous.repeat(32))],
        };
        let body = Bytes::from_static(b"what the server said");
        let kept = keys("k", "l").seal_answer(true, body.clone()).unwrap();
        let plain = Stored::inline(true, body.clone());
        assert_eq!((kept.size, kept.digest), (plain.size, plain.digest));
        assert!(!kept.body.windows(6).any(|window| window == b"server"));
        assert_eq!(*kept.kept_digest(), Digest::of(&kept.body));
        let read = |keys: &ContentKeys, kept: &Stored| keys.open_answer(kept, kept.body.clone());
        assert_eq!(read(&keys("l", "k"), &kept).unwrap(), body);
        let id = kept.sealed.as_ref().unwrap().key.clone();
        assert_eq!(
            read(&keys("l", "m"), &kept),
            Err(ContentSealed::NoKey(id.clone()))
        );
        let other = Stored {
            is_error: false,
            ..kept.clone()
        };
        assert_eq!(
            read(&keys("k", "l"), &other),
            Err(ContentSealed::Changed(id))
        );
        let none = ContentKeys::default();
        assert_eq!(none.seal_answer(true, body.clone()).unwrap(), plain);
        assert_eq!(read(&none, &plain).unwrap(), body);
    }
}
