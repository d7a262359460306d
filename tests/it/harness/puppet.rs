//! A tool server on strings: it answers the handshake and its listing by itself, keeps every
//! request as it came, and answers everything else as the test says, also bit by bit.

use super::tool_server::script::MODERN;
use super::{DEADLINE, folding, until as within};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// A message of toolgate's, as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub headers: HeaderMap,
    pub body: Value,
}

impl Seen {
    pub fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// How a request is answered.
pub enum Answer {
    /// With this `result`.
    Result(Value),
    /// With this message, under the id of the request.
    Message(Value),
    /// With these bytes as an event stream, until the sender is dropped.
    Stream(mpsc::Receiver<String>),
    /// With a bare status.
    Status(u16),
    /// With this status, type and body, word for word; no type, no header that says one.
    Said(u16, &'static str, String),
    /// With what comes here, when it comes.
    Later(tokio::sync::oneshot::Receiver<Answer>),
    /// Not at all.
    Silence,
}

/// What an agent named `unwelcome` reads when it wants a session.
pub static UNWELCOME: std::sync::LazyLock<Value> = std::sync::LazyLock::new(
    || json!({ "code": 4711, "message": "not you", "data": { "x": [1, null] } }),
);

type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

struct Strings {
    eras: (bool, bool),
    capabilities: Value,
    tools: Mutex<Vec<Value>>,
    page: usize,
    ttl: u64,
    seen: Mutex<Vec<Seen>>,
    news: Notify,
    script: Mutex<Script>,
    /// What it says of itself.
    instructions: Mutex<Option<String>>,
    /// Whether notifications are left without an answer.
    ignoring: AtomicBool,
    /// Whether the script answers subscriptions too.
    scripted: AtomicBool,
    /// Open listening streams: standalone legacy ones and modern subscriptions, each with the id
    /// of its request.
    listeners: Mutex<Vec<(Option<Value>, mpsc::Sender<String>)>>,
    /// How many event streams of ours toolgate closed before we did.
    closed: Mutex<Vec<Value>>,
    sessions: Mutex<Vec<String>>,
    /// How many sessions toolgate has ended.
    deleted: AtomicUsize,
    /// The parameters of every `initialize`.
    initialized: Mutex<Vec<Value>>,
}

/// The tool server.
pub struct Puppet {
    strings: Arc<Strings>,
    pub address: std::net::SocketAddr,
    serving: Mutex<Option<JoinHandle<()>>>,
}

/// What a puppet is made of.
pub struct Making {
    pub modern: bool,
    pub legacy: bool,
    pub capabilities: Value,
    pub tools: Vec<Value>,
    /// Tools on one page.
    pub page: usize,
    /// For how long its listing counts, in milliseconds.
    pub ttl: u64,
}

impl Default for Making {
    fn default() -> Self {
        let capabilities = json!({
            "tools": { "listChanged": true }, "resources": { "subscribe": true, "listChanged": true },
            "prompts": { "listChanged": true }, "completions": {}, "logging": {}, "tasks": {},
        });
        Self {
            modern: true,
            legacy: true,
            capabilities,
            tools: Vec::new(),
            page: usize::MAX,
            ttl: 60_000,
        }
    }
}

/// A tool with an open schema.
pub fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("does {name}"), "inputSchema": { "type": "object" } })
}

/// One event.
pub fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

