//! Alive, ready, and metrics. Whether it is ready is for every caller to read; why not, and what it
//! consists of, only for operators with a token once there are any: the words name files, servers
//! and tools.

use super::open_counts;
use super::{OperatorsDoor, json_answer};
use crate::telemetry::metrics::MetricsFormat;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// What `/readyz` says without an operator's token.
#[derive(Debug, Serialize)]
struct ReadyReply {
    status: &'static str,
    ready: bool,
    /// An older policy than that of the files is in force, since they have errors.
    policy_stale: bool,
}

/// How long a scrape waits for the store; then it shows what was counted before.
const COUNT_TIMEOUT: Duration = Duration::from_millis(500);

/// The header of `/readyz` that says which data directory this toolgate has: what stands in its lock. A verb
/// that is about a directory asks no other toolgate about it. No secret.
pub(crate) const INSTANCE_HEADER: &str = "toolgate-instance";

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
    let mut answer = readiness(&door, &headers)?;
    if let Ok(instance) = HeaderValue::from_str(door.status.instance()) {
        let name = HeaderName::from_static(INSTANCE_HEADER);
        answer.headers_mut().insert(name, instance);
    }
    Ok(answer)
}

fn readiness(door: &OperatorsDoor, headers: &HeaderMap) -> Result<Response, Response> {
    let readiness = door.status.ready();
    let (code, status) = if readiness.ready {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not_ready")
    };
    if !door.operators.are_open() {
        if !headers.contains_key(header::AUTHORIZATION) {
            let reply = ReadyReply {
                status,
                ready: readiness.ready,
                policy_stale: readiness.policy.stale,
            };
            return Ok(json_answer(code, &reply));
        }
        door.operators.known(headers)?;
    }
    Ok(json_answer(code, &readiness))
}

async fn metrics(State(door): State<Arc<OperatorsDoor>>, headers: HeaderMap) -> Response {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let format = MetricsFormat::of_accept(accept);
    let switches = &door.switches;
    // A scrape reads what is so now, not what was counted some seconds ago; but it does not wait for a store.
    let counting = async {
        drop(open_counts::count(&*switches.store, &switches.metrics).await);
        let ages = switches.incidents.open_for(switches.store.now()).await;
        let oldest = ages.iter().max().copied().unwrap_or_default();
        switches.metrics.set_incidents(ages.len(), oldest);
    };
    let _ = tokio::time::timeout(COUNT_TIMEOUT, counting).await;
    let content_type = HeaderValue::from_static(format.content_type());
    let headers = [(header::CONTENT_TYPE, content_type)];
    (headers, door.status.metrics(format)).into_response()
}
