//! The load: each connection has one request under way, always.

use crate::cpu::{CpuTimes, Spent};
use crate::scenes::{Dialect, LEGACY_REVISION, REVISION, Scene, TOKEN, Turn};
use crate::stand::Way;
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// What one measurement found.
pub(crate) struct Loaded {
    /// Nanoseconds of each call.
    pub(crate) latencies: Vec<u32>,
    /// How long it took.
    pub(crate) time: Duration,
    /// CPU time of the processes in between.
    pub(crate) spent: Spent,
}

/// How long each connection calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// For this time.
    Time(Duration),
    /// So many calls.
    Calls(usize),
}

impl Until {
    fn is_over(self, began: Instant, made: usize) -> bool {
        match self {
            Self::Time(time) => began.elapsed() >= time,
            Self::Calls(calls) => made >= calls,
        }
    }
}

/// The time.
#[expect(
    clippy::disallowed_methods,
    reason = "a load generator has no clock but this"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Calls so far that change something: no two are the same.
static UNIQUE: AtomicU64 = AtomicU64::new(1);

/// Different calls that take turns where nothing changes: one call without end would be stopped as a
/// loop.
const CALLS_IN_TURN: u64 = 8;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

struct Template {
    uri: Uri,
    headers: HeaderMap,
    scene: &'static Scene,
    dialect: Dialect,
    prefix: &'static str,
    /// The bodies after the id that take turns; none where no two calls are the same.
    rests: Vec<String>,
}

impl Template {
    fn new(way: &Way, scene: &'static Scene) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, way.address.parse()?);
        headers.insert(CONTENT_TYPE, "application/json".parse()?);
        headers.insert(ACCEPT, "application/json, text/event-stream".parse()?);
        headers.insert(AUTHORIZATION, format!("Bearer {TOKEN}").parse()?);
        if way.dialect == Dialect::Modern {
            headers.insert(PROTOCOL_VERSION, REVISION.parse()?);
            headers.insert(
                HeaderName::from_static("mcp-method"),
                scene.method().parse()?,
            );
            if let Some(tool) = scene.tool {
                headers.insert(HeaderName::from_static("mcp-name"), tool.parse()?);
            }
        }
        let turns = if scene.changes() { 0 } else { CALLS_IN_TURN };
        let (dialect, prefix, session) = (way.dialect, way.prefix, 0);
        let rests = (0..turns)
            .map(|unique| scene.rest(dialect, prefix, Turn { session, unique }))
            .collect();
        let path = way.path.map_or_else(|| scene.path(), str::to_owned);
        Ok(Self {
            uri: path.parse()?,
            headers,
            scene,
            dialect,
            prefix,
            rests,
        })
    }

    fn request(&self, session: u64, id: u64) -> String {
        let unique = || {
            let unique = UNIQUE.fetch_add(1, Ordering::Relaxed);
            let turn = Turn { session, unique };
            self.scene.rest(self.dialect, self.prefix, turn)
        };
        let turn = usize::try_from(id % CALLS_IN_TURN).unwrap_or(0);
        let rest = self
            .rests
            .get(turn)
            .map_or_else(|| Cow::Owned(unique()), |rest| Cow::Borrowed(rest.as_str()));
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id}{rest}")
    }
}

/// What was answered.
struct Answered {
    status: StatusCode,
    session: Option<HeaderValue>,
    bytes: usize,
    /// All of it, where the load looks at what is said.
    said: Vec<u8>,
    nanoseconds: u32,
}

impl Answered {
    fn text(&self) -> String {
        let said = String::from_utf8_lossy(&self.said);
        said.chars().take(600).collect()
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    template: Rc<Template>,
    /// Those of the template, and of the session that was opened.
    headers: HeaderMap,
    session: u64,
    next: u64,
}

impl Connection {
    async fn open(way: &Way, template: Rc<Template>, session: u64) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(&way.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::task::spawn_local(connection);
        let mut opened = Self {
            sender,
            headers: template.headers.clone(),
            template,
            session,
            next: 1,
        };
        if opened.template.dialect == Dialect::Legacy {
            opened.initialize().await.context("opening a session")?;
        }
        let first = opened.call(true).await.context("the first call")?;
        ensure!(first > 0, "the first call took no time");
        Ok(opened)
    }

