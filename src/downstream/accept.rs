//! The accept loop of both doors: bounded connections, bounded heads, and an end that waits for
//! what is in flight.

use super::answer_place::AnswerPlace;
use super::carried_answer::CarriedAnswer;
use super::connection_limit::{ConnectionLimit, Guest, RequestTurn};
use super::guest_stream::GuestStream;
use super::head_guard::HeadGuard;
use super::listening::DoorListener;
use super::tls::TlsDoor;
use crate::telemetry::tasks;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bytes of a request's head; also the unit in which bodies are read.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Header fields of one request.
const MAX_HEADER_FIELDS: usize = 64;
/// Bytes of an answer that the kernel keeps for a reader, which takes twice that of its memory; up
/// to 4 MiB if not told. With less, long answers leave in many parts.
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Out of file descriptors, accepting again at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `listener` until `stop`, as many connections at once as `crowd` has places, then lets
/// open requests end. `service` tells the guest when a request has proved who sends it.
pub(crate) async fn serve<S, F, B>(
    listener: DoorListener,
    crowd: ConnectionLimit,
    service: S,
    stop: CancellationToken,
) where
    S: Fn(Request<Incoming>, Arc<Guest>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let open = TaskTracker::new();
    // Those that are accepted inherit it.
    if let Some(socket) = listener.tcp()
        && let Err(error) = set_socket_send_buffer_size(socket, SEND_BUFFER_BYTES)
    {
        tracing::warn!(%error, "what the kernel keeps of answers cannot be bounded");
    }
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let newcomer = match accepted {
            Ok(Some(newcomer)) => newcomer,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let guest = tokio::select! {
            guest = crowd.let_in(newcomer.peer, &stop) => guest,
            () = stop.cancelled() => break,
        };
        crowd.met(&newcomer);
        let (guest, tls) = (Arc::new(guest), listener.tls().cloned());
        let served = serve_entered(newcomer.stream, tls, guest, service.clone());
        tasks::spawn("connection", open.track_future(served));
    }
    drop(listener);
    open.close();
    open.wait().await;
}

/// Serves one connection, behind its handshake where the door speaks TLS.
async fn serve_entered<S, F, B>(
    stream: GuestStream,
    tls: Option<Arc<TlsDoor>>,
    guest: Arc<Guest>,
    service: S,
) where
    S: Fn(Request<Incoming>, Arc<Guest>) -> F,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = match (stream, tls) {
        (GuestStream::Tcp(stream), Some(tls)) => {
            // A handshake is rare beside what comes after it, and long.
            let entered = Box::pin(tls.enter(stream));
            tokio::select! {
                entered = entered => entered,
                () = guest.leaves() => None,
            }
        }
        (stream, _) => Some(stream),
    };
    if let Some(stream) = stream {
        connection(stream, guest, service).await;
    }
}

/// Serves one connection until its end.
async fn connection<S, F, B>(stream: GuestStream, guest: Arc<Guest>, service: S)
where
    S: Fn(Request<Incoming>, Arc<Guest>) -> F,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    guest.serves(&stream);
    let watched = TokioIo::new(HeadGuard::new(stream, Arc::clone(&guest)));
    let (asked, place) = (Arc::clone(&guest), AnswerPlace::new());
    let answer = service_fn(move |request| {
        let turn = asked.turn();
        let answer = place.put(service(request, Arc::clone(&asked)));
        let guest = Arc::clone(&asked);
        async move {
            let mut answer = answer.await;
            let carried = answer.extensions_mut().remove::<CarriedAnswer>();
            Ok::<_, Infallible>(answer.map(|body| Attended {
                body,
                carried: carried.map(|answer| (answer, guest)),
                _turn: turn,
            }))
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    // `HeadGuard` times heads and silence; a timer of the library's would be made for each request.
    builder
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(MAX_HEADER_FIELDS);
    builder
        .max_header_size(HEAD_BYTES_MAX)
        .pipeline_flush(false)
        .half_close(false);
    let mut connection = std::pin::pin!(builder.serve_connection(watched, answer));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = guest.leaves() => {}
    }
    if guest.is_known() {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// The body of an answer; its request has its turn until all of it is written, or nobody reads it
/// any more.
struct Attended<B> {
    body: B,
    /// The answer to a call that is in it, and whose connection it is.
    carried: Option<(CarriedAnswer, Arc<Guest>)>,
    _turn: RequestTurn,
}

impl<B> Attended<B> {
    /// The answer is in what was read, or not yet.
    fn notes_answer(&mut self) {
        let Some((carried, guest)) = &self.carried else {
            return;
        };
        let receipts = carried.receipts();
        if receipts.is_empty() {
            return;
        }
        if let Some(connection) = guest.connection() {
            for receipt in receipts {
                connection.ends(receipt);
            }
        }
        self.carried = None;
    }
}

impl<B: Body + Unpin> Body for Attended<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(task);
        // A quick agent goes on once it has the answer, whatever of the stream comes after it.
        if frame.is_ready() {
            self.notes_answer();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
