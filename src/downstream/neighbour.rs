//! Whether an agent runs as the same account as toolgate: then it can read toolgate's tokens, and
//! what people decide about its calls is advice (threat-model §3E E4, §10). The kernel tells the
//! account of a connection from this machine.

use super::listening::PeerOrigin;
use rustix::process::geteuid;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use tokio::net::TcpStream;

/// Connections that are looked at, until one is found; the first agents tell.
const MAX_LOOKUPS: usize = 8;
/// Bytes of the kernel's list of connections that are read.
const CONNECTION_LIST_BYTES_MAX: u64 = 4 << 20;

/// The looks that are left at one listener.
#[derive(Debug)]
pub(super) struct Neighbours(usize);

impl Neighbours {
    /// For the agents' listener.
    pub(super) fn watched() -> Self {
        Self(MAX_LOOKUPS)
    }

    /// For a listener at which it does not matter.
    pub(super) fn unwatched() -> Self {
        Self(0)
    }

    /// Looks, beside everything else, at who connects from this machine, and says once who it
    /// should not be.
    pub(super) fn met(&mut self, stream: Option<&TcpStream>, from: PeerOrigin) {
        if self.0 == 0 {
            return;
        }
        let peer = match from {
            PeerOrigin::Account(uid) => return judge(uid),
            PeerOrigin::Address(peer) if peer.ip().is_loopback() => peer,
            PeerOrigin::Address(_) => return,
        };
        let own = stream.and_then(|stream| stream.local_addr().ok());
        let Some(own) = own else { return };
        self.0 = if NEIGHBOUR_LOGGED.is_completed() {
            0
        } else {
            self.0 - 1
        };
        drop(tokio::task::spawn_blocking(move || {
            if let Some(uid) = account(peer, own) {
                judge(uid);
            }
        }));
    }
}

static NEIGHBOUR_LOGGED: std::sync::Once = std::sync::Once::new();

/// Says once that an agent runs as `uid`, if that is toolgate's.
fn judge(uid: u32) {
    if uid == geteuid().as_raw() {
        NEIGHBOUR_LOGGED.call_once(|| warn(uid));
    }
}

/// Says that an agent runs as `uid`, which is toolgate's.
fn warn(uid: u32) {
    tracing::warn!(
        uid,
        "approvals are advisory: agent and toolgate share uid {uid}, so that the agent can read toolgate's tokens and files; \
         run toolgate as another user"
    );
}

/// The account at the other end of the connection from `peer` to `own`; none if the kernel does not
/// list it any more.
fn account(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let list = if peer.is_ipv4() {
        "/proc/net/tcp"
    } else {
        "/proc/net/tcp6"
    };
    let mut text = String::new();
    std::fs::File::open(list)
        .ok()?
        .take(CONNECTION_LIST_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    let (from, to) = (listed(peer), listed(own));
    text.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let is_it = fields.nth(1) == Some(&from) && fields.next() == Some(&to);
        if is_it {
            fields.nth(4)?.parse().ok()
        } else {
            None
        }
    })
}

/// An address as the kernel's list has it: 32 bits at a time, in the machine's own order.
fn listed(address: SocketAddr) -> String {
    let word = |four: &[u8]| four.try_into().map_or(0, u32::from_ne_bytes);
    let words: Vec<u32> = match address.ip() {
        IpAddr::V4(ip) => vec![word(&ip.octets())],
        IpAddr::V6(ip) => ip.octets().chunks(4).map(word).collect(),
    };
    let words: Vec<String> = words.iter().map(|word| format!("{word:08X}")).collect();
    format!("{}:{:04X}", words.concat(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel says of our own connection that it is ours, on both kinds of addresses; of one
    /// that is not there, nothing.
    #[tokio::test]
    async fn the_kernel_knows_whose_a_connection_is() {
        let mut asked = 0;
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            // A machine need not have the second.
            let Ok(listener) = tokio::net::TcpListener::bind(loopback).await else {
                continue;
            };
            asked += 1;
            let own = listener.local_addr().unwrap();
            let stream = TcpStream::connect(own).await.unwrap();
            let peer = stream.local_addr().unwrap();
            assert_eq!(account(peer, own), Some(geteuid().as_raw()), "{peer}");
            assert_eq!(account(SocketAddr::new(peer.ip(), 1), own), None);
        }
        assert!(asked > 0, "no loopback address can be bound");
    }
}
