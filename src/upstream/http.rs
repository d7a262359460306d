//! Streamable HTTP towards a tool server: one POST is one exchange, answered by JSON or by an event stream.
//!
//! Redirects are not followed, nothing is decompressed, no proxy is read from the environment (SECURITY §3B B12–B14).

mod lane;

pub use lane::Arriving;

use super::Inbound;
use crate::failpoint;
use crate::mcp::headers::{METHOD, NAME, PROTOCOL_VERSION, SESSION, encode, name_of};
use crate::mcp::json::{FROM_SERVER, Text};
use crate::mcp::members::of_server;
use crate::mcp::message::{Kind, Message};
use crate::mcp::revision::{Era, Revision};
use crate::mcp::scrub;
use crate::mcp::sse::{Block, Framer};
use crate::model::reply::Fault;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body as _;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use lane::Lane;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

mod payload;
mod untouched;

pub use payload::Payload;
use payload::payload;
use untouched::is_untouched;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const NOT_YET: HeaderValue = HeaderValue::from_static("");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// A lossy network needs several tries for one connection (SECURITY §4).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How long a broken-off event stream is waited for, unless the server says (PROTOCOL §3.1).
const DEFAULT_RETRY_MS: u64 = 500;
const LONGEST_RETRY_MS: u64 = 30_000;
/// Longest part of an answer that is copied for being short, in bytes.
const SHORT: usize = 4 << 10;
/// Room that is made for the rest of an answer before it is there, in bytes: a server's word for its length is only a word.
const AT_ONCE: usize = 1 << 20;
/// How often one exchange is taken up again.
const RESUMPTIONS: u32 = 20;

/// The connections to all tool servers.
#[derive(Clone)]
pub struct Connections {
    tls: Client<HttpsConnector<HttpConnector>, Payload>,
    plain: HttpConnector,
    /// By address; all of them are in the configuration.
    lanes: Arc<Mutex<HashMap<Uri, Arc<Lane>>>>,
}

/// Makes the connections that all endpoints share.
pub fn connections() -> Result<Connections, Fault> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.enforce_http(false);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_platform_verifier(provider)
        .map_err(|error| Fault::unsent(format!("TLS cannot be set up: {error}")))?;
    let tls = tls.https_or_http().enable_http1().enable_http2().wrap_connector(connector.clone());
    let mut client = Client::builder(TokioExecutor::new());
    client.pool_timer(TokioTimer::new()).timer(TokioTimer::new()).pool_idle_timeout(Duration::from_mins(1));
    Ok(Connections { tls: client.build(tls), plain: connector, lanes: Arc::default() })
}

impl Connections {
    /// The lane to where `uri` is; none with TLS, where what it costs is not the connection.
    fn lane(&self, uri: &Uri) -> Option<Arc<Lane>> {
        let plain = uri.scheme() == Some(&http::uri::Scheme::HTTP);
        let address = Uri::builder().scheme("http").authority(uri.authority().filter(|_| plain)?.clone());
        let address = address.path_and_query("/").build().ok()?;
        let mut lanes = self.lanes.lock();
        let lane = lanes.entry(address.clone()).or_insert_with(|| Lane::new(self.plain.clone(), address));
        Some(lane.clone())
    }

