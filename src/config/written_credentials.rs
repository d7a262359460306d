//! What a tool server is shown of who asks, as written: the keys `oauth` and `headers_for` of a server.

use crate::model::secret::Secret;
use crate::upstream::credentials::terms::{ClientAuth, Otherwise, SubjectTokenType};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Where the tokens come from by which toolgate proves itself to a tool server (OAuth 2, client
/// credentials). They go into `Authorization`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ServerOauth")]
pub(crate) struct OauthSettings {
    /// the token endpoint of its authorization server: `https://`, or `http://` on this machine
    pub token_url: String,
    /// as whom toolgate is known there
    pub client_id: String,
    /// What proves that; keep it in a variable: `${SECRET}`.
    pub client_secret: Secret,
    /// Where both stand: `basic` (in `Authorization`, if absent), or `post` (in the form).
    #[serde(default)]
    pub auth: ClientAuth,
    /// What the tokens are to be good for; if absent, what the authorization server thinks.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// What the tokens are for, as RFC 8707 names it: the `url` of the server if absent. An empty
    /// text: nothing is said, for authorization servers that do not know `resource`.
    pub resource: Option<String>,
    /// The same in `audience`, for authorization servers that want it; if absent, nothing.
    pub audience: Option<String>,
    /// Calls are shown by a token that stands for their caller, made of the one that an issuer of
    /// `auth.jwt` has signed for it (RFC 8693); if absent, by toolgate's own.
    pub exchange: Option<ExchangeSettings>,
}

/// How a caller's token becomes one for the tool server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "TokenExchange")]
pub(crate) struct ExchangeSettings {
    /// What the authorization server is told that the caller's token is: `access_token` (if
    /// absent), or `jwt`.
    pub subject_token_type: SubjectTokenType,
    /// What becomes of calls of callers who bring no such token: `refuse` (if absent), or
    /// `client_credentials`: the server is shown toolgate's own.
    pub otherwise: Otherwise,
}

/// Some callers, and the headers that a tool server is sent with their requests. Of several keys each
/// has to fit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HeadersFor")]
pub(crate) struct HeadersForSettings {
    /// Callers by name.
    #[serde(default)]
    pub agents: Vec<String>,
    /// Callers by group.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Callers by the tenant that they act for.
    #[serde(default)]
    pub tenants: Vec<String>,
    /// sent with their requests, in place of those of `headers` with the same names
    pub headers: BTreeMap<String, Secret>,
}
