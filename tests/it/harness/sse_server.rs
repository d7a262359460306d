//! A tool server of HTTP+SSE of 2024-11-05 in the scenario's hands: one stream is one session, and a
//! message to it is answered on it.

use super::scripted_server::{Seen, event, tool};
use super::until;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

struct Kept {
    /// What the `endpoint` event says before the query that names the session; none: there is no
    /// such event.
    endpoint: Option<String>,
    sessions: Mutex<HashMap<String, mpsc::Sender<String>>>,
    next: AtomicUsize,
    seen: Mutex<Vec<Seen>>,
    /// The headers of every stream that was opened.
    opened: Mutex<Vec<HeaderMap>>,
    /// Whether calls run and stay without an answer.
    holds: AtomicBool,
    /// Whether sessions are forgotten, while their streams stay open.
    forgetful: AtomicBool,
    /// Whether calls are answered with HTTP 500, and once toolgate has read that, on the stream.
    reluctant: AtomicBool,
}

/// The tool server; its tools are `read` and `write`.
pub struct SseServer {
    kept: Arc<Kept>,
    pub address: std::net::SocketAddr,
}

impl SseServer {
    pub async fn start() -> Self {
        Self::naming(Some("/messages")).await
    }

    /// Its `endpoint` event says this, before the query that names the session.
    pub async fn naming(endpoint: Option<&str>) -> Self {
        let kept = Arc::new(Kept {
            endpoint: endpoint.map(str::to_owned),
            sessions: Mutex::default(),
            next: AtomicUsize::new(1),
            seen: Mutex::default(),
            opened: Mutex::default(),
            holds: AtomicBool::new(false),
            forgetful: AtomicBool::new(false),
            reluctant: AtomicBool::new(false),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // A POST to `/sse` is 405, and to any other place 404.
        let app = axum::Router::new()
            .route("/sse", get(stream))
            .route("/messages", post(message))
            .with_state(kept.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { kept, address }
    }

    pub fn url(&self) -> String {
        format!("http://{}/sse", self.address)
    }

    /// Every message that came, in the order in which they came.
    pub fn seen(&self) -> Vec<Seen> {
        self.kept.seen.lock().unwrap().clone()
    }

    /// The headers of every stream that was opened.
    pub fn opened(&self) -> Vec<HeaderMap> {
        self.kept.opened.lock().unwrap().clone()
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        let mut sessions = self.kept.sessions.lock().unwrap();
        sessions.retain(|_, stream| !stream.is_closed());
        sessions.len()
    }

    /// How often this tool was run.
    pub fn ran(&self, tool: &str) -> usize {
        let is_it =
            |seen: &&Seen| seen.method() == "tools/call" && seen.body["params"]["name"] == tool;
        self.seen().iter().filter(is_it).count()
    }

    /// Waits until this tool was run so often.
    pub async fn runs(&self, tool: &str, times: usize) {
        until("the tool runs", || async {
            (self.ran(tool) >= times).then_some(())
        })
        .await;
    }

    /// Whether calls run and stay without an answer from now on.
    pub fn holds(&self, holds: bool) {
        self.kept.holds.store(holds, Ordering::Relaxed);
    }

    /// From now on calls are answered with HTTP 500 and, once toolgate has read that, on the stream.
    pub fn is_reluctant(&self) {
        self.kept.reluctant.store(true, Ordering::Relaxed);
    }

    /// Ends all streams, and their sessions with them.
    pub fn ends_streams(&self) {
        self.kept.sessions.lock().unwrap().clear();
    }

    /// No longer knows its sessions, whose streams stay open: messages to them are 404.
    pub fn forgets_sessions(&self) {
        self.kept.forgetful.store(true, Ordering::Relaxed);
    }
}

/// Says something on a stream once nobody reads this response any more.
struct SaysWhenDropped(mpsc::Sender<String>, String);

impl Drop for SaysWhenDropped {
    fn drop(&mut self) {
        let _ = self.0.try_send(std::mem::take(&mut self.1));
    }
}

/// HTTP 500 with a body that never ends; what is said comes after it was left.
fn reluctantly(stream: mpsc::Sender<String>, said: String) -> Response {
    let kept = SaysWhenDropped(stream, said);
    let pending = futures_util::stream::pending::<Result<Bytes, std::convert::Infallible>>();
    let body = pending.inspect(move |_| {
        let _ = &kept;
    });
    let mut response = Response::new(Body::from_stream(body.boxed()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

fn bare(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

async fn stream(State(kept): State<Arc<Kept>>, headers: HeaderMap) -> Response {
    kept.opened.lock().unwrap().push(headers);
    let session = kept.next.fetch_add(1, Ordering::Relaxed).to_string();
    let (says, said) = mpsc::channel::<String>(64);
    if let Some(endpoint) = &kept.endpoint {
        let first = format!("event: endpoint\ndata: {endpoint}?session={session}\n\n");
        says.try_send(first).unwrap();
    }
    kept.sessions.lock().unwrap().insert(session, says);
    let bytes = futures_util::stream::unfold(said, |mut said| async move {
        let text = said.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), said))
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .body(Body::from_stream(bytes.boxed()))
        .unwrap()
}

async fn message(
    State(kept): State<Arc<Kept>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let session = query
        .unwrap_or_default()
        .trim_start_matches("session=")
        .to_owned();
    let stream = kept.sessions.lock().unwrap().get(&session).cloned();
    let Some(stream) = stream else {
        return bare(StatusCode::NOT_FOUND);
    };
    let text = String::from_utf8(body.to_vec()).unwrap();
    let body: Value = serde_json::from_str(&text).unwrap();
    let seen = Seen {
        headers,
        body,
        text,
    };
    let method = seen.method().to_owned();
    // A session that is made anew is known.
    if method == "initialize" {
        kept.forgetful.store(false, Ordering::Relaxed);
    }
    if kept.forgetful.load(Ordering::Relaxed) {
        return bare(StatusCode::NOT_FOUND);
    }
    let (id, params) = (seen.body["id"].clone(), seen.body["params"].clone());
    kept.seen.lock().unwrap().push(seen);
    let result = match method.as_str() {
        "initialize" => json!({
            "protocolVersion": "2024-11-05", "serverInfo": { "name": "old", "version": "1" },
            "capabilities": { "tools": { "listChanged": true }, "resources": { "subscribe": true }, "logging": {} },
        }),
        "tools/list" => json!({ "tools": [tool("read"), tool("write")] }),
        "tools/call" if kept.holds.load(Ordering::Relaxed) => {
            let is_reluctant = kept.reluctant.load(Ordering::Relaxed);
            let refused = StatusCode::INTERNAL_SERVER_ERROR;
            return bare(if is_reluctant {
                refused
            } else {
                StatusCode::ACCEPTED
            });
        }
        "tools/call" => {
            let token = &params["_meta"]["progressToken"];
            if !token.is_null() {
                let params = json!({ "progressToken": token, "progress": 1 });
                let note = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
                stream.send(event(&note)).await.unwrap();
            }
            json!({ "content": [{ "type": "text", "text": format!("ran in {session}") }] })
        }
        _ if id.is_null() => return bare(StatusCode::ACCEPTED),
        _ => json!({}),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    if method == "tools/call" && kept.reluctant.load(Ordering::Relaxed) {
        return reluctantly(stream, event(&answer));
    }
    let _ = stream.send(event(&answer)).await;
    bare(StatusCode::ACCEPTED)
}
