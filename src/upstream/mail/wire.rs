//! The connection to a mail server, which may say so much on it and no more: the library that speaks
//! SMTP keeps a line until it ends, however long it is.

use hyper_rustls::ConfigBuilderExt;
use lettre::transport::smtp::client::AsyncTokioStream;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// All that a mail server may say while it is sent one letter, in bytes; some 500 are usual, and
/// certificates have some thousands.
const MAX_SAID_BYTES: usize = 256 << 10;

/// A connection that breaks when the server says too much.
#[derive(Debug)]
pub(super) struct MailWire<S> {
    stream: S,
    /// How many bytes it may still say.
    left: usize,
}

impl MailWire<TcpStream> {
    pub(super) async fn connected(address: SocketAddr) -> io::Result<Self> {
        Ok(Self::bounded(TcpStream::connect(address).await?))
    }

    /// The same with TLS from the first byte, if the server is `host` to those whom this machine trusts.
    pub(super) async fn encrypted(self, host: &str) -> io::Result<MailWire<TlsStream<TcpStream>>> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(ConfigBuilderExt::try_with_platform_verifier)
            .map_err(io::Error::other)?
            .with_no_client_auth();
        let host = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(host, self.stream).await?;
        Ok(MailWire::bounded(stream))
    }
}

impl<S> MailWire<S> {
    fn bounded(stream: S) -> Self {
        Self {
            stream,
            left: MAX_SAID_BYTES,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MailWire<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        let before = into.filled().len();
        ready!(Pin::new(&mut wire.stream).poll_read(context, into))?;
        let Some(left) = wire.left.checked_sub(into.filled().len() - before) else {
            let said = format!("the mail server says more than {MAX_SAID_BYTES} bytes");
            return Poll::Ready(Err(io::Error::other(said)));
        };
        wire.left = left;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MailWire<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl AsyncTokioStream for MailWire<TcpStream> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

impl AsyncTokioStream for MailWire<TlsStream<TcpStream>> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().0.peer_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{
        AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, repeat,
    };

    /// A line without an end costs what may be said, and what is said within that is heard.
    #[tokio::test]
    async fn what_a_mail_server_says_is_bounded() {
        let mut line = String::new();
        let endless = MailWire::bounded(repeat(b'2'));
        let read = BufReader::new(endless).read_line(&mut line).await;
        let said = read.expect_err("no line ends").to_string();
        assert_eq!(said, "the mail server says more than 262144 bytes");

        let (near, mut far) = tokio::io::duplex(MAX_SAID_BYTES + 1);
        let mut near = MailWire::bounded(near);
        let mut heard = vec![0; MAX_SAID_BYTES];
        far.write_all(&heard).await.unwrap();
        near.read_exact(&mut heard).await.unwrap();
        far.write_all(b"!").await.unwrap();
        assert!(near.read_u8().await.is_err(), "one byte more");
    }
}
