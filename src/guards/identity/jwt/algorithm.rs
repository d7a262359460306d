//! The algorithms that may sign a token. What proves nothing (`none`), and what every server that checks a
//! token could also forge (`HS256` and its kin), has no name here and no code that would take it.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Bits of an RSA key, as the algorithms below have it in their names.
const RSA_BITS_MIN: usize = 2048;

/// One of them, by its name in RFC 7518 and RFC 8037.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) enum SigningAlgorithm {
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "ES384")]
    Es384,
    #[serde(rename = "ES512")]
    Es512,
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "RS384")]
    Rs384,
    #[serde(rename = "RS512")]
    Rs512,
    #[serde(rename = "PS256")]
    Ps256,
    #[serde(rename = "PS384")]
    Ps384,
    #[serde(rename = "PS512")]
    Ps512,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// The kind of key that an algorithm needs, with how it checks.
enum CheckedBy {
    Curve(IssuerKeyKind, &'static dyn VerificationAlgorithm),
    Rsa(&'static RsaParameters),
}

/// What a key is for, so that no key is taken for another algorithm than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IssuerKeyKind {
    P256,
    P384,
    P521,
    Ed25519,
    Rsa,
}

/// The key that checks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyMaterial {
    /// Of a curve.
    Curve { kind: IssuerKeyKind, point: Vec<u8> },
    /// Modulus and exponent, without leading zeros.
    Rsa { n: Vec<u8>, e: Vec<u8> },
}

impl SigningAlgorithm {
    /// What is taken where the configuration names none.
    pub(super) const USUAL: [Self; 3] = [Self::Es256, Self::Rs256, Self::EdDsa];

    /// As the header of a token has it, letter by letter.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "ES512" => Self::Es512,
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "EdDSA" => Self::EdDsa,
            _ => return None,
        })
    }

    fn checked_by(self) -> CheckedBy {
        match self {
            Self::Es256 => CheckedBy::Curve(IssuerKeyKind::P256, &ECDSA_P256_SHA256_FIXED),
            Self::Es384 => CheckedBy::Curve(IssuerKeyKind::P384, &ECDSA_P384_SHA384_FIXED),
            Self::Es512 => CheckedBy::Curve(IssuerKeyKind::P521, &ECDSA_P521_SHA512_FIXED),
            Self::EdDsa => CheckedBy::Curve(IssuerKeyKind::Ed25519, &ED25519),
            Self::Rs256 => CheckedBy::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => CheckedBy::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => CheckedBy::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => CheckedBy::Rsa(&RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => CheckedBy::Rsa(&RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => CheckedBy::Rsa(&RSA_PSS_2048_8192_SHA512),
        }
    }

    /// The kind of key that it needs.
    pub(super) fn kind(self) -> IssuerKeyKind {
        match self.checked_by() {
            CheckedBy::Curve(kind, _) => kind,
            CheckedBy::Rsa(_) => IssuerKeyKind::Rsa,
        }
    }

    /// Whether `signature` is one of `signed` by `key`. A key of another kind has signed nothing.
    pub(super) fn has_signed(self, key: &KeyMaterial, signed: &[u8], signature: &[u8]) -> bool {
        match (self.checked_by(), key) {
            (CheckedBy::Curve(kind, by), KeyMaterial::Curve { kind: own, point }) => {
                kind == *own
                    && UnparsedPublicKey::new(by, point)
                        .verify(signed, signature)
                        .is_ok()
            }
            (CheckedBy::Rsa(by), KeyMaterial::Rsa { n, e }) => RsaPublicKeyComponents { n, e }
                .verify(by, signed, signature)
                .is_ok(),
            (CheckedBy::Curve(..), KeyMaterial::Rsa { .. })
            | (CheckedBy::Rsa(_), KeyMaterial::Curve { .. }) => false,
        }
    }
}

impl KeyMaterial {
    /// Whether an algorithm takes it: of an RSA key its modulus has to be long enough.
    pub(super) fn is_strong(&self) -> bool {
        match self {
            Self::Curve { .. } => true,
            Self::Rsa { n, .. } => {
                let unused = n.first().map_or(0, |first| first.leading_zeros() as usize);
                n.len() * 8 >= RSA_BITS_MIN + unused
            }
        }
    }

    /// What it is for.
    pub(super) fn kind(&self) -> IssuerKeyKind {
        match self {
            Self::Curve { kind, .. } => *kind,
            Self::Rsa { .. } => IssuerKeyKind::Rsa,
        }
    }
}
