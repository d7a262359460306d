//! The load: each connection has one request under way, always.

use crate::processes::{Way, cpu};
use crate::scenes::{REVISION, Scene, TOKEN};
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
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
    pub(crate) cpu: Duration,
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

struct Template {
    uri: Uri,
    headers: HeaderMap,
    scene: &'static Scene,
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
        headers.insert(
            HeaderName::from_static("mcp-protocol-version"),
            REVISION.parse()?,
        );
        headers.insert(
            HeaderName::from_static("mcp-method"),
            scene.method().parse()?,
        );
        if let Some(tool) = scene.tool {
            headers.insert(HeaderName::from_static("mcp-name"), tool.parse()?);
        }
        let turns = if scene.changes() { 0 } else { CALLS_IN_TURN };
        let rests = (0..turns).map(|turn| scene.rest(0, turn)).collect();
        Ok(Self {
            uri: scene.path().parse()?,
            headers,
            scene,
            rests,
        })
    }

    fn request(&self, session: u64, id: u64) -> Request<Full<Bytes>> {
        let unique = || {
            self.scene
                .rest(session, UNIQUE.fetch_add(1, Ordering::Relaxed))
        };
        let turn = usize::try_from(id % CALLS_IN_TURN).unwrap_or(0);
        let rest = self
            .rests
            .get(turn)
            .map_or_else(|| Cow::Owned(unique()), |rest| Cow::Borrowed(rest.as_str()));
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id}{rest}");
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    template: Rc<Template>,
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
            template,
            session,
            next: 1,
        };
        let first = opened.call(true).await.context("the first call")?;
        ensure!(first > 0, "the first call took no time");
        Ok(opened)
    }

    /// One call, in nanoseconds; `look`: also at what the answer says.
    async fn call(&mut self, look: bool) -> anyhow::Result<u32> {
        let request = self.template.request(self.session, self.next);
        self.next += 1;
        let start = now();
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let mut body = response.into_body();
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
        if look {
            let said = String::from_utf8_lossy(&said);
            let fine = said.contains("\"result\":") && !said.contains("\"isError\":true");
            ensure!(
                fine,
                "answered {status}: {}",
                said.chars().take(600).collect::<String>()
            );
        }
        ensure!(
            status == StatusCode::OK && bytes >= self.template.scene.bytes,
            "answered {status} with {bytes} bytes"
        );
        Ok(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX))
    }
}

/// Loads `way` for `time` on so many connections.
pub(crate) async fn load(
    way: &Way,
    scene: &'static Scene,
    connections: usize,
    time: Duration,
) -> anyhow::Result<Loaded> {
    let template = Rc::new(Template::new(way, scene)?);
    let run = async {
        let mut open = Vec::new();
        for session in 0..connections {
            open.push(Connection::open(way, template.clone(), session as u64).await?);
        }
        let latencies = Rc::new(RefCell::new(Vec::with_capacity(1 << 20)));
        let (before, start) = (cpu(&way.processes), now());
        let running: Vec<_> = open
            .into_iter()
            .map(|mut connection| {
                let latencies = latencies.clone();
                tokio::task::spawn_local(async move {
                    while start.elapsed() < time {
                        let took = connection.call(scene.changes()).await?;
                        latencies.borrow_mut().push(took);
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for one in running {
            one.await??;
        }
        let (time, cpu) = (start.elapsed(), cpu(&way.processes).saturating_sub(before));
        Ok(Loaded {
            latencies: latencies.take(),
            time,
            cpu,
        })
    };
    LocalSet::new().run_until(run).await
}
