//! A tool server in the scenario's hands: it answers the handshake and its listing by itself, keeps
//! every request as it came, and answers everything else as the scenario says, also bit by bit.

mod wire;

use super::{DEADLINE, until as within};
use axum::http::HeaderMap;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::sync::{Notify, mpsc, oneshot};

/// A message of toolgate's, as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub headers: HeaderMap,
    pub body: Value,
    /// The body as it was written.
    pub text: String,
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
pub enum Reply {
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
    Later(tokio::sync::oneshot::Receiver<Reply>),
    /// Not at all.
    Silence,
}

/// What an agent named `unwelcome` reads when it wants a session.
pub static UNWELCOME: std::sync::LazyLock<Value> = std::sync::LazyLock::new(
    || json!({ "code": 4711, "message": "not you", "data": { "x": [1, null] } }),
);

type Replies = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

struct Kept {
    eras: (bool, bool),
    capabilities: Value,
    tools: Mutex<Vec<Value>>,
    page: usize,
    ttl: u64,
    seen: Mutex<Vec<Seen>>,
    news: Notify,
    script: Mutex<Replies>,
    /// What it says of itself.
    instructions: Mutex<Option<String>>,
    /// How `server/discover` is answered instead.
    probed: Mutex<Option<fn() -> Reply>>,
    /// Whether notifications are left without an answer.
    ignoring: AtomicBool,
    /// The status with which they are refused.
    refusing: Mutex<Option<u16>>,
    /// Whether `initialize` is left without an answer.
    aloof: AtomicBool,
    /// Whether the script answers subscriptions too.
    subscriptions: AtomicBool,
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
pub struct ScriptedServer {
    kept: Arc<Kept>,
    pub address: std::net::SocketAddr,
    /// What ends its thread, and the thread.
    serving: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

/// What a scripted server offers.
pub struct Offers {
    pub modern: bool,
    pub legacy: bool,
    pub capabilities: Value,
    pub tools: Vec<Value>,
    /// Tools on one page.
    pub page: usize,
    /// For how long its listing counts, in milliseconds.
    pub ttl: u64,
}

impl Default for Offers {
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

impl ScriptedServer {
    pub async fn start(offers: Offers) -> Self {
        let script: Replies =
            Arc::new(|_| Reply::Result(json!({ "content": [], "resultType": "complete" })));
        let kept = Arc::new(Kept {
            eras: (offers.modern, offers.legacy),
            capabilities: offers.capabilities,
            tools: Mutex::new(offers.tools),
            page: offers.page,
            ttl: offers.ttl,
            seen: Mutex::default(),
            news: Notify::new(),
            script: Mutex::new(script),
            instructions: Mutex::default(),
            probed: Mutex::default(),
            ignoring: AtomicBool::new(false),
            refusing: Mutex::default(),
            aloof: AtomicBool::new(false),
            subscriptions: AtomicBool::new(false),
            listeners: Mutex::default(),
            closed: Mutex::default(),
            sessions: Mutex::default(),
            deleted: AtomicUsize::new(0),
            initialized: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self {
            kept,
            address,
            serving: Mutex::default(),
        };
        server.serve(listener);
        server
    }

    /// With these tools and both eras.
    pub async fn with(tools: Vec<Value>) -> Self {
        Self::start(Offers {
            tools,
            ..Offers::default()
        })
        .await
    }

    /// Takes connections at this listener, which is at its address.
    pub fn serve(&self, listener: tokio::net::TcpListener) {
        let app = axum::Router::new()
            .fallback(wire::request)
            .with_state(self.kept.clone());
        // Connections are tasks of their own; a runtime of its own ends them all at once.
        let (stopped, stop) = oneshot::channel::<()>();
        let listener = listener.into_std().unwrap();
        let ended = std::thread::spawn(move || {
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
        *self.serving.lock().unwrap() = Some((stopped, ended));
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Goes down: when this returns every connection is broken and no new one is taken.
    pub fn down(&self) {
        let (stopped, ended) = self.serving.lock().unwrap().take().unwrap();
        drop(stopped);
        ended.join().unwrap();
        self.kept.listeners.lock().unwrap().clear();
        self.kept.sessions.lock().unwrap().clear();
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
        self.kept.sessions.lock().unwrap().clear();
    }

    /// Forgets the legacy session that was opened first, which is toolgate's own.
    pub fn forgets_first_session(&self) {
        self.kept.sessions.lock().unwrap().remove(0);
    }

    /// How many legacy sessions it knows.
    pub fn sessions(&self) -> usize {
        self.kept.sessions.lock().unwrap().len()
    }

    /// How many legacy sessions toolgate has ended.
    pub fn deleted(&self) -> usize {
        self.kept.deleted.load(Ordering::Relaxed)
    }

    /// From now on `server/discover` is answered so; None: as the eras say.
    pub fn answers_probes(&self, script: Option<fn() -> Reply>) {
        *self.kept.probed.lock().unwrap() = script;
    }

    /// From now on everything but the handshake and the listing is answered like this.
    pub fn answers(&self, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        *self.kept.script.lock().unwrap() = Arc::new(script);
    }

    /// From now on it says this of itself, to every client that asks.
    pub fn instructs(&self, text: &str) {
        *self.kept.instructions.lock().unwrap() = Some(text.to_owned());
    }

    /// From now on subscriptions are answered as everything else.
    pub fn scripts_subscriptions(&self) {
        self.kept.subscriptions.store(true, Ordering::Relaxed);
    }

    /// From now on not even a notification is answered.
    pub fn leaves_notifications(&self) {
        self.kept.ignoring.store(true, Ordering::Relaxed);
    }

    /// From now on notifications and responses are refused with this status; none: they are taken.
    pub fn refuses_notifications(&self, status: Option<u16>) {
        *self.kept.refusing.lock().unwrap() = status;
    }

    /// From now on `initialize` is not answered.
    pub fn leaves_introductions(&self) {
        self.kept.aloof.store(true, Ordering::Relaxed);
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
                Some(receiver) => Reply::Stream(receiver),
                None => Reply::Result(json!({})),
            }
        });
        sender
    }

    /// Waits until toolgate listens here of its own accord: an agent's subscription is the next.
    pub async fn is_listened_to(&self) {
        let listens = || async { (!self.kept.listeners.lock().unwrap().is_empty()).then_some(()) };
        super::until("toolgate listens", listens).await;
    }

    /// Everything that came, but the handshake and the listing.
    pub fn seen(&self) -> Vec<Seen> {
        self.kept.seen.lock().unwrap().clone()
    }

    /// The parameters of every `initialize` so far.
    pub fn initialized(&self) -> Vec<Value> {
        self.kept.initialized.lock().unwrap().clone()
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
        self.kept.seen.lock().unwrap().clear();
    }

    /// Waits until a message that fits has come.
    pub async fn sees(&self, what: &str, fits: impl Fn(&Seen) -> bool) -> Seen {
        let waiting = async {
            loop {
                let news = self.kept.news.notified();
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
            self.kept.closed.lock().unwrap().contains(id).then_some(())
        })
        .await;
    }

    /// The ids of the requests whose streams toolgate closed.
    pub fn closed_ids(&self) -> Vec<Value> {
        self.kept.closed.lock().unwrap().clone()
    }

    /// Other tools from now on, and nobody is told.
    pub fn changes_tools_silently(&self, tools: Vec<Value>) {
        *self.kept.tools.lock().unwrap() = tools;
    }

    /// Other tools from now on; every client that listens is told.
    pub async fn changes_tools(&self, tools: Vec<Value>) {
        self.changes_tools_silently(tools);
        self.tells(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))
            .await;
    }

    /// Says something on all listening streams.
    pub async fn tells(&self, note: Value) {
        let listeners = self.kept.listeners.lock().unwrap().clone();
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
        let listeners = self.kept.listeners.lock().unwrap().clone();
        for (_, listener) in listeners {
            let _ = listener.send(text.clone()).await;
        }
    }

    /// How many streams listen.
    pub fn listeners(&self) -> usize {
        let mut listeners = self.kept.listeners.lock().unwrap();
        listeners.retain(|(_, listener)| !listener.is_closed());
        listeners.len()
    }
}
