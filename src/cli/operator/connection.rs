//! A connection to an operators' door, however that is entered. Over TLS the door is believed if it
//! shows a certificate of the file that is named, or one that a certificate of it vouches for: a
//! token goes to no other.

use crate::cli::files;
use crate::config::DoorAddress;
use crate::model::listen::ListenAddress;
use anyhow::{Context as _, bail};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// Bytes of a file with certificates.
const CERTIFICATES_BYTES_MAX: u64 = 1 << 20;

/// What both ends of a connection are read from and written to.
pub(super) trait DoorStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> DoorStream for S {}

/// A door that is open, of which nothing is believed yet.
pub(super) struct ReachedDoor {
    address: DoorAddress,
    socket: DoorSocket,
}

enum DoorSocket {
    Unix(UnixStream),
    /// And where it is.
    Tcp(TcpStream, IpAddr),
}

/// Reaches the door at `address`, and says nothing there.
pub(super) async fn reach(address: DoorAddress) -> io::Result<ReachedDoor> {
    let socket = match address.at {
        ListenAddress::Unix(socket) => DoorSocket::Unix(UnixStream::connect(socket.path()).await?),
        ListenAddress::Tcp(at) => {
            let ip = near(at.ip());
            DoorSocket::Tcp(TcpStream::connect((ip, at.port())).await?, ip)
        }
    };
    Ok(ReachedDoor { address, socket })
}

impl ReachedDoor {
    /// A stream to it, where it can be trusted.
    ///
    /// # Errors
    /// It speaks TLS, and proves not to be the one that is named; or no certificate is named that can be read.
    pub(super) async fn enter(self) -> anyhow::Result<Box<dyn DoorStream>> {
        let Self { address, socket } = self;
        let (stream, ip) = match socket {
            DoorSocket::Unix(stream) => return Ok(Box::new(stream)),
            DoorSocket::Tcp(stream, _) if !address.speaks_tls => return Ok(Box::new(stream)),
            DoorSocket::Tcp(stream, ip) => (stream, ip),
        };
        let Some(certificate) = address.certificate else {
            bail!(
                "name the file with the certificate of {address}, or of the authority that vouches for it, with --ca"
            );
        };
        let connector = TlsConnector::from(Arc::new(trusting(certificate)?));
        let stream = connector.connect(ip.into(), stream).await;
        Ok(Box::new(stream.with_context(|| {
            format!(
                "{address} proves not to be whom {} trusts",
                certificate.display()
            )
        })?))
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
    let text = files::read(file, CERTIFICATES_BYTES_MAX).with_context(shown)?;
    let known: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
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
        let vouched = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Self {
            known,
            vouched: vouched.build()?,
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
        self.vouched.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.vouched.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.vouched.supported_verify_schemes()
    }
}
