//! The accept loop of both listeners: bounded connections, bounded heads, and an end that waits for what is in flight.

use super::crowd::Crowd;
use super::heads::Watched;
use crate::telemetry::tasks;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bytes of a request's head; also the unit in which bodies are read.
const HEAD: usize = 32 << 10;
/// Header fields of one request.
const FIELDS: usize = 64;
/// How long a connection may be silent between requests; a head that has begun has less (see `heads`).
const SILENCE: Duration = Duration::from_secs(75);
/// Out of file descriptors, accepting again at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `listener` until `stop`, as many connections at once as `crowd` has places, then lets open requests end.
pub async fn serve<S, F, B>(listener: TcpListener, mut crowd: Crowd, service: S, stop: CancellationToken)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let open = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let (stream, _) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = crowd.place() else {
            crowd.turn_away(stream);
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (service, stop) = (service.clone(), stop.clone());
        tasks::spawn(
            "connection",
            open.track_future(async move {
                let _place = place;
                let answer = service_fn(move |request| {
                    let answer = service(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                let mut builder = hyper::server::conn::http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(SILENCE).max_buf_size(HEAD).max_headers(FIELDS);
                builder.pipeline_flush(false).half_close(false);
                let connection = builder.serve_connection(TokioIo::new(Watched::new(stream)), answer);
                tokio::pin!(connection);
                tokio::select! {
                    _ = connection.as_mut() => return,
                    () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
                }
                let _ = connection.await;
            }),
        );
    }
    drop(listener);
    open.close();
    open.wait().await;
}