    /// Sends what is no message of MCP, on a connection that hooks share.
    pub(super) async fn post(
        &self,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<hyper::body::Incoming>, String> {
        let mut request = Request::new(payload(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        self.tls.request(request).await.map_err(|error| of_error("no connection, or one that broke", &error))
    }
}

/// Where a server is, and what it is told with every request.
#[derive(Clone)]
pub struct Endpoint(Arc<Place>);

struct Place {
    connections: Connections,
    lane: Option<Arc<Lane>>,
    uri: Uri,
    /// Of every request.
    headers: HeaderMap,
    /// Of a modern request, with places for what differs: a map that does not grow costs less.
    modern: HeaderMap,
}

impl std::fmt::Debug for Endpoint {
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
}

impl Endpoint {
    /// An endpoint at `uri` with configured headers.
    pub fn new(connections: Connections, uri: Uri, mut headers: HeaderMap) -> Self {
        let lane = connections.lane(&uri);
        if let Some(host) = lane.as_ref().and_then(|_| host_of(&uri)) {
            headers.entry(HOST).or_insert(host);
        }
        let mut modern = HeaderMap::with_capacity(headers.len() + 8);
        modern.extend(headers.clone());
        modern.insert(CONTENT_TYPE, JSON);
        modern.insert(ACCEPT, BOTH);
        for name in [PROTOCOL_VERSION, METHOD, NAME] {
            modern.insert(name, NOT_YET);
        }
        Self(Arc::new(Place { connections, lane, uri, headers, modern }))
    }

    fn request(&self, headers: HeaderMap, method: Method, wire: &Wire, body: Bytes) -> Result<Request<Payload>, Fault> {
        let mut request = Request::new(payload(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.0.uri.clone();
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        if let Some(revision) = wire.revision {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        if let Some(session) = &wire.session {
            headers.insert(SESSION, session.clone());
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

    /// Sends one message.
    pub async fn post(&self, message: &Message, wire: &Wire) -> Result<Response<Arriving>, Fault> {
        let modern = wire.revision.filter(|revision| message.kind == Kind::Request && revision.era() == Era::Modern);
        let Some(revision) = modern else {
            let mut request = self.request(self.0.headers.clone(), Method::POST, wire, message.encode())?;
            request.headers_mut().insert(CONTENT_TYPE, JSON);
            request.headers_mut().insert(ACCEPT, BOTH);
            return self.send(request).await;
        };
        let mut headers = self.0.modern.clone();
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        let unfit = |_| Fault::unsent("the method cannot travel as a header");
        headers.insert(METHOD, HeaderValue::from_str(&message.method).map_err(unfit)?);
        match name_of(message) {
            Some(name) => drop(headers.insert(NAME, HeaderValue::from_str(&encode(&name)).map_err(unfit)?)),
            None => drop(headers.remove(NAME)),
        }
        self.send(self.request(headers, Method::POST, wire, message.encode())?).await
    }

    /// Opens an event stream, from the start or after an event.
    pub async fn get(&self, wire: &Wire, after: Option<&str>) -> Result<Response<Arriving>, Fault> {
        let mut request = self.request(self.0.headers.clone(), Method::GET, wire, Bytes::new())?;
        request.headers_mut().insert(ACCEPT, EVENTS);
        if let Some(after) = after.and_then(|after| HeaderValue::from_str(after).ok()) {
            request.headers_mut().insert(LAST_EVENT_ID, after);
        }
        self.send(request).await
    }

    /// Ends a legacy session.
    pub async fn delete(&self, wire: &Wire) -> Result<(), Fault> {
        let request = self.request(self.0.headers.clone(), Method::DELETE, wire, Bytes::new())?;
        self.send(request).await.map(|_| ())
    }

    async fn send(&self, mut request: Request<Payload>) -> Result<Response<Arriving>, Fault> {
        if let Some(lane) = &self.0.lane {
            let path = self.0.uri.path_and_query().cloned();
            *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
            return lane.send(request).await;
        }
        let sent = Box::pin(self.0.connections.tls.request(request)).await;
        sent.map(|response| response.map(Arriving::elsewhere)).map_err(|error| {
            if error.is_connect() {
                Fault::unsent(of_error("no connection to the tool server", &error))
            } else if is_untouched(&error) {
                Fault::unsent(of_error("the tool server refused the request unread", &error))
            } else {
                Fault::after_sending(of_error("the connection to the tool server broke", &error))
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

/// One request on HTTP, until its answer.
#[derive(Debug)]
pub struct HttpExchange {
    id: Text,
    endpoint: Endpoint,
    wire: Wire,
    source: Source,
    last_event: Option<String>,
    retry_ms: u64,
    resumptions: u32,
}

#[derive(Debug)]
enum Source {
    /// Nothing of it has left.
    Ready(Message),
    Json(Arriving),
    Events(Arriving, Framer),
    Interrupted,
    Done,
}

impl HttpExchange {
    /// An exchange that has not begun; the id of its request must be ours.
    pub fn ready(endpoint: &Endpoint, wire: Wire, message: Message) -> Self {
        let id = message.id.clone().unwrap_or_else(|| Text::string(""));
        let (endpoint, source) = (endpoint.clone(), Source::Ready(message));
        Self { id, endpoint, wire, source, last_event: None, retry_ms: DEFAULT_RETRY_MS, resumptions: 0 }
    }

    /// The exchange that `response` begins, for `message`.
    pub fn of(response: Response<Arriving>, endpoint: &Endpoint, message: Message) -> Result<Self, Fault> {
        let source = Source::of(response)?;
        Ok(Self { source, ..Self::ready(endpoint, Wire::default(), message) })
    }

    /// Sends the request, once, and waits for the head of the answer. If this future is dropped before it completes, a
    /// byte may have left, and nothing more arrives.
    pub async fn begin(&mut self) -> Result<(), Fault> {
        if !matches!(self.source, Source::Ready(_)) {
            return Ok(());
        }
        let Source::Ready(message) = std::mem::replace(&mut self.source, Source::Done) else { return Ok(()) };
        let response = self.endpoint.post(&message, &self.wire).await?;
        failpoint::reached("first-response-byte");
        // With or without a JSON-RPC error in it, this says that the session is no more (PROTOCOL §3.1).
        if self.wire.session.is_some() && response.status() == StatusCode::NOT_FOUND {
            return Err(of_status(StatusCode::NOT_FOUND));
        }
        self.source = Source::of(response)?;
        Ok(())
    }

    /// What arrives next; none after the answer.
    pub async fn next(&mut self) -> Result<Option<Inbound>, Fault> {
        self.begin().await?;
        loop {
            match std::mem::replace(&mut self.source, Source::Done) {
                Source::Done | Source::Ready(_) => return Ok(None),
                Source::Json(body) => return self.whole(body).await.map(Some),
                Source::Interrupted => self.resume().await?,
                Source::Events(body, framer) => {
                    if let Some(inbound) = self.event(body, framer).await? {
                        return Ok(Some(inbound));
                    }
                }
            }
        }
    }

    async fn whole(&mut self, body: Arriving) -> Result<Inbound, Fault> {
        failpoint::reached("mid-response");
        let bytes = gather(Limited::new(body, FROM_SERVER.bytes)).await;
        let bytes =
            bytes.map_err(|error| Fault::after_sending(format!("the answer was cut off or too long: {error}")))?;
        self.own(read(bytes)?)
    }

    fn own(&self, message: Message) -> Result<Inbound, Fault> {
        if message.kind == Kind::Response
            && message.id.as_ref() != Some(&self.id)
            && !(message.is_error && message.id.is_none())
        {
            return Err(Fault::after_sending("the tool server answered with another request's id"));
        }
        Ok(Inbound::Message(message))
    }

    /// One step on the event stream. None: nothing to hand on yet, look again.
    async fn event(&mut self, mut body: Arriving, mut framer: Framer) -> Result<Option<Inbound>, Fault> {
        match framer.next_block() {
            Some(Block::Comment(comment)) => {
                self.source = Source::Events(body, framer);
                Ok(Some(Inbound::Comment(comment)))
            }
            Some(Block::Event(event)) => {
                self.retry_ms = event.retry.map_or(self.retry_ms, |retry| retry.min(LONGEST_RETRY_MS));
                if event.id.is_some() {
                    self.last_event = event.id;
                }
                if event.data.is_empty() || !matches!(event.name.as_str(), "" | "message") {
                    self.source = Source::Events(body, framer);
                    return Ok(None);
                }
                let inbound = self.own(read(event.data)?)?;
                if !matches!(&inbound, Inbound::Message(message) if message.kind == Kind::Response) {
                    self.source = Source::Events(body, framer);
                }
                Ok(Some(inbound))
            }
            None => {
                match body.frame().await {
                    Some(Ok(frame)) => {
                        failpoint::reached("mid-response");
                        if let Some(bytes) = frame.data_ref() {
                            framer.push(bytes).map_err(|error| Fault::after_sending(error.to_string()))?;
                        }
                        self.source = Source::Events(body, framer);
                    }
                    Some(Err(_)) | None => return self.interrupted().map(Some),
                }
                Ok(None)
            }
        }
    }

    /// A legacy server may close the stream and be asked again; a modern stream that breaks is lost (PROTOCOL §3.1).
    fn interrupted(&mut self) -> Result<Inbound, Fault> {
        let legacy = self.wire.revision.is_some_and(|revision| revision.era() == Era::Legacy);
        if !legacy || self.last_event.is_none() || self.resumptions >= RESUMPTIONS {
            return Err(Fault::after_sending("the event stream ended without an answer"));
        }
        self.source = Source::Interrupted;
        Ok(Inbound::Interrupted(self.retry_ms))
    }

    /// Whoever reads has waited as long as the server asked for. The request was sent long ago, so whatever the server
    /// says to being asked again proves nothing of it (SEMANTICS §4).
    async fn resume(&mut self) -> Result<(), Fault> {
        let after = self.last_event.clone().unwrap_or_default();
        self.resumptions += 1;
        let response = self.endpoint.get(&self.wire, Some(&after)).await;
        match response.and_then(Source::of) {
            Ok(source @ Source::Events(..)) => self.source = source,
            Ok(_) => return Err(Fault::after_sending("the tool server did not take its event stream up again")),
            Err(fault) => return Err(Fault::after_sending(fault.what)),
        }
        Ok(())
    }
}

impl Source {
    fn of(response: Response<Arriving>) -> Result<Self, Fault> {
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if response.headers().contains_key(http::header::CONTENT_ENCODING) {
            return Err(Fault::after_sending("the tool server sent a compressed answer, which was not asked for"));
        }
        match (status, kind.as_str()) {
            (StatusCode::OK, "text/event-stream") => Ok(Self::Events(response.into_body(), Framer::default())),
            (status, "application/json")
                if status == StatusCode::OK || status.is_client_error() || status.is_server_error() =>
            {
                Ok(Self::Json(response.into_body()))
            }
            (status, _) => Err(of_status(status)),
        }
    }
}

/// A whole body. What is short is copied, so that the connection can read its next answer into the same buffer.
async fn gather(mut body: Limited<Arriving>) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(part) = frame?.into_data() else { continue };
        if first.is_empty() && rest.is_empty() && part.len() > SHORT {
            first = part;
            continue;
        }
        if rest.is_empty() {
            let more = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(AT_ONCE);
            rest.reserve(first.len() + part.len() + more);
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&part);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// What a status without a JSON-RPC answer proves (SEMANTICS §4).
fn of_status(status: StatusCode) -> Fault {
    let what = format!("the tool server answered with HTTP {status}");
    let fault = match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::UNAUTHORIZED
        | StatusCode::NOT_FOUND => Fault::unsent(what),
        _ => Fault::after_sending(what),
    };
    Fault { status: Some(status.as_u16()), ..fault }
}

/// Reads what a server sent as one message, without the secrets that it repeats, and without look-alikes.
pub fn read(bytes: Bytes) -> Result<Message, Fault> {
    let text = scrub::read(bytes)
        .map_err(|malformed| Fault::after_sending(format!("the tool server sent unreadable JSON: {malformed}")))?;
    Message::parse(&text)
        .map(of_server)
        .map_err(|reason| Fault::after_sending(format!("the tool server sent no JSON-RPC message: {reason}")))
}
