//! The issuers of callers' tokens, as written: the key `auth`.

use super::super::jwt::written::issuer_settings;
use schemars::JsonSchema;
use serde::Deserialize;

/// Callers that an identity provider names in tokens it has signed, beside those of `callers`.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Auth")]
pub(crate) struct AuthSettings {
    /// Where agents reach toolgate from elsewhere, such as `https://tools.example.com`: what its
    /// metadata for OAuth (RFC 9728) say. Without it, it has none.
    pub public_url: Option<String>,
    /// The issuers of tokens.
    pub jwt: Vec<CallerIssuerSettings>,
}

issuer_settings! {
    /// An issuer of tokens (JWT), and whom they make of who sends them.
    #[derive(Debug, Clone, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "CallerIssuer")]
    struct CallerIssuerSettings {
        /// where a token says who calls
        pub claims: CallerClaimSettings,
        /// Scopes that a token has to have, each of them; without one it is answered 403.
        #[serde(default)]
        pub scopes: Vec<String>,
        /// The group that its agents belong to.
        pub group: Option<String>,
        /// The agents that its tokens may name; if absent, all that neither `callers` nor another issuer
        /// names.
        #[serde(default)]
        pub agents: Vec<String>,
    }
}

/// Claims of a token, each by its name or by a JSON pointer. One that is configured has to be in every
/// token, in its own form.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CallerClaims")]
pub(crate) struct CallerClaimSettings {
    /// the agent's name, such as `azp` or `client_id`
    pub agent: String,
    /// The tenant that it acts for; if absent, none.
    pub tenant: Option<String>,
    /// Its roles, a list or a text with blanks between them; if absent, none.
    pub roles: Option<String>,
    /// The person that it acts for; if absent, none.
    pub on_behalf_of: Option<String>,
}
