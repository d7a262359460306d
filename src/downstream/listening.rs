//! Where a door listens: TCP, or a Unix socket whose file says by its mode, and whose list says by
//! account, which programs of this machine may come in.

use super::farewell::farewell;
use super::guest_stream::{GuestStream, account_address};
use super::tls::TlsDoor;
use crate::model::clock::Clock;
use crate::model::listen::{ListenAddress, SocketPath};
use crate::telemetry::paced_log::PacedLog;
use crate::telemetry::tasks;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// Connections that wait to be accepted at once; one more waits a second to ask anew.
const LISTEN_BACKLOG: u32 = 1024;
/// Answered to an account that may not come in; its connection ends.
const NOT_ADMITTED_ANSWER: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 62\r\nConnection: close\r\n\r\n\
                                     {\"error\":\"your account is not among `unix.peers` of toolgate\"}";

/// Accounts that are answered so at once; the connections of more just end.
const MAX_FAREWELLS: usize = 16;

/// How often it is tried to have the directory of a socket alone, and how long after each time …
const LOCK_TRIES: u32 = 20;
/// … since another toolgate needs it for less.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

static FAREWELLS: Semaphore = Semaphore::const_new(MAX_FAREWELLS);

/// Which programs of this machine may come in by a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SocketAccess {
    /// The mode of its file: its permission bits, 0o001 to 0o777.
    pub(crate) mode: u32,
    /// The accounts that may, where these or `gids` are named; else all that can open the file.
    pub(crate) uids: Vec<u32>,
    /// The groups that may: of a program, the one it runs as.
    pub(crate) gids: Vec<u32>,
}

impl SocketAccess {
    fn admits(&self, uid: u32, gid: u32) -> bool {
        let is_named = !self.uids.is_empty() || !self.gids.is_empty();
        !is_named || self.uids.contains(&uid) || self.gids.contains(&gid)
    }
}

/// An open door.
pub(crate) struct DoorListener {
    socket: BoundSocket,
    tls: Option<Arc<TlsDoor>>,
}

enum BoundSocket {
    Tcp(TcpListener),
    Unix(Box<BoundUnixSocket>),
}

/// A Unix socket, whose file goes with it.
struct BoundUnixSocket {
    listener: UnixListener,
    access: SocketAccess,
    address: SocketPath,
    /// Device and number of its file.
    file: (u64, u64),
    not_admitted: PacedLog,
}

/// A connection that was accepted.
pub(super) struct Newcomer {
    pub(super) stream: GuestStream,
    /// What stands for its peer where peers are counted.
    pub(super) peer: IpAddr,
    pub(super) from: PeerOrigin,
}

/// Whence a connection comes.
#[derive(Debug, Clone, Copy)]
pub(super) enum PeerOrigin {
    /// From an address.
    Address(SocketAddr),
    /// From an account of this machine.
    Account(u32),
}

// === impl DoorListener ===

impl DoorListener {
    /// Listens at `address`; `access` is for sockets.
    ///
    /// # Errors
    /// It cannot be listened at, or another process does.
    pub(crate) fn bind(address: ListenAddress, access: &SocketAccess) -> io::Result<Self> {
        let socket = match address {
            ListenAddress::Tcp(address) => BoundSocket::Tcp(bind_tcp(address)?),
            ListenAddress::Unix(socket) => {
                BoundSocket::Unix(Box::new(BoundUnixSocket::bind(socket, access.clone())?))
            }
        };
        Ok(Self { socket, tls: None })
    }

    /// The same, with TLS.
    pub(crate) fn with_tls(self, tls: Option<Arc<TlsDoor>>) -> Self {
        Self { tls, ..self }
    }

