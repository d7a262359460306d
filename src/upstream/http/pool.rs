//! Plain HTTP connections to one address, kept between requests and driven by the task that waits
//! for an answer. A connection in a task of its own would cost each request two wake-ups and two
//! queues, often across threads.

#[cfg(test)]
mod tests;

use super::{Payload, of_error};
use crate::model::clock::Clock;
use crate::model::reply::Fault;
use crate::telemetry::tasks;
use bytes::Bytes;
use http::{Request, Response, Uri};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;
use tokio::net::TcpStream;
use tower::ServiceExt as _;

/// How long a connection is kept unused: less than servers do, which close theirs after 5 s (Node,
/// uvicorn). One that both use and close at the same moment loses a request.
pub(super) const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(4);
/// How often unused connections are looked at.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);
/// Unused connections to one address at most; there are no more calls in flight (threat-model §8).
const MAX_IDLE_CONNECTIONS: usize = 256;

/// The connections to one address.
pub(super) struct ConnectionPool {
    connector: HttpConnector,
    address: Uri,
    unused: Mutex<Vec<(Duration, PooledConnection)>>,
    swept: AtomicBool,
}

/// One connection, with its end that takes requests. Dropped, it is closed.
struct PooledConnection {
    requests: SendRequest<Payload>,
    /// None once it has ended.
    connection: Option<Box<Connection<TokioIo<TcpStream>, Payload>>>,
}

/// The body of an answer; on a connection of ours it drives that connection.
#[derive(Debug)]
pub struct Arriving {
    /// None only while it is dropped.
    incoming: Option<Incoming>,
    line: Option<(PooledConnection, Arc<ConnectionPool>)>,
}

impl ConnectionPool {
    /// The lane to `address`; nothing is opened yet.
    pub(super) fn new(connector: HttpConnector, address: Uri) -> Arc<Self> {
        Arc::new(Self {
            connector,
            address,
            unused: Mutex::default(),
            swept: AtomicBool::new(false),
        })
    }

    /// Sends a request once: on another connection only when the first has proven that it took
    /// nothing of it.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: Request<Payload>,
    ) -> Result<Response<Arriving>, Fault> {
        let mut request = Some(request);
        loop {
            let kept = self.kept(Clock.steady());
            let is_kept = kept.is_some();
            let mut line = match kept {
                Some(line) => line,
                None => Box::pin(self.open()).await?,
            };
            match line.send(&mut request).await {
                Ok(response) => return Ok(self.arriving(response, line)),
                Err(_) if is_kept && request.is_some() => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    fn arriving(
        self: &Arc<Self>,
        response: Response<Incoming>,
        line: PooledConnection,
    ) -> Response<Arriving> {
        response.map(|incoming| Arriving {
            incoming: Some(incoming),
            line: Some((line, self.clone())),
        })
    }

    /// The connection that was used last, so that those beyond need grow old.
    fn kept(&self, now: Duration) -> Option<PooledConnection> {
        loop {
            let (since, mut line) = self.unused.lock().pop()?;
            if now.saturating_sub(since) < IDLE_CONNECTION_TIMEOUT && line.is_ready() {
                return Some(line);
            }
        }
    }

    /// Drops what nobody has used for long, or what the server has closed.
    fn forget(&self, now: Duration) {
        self.unused.lock().retain_mut(|(since, line)| {
            now.saturating_sub(*since) < IDLE_CONNECTION_TIMEOUT && line.is_ready()
        });
    }

    fn keep(&self, mut line: PooledConnection) {
        if !line.is_ready() {
            return;
        }
        let since = Clock.steady();
        let mut unused = self.unused.lock();
        if unused.len() < MAX_IDLE_CONNECTIONS {
            unused.push((since, line));
        }
    }

    async fn open(self: &Arc<Self>) -> Result<PooledConnection, Fault> {
        if !self.swept.swap(true, Ordering::Relaxed) {
            tasks::spawn("unused connections", sweep(Arc::downgrade(self)));
        }
        let unsent = |error: &dyn std::error::Error| {
            Fault::unsent(of_error("no connection to the tool server", error))
        };
        let stream = self
            .connector
            .clone()
            .oneshot(self.address.clone())
            .await
            .map_err(|error| unsent(&error))?;
        let (requests, connection) = Builder::new()
            .handshake(stream)
            .await
            .map_err(|error| unsent(&error))?;
        Ok(PooledConnection {
            requests,
            connection: Some(Box::new(connection)),
        })
    }
}

impl std::fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lane({:?})", self.address.authority())
    }
}

/// Looks at the unused connections of `lane`, as long as there is one.
async fn sweep(lane: Weak<ConnectionPool>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(lane) = lane.upgrade() else { return };
        lane.forget(Clock.steady());
    }
}

impl PooledConnection {
    fn drive(&mut self, task: &mut Task<'_>) {
        let ended = self
            .connection
            .as_mut()
            .is_some_and(|connection| Pin::new(connection).poll(task).is_ready());
        if ended {
            self.connection = None;
        }
    }

    /// Whether it takes a request, as far as the server has been heard. Nobody waits for an unused
    /// connection to move.
    fn is_ready(&mut self) -> bool {
        self.drive(&mut Task::from_waker(Waker::noop()));
        self.connection.is_some() && self.requests.is_ready()
    }

    /// Sends what stands in `request`, and leaves it there, beside the error, if the connection has
    /// taken nothing of it.
    async fn send(
        &mut self,
        request: &mut Option<Request<Payload>>,
    ) -> Result<Response<Incoming>, Fault> {
        let Self {
            requests,
            connection,
        } = self;
        let mut answer = std::pin::pin!(match request.take() {
            Some(request) => requests.try_send_request(request),
            None => return Err(Fault::unsent("there is no request")),
        });
        let answered = std::future::poll_fn(|task| {
            // All that the answer waits for happens in here.
            let ended = connection
                .as_mut()
                .is_some_and(|connection| Pin::new(connection).poll(task).is_ready());
            if ended {
                *connection = None;
            }
            answer.as_mut().poll(task)
        });
        answered.await.map_err(|mut error| {
            *request = error.take_message();
            let what = of_error("the connection to the tool server broke", error.error());
            if request.is_some() {
                Fault::unsent(what)
            } else {
                Fault::after_sending(what)
            }
        })
    }
}

impl std::fmt::Debug for PooledConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Line(open: {})", self.connection.is_some())
    }
}

impl Arriving {
    /// A body on a connection that drives itself.
    pub(super) fn elsewhere(incoming: Incoming) -> Self {
        Self {
            incoming: Some(incoming),
            line: None,
        }
    }

    /// Gives the connection back, if the whole answer has been read from it.
    fn release(&mut self) {
        if let Some((line, lane)) = self.line.take() {
            lane.keep(line);
        }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(incoming) = &mut this.incoming else {
            return Poll::Ready(None);
        };
        let mut polled = Pin::new(&mut *incoming).poll_frame(task);
        if let (true, Some((line, _))) = (polled.is_pending(), &mut this.line) {
            line.drive(task);
            polled = Pin::new(incoming).poll_frame(task);
        }
        if matches!(polled, Poll::Ready(None)) {
            this.release();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // What has arrived already is passed over; a connection with more to come is closed, which
        // tells the server.
        self.incoming = None;
        self.release();
    }
}