impl Puppet {
    pub async fn start(making: Making) -> Self {
        let script: Script =
            Arc::new(|_| Answer::Result(json!({ "content": [], "resultType": "complete" })));
        let strings = Arc::new(Strings {
            eras: (making.modern, making.legacy),
            capabilities: making.capabilities,
            tools: Mutex::new(making.tools),
            page: making.page,
            ttl: making.ttl,
            seen: Mutex::default(),
            news: Notify::new(),
            script: Mutex::new(script),
            instructions: Mutex::default(),
            ignoring: AtomicBool::new(false),
            scripted: AtomicBool::new(false),
            listeners: Mutex::default(),
            closed: Mutex::default(),
            sessions: Mutex::default(),
            deleted: AtomicUsize::new(0),
            initialized: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let puppet = Self {
            strings,
            address,
            serving: Mutex::default(),
        };
        puppet.serve(listener);
        puppet
    }

    /// With these tools and both eras.
    pub async fn with(tools: Vec<Value>) -> Self {
        Self::start(Making {
            tools,
            ..Making::default()
        })
        .await
    }

    /// Takes connections at this listener, which is at its address.
    pub fn serve(&self, listener: tokio::net::TcpListener) {
        let app = axum::Router::new()
            .fallback(request)
            .with_state(self.strings.clone());
        // Connections are tasks of their own; a runtime of its own ends them all at once.
        let (stopped, stop) = tokio::sync::oneshot::channel::<()>();
        let listener = listener.into_std().unwrap();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = std::future::IntoFuture::into_future(axum::serve(listener, app)) => served.unwrap(),
                    _ = stop => {}
                }
            });
            runtime.shutdown_background();
        });
        let serving = tokio::spawn(async move {
            let _kept = stopped;
            std::future::pending::<()>().await;
            drop(thread);
        });
        *self.serving.lock().unwrap() = Some(serving);
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Goes down: every connection breaks and no new one is taken.
    pub fn down(&self) {
        self.serving.lock().unwrap().take().unwrap().abort();
        self.strings.listeners.lock().unwrap().clear();
        self.strings.sessions.lock().unwrap().clear();
    }

    /// Comes back at the same address.
    pub async fn up(&self) {
        let listener = within("the address is free again", || async {
            tokio::net::TcpListener::bind(self.address).await.ok()
        })
        .await;
        self.serve(listener);
    }

    /// Forgets all legacy sessions, as a restart does, and nothing else.
    pub fn forgets_sessions(&self) {
        self.strings.sessions.lock().unwrap().clear();
    }

    /// How many legacy sessions it knows.
    pub fn sessions(&self) -> usize {
        self.strings.sessions.lock().unwrap().len()
    }

    /// How many legacy sessions toolgate has ended.
    pub fn deleted(&self) -> usize {
        self.strings.deleted.load(Ordering::Relaxed)
    }

    /// From now on everything but the handshake and the listing is answered like this.
    pub fn answers(&self, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) {
        *self.strings.script.lock().unwrap() = Arc::new(script);
    }

    /// From now on it says this of itself, to every client that asks.
    pub fn instructs(&self, text: &str) {
        *self.strings.instructions.lock().unwrap() = Some(text.to_owned());
    }

    /// From now on subscriptions are answered as everything else.
    pub fn scripts_subscriptions(&self) {
        self.strings.scripted.store(true, Ordering::Relaxed);
    }

    /// From now on not even a notification is answered.
    pub fn leaves_notifications(&self) {
        self.strings.ignoring.store(true, Ordering::Relaxed);
    }

    /// Answers one `method` with an event stream in the test's hands.
    pub fn holds(&self, method: &str) -> mpsc::Sender<String> {
        let (sender, receiver) = mpsc::channel(64);
        let (held, method) = (Mutex::new(Some(receiver)), method.to_owned());
        self.answers(move |seen| {
            match (seen.method() == method)
                .then(|| held.lock().unwrap().take())
                .flatten()
            {
                Some(receiver) => Answer::Stream(receiver),
                None => Answer::Result(json!({})),
            }
        });
        sender
    }

    /// Waits until toolgate listens here of its own accord: an agent's subscription is the next.
    pub async fn is_listened_to(&self) {
        let listens =
            || async { (!self.strings.listeners.lock().unwrap().is_empty()).then_some(()) };
        super::until("toolgate listens", listens).await;
    }

    /// Everything that came, but the handshake and the listing.
    pub fn seen(&self) -> Vec<Seen> {
        self.strings.seen.lock().unwrap().clone()
    }

    /// The parameters of every `initialize` so far.
    pub fn initialized(&self) -> Vec<Value> {
        self.strings.initialized.lock().unwrap().clone()
    }

    /// How often a tool was run.
    pub fn executions(&self) -> usize {
        self.seen()
            .iter()
            .filter(|seen| seen.method() == "tools/call")
            .count()
    }

    /// Forgets what came.
    pub fn forget(&self) {
        self.strings.seen.lock().unwrap().clear();
    }

    /// Waits until a message that fits has come.
    pub async fn sees(&self, what: &str, fits: impl Fn(&Seen) -> bool) -> Seen {
        let waiting = async {
            loop {
                let news = self.strings.news.notified();
                tokio::pin!(news);
                news.as_mut().enable();
                if let Some(seen) = self.seen().into_iter().find(&fits) {
                    return seen;
                }
                news.await;
            }
        };
        let seen = tokio::time::timeout(DEADLINE, waiting).await;
        seen.unwrap_or_else(|_| {
            panic!(
                "the tool server never saw {what}; it saw {:#?}",
                self.seen()
            )
        })
    }

    /// Waits until toolgate has closed the connection on which the request of this id is answered.
    pub async fn closed(&self, id: &Value) {
        within("toolgate closes the connection", || async {
            self.strings
                .closed
                .lock()
                .unwrap()
                .contains(id)
                .then_some(())
        })
        .await;
    }

    /// The ids of the requests whose streams toolgate closed.
    pub fn closed_ids(&self) -> Vec<Value> {
        self.strings.closed.lock().unwrap().clone()
    }

    /// Other tools from now on, and nobody is told.
    pub fn changes_tools_silently(&self, tools: Vec<Value>) {
        *self.strings.tools.lock().unwrap() = tools;
    }

    /// Other tools from now on; every client that listens is told.
    pub async fn changes_tools(&self, tools: Vec<Value>) {
        self.changes_tools_silently(tools);
        self.tells(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))
            .await;
    }

    /// Says something on all listening streams.
    pub async fn tells(&self, note: Value) {
        let listeners = self.strings.listeners.lock().unwrap().clone();
        for (id, listener) in listeners {
            let mut note = note.clone();
            if let Some(id) = id {
                note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] = id;
            }
            let _ = listener.send(event(&note)).await;
        }
    }

    /// Says on all listening streams that it is alive.
    pub async fn breathes(&self) {
        self.says(": alive\n\n".to_owned()).await;
    }

    /// Writes this on all listening streams.
    pub async fn says(&self, text: String) {
        let listeners = self.strings.listeners.lock().unwrap().clone();
        for (_, listener) in listeners {
            let _ = listener.send(text.clone()).await;
        }
    }

    /// How many streams listen.
    pub fn listeners(&self) -> usize {
        let mut listeners = self.strings.listeners.lock().unwrap();
        listeners.retain(|(_, listener)| !listener.is_closed());
        listeners.len()
    }
}