    /// Where it listens, with the port that port 0 became.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn address(&self) -> io::Result<ListenAddress> {
        match &self.socket {
            BoundSocket::Tcp(listener) => listener.local_addr().map(ListenAddress::Tcp),
            BoundSocket::Unix(socket) => Ok(ListenAddress::Unix(socket.address)),
        }
    }

    /// How a connection becomes one with TLS, where this door speaks it.
    pub(crate) fn tls(&self) -> Option<&Arc<TlsDoor>> {
        self.tls.as_ref()
    }

    /// The TCP socket, where it is one.
    pub(super) fn tcp(&self) -> Option<&TcpListener> {
        match &self.socket {
            BoundSocket::Tcp(listener) => Some(listener),
            BoundSocket::Unix(_) => None,
        }
    }

    /// The next connection; none where its peer may not come in.
    ///
    /// # Errors
    /// The system has none to give: it is out of file descriptors, or the peer is gone already.
    pub(super) async fn accept(&self) -> io::Result<Option<Newcomer>> {
        match &self.socket {
            BoundSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok(Some(Newcomer {
                    stream: GuestStream::Tcp(stream),
                    peer: peer.ip().to_canonical(),
                    from: PeerOrigin::Address(peer),
                }))
            }
            BoundSocket::Unix(socket) => {
                let (stream, _) = socket.listener.accept().await?;
                Ok(socket.admitted(stream))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

// === impl BoundUnixSocket ===

impl BoundUnixSocket {
    fn bind(address: SocketPath, access: SocketAccess) -> io::Result<Self> {
        let path = address.path();
        let place = lock_place(&address.directory())?;
        remove_stale(path)?;
        let listener = UnixListener::bind(path)?;
        let found = fs::symlink_metadata(path)?;
        // From here on its file goes with it, whatever fails.
        let bound = Self {
            listener,
            access,
            address,
            file: (found.dev(), found.ino()),
            not_admitted: PacedLog::new(),
        };
        // Until here its mode is what the process's own files have, which is less.
        fs::set_permissions(path, Permissions::from_mode(bound.access.mode))?;
        drop(place);
        Ok(bound)
    }

    /// The connection, if the account at its other end may come in.
    fn admitted(&self, stream: UnixStream) -> Option<Newcomer> {
        // One that is gone already tells nothing.
        let peer = stream.peer_cred().ok()?;
        let (uid, gid) = (peer.uid(), peer.gid());
        if !self.access.admits(uid, gid) {
            if let Some(times) = self.not_admitted.count(Clock.steady()) {
                let socket = self.address.path().display();
                tracing::warn!(
                    uid,
                    gid,
                    times,
                    "an account that is not among `unix.peers` came to {socket}, and was answered 403"
                );
            }
            if let Ok(place) = FAREWELLS.try_acquire() {
                tasks::spawn("refused account", async move {
                    farewell(stream, NOT_ADMITTED_ANSWER).await;
                    drop(place);
                });
            }
            return None;
        }
        Some(Newcomer {
            stream: GuestStream::Unix(stream),
            peer: account_address(uid),
            from: PeerOrigin::Account(uid),
        })
    }
}

impl Drop for BoundUnixSocket {
    fn drop(&mut self) {
        let path: PathBuf = self.address.path().to_owned();
        let own = fs::symlink_metadata(&path);
        if own.is_ok_and(|found| (found.dev(), found.ino()) == self.file) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Keeps every other toolgate from opening a socket in `directory` until it is dropped: of two that
/// start at once the second would take the first's for one that was left behind. Where the directory
/// cannot be locked, it keeps none.
fn lock_place(directory: &Path) -> io::Result<Option<fs::File>> {
    let Ok(place) = fs::File::open(directory) else {
        return Ok(None);
    };
    for _ in 0..LOCK_TRIES {
        match flock(&place, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            Ok(()) | Err(_) => return Ok(Some(place)),
        }
    }
    let words = "another process keeps its directory to open a socket there";
    Err(io::Error::new(io::ErrorKind::AddrInUse, words))
}

/// Removes the socket that a process has left behind which listens no more.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "what is there is no socket",
        ));
    }
    if is_listened_on(path)? {
        let words = "another process listens there";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, words));
    }
    fs::remove_file(path)
}

/// Whether a process listens on the socket at `path`. Waits for none: one that lets nobody in (its
/// queue is full) listens, too.
fn is_listened_on(path: &Path) -> io::Result<bool> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let asking = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&asking, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(rustix::io::Errno::AGAIN) => Ok(true),
        Err(rustix::io::Errno::CONNREFUSED) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
