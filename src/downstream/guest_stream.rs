//! A connection as the door reads and writes it: over TCP, over TCP with TLS, or on a Unix socket.
//! An enum, so that plain TCP costs one comparison more and no allocation.

use super::tls::records::Records;
use rustix::io::ioctl_fionread;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context as Task, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// Above the numbers of accounts in what stands for an address: the discard prefix of IPv6 (RFC
/// 6666), from which no connection comes.
const ACCOUNT_PREFIX: u128 = 0x0100 << 112;

/// Bytes that TLS keeps of what is written, while the connection takes no more.
pub(super) const TLS_BUFFER_BYTES_MAX: usize = 64 << 10;

/// A connection of one peer.
pub(super) enum GuestStream {
    /// As it is.
    Tcp(TcpStream),
    /// With TLS, whose handshake is over.
    Tls(Box<TlsStream<Records>>),
    /// From a program on this machine.
    Unix(UnixStream),
}

impl GuestStream {
    /// The TCP connection below, where there is one.
    pub(super) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(stream) => Some(stream.get_ref().0.stream()),
            Self::Unix(_) => None,
        }
    }

    /// Whether its listener is reached from this machine only.
    pub(super) fn is_local(&self) -> bool {
        self.tcp().is_none_or(|stream| {
            let own = stream.local_addr();
            own.is_ok_and(|own| own.ip().to_canonical().is_loopback())
        })
    }

    /// The names by which the certificate of the peer knows it, if it showed one: its URIs. None
    /// of them where what it has cannot be read.
    pub(super) fn certificate(&self) -> Option<Vec<String>> {
        let Self::Tls(stream) = self else {
            return None;
        };
        let shown = stream.get_ref().1.peer_certificates()?.first()?;
        Some(super::tls::certificate::uris(shown))
    }

    /// Bytes at most that count as written and are not in the hands of the kernel: what TLS keeps
    /// until the connection takes it. 0 where there are none.
    pub(super) fn held_back(&self) -> usize {
        match self {
            Self::Tls(stream) if stream.get_ref().1.wants_write() => TLS_BUFFER_BYTES_MAX,
            Self::Tcp(_) | Self::Tls(_) | Self::Unix(_) => 0,
        }
    }

    /// How many bytes the kernel has taken behind TLS, from 0 on again after the last number: what
    /// is written elsewhere is taken when it is written.
    pub(super) fn handed_over(&self) -> u64 {
        match self {
            Self::Tls(stream) => stream.get_ref().0.handed_over(),
            Self::Tcp(_) | Self::Unix(_) => 0,
        }
    }

    /// Whether bytes of the peer have come that nobody has read yet.
    pub(super) fn has_unread(&mut self) -> bool {
        let comes = |socket: BorrowedFd<'_>| ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0);
        match self {
            Self::Tcp(stream) => comes(stream.as_fd()),
            Self::Unix(stream) => comes(stream.as_fd()),
            Self::Tls(stream) => {
                let (below, session) = stream.get_mut();
                let decrypted = session.process_new_packets();
                below.is_within_record()
                    || comes(below.stream().as_fd())
                    || decrypted.map_or(true, |state| state.plaintext_bytes_to_read() > 0)
            }
        }
    }
}

/// What stands for the account `uid` of this machine where addresses are counted.
pub(super) fn account_address(uid: u32) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(
        ACCOUNT_PREFIX | (u128::from(uid) << 64),
    ))
}

impl AsFd for GuestStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.stream().as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl From<TcpStream> for GuestStream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl AsyncRead for GuestStream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(task, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(task, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(task, buffer),
        }
    }
}

impl AsyncWrite for GuestStream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(task, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(task, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(task, bytes),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(task, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(task, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(task, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(task),
            Self::Tls(stream) => Pin::new(stream).poll_flush(task),
            Self::Unix(stream) => Pin::new(stream).poll_flush(task),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(task),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(task),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(task),
        }
    }
}
