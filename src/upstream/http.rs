//! Streamable HTTP towards a tool server: one POST is one exchange, answered by JSON or by an event
//! stream.
//!
//! Redirects are not followed, nothing is decompressed, no proxy is read from the environment
//! (threat-model §3B B12–B14).

mod pool;

pub use pool::Arriving;

use crate::mcp::headers::{
    METHOD_HEADER, NAME_HEADER, PROTOCOL_VERSION_HEADER, SESSION_HEADER, encode, name_of,
};
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::{Era, Revision};
use crate::model::reply::Fault;
use crate::upstream::departure::Departure;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{Either, ready};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
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
mod payload;

pub(super) use exchange::may_be_old;
pub use exchange::{HttpExchange, read};
pub use payload::Payload;
use payload::payload;

const JSON_TYPE: HeaderValue = HeaderValue::from_static("application/json");
const ACCEPT_JSON_OR_EVENTS: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
const PLACEHOLDER_VALUE: HeaderValue = HeaderValue::from_static("");
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
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_platform_verifier(provider)
        .map_err(|error| Fault::unsent(format!("TLS cannot be set up: {error}")))?;
    let tls = tls
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
        let mut request = Request::new(payload(body, None));
        *request.method_mut() = Method::POST;
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
    /// Of every request.
    headers: HeaderMap,
    /// Of a modern request, with places for what differs: a map that does not grow costs less.
    modern: HeaderMap,
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
    /// Whether a message of it may leave still; none when nobody takes it back.
    pub departure: Option<Departure>,
}

impl ServerEndpoint {
    /// An endpoint at `uri` with configured headers.
    pub fn new(connections: Connections, uri: Uri, mut headers: HeaderMap) -> Self {
        let lane = connections.lane(&uri);
        if let Some(host) = lane.as_ref().and_then(|_| host_of(&uri)) {
            headers.entry(HOST).or_insert(host);
        }
        let mut modern = HeaderMap::with_capacity(headers.len() + 8);
        modern.extend(headers.clone());
        modern.insert(CONTENT_TYPE, JSON_TYPE);
        modern.insert(ACCEPT, ACCEPT_JSON_OR_EVENTS);
        for name in [PROTOCOL_VERSION_HEADER, METHOD_HEADER, NAME_HEADER] {
            modern.insert(name, PLACEHOLDER_VALUE);
        }
        Self(Arc::new(EndpointInner {
            connections,
            lane,
            uri,
            headers,
            modern,
        }))
    }

    fn request(
        &self,
        headers: HeaderMap,
        method: Method,
        wire: &Wire,
        body: Bytes,
    ) -> Result<Request<Payload>, Fault> {
        // Whatever else is sent for it is no second message.
        let departure = wire.departure.clone().filter(|_| method == Method::POST);
        let mut request = Request::new(payload(body, departure));
        *request.method_mut() = method;
        *request.uri_mut() = self.0.uri.clone();
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        if let Some(revision) = wire.revision {
            headers.insert(
                PROTOCOL_VERSION_HEADER,
                HeaderValue::from_static(revision.as_str()),
            );
        }
        if let Some(session) = &wire.session {
            headers.insert(SESSION_HEADER, session.clone());
        }
        for (name, value) in &wire.params {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(value);
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err(Fault::unsent("an argument cannot travel as a header"));
            };
            headers.insert(name, value);
        }
        Ok(request)
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
        let mut request = self.request(self.0.headers.clone(), Method::POST, wire, message)?;
        request.headers_mut().insert(CONTENT_TYPE, JSON_TYPE);
        request.headers_mut().insert(ACCEPT, ACCEPT_JSON_OR_EVENTS);
        Ok(request)
    }

    fn posted(&self, message: &Message, wire: &Wire) -> Result<Request<Payload>, Fault> {
        let modern = wire.revision.filter(|revision| {
            message.kind == MessageKind::Request && revision.era() == Era::Modern
        });
        let Some(revision) = modern else {
            return self.posted_bytes(message.encode(), wire);
        };
        let mut headers = self.0.modern.clone();
        headers.insert(
            PROTOCOL_VERSION_HEADER,
            HeaderValue::from_static(revision.as_str()),
        );
        let unfit = |_| Fault::unsent("the method cannot travel as a header");
        headers.insert(
            METHOD_HEADER,
            HeaderValue::from_str(&message.method).map_err(unfit)?,
        );
        match name_of(message) {
            Some(name) => {
                drop(headers.insert(
                    NAME_HEADER,
                    HeaderValue::from_str(&encode(&name)).map_err(unfit)?,
                ));
            }
            None => drop(headers.remove(NAME_HEADER)),
        }
        self.request(headers, Method::POST, wire, message.encode())
    }

    /// Opens an event stream, from the start or after an event.
    pub fn get<'a>(
        &'a self,
        wire: &Wire,
        after: Option<&str>,
    ) -> impl Future<Output = Result<Response<Arriving>, Fault>> + use<'a> {
        let request = self.request(self.0.headers.clone(), Method::GET, wire, Bytes::new());
        self.sent(request.map(|mut request| {
            request.headers_mut().insert(ACCEPT, EVENT_STREAM_TYPE);
            if let Some(after) = after.and_then(|after| HeaderValue::from_str(after).ok()) {
                request.headers_mut().insert(LAST_EVENT_ID, after);
            }
            request
        }))
    }

    /// Ends a legacy session.
    pub async fn delete(&self, wire: &Wire) -> Result<(), Fault> {
        let request = self.request(self.0.headers.clone(), Method::DELETE, wire, Bytes::new());
        self.sent(request).await.map(|_| ())
    }

    /// No `async fn`, so that what a call keeps while it waits has the request once.
    fn sent(
        &self,
        request: Result<Request<Payload>, Fault>,
    ) -> impl Future<Output = Result<Response<Arriving>, Fault>> + use<'_> {
        let mut request = match request {
            Ok(request) => request,
            Err(fault) => return Either::Left(ready(Err(fault))),
        };
        Either::Right(match &self.0.lane {
            Some(lane) => {
                let path = self.0.uri.path_and_query().cloned();
                *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
                Either::Left(lane.send(request))
            }
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
