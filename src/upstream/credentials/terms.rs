//! Where, and as whom, toolgate asks for the tokens of a tool server.

use crate::model::secret::Secret;
use schemars::JsonSchema;
use serde::Deserialize;

/// What is asked for, and what callers' tokens are taken for, unless that is configured.
pub(super) const ACCESS_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";

/// The authorization server of a tool server, and what it is asked for.
#[derive(Debug, Clone)]
pub struct OauthTerms {
    /// Its token endpoint: `https`, or `http` on this machine.
    pub token_url: String,
    /// As whom toolgate asks.
    pub client_id: String,
    /// What proves that.
    pub client_secret: Secret,
    /// Where the proof stands.
    pub auth: ClientAuth,
    /// What the token is to be good for; none: what the authorization server thinks.
    pub scopes: Vec<String>,
    /// The tool server, as RFC 8707 names it; none is said if none.
    pub resource: Option<String>,
    /// The same, as RFC 8693 and many authorization servers name it.
    pub audience: Option<String>,
    /// Whether callers are shown by tokens that are made of theirs (RFC 8693); none: by toolgate's own.
    pub exchange: Option<ExchangeTerms>,
}

/// How tokens are made of those of callers.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeTerms {
    /// What the authorization server is told of a caller's token.
    pub subject_token_type: SubjectTokenType,
    /// What becomes of requests of callers who have none.
    pub otherwise: Otherwise,
}

/// What a caller's token is, for the authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubjectTokenType {
    /// An access token.
    #[default]
    AccessToken,
    /// A JWT.
    Jwt,
}

/// What becomes of requests of callers of whom no token is at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// They are refused, and nothing is sent.
    #[default]
    Refuse,
    /// The server is shown toolgate's own token.
    ClientCredentials,
}

impl SubjectTokenType {
    /// Its name of RFC 8693 §3.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AccessToken => ACCESS_TOKEN_TYPE,
            Self::Jwt => "urn:ietf:params:oauth:token-type:jwt",
        }
    }
}

/// Where toolgate's own name and secret stand when it asks for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// In `Authorization`, as RFC 6749 has it.
    #[default]
    Basic,
    /// In the form, beside the rest.
    Post,
}

impl OauthTerms {
    /// The token endpoint, for people: without what may be a secret in it.
    pub(super) fn place(&self) -> &str {
        let end = self.token_url.find(['?', '#']);
        &self.token_url[..end.unwrap_or(self.token_url.len())]
    }
}
