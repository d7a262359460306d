//! Keys that sign, for tests: made anew each time, with their key sets.

use super::algorithm::SigningAlgorithm;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key that signs.
pub(crate) struct SigningKey {
    id: String,
    by: SigningAlgorithm,
    pair: Pair,
}

enum Pair {
    Curve(EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

/// Base64 as tokens have it.
pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl SigningKey {
    /// A new one.
    pub(crate) fn new(id: &str, by: SigningAlgorithm) -> Self {
        let curve = |kind: &'static EcdsaSigningAlgorithm| {
            Pair::Curve(EcdsaKeyPair::generate(kind).unwrap())
        };
        let pair = match by {
            SigningAlgorithm::Es256 => curve(&ECDSA_P256_SHA256_FIXED_SIGNING),
            SigningAlgorithm::Es384 => curve(&ECDSA_P384_SHA384_FIXED_SIGNING),
            SigningAlgorithm::Es512 => curve(&ECDSA_P521_SHA512_FIXED_SIGNING),
            SigningAlgorithm::EdDsa => Pair::Edwards(Ed25519KeyPair::generate().unwrap()),
            SigningAlgorithm::Rs256
            | SigningAlgorithm::Rs384
            | SigningAlgorithm::Rs512
            | SigningAlgorithm::Ps256
            | SigningAlgorithm::Ps384
            | SigningAlgorithm::Ps512 => {
                Pair::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()))
            }
        };
        let id = id.to_owned();
        Self { id, by, pair }
    }

    /// The same key, for another algorithm of its kind.
    pub(crate) fn also(self, by: SigningAlgorithm) -> Self {
        Self { by, ..self }
    }

    /// How it is named in a header.
    pub(crate) fn algorithm(&self) -> &'static str {
        match self.by {
            SigningAlgorithm::Es256 => "ES256",
            SigningAlgorithm::Es384 => "ES384",
            SigningAlgorithm::Es512 => "ES512",
            SigningAlgorithm::Rs256 => "RS256",
            SigningAlgorithm::Rs384 => "RS384",
            SigningAlgorithm::Rs512 => "RS512",
            SigningAlgorithm::Ps256 => "PS256",
            SigningAlgorithm::Ps384 => "PS384",
            SigningAlgorithm::Ps512 => "PS512",
            SigningAlgorithm::EdDsa => "EdDSA",
        }
    }

    /// Its public half, as a key set has it.
    pub(crate) fn public(&self) -> Value {
        let mut key = match &self.pair {
            Pair::Curve(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = point[1..].split_at((point.len() - 1) / 2);
                let curve = match x.len() {
                    32 => "P-256",
                    48 => "P-384",
                    _ => "P-521",
                };
                json!({ "kty": "EC", "crv": curve, "x": encoded(x), "y": encoded(y) })
            }
            Pair::Edwards(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(pair.public_key()) })
            }
            Pair::Rsa(pair) => {
                let (n, e) = rsa_numbers(pair.public_key().as_ref());
                json!({ "kty": "RSA", "n": encoded(n), "e": encoded(e) })
            }
        };
        key["kid"] = json!(self.id);
        key["use"] = json!("sig");
        key
    }

    /// Its public half in DER, as a forger has it.
    pub(crate) fn public_der(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Curve(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Edwards(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    /// A token of these claims, with the usual header.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let header = json!({ "alg": self.algorithm(), "kid": self.id, "typ": "at+jwt" });
        self.signed(&header, claims)
    }

    /// A token of this header and these claims, whatever they say.
    pub(crate) fn signed(&self, header: &Value, claims: &Value) -> String {
        self.signed_text(&header.to_string(), &claims.to_string())
    }

    /// The same of exact texts.
    pub(crate) fn signed_text(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encoded(header), encoded(claims));
        let signature = self.signature(signed.as_bytes());
        format!("{signed}.{}", encoded(signature))
    }

    fn signature(&self, signed: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Curve(pair) => pair.sign(&random, signed).unwrap().as_ref().to_vec(),
            Pair::Edwards(pair) => pair.sign(signed).as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let by: &'static dyn RsaEncoding = match self.by {
                    SigningAlgorithm::Rs384 => &RSA_PKCS1_SHA384,
                    SigningAlgorithm::Rs512 => &RSA_PKCS1_SHA512,
                    SigningAlgorithm::Ps256 => &RSA_PSS_SHA256,
                    SigningAlgorithm::Ps384 => &RSA_PSS_SHA384,
                    SigningAlgorithm::Ps512 => &RSA_PSS_SHA512,
                    SigningAlgorithm::Rs256
                    | SigningAlgorithm::Es256
                    | SigningAlgorithm::Es384
                    | SigningAlgorithm::Es512
                    | SigningAlgorithm::EdDsa => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(by, &random, signed, &mut signature).unwrap();
                signature
            }
        }
    }
}

/// A key set of these keys.
pub(crate) fn key_set(keys: &[&SigningKey]) -> Value {
    let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
    json!({ "keys": keys })
}

/// Modulus and exponent of an `RSAPublicKey` in DER: a sequence of two numbers.
fn rsa_numbers(der: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (sequence, _) = part(der);
    let (n, rest) = part(sequence);
    let (e, _) = part(rest);
    let number = |bytes: &[u8]| {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes[zeros..].to_vec()
    };
    (number(n), number(e))
}

/// What the first part of `der` holds, and what follows it.
fn part(der: &[u8]) -> (&[u8], &[u8]) {
    let (bytes, length) = match der[1] {
        short @ 0..=127 => (0, usize::from(short)),
        long => {
            let bytes = usize::from(long & 127);
            let number = der[2..2 + bytes].iter();
            (
                bytes,
                number.fold(0, |sum, byte| (sum << 8) | usize::from(*byte)),
            )
        }
    };
    der[2 + bytes..].split_at(length)
}
