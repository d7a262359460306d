//! A connection to an operators' door, however that is entered. Over TLS the door is believed if it
//! shows a certificate of the file that is named, or one that a certificate of it vouches for: a
//! token goes to no other.

use crate::config::DoorAddress;
use crate::model::listen::ListenAddress;
use anyhow::{Context as _, bail};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// What both ends of a connection are read from and written to.
pub(super) trait DoorStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> DoorStream for S {}

/// Connects to the door at `address`.
pub(super) async fn connect(address: DoorAddress) -> anyhow::Result<Box<dyn DoorStream>> {
    let address_of = |at: SocketAddr| SocketAddr::new(near(at.ip()), at.port());
    match address.at {
        ListenAddress::Unix(socket) => Ok(Box::new(UnixStream::connect(socket.path()).await?)),
        ListenAddress::Tcp(at) if !address.speaks_tls => {
            Ok(Box::new(TcpStream::connect(address_of(at)).await?))
        }
        ListenAddress::Tcp(at) => {
            let at = address_of(at);
            let Some(certificate) = address.certificate else {
                bail!(
                    "name the file with the certificate of {address}, or of the authority that vouches for it, with --ca"
                );
            };
            let connector = TlsConnector::from(Arc::new(trusting(certificate)?));
            let stream = TcpStream::connect(at).await?;
            let stream = connector.connect(at.ip().into(), stream).await;
            Ok(Box::new(stream.with_context(|| {
                format!(
                    "{address} proves not to be whom {} trusts",
                    certificate.display()
                )
            })?))
        }
    }
}

/// Where a door is reached from here that is open at `ip`.
fn near(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    }
}

fn trusting(file: &Path) -> anyhow::Result<ClientConfig> {
    let shown = || format!("{} cannot be used to know the door by", file.display());
    let known: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file)
        .with_context(shown)?
        .collect();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = KnownDoor::new(known.with_context(shown)?, provider.clone());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier.with_context(shown)?))
        .with_no_client_auth())
}

/// The certificates by which a door is known.
#[derive(Debug)]
struct KnownDoor {
    known: Vec<CertificateDer<'static>>,
    vouched: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

impl KnownDoor {
    fn new(
        known: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in &known {
            roots.add(certificate.clone())?;
        }
        let vouched =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        Ok(Self {
            known,
            vouched: vouched.build()?,
            provider,
        })
    }
}

impl ServerCertVerifier for KnownDoor {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The very one: its key is proved by the signatures below, whatever names it has.
        if self.known.iter().any(|known| known == shown) {
            return Ok(ServerCertVerified::assertion());
        }
        self.vouched
            .verify_server_cert(shown, others, name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, shown, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, shown, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
