//! Whether an agent's kernel has acknowledged all that was written to its connection, as ours knows
//! it: one question to its socket diagnosis (netlink, `sock_diag(7)`), by the socket's cookie, so
//! that nothing else can be meant. Where that cannot be asked, nothing is known.

use crate::outlet::receipt::Acknowledges;
use tokio::net::TcpStream;

/// One connection, as the kernel knows it.
#[derive(Debug)]
pub(super) struct SocketLook {
    #[cfg(target_os = "linux")]
    socket: Option<linux::SocketName>,
}

impl SocketLook {
    #[cfg(target_os = "linux")]
    pub(super) fn of(stream: &TcpStream) -> Self {
        Self {
            socket: linux::SocketName::of(stream),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_: &TcpStream) -> Self {
        Self {}
    }

    /// Of a connection of which the kernel tells nothing.
    pub(super) fn none() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            socket: None,
        }
    }
}

impl Acknowledges for SocketLook {
    #[cfg(target_os = "linux")]
    fn is_acknowledged(&self) -> bool {
        let left = self.socket.as_ref().map(linux::SocketName::unacknowledged);
        left.is_some_and(|left| left.is_ok_and(|left| left == Some(0)))
    }

    #[cfg(not(target_os = "linux"))]
    fn is_acknowledged(&self) -> bool {
        false
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::io;
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send,
        socket_with, sockopt,
    };
    use std::net::{IpAddr, SocketAddr};
    use tokio::net::TcpStream;

    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const REQUEST_FLAG: u16 = 1;
    const FAMILY_INET: u8 = 2;
    const FAMILY_INET6: u8 = 10;
    const PROTOCOL_TCP: u8 = 6;
    /// States of a connection whose end toolgate has sent, and the peer has not acknowledged: that end
    /// counts as one byte.
    const STATES_WITH_FIN: [u8; 3] = [4, 9, 11];
    const HEADER_BYTES: usize = 16;
    /// Where the state, and the bytes that are not acknowledged, stand in the answer.
    const STATE_AT: usize = HEADER_BYTES + 1;
    const UNACKNOWLEDGED_AT: usize = HEADER_BYTES + 60;
    const MESSAGE_BYTES: usize = 72;

    /// Which socket is meant.
    #[derive(Debug)]
    pub(super) struct SocketName {
        question: [u8; MESSAGE_BYTES],
    }

    impl SocketName {
        pub(super) fn of(stream: &TcpStream) -> Option<Self> {
            let (own, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
            let cookie = sockopt::socket_cookie(stream).ok()?;
            Some(Self {
                question: question(own, peer, cookie),
            })
        }

        /// Bytes of data that the peer has not acknowledged; none where there is no such socket.
        pub(super) fn unacknowledged(&self) -> io::Result<Option<u32>> {
            let kernel = socket_with(
                AddressFamily::NETLINK,
                SocketType::DGRAM,
                SocketFlags::CLOEXEC,
                Some(netlink::SOCK_DIAG),
            )?;
            send(&kernel, &self.question, SendFlags::empty())?;
            let mut answer = [0; 1024];
            let (bytes, _) = recv(&kernel, &mut answer, RecvFlags::DONTWAIT)?;
            Ok(read(&answer[..bytes.min(answer.len())]))
        }
    }

    fn question(own: SocketAddr, peer: SocketAddr, cookie: u64) -> [u8; MESSAGE_BYTES] {
        let mut text = Vec::with_capacity(MESSAGE_BYTES);
        let length = u32::try_from(MESSAGE_BYTES).unwrap_or_default();
        text.extend_from_slice(&length.to_ne_bytes());
        text.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        text.extend_from_slice(&REQUEST_FLAG.to_ne_bytes());
        // Its number, and who asks: there is one question on this socket.
        text.extend_from_slice(&[0; 8]);
        let family = if own.is_ipv4() {
            FAMILY_INET
        } else {
            FAMILY_INET6
        };
        text.extend_from_slice(&[family, PROTOCOL_TCP, 0, 0]);
        text.extend_from_slice(&u32::MAX.to_ne_bytes());
        text.extend_from_slice(&own.port().to_be_bytes());
        text.extend_from_slice(&peer.port().to_be_bytes());
        text.extend_from_slice(&address(own.ip()));
        text.extend_from_slice(&address(peer.ip()));
        // Any interface; then the cookie, its lower half first.
        text.extend_from_slice(&[0; 4]);
        let [lower, upper] = [cookie & u64::from(u32::MAX), cookie >> 32]
            .map(|half| u32::try_from(half).unwrap_or_default());
        text.extend_from_slice(&lower.to_ne_bytes());
        text.extend_from_slice(&upper.to_ne_bytes());
        text.try_into().unwrap_or([0; MESSAGE_BYTES])
    }

    fn address(ip: IpAddr) -> [u8; 16] {
        match ip {
            IpAddr::V6(ip) => ip.octets(),
            IpAddr::V4(ip) => {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&ip.octets());
                octets
            }
        }
    }

    fn read(answer: &[u8]) -> Option<u32> {
        let kind = answer.get(4..6)?;
        if kind != SOCK_DIAG_BY_FAMILY.to_ne_bytes() {
            return None;
        }
        let state = answer.get(STATE_AT)?;
        let left = answer.get(UNACKNOWLEDGED_AT..UNACKNOWLEDGED_AT + 4)?;
        let left = u32::from_ne_bytes(left.try_into().ok()?);
        let end = u32::from(STATES_WITH_FIN.contains(state));
        Some(left.saturating_sub(end))
    }
}

#[cfg(test)]
mod tests;