    /// Opens a session of 2025-11-25.
    async fn initialize(&mut self) -> anyhow::Result<()> {
        let asked = json!({
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": LEGACY_REVISION,
                "capabilities": {},
                "clientInfo": { "name": "load", "version": "1" },
            },
        });
        let answer = self.send(Method::POST, asked.to_string(), true).await?;
        ensure!(
            answer.status == StatusCode::OK && answer.text().contains("\"result\":"),
            "answered {}: {}",
            answer.status,
            answer.text()
        );
        self.headers
            .insert(PROTOCOL_VERSION, LEGACY_REVISION.parse()?);
        if let Some(session) = answer.session {
            self.headers.insert(SESSION, session);
        }
        let said = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let answer = self.send(Method::POST, said.to_string(), true).await?;
        ensure!(
            answer.status.is_success(),
            "`initialized` was answered {}: {}",
            answer.status,
            answer.text()
        );
        Ok(())
    }

    /// Ends the session, if one was opened. Who does not know how to end it forgets it in time.
    async fn end(&mut self) {
        if self.headers.contains_key(SESSION) {
            let _ = self.send(Method::DELETE, String::new(), false).await;
        }
    }

    async fn send(&mut self, method: Method, body: String, look: bool) -> anyhow::Result<Answered> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = self.template.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let start = now();
        let response = self.sender.send_request(request).await?;
        let (head, mut body) = response.into_parts();
        let (mut bytes, mut said) = (0, Vec::new());
        while let Some(frame) = body.frame().await {
            if let Ok(part) = frame?.into_data() {
                bytes += part.len();
                if look {
                    said.extend_from_slice(&part);
                }
            }
        }
        let took = start.elapsed();
        Ok(Answered {
            status: head.status,
            session: head.headers.get(SESSION).cloned(),
            bytes,
            said,
            nanoseconds: u32::try_from(took.as_nanos()).unwrap_or(u32::MAX),
        })
    }

    /// One call, in nanoseconds; `look`: also at what the answer says.
    async fn call(&mut self, look: bool) -> anyhow::Result<u32> {
        let body = self.template.request(self.session, self.next);
        self.next += 1;
        let answer = self.send(Method::POST, body, look).await?;
        if look {
            let said = String::from_utf8_lossy(&answer.said);
            let fine = said.contains("\"result\":") && !said.contains("\"isError\":true");
            ensure!(fine, "answered {}: {}", answer.status, answer.text());
        }
        ensure!(
            answer.status == StatusCode::OK && answer.bytes >= self.template.scene.bytes,
            "answered {} with {} bytes",
            answer.status,
            answer.bytes
        );
        Ok(answer.nanoseconds)
    }
}

/// Loads `way` on so many connections, and a call more on each, which opens it.
pub(crate) async fn load(
    way: &Way,
    scene: &'static Scene,
    connections: usize,
    until: Until,
) -> anyhow::Result<Loaded> {
    let template = Rc::new(Template::new(way, scene)?);
    let run = async {
        let mut open = Vec::new();
        for session in 0..connections {
            open.push(Connection::open(way, template.clone(), session as u64).await?);
        }
        let latencies = Rc::new(RefCell::new(Vec::with_capacity(1 << 20)));
        let (before, start) = (CpuTimes::of(&way.processes), now());
        let running: Vec<_> = open
            .into_iter()
            .map(|mut connection| {
                let latencies = latencies.clone();
                tokio::task::spawn_local(async move {
                    let mut made = 0;
                    while !until.is_over(start, made) {
                        let took = connection.call(scene.changes()).await?;
                        latencies.borrow_mut().push(took);
                        made += 1;
                    }
                    anyhow::Ok(connection)
                })
            })
            .collect();
        let mut called = Vec::new();
        for one in running {
            called.push(one.await??);
        }
        let time = start.elapsed();
        let spent = CpuTimes::of(&way.processes).since(&before);
        for mut connection in called {
            connection.end().await;
        }
        Ok(Loaded {
            latencies: latencies.take(),
            time,
            spent,
        })
    };
    LocalSet::new().run_until(run).await
}

/// How long after `began` the first call was answered. Until there is an answer, each try that
/// fails is followed by another.
///
/// # Errors
///
/// No call is answered within a minute; with what went wrong last.
pub(crate) async fn first_answer(
    way: &Way,
    scene: &'static Scene,
    began: Instant,
) -> anyhow::Result<Duration> {
    let template = Rc::new(Template::new(way, scene)?);
    let run = async {
        loop {
            match Connection::open(way, template.clone(), 0).await {
                Ok(_) => return Ok(began.elapsed()),
                Err(error) if began.elapsed() > Duration::from_mins(1) => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    };
    LocalSet::new().run_until(run).await
}
