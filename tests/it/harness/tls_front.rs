//! TLS before a server that speaks none itself.

use super::doors::Authority;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What ends TLS, and hands on what is in it.
pub struct TlsFront {
    /// Where it is.
    pub address: SocketAddr,
    serving: JoinHandle<()>,
}

impl TlsFront {
    /// Before the server at `plain`, with a certificate of `authority`.
    pub async fn before(plain: SocketAddr, authority: &Authority) -> Self {
        let own = authority.door(2100);
        let chain = vec![CertificateDer::from_pem_slice(own.cert.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A peer that does not believe the certificate ends it here.
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        let mut behind = TcpStream::connect(plain).await.unwrap();
                        drop(copy_bidirectional(&mut stream, &mut behind).await);
                    }
                });
            }
        });
        Self { address, serving }
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
