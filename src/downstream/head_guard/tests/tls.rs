//! Answers over TLS, which keeps the last of them while the agent does not read.

use super::*;
use crate::downstream::connection_limit::ConnectionLimit;
use crate::downstream::tls::TlsDoor;
use crate::downstream::tls::files::TlsFiles;
use crate::model::clock::hands::TestClock;
use crate::outlet::receipt::{AgentConnection, LaterCall, Receipt};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::future::poll_fn;
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const ONE_SECOND: Duration = Duration::from_secs(1);
/// What the kernels keep of one direction, or little more: less than TLS keeps.
const KERNEL_BYTES: usize = 8 << 10;
const CALL: &[u8] = b"POST /mcp HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";

/// A door that speaks TLS, and the certificate by which agents know it.
fn door() -> (Arc<TlsDoor>, CertificateDer<'static>) {
    let place = tempfile::tempdir().unwrap();
    let names = vec!["localhost".to_owned()];
    let own = rcgen::generate_simple_self_signed(names).unwrap();
    let files = TlsFiles {
        cert: place.path().join("cert.pem"),
        key: place.path().join("key.pem"),
        authorities: None,
        needs_certificate: false,
    };
    std::fs::write(&files.cert, own.cert.pem()).unwrap();
    std::fs::write(&files.key, own.signing_key.serialize_pem()).unwrap();
    let door = TlsDoor::open("agents", files).unwrap();
    (door, own.cert.der().clone())
}

/// A connection of a known caller with TLS, of which the kernels keep little, and its agent.
async fn connected(hands: &'static TestClock) -> (Arc<Guest>, HeadGuard, TlsStream<TcpStream>) {
    let (door, certificate) = door();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    set_socket_recv_buffer_size(&socket, KERNEL_BYTES).unwrap();
    let agent = socket.connect(listener.local_addr().unwrap());
    let (agent, accepted) = tokio::join!(agent, listener.accept());
    let (accepted, from) = accepted.unwrap();
    accepted.set_nodelay(true).unwrap();
    set_socket_send_buffer_size(&accepted, KERNEL_BYTES).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let (entered, agent) = tokio::join!(
        door.enter(accepted),
        connector.connect(name, agent.unwrap())
    );
    let stream = entered.unwrap();
    let crowd = ConnectionLimit::timed_by(hands.clock());
    let guest = Arc::new(crowd.let_in(from.ip(), &CancellationToken::new()).await);
    guest.prove("a").unwrap();
    // One request has been answered: without one the agent was silent since the machine started.
    drop(guest.turn());
    guest.serves(&stream);
    let guarded = HeadGuard::new(stream, guest.clone());
    (guest, guarded, agent.unwrap())
}

/// Writes until neither the kernel nor TLS takes more; how many bytes that were.
async fn fill(guarded: &mut HeadGuard) -> usize {
    let mut bytes = 0;
    loop {
        let piece = [b'x'; 4 << 10];
        let written = poll_fn(|task| {
            let written = Pin::new(&mut *guarded).poll_write(task, &piece);
            Poll::Ready(written)
        });
        match written.await {
            Poll::Ready(written) => bytes += written.unwrap(),
            Poll::Pending => return bytes,
        }
    }
}

/// Whether all that was written has left with one more try.
async fn leaves(guarded: &mut HeadGuard) -> bool {
    let flushed = poll_fn(|task| Poll::Ready(Pin::new(&mut *guarded).poll_flush(task)));
    flushed.await.is_ready()
}

/// An answer of which the last waits in TLS: what its connection knows, its receipt, its bytes.
async fn answered(
    guest: &Guest,
    guarded: &mut HeadGuard,
) -> (Arc<AgentConnection>, Arc<Receipt>, usize) {
    let connection = guest.connection().unwrap().clone();
    let receipt = Receipt::new(false);
    connection.ends(receipt.clone());
    let bytes = Box::pin(fill(guarded)).await;
    assert!(
        !leaves(guarded).await && !receipt.is_written(),
        "{bytes} bytes have left"
    );
    (connection, receipt, bytes)
}

/// A call that arrived then, and is looked at at once.
fn call(arrived: Duration) -> LaterCall {
    LaterCall {
        arrived,
        is_named: false,
        now: arrived,
    }
}

