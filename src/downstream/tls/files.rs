//! The files of `tls`: what is in them, and whether it can be used together.

use super::certificate::Validity;
use crate::owners;
use crate::owners::regular::{self, FileFault};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of one of the files.
const TLS_FILE_BYTES_MAX: u64 = 1 << 20;
/// What is spoken behind TLS.
const SPOKEN_PROTOCOL: &[u8] = b"http/1.1";

/// Where the certificate of a door is, and whom it asks for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The certificate, and those that vouch for it, in PEM.
    pub(crate) cert: PathBuf,
    /// Its private key, in PEM.
    pub(crate) key: PathBuf,
    /// The authorities whose certificates are taken from peers; none: agents are asked for none.
    pub(crate) authorities: Option<PathBuf>,
    /// Whether a peer without one is refused.
    pub(crate) needs_certificate: bool,
}

/// What the files hold.
pub(crate) struct LoadedPair {
    /// As the library runs it.
    pub(super) config: Arc<ServerConfig>,
    /// When the certificate holds, with those that vouch for it.
    pub(crate) validity: Validity,
    /// Over the bytes of all files.
    pub(super) fingerprint: [u8; 32],
}

/// Why the files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFault {
    /// Which member of `tls` names the file: `cert`, `key` or `client_ca`.
    pub(crate) member: &'static str,
    /// What is wrong.
    pub(crate) message: String,
    /// What helps.
    pub(crate) hint: Cow<'static, str>,
}

impl TlsFault {
    fn new(member: &'static str, message: String) -> Self {
        let hint = match member {
            "key" => "name the file with the private key of `cert`, in PEM",
            "client_ca" => "name a file with the certificates of the authorities, in PEM",
            _ => "name a file with the certificate, and those that vouch for it after it, in PEM",
        };
        Self {
            member,
            message,
            hint: hint.into(),
        }
    }

    /// The certificate in force holds, and this one does not.
    pub(super) fn out_of_time(validity: Validity) -> Self {
        let Validity { from, until } = validity;
        Self::new(
            "cert",
            format!("the new certificate holds from {from} until {until} only"),
        )
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            member,
            message,
            hint,
        } = self;
        write!(f, "`tls.{member}`: {message}; {hint}")
    }
}

impl std::error::Error for TlsFault {}

impl TlsFiles {
    /// All of the files.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.named().map(|(_, path)| path)
    }

    /// The same, with the members of `tls` that name them.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let pair = [("cert", &self.cert), ("key", &self.key)];
        let authorities = self.authorities.iter().map(|path| ("client_ca", path));
        pair.into_iter().chain(authorities)
    }

    /// Whether none of them can be another account's doing.
    ///
    /// # Errors
    /// Others may change one, or what is on the way to it: they could show their own certificate, or
    /// vouch for agents.
    pub(super) fn judge_owners(&self) -> Result<(), TlsFault> {
        for (member, path) in self.named() {
            if let Some(exposed) = owners::exposed(path).first() {
                let message = format!("{}: {}", exposed.path.display(), exposed.message());
                return Err(TlsFault {
                    member,
                    message,
                    hint: exposed.hint().into(),
                });
            }
        }
        Ok(())
    }

    /// What they hold. Reads from disk: not for an async task.
    ///
    /// # Errors
    /// One of them cannot be read, or does not hold what it should; or they do not fit together.
    pub(crate) fn load(&self) -> Result<LoadedPair, TlsFault> {
        let cert = read("cert", &self.cert)?;
        let key = read("key", &self.key)?;
        let authorities = self.authorities.as_deref();
        let authorities = authorities
            .map(|path| read("client_ca", path))
            .transpose()?;
        let mut bytes = Sha256::new();
        for file in [&cert, &key].into_iter().chain(&authorities) {
            bytes.update((file.len() as u64).to_le_bytes());
            bytes.update(file);
        }
        let chain = certificates("cert", &self.cert, &cert)?;
        let validity = Validity::of_all(&chain).ok_or_else(|| {
            let path = self.cert.display();
            TlsFault::new(
                "cert",
                format!("{path} has a certificate that cannot be read"),
            )
        })?;
        let private = PrivateKeyDer::from_pem_slice(&key).map_err(|_| {
            let path = self.key.display();
            TlsFault::new("key", format!("{path} has no private key in it"))
        })?;
        Ok(LoadedPair {
            config: Arc::new(self.config(chain, private, authorities.as_deref())?),
            validity,
            fingerprint: bytes.finalize().into(),
        })
    }

    /// As the library runs it.
    fn config(
        &self,
        chain: Vec<CertificateDer<'static>>,
        private: PrivateKeyDer<'static>,
        authorities: Option<&[u8]>,
    ) -> Result<ServerConfig, TlsFault> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsFault::new("cert", error.to_string()))?;
        let builder = match authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let roots = Arc::new(self.roots(authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = if self.needs_certificate {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                let verifier = verifier.build();
                let verifier =
                    verifier.map_err(|error| TlsFault::new("client_ca", error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, private);
        let mut config = config.map_err(|error| {
            let words = format!("the key cannot be used with the certificate: {error}");
            TlsFault::new("key", words)
        })?;
        config.alpn_protocols = vec![SPOKEN_PROTOCOL.to_vec()];
        if authorities.is_some() {
            // A session that is taken up again would be believed without its certificate.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(config)
    }

    fn roots(&self, text: &[u8]) -> Result<RootCertStore, TlsFault> {
        let path = self.authorities.as_deref().unwrap_or(Path::new(""));
        let mut roots = RootCertStore::empty();
        for authority in certificates("client_ca", path, text)? {
            roots.add(authority).map_err(|error| {
                let path = path.display();
                let words = format!("{path} has a certificate that cannot vouch: {error}");
                TlsFault::new("client_ca", words)
            })?;
        }
        Ok(roots)
    }
}

fn read(member: &'static str, path: &Path) -> Result<Vec<u8>, TlsFault> {
    regular::read(path, TLS_FILE_BYTES_MAX).map_err(|fault| {
        let shown = path.display();
        let words = match fault {
            FileFault::TooLarge(most) => format!("{shown} is longer than {most} bytes"),
            other @ (FileFault::Unreadable(_) | FileFault::NotRegular) => {
                format!("{shown} cannot be read: {other}")
            }
        };
        TlsFault::new(member, words)
    })
}

/// All certificates of a file, at least one.
fn certificates(
    member: &'static str,
    path: &Path,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let shown = path.display();
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let all = all.map_err(|error| TlsFault::new(member, format!("{shown} is no PEM: {error}")))?;
    if all.is_empty() {
        let words = format!("{shown} has no certificate in it");
        return Err(TlsFault::new(member, words));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
