//! The same server to agents of one era only: what is said in the other is answered as servers
//! answer that have never heard of it.

use super::interruption::InterruptedSessions;
use super::server::Fixture;
use crate::serve::{Failure, serve_http};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use serde_json::{Value, json};

/// The longest message, in bytes.
const LONGEST: usize = 8 << 20;
const MODERN: &str = "2026-07-28";
const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";

/// The only era that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnlyEra {
    /// Revisions with `initialize`.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl OnlyEra {
    /// The era of that name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "legacy" => Some(Self::Legacy),
            "modern" => Some(Self::Modern),
            _ => None,
        }
    }

    /// What it answers to what is not of its era.
    fn refusal(self, method: &Method, message: &Value) -> Option<(StatusCode, Value)> {
        let is_modern = message["params"]["_meta"][VERSION_META].is_string();
        let refused = |status, id: Value, code: i64, words: &str, data: Value| {
            let error = json!({ "code": code, "message": words, "data": data });
            Some((
                status,
                json!({ "jsonrpc": "2.0", "id": id, "error": error }),
            ))
        };
        match self {
            // As SDKs of 2025 do: there is no session, and their errors have an id of their own.
            Self::Legacy if is_modern => {
                let words = "Bad Request: Missing session ID";
                let id = json!("server-error");
                refused(StatusCode::BAD_REQUEST, id, -32600, words, Value::Null)
            }
            Self::Modern if *method != Method::POST => {
                let words = "this server has no sessions";
                refused(
                    StatusCode::METHOD_NOT_ALLOWED,
                    Value::Null,
                    -32600,
                    words,
                    Value::Null,
                )
            }
            Self::Modern if !is_modern => {
                let data = json!({ "supported": [MODERN] });
                let id = message["id"].clone();
                refused(
                    StatusCode::BAD_REQUEST,
                    id,
                    -32022,
                    "unsupported version",
                    data,
                )
            }
            Self::Legacy | Self::Modern => None,
        }
    }
}

/// Serves `fixture` over HTTP to agents of one era.
///
/// # Errors
/// Those of [`serve_http`].
pub async fn serve_only(fixture: Fixture, era: OnlyEra, address: &str) -> Result<(), Failure> {
    let only = from_fn(move |request: Request, next: Next| answered(era, request, next));
    let sessions = InterruptedSessions::default();
    serve_http(fixture, address, sessions, |router| router.layer(only)).await
}

async fn answered(era: OnlyEra, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let bytes = to_bytes(body, LONGEST).await.unwrap_or_default();
    let message = serde_json::from_str(&String::from_utf8_lossy(&bytes)).unwrap_or_default();
    let Some((status, refusal)) = era.refusal(&head.method, &message) else {
        return next.run(Request::from_parts(head, Body::from(bytes))).await;
    };
    let mut answer = Response::new(Body::from(refusal.to_string()));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
