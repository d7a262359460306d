//! A signed token in compact form (RFC 7515), read strictly: what two readers could read in two ways
//! is read in none. Nothing of it is believed before its signature is checked, except which issuer
//! and key it names, which is where the check begins.

use super::TOKEN_BYTES_MAX;
use super::algorithm::SigningAlgorithm;
use super::key_set::KEY_ID_BYTES_MAX;
use super::rejected::TokenRejected;
use crate::mcp::json::{JsonLimits, Text};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;

const TOKEN_LIMITS: JsonLimits = JsonLimits {
    bytes: TOKEN_BYTES_MAX,
    depth: 16,
    nodes: 4096,
    key: 256,
    string: 8 << 10,
    differential: true,
    folded_depth: 0,
};

/// What an access token says in `typ`, if it says anything. A token for something else that the same
/// issuer has signed (of a logout, say) is none.
const ACCESS_TOKEN_TYPES: [&str; 2] = ["jwt", "at+jwt"];

/// A token whose form is right.
#[derive(Debug)]
pub(super) struct SignedToken<'t> {
    /// By which it says that it is signed.
    pub(super) by: SigningAlgorithm,
    /// The key that it names.
    pub(super) key_id: Option<String>,
    /// What it says.
    pub(super) claims: Text,
    /// What was signed.
    pub(super) signed: &'t [u8],
    /// The signature.
    pub(super) signature: Vec<u8>,
}

/// Whether a bearer token can be one at all.
pub(super) fn is_like_one(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl<'t> SignedToken<'t> {
    /// Reads `token`.
    pub(super) fn read(token: &'t str) -> Result<Self, TokenRejected> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenRejected::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenRejected::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenRejected::Malformed)?;
        let (by, key_id) = read_header(&read_part(header)?)?;
        let claims = read_part(claims)?;
        Ok(Self {
            by,
            key_id,
            claims,
            signed: signed.as_bytes(),
            signature: decoded(signature)?,
        })
    }
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenRejected> {
    let decoded = URL_SAFE_NO_PAD.decode(part);
    decoded.map_err(|_| TokenRejected::Malformed)
}

fn read_part(part: &str) -> Result<Text, TokenRejected> {
    let text = Text::read(Bytes::from(decoded(part)?), &TOKEN_LIMITS);
    text.ok()
        .filter(Text::is_object)
        .ok_or(TokenRejected::Malformed)
}

/// How it says that it is signed, and by which key. Keys that it brings along (`jwk`, `jku`, `x5c`) are
/// nobody's.
fn read_header(header: &Text) -> Result<(SigningAlgorithm, Option<String>), TokenRejected> {
    let text = |name: &str| match header.get(name) {
        None => Ok(None),
        Some(said) => match said.as_str() {
            Some(said) => Ok(Some(said.into_owned())),
            None => Err(TokenRejected::Malformed),
        },
    };
    let named = text("alg")?.ok_or(TokenRejected::Malformed)?;
    if named.eq_ignore_ascii_case("none") {
        return Err(TokenRejected::Unsigned);
    }
    let by = SigningAlgorithm::named(&named).ok_or(TokenRejected::Algorithm)?;
    if header.get("crit").is_some() || header.get("b64").is_some() {
        return Err(TokenRejected::Critical);
    }
    if let Some(kind) = text("typ")? {
        let kind = kind.to_ascii_lowercase();
        let kind = kind.strip_prefix("application/").unwrap_or(&kind);
        if !ACCESS_TOKEN_TYPES.contains(&kind) {
            return Err(TokenRejected::Kind);
        }
    }
    let key_id = text("kid")?;
    if key_id
        .as_ref()
        .is_some_and(|id| id.len() > KEY_ID_BYTES_MAX)
    {
        return Err(TokenRejected::Malformed);
    }
    Ok((by, key_id))
}
