//! The public keys of an issuer, as its key set says (RFC 7517). What is no key for checking
//! signatures is left out, a secret one above all; what is too much is no key set.

use super::algorithm::{IssuerKeyKind, KeyMaterial, SigningAlgorithm};
use crate::mcp::json::{JsonLimits, Text};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use std::sync::Arc;

/// Bytes of a key set.
pub(crate) const KEY_SET_BYTES_MAX: usize = 256 << 10;
/// Keys in one.
const KEYS_MAX: usize = 64;
/// Bytes of a key's id.
pub(super) const KEY_ID_BYTES_MAX: usize = 256;
/// Bytes of an RSA key's parts: 8192 bits.
const RSA_BYTES_MAX: usize = 1024;
/// What a point of a curve begins with that is written as two numbers.
const POINT_MARK: u8 = 4;

const KEY_SET_LIMITS: JsonLimits = JsonLimits {
    bytes: KEY_SET_BYTES_MAX,
    depth: 8,
    nodes: 8192,
    key: 256,
    string: 64 << 10,
    differential: false,
    folded_depth: 0,
};

/// The keys of an issuer that can check signatures; one at least.
#[derive(Debug)]
pub(crate) struct KeySet {
    keys: Vec<Arc<IssuerKey>>,
    /// Keys that are left out because others could find out their private halves.
    pub(crate) weak: usize,
}

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IssuerKey {
    id: Option<String>,
    /// The only algorithm it is for, if it says so.
    only: Option<SigningAlgorithm>,
    pub(super) material: KeyMaterial,
}

/// Why a text is no key set. Never quotes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoKeySet {
    /// Not JSON, or not within the bounds.
    #[error("it is no JSON object of at most {} KiB", KEY_SET_BYTES_MAX >> 10)]
    NoJson,
    /// No list `keys`.
    #[error("it has no list `keys`")]
    NoList,
    /// More keys than an issuer needs.
    #[error("it has more than {KEYS_MAX} keys")]
    TooMany,
    /// None of them can check a signature.
    #[error("none of its keys can check the signature of a token")]
    NoneFits,
    /// Those that could are too short.
    #[error("its keys are RSA keys of fewer than 2048 bits, which check no token")]
    Weak,
}

impl KeySet {
    /// Reads the text of a key set.
    pub(crate) fn read(text: Bytes) -> Result<Self, NoKeySet> {
        let set = Text::read(text, &KEY_SET_LIMITS).map_err(|_| NoKeySet::NoJson)?;
        let keys = set.get("keys").and_then(|keys| keys.elements());
        let keys = keys.ok_or(NoKeySet::NoList)?;
        if keys.len() > KEYS_MAX {
            return Err(NoKeySet::TooMany);
        }
        let keys = keys.iter().filter_map(IssuerKey::read).map(Arc::new);
        let (keys, weak): (Vec<_>, Vec<_>) = keys.partition(|key| key.material.is_strong());
        let weak = weak.len();
        match (keys.is_empty(), weak) {
            (true, 0) => Err(NoKeySet::NoneFits),
            (true, _) => Err(NoKeySet::Weak),
            (false, _) => Ok(Self { keys, weak }),
        }
    }

    /// Whether it has a key of that id, whatever that is for.
    pub(super) fn has(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// The keys by which a token of that id and algorithm can be signed. A token that names no key is
    /// taken only where nothing has to be tried out: where one key fits.
    pub(super) fn fitting(&self, id: Option<&str>, by: SigningAlgorithm) -> Vec<&Arc<IssuerKey>> {
        let fits = |key: &&Arc<IssuerKey>| {
            key.material.kind() == by.kind()
                && key.only.is_none_or(|only| only == by)
                && id.is_none_or(|id| key.id.as_deref() == Some(id))
        };
        let mut found: Vec<&Arc<IssuerKey>> = self.keys.iter().filter(fits).collect();
        if id.is_none() && found.len() > 1 {
            found.clear();
        }
        found
    }

    /// Whether `key` is one of them.
    pub(super) fn holds(&self, key: &IssuerKey) -> bool {
        self.keys.iter().any(|own| **own == *key)
    }

    /// Whether both have the same keys: what one has signed is good by the other.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let within = |one: &Self, other: &Self| one.keys.iter().all(|key| other.holds(key));
        self.weak == other.weak && within(self, other) && within(other, self)
    }
}

impl IssuerKey {
    /// None: it is not for checking signatures, or not by an algorithm that is taken.
    fn read(key: &Text) -> Option<Self> {
        let text = |name: &str| match key.get(name) {
            None => Some(None),
            Some(said) => Some(Some(said.as_str()?.into_owned())),
        };
        let id = text("kid")?;
        if id.as_ref().is_some_and(|id| id.len() > KEY_ID_BYTES_MAX) {
            return None;
        }
        if text("use")?.is_some_and(|to| to != "sig") || !may_verify(key) {
            return None;
        }
        let only = match text("alg")? {
            Some(named) => Some(SigningAlgorithm::named(&named)?),
            None => None,
        };
        let part = |name: &str| {
            let said = key.get(name)?;
            URL_SAFE_NO_PAD.decode(said.as_str()?.as_bytes()).ok()
        };
        let material = match (text("kty")?.as_deref()?, text("crv")?.as_deref()) {
            ("EC", Some(curve)) => point(curve, &part("x")?, &part("y")?)?,
            ("OKP", Some("Ed25519")) => {
                let point = part("x").filter(|point| point.len() == 32)?;
                KeyMaterial::Curve {
                    kind: IssuerKeyKind::Ed25519,
                    point,
                }
            }
            ("RSA", _) => KeyMaterial::Rsa {
                n: number(part("n")?)?,
                e: number(part("e")?)?,
            },
            _ => return None,
        };
        Some(Self { id, only, material })
    }
}

/// Whether its `key_ops`, if it has any, name checking.
fn may_verify(key: &Text) -> bool {
    let Some(uses) = key.get("key_ops") else {
        return true;
    };
    let mut uses = uses.elements().unwrap_or_default().into_iter();
    uses.any(|one| one.as_str().is_some_and(|one| one == "verify"))
}

fn point(curve: &str, x: &[u8], y: &[u8]) -> Option<KeyMaterial> {
    let (kind, bytes) = match curve {
        "P-256" => (IssuerKeyKind::P256, 32),
        "P-384" => (IssuerKeyKind::P384, 48),
        "P-521" => (IssuerKeyKind::P521, 66),
        _ => return None,
    };
    if x.len() != bytes || y.len() != bytes {
        return None;
    }
    let point = [&[POINT_MARK], x, y].concat();
    Some(KeyMaterial::Curve { kind, point })
}

fn number(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    (!bytes.is_empty() && bytes.len() <= RSA_BYTES_MAX).then_some(bytes)
}
