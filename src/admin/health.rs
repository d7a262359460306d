//! Alive, ready, and metrics. Whether it is ready is for every caller to read; why not, and what it
//! consists of, only for operators with a token once there are any: the words name files, servers
//! and tools.

use super::{OperatorsDoor, json_answer};
use crate::telemetry::metrics::METRICS_CONTENT_TYPE;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use std::sync::Arc;

/// What `/readyz` says without an operator's token.
#[derive(Debug, Serialize)]
struct ReadyReply {
    status: &'static str,
    ready: bool,
}

/// What this door answers without a token.
pub(super) const PUBLIC_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    let [alive, ready_at, metrics_at] = PUBLIC_PATHS;
    Router::new()
        .route(alive, get(async || "ok"))
        .route(ready_at, get(ready))
        .route(metrics_at, get(metrics))
}

async fn ready(
    State(door): State<Arc<OperatorsDoor>>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let readiness = door.status.ready();
    let (code, status) = if readiness.ready {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not_ready")
    };
    if !door.operators.is_empty() {
        if !headers.contains_key(header::AUTHORIZATION) {
            let ready = readiness.ready;
            return Ok(json_answer(code, &ReadyReply { status, ready }));
        }
        door.operators.known(&headers)?;
    }
    Ok(json_answer(code, &readiness))
}

async fn metrics(State(door): State<Arc<OperatorsDoor>>) -> Response {
    let headers = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static(METRICS_CONTENT_TYPE),
    )];
    (headers, door.status.metrics()).into_response()
}
