//! The issuers of operators' tokens, as written.

use crate::guards::identity::jwt::SigningAlgorithm;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// An issuer of tokens (JWT), and which operators they make of who sends them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "OperatorIssuer")]
pub(crate) struct OperatorIssuerSettings {
    /// what `iss` of its tokens says, letter by letter
    pub issuer: String,
    /// what `aud` of its tokens has to name: this door
    pub audience: String,
    /// The address of its public keys (a JWK set): `https://`, or `http://` on this machine.
    pub jwks_url: Option<String>,
    /// The file that its public keys are in, instead.
    pub jwks_file: Option<String>,
    /// The algorithms that may sign: `[ES256, RS256, EdDSA]` if absent.
    #[serde(default)]
    pub algs: Vec<SigningAlgorithm>,
    /// How far its clock and toolgate's may be apart: `30s` if absent, `5m` at most.
    pub leeway: Option<String>,
    /// For how long its last keys count while they cannot be fetched anew: `1h` if absent, 1m to
    /// 24h. Then its tokens are answered 503.
    pub max_stale: Option<String>,
    /// where a token says who asks
    pub claims: OperatorClaimSettings,
    /// which roles of the claim are which operators' roles: `{ sre-team: [approver] }`
    pub roles: BTreeMap<String, Vec<String>>,
    /// The header in which a proxy before this door brings the token, such as
    /// `Cf-Access-Jwt-Assertion`, beside `Authorization`.
    pub header: Option<String>,
}

/// Claims of an operator's token, each by its name or by a JSON pointer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "OperatorClaims")]
pub(crate) struct OperatorClaimSettings {
    /// the operator's name, which has to have an `@`, such as `email`
    pub name: String,
    /// the operator's roles there, a list or a text with blanks between them
    pub roles: String,
}