impl Strings {
    fn listing(&self, cursor: Option<&Value>) -> Value {
        let tools = self.tools.lock().unwrap();
        let start: usize = cursor
            .and_then(Value::as_str)
            .map_or(0, |cursor| cursor.parse().unwrap());
        let end = tools.len().min(start.saturating_add(self.page));
        let mut result = json!({ "tools": tools[start..end], "resultType": "complete", "ttlMs": self.ttl, "cacheScope": "public" });
        if end < tools.len() {
            result["nextCursor"] = json!(end.to_string());
        }
        result
    }

    fn introduced(&self, mut said: Value) -> Value {
        if let Some(text) = &*self.instructions.lock().unwrap() {
            said["instructions"] = json!(text);
        }
        said
    }

    /// The answer to a notification, unless there is none.
    async fn accepted(&self) -> Response {
        if self.ignoring.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        bare(202)
    }

    fn listener(&self, id: Option<Value>) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(64);
        self.listeners.lock().unwrap().push((id, sender));
        receiver
    }

    fn modern(&self, seen: &Seen) -> Option<Answer> {
        match seen.method() {
            "server/discover" => Some(Answer::Result(self.introduced(json!({
                "resultType": "complete", "supportedVersions": [MODERN], "capabilities": self.capabilities,
                "ttlMs": 0, "cacheScope": "private",
            })))),
            "subscriptions/listen" if !self.scripted.load(Ordering::Relaxed) => {
                let id = seen.body["id"].clone();
                let receiver = self.listener(Some(id.clone()));
                let ack = json!({
                    "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                    "params": {
                        "_meta": { "io.modelcontextprotocol/subscriptionId": id },
                        "notifications": seen.body["params"]["notifications"],
                    },
                });
                let listeners = self.listeners.lock().unwrap();
                listeners.last().unwrap().1.try_send(event(&ack)).unwrap();
                Some(Answer::Stream(receiver))
            }
            "tools/list" => Some(Answer::Result(self.listing(seen.body["params"].get("cursor")))),
            _ => None,
        }
    }

    fn legacy(&self, seen: &Seen) -> Option<Answer> {
        if seen.method() == "initialize" {
            self.initialized
                .lock()
                .unwrap()
                .push(seen.body["params"].clone());
        }
        match seen.method() {
            "initialize" if seen.body["params"]["clientInfo"]["name"] == "unwelcome" => {
                Some(Answer::Message(json!({ "jsonrpc": "2.0", "error": UNWELCOME.clone() })))
            }
            "initialize" => Some(Answer::Result(self.introduced(json!({
                "protocolVersion": seen.body["params"]["protocolVersion"], "capabilities": self.capabilities,
                "serverInfo": { "name": "puppet", "version": "1" },
            })))),
            "tools/list" => Some(Answer::Result(self.listing(seen.body["params"].get("cursor")))),
            _ => None,
        }
    }
}

