//! Where a door is: an address of the network, or a socket among the files of this machine.

use core::net::SocketAddr;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What stands before the path of a socket.
const SOCKET_SCHEME: &str = "unix:";
/// Bytes of a path by which a socket can be reached: what Linux has room for.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Where a door is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenAddress {
    /// IP and port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(SocketPath),
}

/// The path of a Unix socket: 1 to 107 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SocketPath {
    bytes: [u8; SOCKET_PATH_BYTES_MAX],
    length: usize,
}

/// Why a text says no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoListenAddress {
    /// It is neither IP and port nor a socket.
    #[error("is no address to listen on")]
    Unreadable,
    /// The path of its socket is empty, or has a byte that ends it.
    #[error("names no socket")]
    NoPath,
    /// The path of its socket is longer than the system can reach.
    #[error("the path of this socket is longer than {SOCKET_PATH_BYTES_MAX} bytes")]
    TooLong,
}

// === impl ListenAddress ===

impl ListenAddress {
    /// IP and port, where it has them.
    pub fn tcp(self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(address),
            Self::Unix(_) => None,
        }
    }

    /// What is named to reach `path` there, with or without TLS; a socket as it is, which has no URL.
    pub fn url(self, is_tls: bool, path: &str) -> String {
        match self {
            Self::Tcp(address) if is_tls => format!("https://{address}{path}"),
            Self::Tcp(address) => format!("http://{address}{path}"),
            Self::Unix(_) => self.to_string(),
        }
    }

    /// Whether only this machine reaches it.
    pub fn is_local(self) -> bool {
        self.tcp().is_none_or(|address| address.ip().is_loopback())
    }

    /// The same, where the path of a socket starts at `directory` unless it is whole.
    ///
    /// # Errors
    /// The whole path is too long.
    pub fn within(self, directory: &Path) -> Result<Self, NoListenAddress> {
        match self {
            Self::Tcp(_) => Ok(self),
            Self::Unix(socket) => SocketPath::new(&directory.join(socket.path())).map(Self::Unix),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl FromStr for ListenAddress {
    type Err = NoListenAddress;

    fn from_str(text: &str) -> Result<Self, NoListenAddress> {
        match text.strip_prefix(SOCKET_SCHEME) {
            Some(path) => SocketPath::new(Path::new(path)).map(Self::Unix),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| NoListenAddress::Unreadable),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(socket) => write!(f, "{SOCKET_SCHEME}{}", socket.path().display()),
        }
    }
}

// === impl SocketPath ===

impl SocketPath {
    /// That path.
    ///
    /// # Errors
    /// It is empty, has a NUL in it, or is longer than [`SOCKET_PATH_BYTES_MAX`].
    pub fn new(path: &Path) -> Result<Self, NoListenAddress> {
        let given = path.as_os_str().as_bytes();
        if given.is_empty() || given.contains(&0) {
            return Err(NoListenAddress::NoPath);
        }
        let mut bytes = [0; SOCKET_PATH_BYTES_MAX];
        let place = bytes
            .get_mut(..given.len())
            .ok_or(NoListenAddress::TooLong)?;
        place.copy_from_slice(given);
        Ok(Self {
            bytes,
            length: given.len(),
        })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes[..self.length]))
    }

    /// The directory that it is in.
    pub fn directory(&self) -> PathBuf {
        match self.path().parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        }
    }
}

impl fmt::Debug for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_shown() {
        for text in ["127.0.0.1:7777", "[::1]:7777", "unix:/run/toolgate/a.sock"] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert!(address.is_local(), "{text}");
        }
        let everywhere: ListenAddress = "0.0.0.0:7777".parse().unwrap();
        assert!(!everywhere.is_local());
    }

    #[test]
    fn a_door_has_a_url_where_it_has_a_port() {
        let url = |text: &str, is_tls| text.parse::<ListenAddress>().unwrap().url(is_tls, "/mcp");
        assert_eq!(url("127.0.0.1:7777", false), "http://127.0.0.1:7777/mcp");
        assert_eq!(url("[::1]:7777", true), "https://[::1]:7777/mcp");
        assert_eq!(url("unix:/run/a.sock", true), "unix:/run/a.sock");
    }

    #[test]
    fn what_is_no_place_says_why() {
        let longest = format!("unix:/{}", "a".repeat(SOCKET_PATH_BYTES_MAX - 1));
        let address: ListenAddress = longest.parse().unwrap();
        assert_eq!(address.to_string(), longest, "to the last byte");
        for (text, why) in [
            ("localhost:7777", NoListenAddress::Unreadable),
            ("/run/a.sock", NoListenAddress::Unreadable),
            ("unix:", NoListenAddress::NoPath),
            ("unix:/run/\0a", NoListenAddress::NoPath),
            (&format!("{longest}a"), NoListenAddress::TooLong),
        ] {
            assert_eq!(text.parse::<ListenAddress>(), Err(why), "{text:?}");
        }
    }

    #[test]
    fn a_relative_socket_starts_at_its_configuration() {
        let near: ListenAddress = "unix:run/a.sock".parse().unwrap();
        let whole = near.within(Path::new("/etc/toolgate")).unwrap();
        assert_eq!(whole.to_string(), "unix:/etc/toolgate/run/a.sock");
        let deep = Path::new("/").join("d".repeat(SOCKET_PATH_BYTES_MAX));
        assert_eq!(near.within(&deep), Err(NoListenAddress::TooLong));
    }
}
