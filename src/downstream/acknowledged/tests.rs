//! The kernel asked of real connections.

use super::*;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket};

async fn pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).await.unwrap();
    let socket = if address.starts_with('[') {
        TcpSocket::new_v6().unwrap()
    } else {
        TcpSocket::new_v4().unwrap()
    };
    set_socket_recv_buffer_size(&socket, 4096).unwrap();
    let agent = socket.connect(listener.local_addr().unwrap());
    let (agent, served) = tokio::join!(agent, listener.accept());
    (agent.unwrap(), served.unwrap().0)
}

/// Waits until the kernel says so.
async fn becomes(look: &SocketLook, wanted: bool) {
    let looked = tokio::time::timeout(Duration::from_secs(10), async {
        while look.is_acknowledged() != wanted {
            tokio::task::yield_now().await;
        }
    });
    looked
        .await
        .unwrap_or_else(|_| panic!("never {wanted}: {look:?}"));
}

/// What an agent's kernel has no room for is not acknowledged, until it is read; the end of the
/// stream counts for nothing; and a connection that is gone tells nothing.
#[tokio::test]
async fn the_kernel_says_what_was_acknowledged() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (mut agent, served) = pair(address).await;
        let look = SocketLook::of(&served);
        becomes(&look, true).await;
        let mut written = 0;
        while let Ok(bytes) = {
            served.writable().await.unwrap();
            served.try_write(&vec![7; 1 << 16])
        } {
            written += bytes;
        }
        becomes(&look, false).await;
        let mut read = vec![0; written];
        agent.read_exact(&mut read).await.unwrap();
        becomes(&look, true).await;
        rustix::net::shutdown(&served, rustix::net::Shutdown::Write).unwrap();
        becomes(&look, true).await;
        let (_agent, served) = pair(address).await;
        let look = SocketLook::of(&served);
        set_socket_linger(&served, Some(Duration::ZERO)).unwrap();
        drop(served);
        becomes(&look, false).await;
    }
}
