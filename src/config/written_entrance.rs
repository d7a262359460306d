//! How doors are entered, as it is written: `tls` and `unix`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// TLS at a door. The files are read anew when they change; connections that are open go on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tls")]
pub(crate) struct TlsSettings {
    /// the file with the door's certificate, and those that vouch for it after it, in PEM
    pub cert: String,
    /// the file with its private key, in PEM
    pub key: String,
    /// The file with the authorities whose certificates are taken from agents, in PEM. Without it
    /// agents are asked for none. Operators are known by their tokens.
    pub client_ca: Option<String>,
    /// Whether a connection without such a certificate is refused: `optional` if absent, or
    /// `required`.
    pub client_certificates: Option<ClientCertificates>,
}

/// Whether who connects has to show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(crate) enum ClientCertificates {
    /// It may.
    Optional,
    /// It has to.
    Required,
}

/// A door that is a Unix socket: who may use it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "UnixSocket")]
pub(crate) struct SocketSettings {
    /// The mode of its file, in quotes: `"0600"` if absent.
    pub mode: Option<String>,
    /// The accounts that may use it, besides what the mode says: one account or group at least. If
    /// absent, all that the mode lets in.
    #[serde(deserialize_with = "peers")]
    #[schemars(with = "PeerSettings")]
    pub peers: Option<PeerSettings>,
}

/// A key without a value names no account, and is not absent: else each agent on this machine would come in.
fn peers<'de, D: Deserializer<'de>>(written: D) -> Result<Option<PeerSettings>, D::Error> {
    PeerSettings::deserialize(written).map(Some)
}

/// Accounts of this machine, by number, as the kernel tells them of a connection.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "UnixPeers")]
pub(crate) struct PeerSettings {
    /// Accounts.
    pub uids: Vec<u32>,
    /// Groups: of a program, the one that it runs as, and none of its others.
    pub gids: Vec<u32>,
}