/// An enemy reads a part of an answer and sends an equal call before the rest has left: the call has
/// not seen the answer, whether it comes on that connection or on another. What the agent sends once
/// it has read all of it has.
#[tokio::test]
async fn a_call_that_comes_before_the_end_of_an_answer_left_has_not_seen_it() {
    let hands = TestClock::new();
    let (guest, mut guarded, mut agent) = connected(hands).await;
    let (connection, receipt, bytes) = Box::pin(answered(&guest, &mut guarded)).await;
    let mut answer = vec![0; bytes];
    agent.read_exact(&mut answer[..1024]).await.unwrap();
    hands.pass(ONE_SECOND);
    agent.write_all(CALL).await.unwrap();
    agent.flush().await.unwrap();
    let mut request = [0; CALL.len()];
    guarded.read_exact(&mut request).await.unwrap();
    let early = call(connection.arrived());
    assert_eq!(early.arrived, guest.now(), "its head has begun");
    connection.hears(early.arrived);
    hands.pass(ONE_SECOND);
    let rest = agent.read_exact(&mut answer[1024..]);
    let (flushed, rest) = tokio::join!(guarded.flush(), rest);
    flushed.unwrap();
    rest.unwrap();
    assert!(receipt.is_written());
    assert_eq!(receipt.was_known_before(early), Some(false), "pipelined");
    assert_eq!(receipt.asked_before(early), Some(false), "beside it");
    hands.pass(ONE_SECOND);
    agent.write_all(CALL).await.unwrap();
    agent.flush().await.unwrap();
    guarded.read_exact(&mut request).await.unwrap();
    let later = call(connection.arrived());
    connection.hears(later.arrived);
    assert_eq!(receipt.was_known_before(later), Some(true));
}

/// The same where the equal call is on its way, and read only once the answer has left.
#[tokio::test]
async fn a_call_that_waits_while_an_answer_leaves_has_not_seen_it() {
    let hands = TestClock::new();
    let (guest, mut guarded, mut agent) = connected(hands).await;
    let (connection, receipt, bytes) = Box::pin(answered(&guest, &mut guarded)).await;
    agent.write_all(CALL).await.unwrap();
    agent.flush().await.unwrap();
    while !guarded.connection.has_unread() {
        tokio::task::yield_now().await;
    }
    let mut answer = vec![0; bytes];
    let (flushed, read) = tokio::join!(guarded.flush(), agent.read_exact(&mut answer));
    flushed.unwrap();
    read.unwrap();
    assert!(receipt.is_written());
    hands.pass(ONE_SECOND);
    let mut request = [0; CALL.len()];
    guarded.read_exact(&mut request).await.unwrap();
    connection.hears(connection.arrived());
    let early = call(connection.arrived());
    assert_eq!(receipt.was_known_before(early), Some(false));
}

/// Why flushing, or shutting, ends within `time`; none if it does not.
async fn ends_within(
    guarded: &mut HeadGuard,
    shuts: bool,
    time: Duration,
) -> Option<io::ErrorKind> {
    let ends = async {
        if shuts {
            guarded.shutdown().await
        } else {
            guarded.flush().await
        }
    };
    let ended = tokio::time::timeout(time, ends).await;
    Some(ended.ok()?.expect_err("nobody reads anything").kind())
}

/// threat-model §8: the last bytes of an answer wait for their reader no longer than the first, also
/// where the connection is shut already; one that reads a little of it has its minute anew.
#[tokio::test]
async fn the_end_of_an_answer_waits_for_its_reader_for_a_minute() {
    const MOMENT: Duration = Duration::from_secs(4);
    const ALMOST_A_MINUTE: Duration = Duration::from_secs(58);
    for (shuts, reads) in [(false, false), (true, false), (false, true), (true, true)] {
        let shown = format!("shuts: {shuts}, reads: {reads}");
        let (_guest, mut guarded, mut agent) = connected(TestClock::new()).await;
        Box::pin(fill(&mut guarded)).await;
        tokio::time::pause();
        let ended = ends_within(&mut guarded, shuts, ALMOST_A_MINUTE).await;
        assert_eq!(ended, None, "{shown}");
        if reads {
            tokio::time::resume();
            let before = guarded.connection.handed_over();
            let mut piece = [0; 1024];
            while guarded.connection.handed_over() == before {
                tokio::select! {
                    read = agent.get_mut().0.read(&mut piece) => assert!(read.unwrap() > 0),
                    flushed = guarded.flush() => flushed.unwrap(),
                }
            }
            tokio::time::pause();
            let ended = ends_within(&mut guarded, shuts, ALMOST_A_MINUTE).await;
            assert_eq!(ended, None, "{shown}");
        }
        let ended = ends_within(&mut guarded, shuts, MOMENT).await;
        assert_eq!(ended, Some(io::ErrorKind::TimedOut), "{shown}");
        tokio::time::resume();
    }
}
