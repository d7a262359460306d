//! What a scripted server answers to each request, by itself or as the scenario says.

use super::{Kept, Reply, Seen, UNWELCOME, event};
use crate::harness::folding;
use crate::harness::tool_server::script::MODERN;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

impl Kept {
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
        let refused = *self.refusing.lock().unwrap();
        bare(refused.unwrap_or(202))
    }

    fn listener(&self, id: Option<Value>) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(64);
        self.listeners.lock().unwrap().push((id, sender));
        receiver
    }

    fn modern(&self, seen: &Seen) -> Option<Reply> {
        match seen.method() {
            "server/discover" => Some(Reply::Result(self.introduced(json!({
                "resultType": "complete", "supportedVersions": [MODERN], "capabilities": self.capabilities,
                "ttlMs": 0, "cacheScope": "private",
            })))),
            "subscriptions/listen" if !self.subscriptions.load(Ordering::Relaxed) => {
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
                Some(Reply::Stream(receiver))
            }
            "tools/list" => Some(Reply::Result(self.listing(seen.body["params"].get("cursor")))),
            _ => None,
        }
    }

    fn legacy(&self, seen: &Seen) -> Option<Reply> {
        if seen.method() == "initialize" {
            self.initialized
                .lock()
                .unwrap()
                .push(seen.body["params"].clone());
        }
        match seen.method() {
            "initialize" if self.aloof.load(Ordering::Relaxed) => Some(Reply::Silence),
            "initialize" if seen.body["params"]["clientInfo"]["name"] == "unwelcome" => {
                Some(Reply::Message(json!({ "jsonrpc": "2.0", "error": UNWELCOME.clone() })))
            }
            "initialize" => Some(Reply::Result(self.introduced(json!({
                "protocolVersion": seen.body["params"]["protocolVersion"], "capabilities": self.capabilities,
                "serverInfo": { "name": "scripted", "version": "1" },
            })))),
            "tools/list" => Some(Reply::Result(self.listing(seen.body["params"].get("cursor")))),
            _ => None,
        }
    }
}

pub(super) async fn request(State(kept): State<Arc<Kept>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let session = head
        .headers
        .get("mcp-session-id")
        .map(|value| value.to_str().unwrap().to_owned());
    let known = session
        .as_ref()
        .is_none_or(|session| kept.sessions.lock().unwrap().contains(session));
    if !known {
        return no_such_session();
    }
    if head.method != Method::POST {
        return without_body(&kept, &head, session.is_some());
    }
    let bytes = axum::body::to_bytes(body, 64 << 20).await.unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    folding::reads(&text);
    let seen = Seen {
        headers: head.headers,
        body: serde_json::from_slice(&bytes).unwrap(),
        text,
    };
    let modern = seen.header("mcp-protocol-version") == Some(MODERN);
    let method = seen.method().to_owned();
    let probed = *kept.probed.lock().unwrap();
    let own = match (modern, kept.eras) {
        _ if method == "server/discover" && probed.is_some() => probed.map(|script| script()),
        (true, (true, _)) => kept.modern(&seen),
        (false, (_, true)) => kept.legacy(&seen),
        _ => return bare(400),
    };
    let answer = match own {
        Some(answer) => answer,
        None if method == "notifications/initialized" => return bare(202),
        None => {
            kept.seen.lock().unwrap().push(seen.clone());
            kept.news.notify_waiters();
            if seen.body.get("id").is_none() || method.is_empty() {
                return kept.accepted().await;
            }
            let script = kept.script.lock().unwrap().clone();
            script(&seen)
        }
    };
    let id = seen.body["id"].clone();
    let mut response = answered(&kept, id, answer).await;
    if method == "initialize" {
        let mut sessions = kept.sessions.lock().unwrap();
        let session = format!("scripted-{}", uuid::Uuid::now_v7());
        response
            .headers_mut()
            .insert("mcp-session-id", session.parse().unwrap());
        sessions.push(session);
    }
    response
}

/// A request that brings no message.
fn without_body(kept: &Arc<Kept>, head: &Parts, in_session: bool) -> Response {
    match head.method {
        // It keeps no events, so no stream can be taken up again.
        Method::GET if head.headers.contains_key("last-event-id") => bare(503),
        Method::GET if kept.eras.1 && in_session => stream(kept, kept.listener(None), None),
        Method::DELETE if kept.eras.1 => {
            kept.deleted.fetch_add(1, Ordering::Relaxed);
            bare(200)
        }
        _ => bare(405),
    }
}

async fn answered(kept: &Arc<Kept>, id: Value, answer: Reply) -> Response {
    let answer = if let Reply::Later(answer) = answer {
        answer.await.unwrap_or(Reply::Silence)
    } else {
        answer
    };
    match answer {
        Reply::Result(result) => whole(&json!({ "jsonrpc": "2.0", "id": id, "result": result })),
        Reply::Message(mut message) => {
            message["id"] = id;
            whole(&message)
        }
        Reply::Stream(receiver) => stream(kept, receiver, Some(id)),
        Reply::Status(status) => bare(status),
        Reply::Said(status, kind, body) => said(status, kind, body),
        Reply::Later(_) | Reply::Silence => {
            let _watched = Watched(kept.clone(), Some(id), false);
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
struct Watched(Arc<Kept>, Option<Value>, bool);

impl Drop for Watched {
    fn drop(&mut self) {
        if let (Some(id), false) = (self.1.take(), self.2) {
            self.0.closed.lock().unwrap().push(id);
        }
    }
}

fn stream(kept: &Arc<Kept>, receiver: mpsc::Receiver<String>, id: Option<Value>) -> Response {
    let watched = Watched(kept.clone(), id, false);
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