async fn request(State(strings): State<Arc<Strings>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let session = head
        .headers
        .get("mcp-session-id")
        .map(|value| value.to_str().unwrap().to_owned());
    let known = session
        .as_ref()
        .is_none_or(|session| strings.sessions.lock().unwrap().contains(session));
    if !known {
        return no_such_session();
    }
    match head.method {
        // It keeps no events, so no stream can be taken up again.
        Method::GET if head.headers.contains_key("last-event-id") => return bare(503),
        Method::GET if strings.eras.1 && session.is_some() => {
            return stream(&strings, strings.listener(None), None);
        }
        Method::DELETE if strings.eras.1 => {
            strings.deleted.fetch_add(1, Ordering::Relaxed);
            return bare(200);
        }
        Method::POST => {}
        _ => return bare(405),
    }
    let bytes = axum::body::to_bytes(body, 64 << 20).await.unwrap();
    folding::reads(&String::from_utf8_lossy(&bytes));
    let seen = Seen {
        headers: head.headers,
        body: serde_json::from_slice(&bytes).unwrap(),
    };
    let modern = seen.header("mcp-protocol-version") == Some(MODERN);
    let method = seen.method().to_owned();
    let own = match (modern, strings.eras) {
        (true, (true, _)) => strings.modern(&seen),
        (false, (_, true)) => strings.legacy(&seen),
        _ => return bare(400),
    };
    let answer = match own {
        Some(answer) => answer,
        None if method == "notifications/initialized" => return bare(202),
        None => {
            strings.seen.lock().unwrap().push(seen.clone());
            strings.news.notify_waiters();
            if seen.body.get("id").is_none() || method.is_empty() {
                return strings.accepted().await;
            }
            let script = strings.script.lock().unwrap().clone();
            script(&seen)
        }
    };
    let id = seen.body["id"].clone();
    let mut response = answered(&strings, id, answer).await;
    if method == "initialize" {
        let mut sessions = strings.sessions.lock().unwrap();
        let session = format!("puppet-{}", uuid::Uuid::now_v7());
        response
            .headers_mut()
            .insert("mcp-session-id", session.parse().unwrap());
        sessions.push(session);
    }
    response
}

async fn answered(strings: &Arc<Strings>, id: Value, answer: Answer) -> Response {
    let answer = if let Answer::Later(answer) = answer {
        answer.await.unwrap_or(Answer::Silence)
    } else {
        answer
    };
    match answer {
        Answer::Result(result) => whole(&json!({ "jsonrpc": "2.0", "id": id, "result": result })),
        Answer::Message(mut message) => {
            message["id"] = id;
            whole(&message)
        }
        Answer::Stream(receiver) => stream(strings, receiver, Some(id)),
        Answer::Status(status) => bare(status),
        Answer::Said(status, kind, body) => said(status, kind, body),
        Answer::Later(_) | Answer::Silence => {
            let _watched = Watched(strings.clone(), Some(id), false);
            std::future::pending().await
        }
    }
}

fn no_such_session() -> Response {
    let error = json!({ "code": -32001, "message": "Session not found" });
    let mut response = whole(&json!({ "jsonrpc": "2.0", "id": null, "error": error }));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn bare(status: u16) -> Response {
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .body(Body::empty())
        .unwrap()
}

fn said(status: u16, kind: &str, body: String) -> Response {
    let mut response = bare(status);
    *response.body_mut() = Body::from(body);
    if !kind.is_empty() {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, kind.parse().unwrap());
    }
    response
}

fn whole(message: &Value) -> Response {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(message.to_string()))
        .unwrap()
}

/// Notes when the client that reads goes away before the end.
struct Watched(Arc<Strings>, Option<Value>, bool);

impl Drop for Watched {
    fn drop(&mut self) {
        if let (Some(id), false) = (self.1.take(), self.2) {
            self.0.closed.lock().unwrap().push(id);
        }
    }
}

fn stream(strings: &Arc<Strings>, receiver: mpsc::Receiver<String>, id: Option<Value>) -> Response {
    let watched = Watched(strings.clone(), id, false);
    let bytes = futures_util::stream::unfold(
        (receiver, watched),
        |(mut receiver, mut watched)| async move {
            let text = receiver.recv().await;
            watched.2 = text.is_none();
            text.map(|text| {
                (
                    Ok::<_, std::convert::Infallible>(Bytes::from(text)),
                    (receiver, watched),
                )
            })
        },
    );
    let body = Body::from_stream(bytes.boxed());
    Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .body(body)
        .unwrap()
}
