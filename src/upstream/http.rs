//! Streamable HTTP towards a tool server: one POST is one exchange, answered by JSON or by an event
//! stream.
//!
//! Redirects are not followed, nothing is decompressed, no proxy is read from the environment
//! (threat-model §3B B12–B14).

mod pool;

pub use pool::Arriving;

use crate::mcp::message::Message;
use crate::mcp::revision::Revision;
use crate::model::reply::Fault;
use crate::upstream::credentials::Credentials;
use crate::upstream::credentials::classes::CredentialName;
use crate::upstream::departure::Departure;
use crate::upstream::fetching::Poster;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{Either, ready};
use http::header::{ACCEPT, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use pool::ConnectionPool;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

mod beside;
mod exchange;
mod heads;
mod payload;
mod shown;
mod trust;

pub(super) use exchange::may_be_old;
pub use exchange::{HttpExchange, read};
use heads::RequestHeads;
pub use payload::Payload;
use payload::payload;
use shown::shown;

const EVENT_STREAM_TYPE: HeaderValue = HeaderValue::from_static("text/event-stream");
/// A lossy network needs several tries for one connection (threat-model §4).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The connections to all tool servers.
#[derive(Clone)]
pub struct Connections {
    tls: Client<HttpsConnector<HttpConnector>, Payload>,
    plain: HttpConnector,
    /// By address; all of them are in the configuration.
    lanes: Arc<Mutex<HashMap<Uri, Arc<ConnectionPool>>>>,
}

/// Makes the connections that all endpoints share.
pub fn connections() -> Result<Connections, Fault> {
    let connector = patient(HttpConnector::new());
    Ok(Connections {
        tls: tls_clients(connector.clone())?,
        plain: connector,
        lanes: Arc::default(),
    })
}

/// What connects, with the time it may take for that.
pub(super) fn patient<R>(mut connector: HttpConnector<R>) -> HttpConnector<R> {
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.enforce_http(false);
    connector
}

/// What sends over TLS or without, on connections that `connector` makes.
pub(super) fn tls_clients<R>(
    connector: HttpConnector<R>,
) -> Result<Client<HttpsConnector<HttpConnector<R>>, Payload>, Fault>
where
    HttpsConnector<HttpConnector<R>>: Connect + Clone,
{
    let tls = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(trust::client_config()?)
        .https_or_http()
        .enable_http1()
        .enable_http2()
        .wrap_connector(connector);
    let mut client = Client::builder(TokioExecutor::new());
    client
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(pool::IDLE_CONNECTION_TIMEOUT);
    Ok(client.build(tls))
}

/// The body that consists of `bytes`, of what is no message of MCP.
pub(super) fn bytes_payload(bytes: Bytes) -> Payload {
    payload(bytes, None)
}

impl Connections {
    /// The lane to where `uri` is; none with TLS, where what it costs is not the connection.
    fn lane(&self, uri: &Uri) -> Option<Arc<ConnectionPool>> {
        let plain = uri.scheme() == Some(&http::uri::Scheme::HTTP);
        let address = Uri::builder()
            .scheme("http")
            .authority(uri.authority().filter(|_| plain)?.clone());
        let address = address.path_and_query("/").build().ok()?;
        let mut lanes = self.lanes.lock();
        let lane = lanes
            .entry(address.clone())
            .or_insert_with(|| ConnectionPool::new(self.plain.clone(), address));
        Some(lane.clone())
    }

    /// Sends what is no message of MCP, on a connection that hooks share.
    pub(super) async fn post(
        &self,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<hyper::body::Incoming>, String> {
        self.ask(Method::POST, uri, headers, body).await
    }

    /// What posts so.
    pub(crate) fn poster(&self) -> Arc<Poster> {
        let connections = self.clone();
        Arc::new(move |uri, headers, body| {
            let connections = connections.clone();
            async move { connections.post(uri, headers, body).await }.boxed()
        })
    }

    /// Asks for what is at `uri`, which is no message of MCP.
    pub(super) async fn get(
        &self,
        uri: Uri,
        headers: HeaderMap,
    ) -> Result<Response<hyper::body::Incoming>, String> {
        self.ask(Method::GET, uri, headers, Bytes::new()).await
    }

    async fn ask(
        &self,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<hyper::body::Incoming>, String> {
        let mut request = Request::new(payload(body, None));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        self.tls
            .request(request)
            .await
            .map_err(|error| of_error("no connection, or one that broke", &error))
    }
}

/// Where a server is, and what it is told with every request.
#[derive(Clone)]
pub struct ServerEndpoint(Arc<EndpointInner>);

struct EndpointInner {
    connections: Connections,
    lane: Option<Arc<ConnectionPool>>,
    uri: Uri,
    /// As requests name it: on a connection of a lane by its path.
    target: Uri,
    /// Without a class, and then of each class.
    heads: Arc<[RequestHeads]>,
    credentials: Arc<Credentials>,
    /// In whose name requests are.
    name: CredentialName,
    /// The digest of what their caller proved itself by, where that is known.
    made_of: Option<[u8; 32]>,
}

impl std::fmt::Debug for ServerEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({:?})", self.0.uri.host())
    }
}

/// What a request carries beside its body.
#[derive(Debug, Clone, Default)]
pub struct Wire {
    /// The revision spoken; none before it is known.
    pub revision: Option<Revision>,
    /// The legacy session.
    pub session: Option<HeaderValue>,
    /// `Mcp-Param-…`, made from the final call.
    pub params: Vec<(String, String)>,
    /// What `Authorization` says; if none, what is fetched for it as the message leaves.
    pub proof: Option<HeaderValue>,
    /// Whether a message of it may leave still; none when nobody takes it back.
    pub departure: Option<Departure>,
}

impl ServerEndpoint {
    /// An endpoint at `uri` with configured headers, which is shown `credentials` besides.
    pub(in crate::upstream) fn new(
        connections: Connections,
        uri: Uri,
        mut headers: HeaderMap,
        credentials: Arc<Credentials>,
        name: CredentialName,
    ) -> Self {
        let lane = connections.lane(&uri);
        if let Some(host) = lane.as_ref().and_then(|_| host_of(&uri)) {
            headers.entry(HOST).or_insert(host);
        }
        let target = if lane.is_some() {
            let path = uri.path_and_query().cloned();
            path.map(Uri::from).unwrap_or_default()
        } else {
            uri.clone()
        };
        Self(Arc::new(EndpointInner {
            connections,
            lane,
            uri,
            target,
            heads: shown::heads(&headers, &credentials),
            credentials,
            name,
            made_of: None,
        }))
    }

    fn request(&self, headers: HeaderMap, method: Method, payload: Payload) -> Request<Payload> {
        let mut request = Request::new(payload);
        *request.method_mut() = method;
        *request.uri_mut() = self.0.target.clone();
        *request.headers_mut() = headers;
        request
    }

    /// What is no message: nobody takes it back.
    fn bare(&self, headers: HeaderMap, method: Method) -> Request<Payload> {
        self.request(headers, method, payload(Bytes::new(), None))
    }

    /// Sends one message. The future holds neither it nor `wire`.
    pub fn post<'a>(
        &'a self,
        message: &Message,
        wire: &Wire,
    ) -> impl Future<Output = Result<Response<Arriving>, Fault>> + use<'a> {
        self.sent(self.posted(message, wire))
    }

    /// Sends the bytes of one message, as a server of 2024-11-05 reads them.
    pub(super) fn post_bytes<'a>(
        &'a self,
        message: Bytes,
        wire: &Wire,
    ) -> impl Future<Output = Result<Response<Arriving>, Fault>> + use<'a> {
        self.sent(self.posted_bytes(message, wire))
    }

    fn posted_bytes(&self, message: Bytes, wire: &Wire) -> Result<Request<Payload>, Fault> {
        let headers = shown(self.heads().posted(wire)?, wire);
        let payload = of_message(message, wire);
        Ok(self.request(headers, Method::POST, payload))
    }

    fn posted(&self, message: &Message, wire: &Wire) -> Result<Request<Payload>, Fault> {
        let headers = shown(self.heads().of(message, wire)?, wire);
        let payload = of_message(message.encode(), wire);
        Ok(self.request(headers, Method::POST, payload))
    }

    /// Opens an event stream, from the start or after an event.
    pub fn get<'a>(
        &'a self,
        wire: &Wire,
        after: Option<&str>,
    ) -> impl Future<Output = Result<Response<Arriving>, Fault>> + use<'a> {
        let headers = self.heads().plain(wire);
        self.sent(headers.map(|mut headers| {
            headers.insert(ACCEPT, EVENT_STREAM_TYPE);
            if let Some(after) = after.and_then(|after| HeaderValue::from_str(after).ok()) {
                headers.insert(LAST_EVENT_ID, after);
            }
            self.bare(headers, Method::GET)
        }))
    }

    /// Ends a legacy session.
    pub async fn delete(&self, wire: &Wire) -> Result<(), Fault> {
        let headers = self.heads().plain(wire);
        let request = headers.map(|headers| self.bare(headers, Method::DELETE));
        self.sent(request).await.map(|_| ())
    }

    /// No `async fn`, so that what a call keeps while it waits has the request once.
    fn sent(
        &self,
        request: Result<Request<Payload>, Fault>,
    ) -> impl Future<Output = Result<Response<Arriving>, Fault>> + use<'_> {
        let request = match request {
            Ok(request) => request,
            Err(fault) => return Either::Left(ready(Err(fault))),
        };
        Either::Right(match &self.0.lane {
            _ if self.0.credentials.has_tokens() => {
                Either::Right(self.sent_with_token(request).boxed())
            }
            Some(lane) => Either::Left(lane.send(request)),
            None => Either::Right(self.sent_with_tls(request).boxed()),
        })
    }

    async fn sent_with_tls(&self, request: Request<Payload>) -> Result<Response<Arriving>, Fault> {
        let sent = self.0.connections.tls.request(request).await;
        sent.map(|response| response.map(Arriving::elsewhere))
            .map_err(|error| {
                if error.is_connect() {
                    Fault::unsent(of_error("no connection to the tool server", &error))
                } else if is_untouched(&error) {
                    Fault::unsent(of_error(
                        "the tool server refused the request unread",
                        &error,
                    ))
                } else {
                    Fault::after_sending(of_error(
                        "the connection to the tool server broke",
                        &error,
                    ))
                }
            })
    }
}

/// A message that leaves unless it is taken back.
fn of_message(message: Bytes, wire: &Wire) -> Payload {
    payload(message, wire.departure.clone())
}

/// The Host header for an address without TLS.
fn host_of(uri: &Uri) -> Option<HeaderValue> {
    let host = uri.host()?;
    match uri.port_u16().filter(|port| *port != 80) {
        Some(port) => HeaderValue::from_str(&format!("{host}:{port}")).ok(),
        None => HeaderValue::from_str(host).ok(),
    }
}

/// What broke, and what was at the bottom of it.
fn of_error(what: &str, error: &dyn std::error::Error) -> String {
    let mut source = error;
    while let Some(next) = source.source() {
        source = next;
    }
    format!("{what}: {source}")
}

/// Whether an HTTP/2 server itself has said that it has processed nothing of the request (RFC 9113
/// §8.7): a stream that it refused, or one above the last that it would look at when it said
/// good-bye. Any other end of a stream proves nothing (guarantees §4).
fn is_untouched(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (refused || error.is_go_away());
        }
        next = error.source();
    }
    false
}
