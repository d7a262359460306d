//! How doors are entered, as it is written: `tls` and `unix`.

use schemars::JsonSchema;
use serde::Deserialize;

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
    /// nobody is asked for one. Operators are known by their tokens.
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
    /// The accounts that may use it, besides what the mode says. None: all that the mode lets in.
    pub peers: PeerSettings,
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
