//! The issuers of operators' tokens, as written.

use crate::guards::identity::jwt::written::issuer_settings;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

issuer_settings! {
    /// An issuer of tokens (JWT), and which operators they make of who sends them.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "OperatorIssuer")]
    struct OperatorIssuerSettings {
        /// where a token says who asks
        pub claims: OperatorClaimSettings,
        /// which roles of the claim are which operators' roles: `{ sre-team: [approver] }`
        pub roles: BTreeMap<String, Vec<String>>,
        /// The header in which a proxy before this door brings the token, such as
        /// `Cf-Access-Jwt-Assertion`, beside `Authorization`.
        pub header: Option<String>,
    }
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
