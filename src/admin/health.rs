//! Alive, ready, and metrics. Whether it is ready is for every caller to read; why not, and what it
//! consists of, only for operators with a token once there are any: the words name files, servers
//! and tools.

use super::json_answer;
use super::operators::Operators;
use super::quarantine::Quarantined;
use crate::telemetry::metrics::METRICS_CONTENT_TYPE;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use std::sync::Arc;

/// What this door asks of the rest of the process. All must answer at once, without waiting for a
/// disk or a tool server.
pub trait ProcessStatus: Send + Sync {
    /// Whether calls can be judged, and why not.
    fn ready(&self) -> Readiness;
    /// The tools that are not shown, to nobody or in some profile.
    fn quarantined(&self) -> Vec<Quarantined>;
    /// All metrics as text, of the content type [`CONTENT_TYPE`].
    fn metrics(&self) -> String;
}

/// The body of `/readyz` for operators, and for every caller while none has a token. No field may
/// hold a secret.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Readiness {
    /// Calls can be judged and every tool server was probed.
    pub ready: bool,
    /// Why not; also what an operator should know although it is ready.
    pub reasons: Vec<String>,
    /// The policy in force.
    pub policy: PolicyStatus,
    /// Every configured tool server.
    pub servers: Vec<ServerStatus>,
    /// The ledger.
    pub ledger: LedgerStatus,
}

/// What `/readyz` says without an operator's token.
#[derive(Debug, Serialize)]
struct ReadyReply {
    status: &'static str,
    ready: bool,
}

/// The policy in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyStatus {
    /// Its version, as the ledger has it.
    pub version: String,
    /// The files on disk are invalid and this policy is the last good one.
    pub stale: bool,
    /// What is wrong with the files on disk, as `toolgate check` says it.
    pub problems: Vec<String>,
}

/// One tool server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerStatus {
    /// Its name in the configuration.
    pub name: String,
    /// One word: how it is.
    pub state: &'static str,
    /// `legacy` or `modern`; none until it was probed.
    pub era: Option<&'static str>,
    /// How many tools it offers to agents.
    pub tools: usize,
    /// Tools that it lists and agents don't see, whatever the layers say, with the reason.
    pub withheld: Vec<String>,
    /// The last fault in words, without values of calls.
    pub last_fault: Option<String>,
}

/// The ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LedgerStatus {
    /// New entries can be written.
    pub writable: bool,
    /// Entries written since the start.
    pub entries: u64,
    /// Entries of reads lost since the start.
    pub dropped: u64,
    /// The last fault in words.
    pub last_fault: Option<String>,
}

type HealthState = (Arc<dyn ProcessStatus>, Arc<Operators>);

/// What this door answers without a token.
pub(super) const PUBLIC_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(super) fn routes(status: Arc<dyn ProcessStatus>, operators: Arc<Operators>) -> Router {
    let [alive, ready_at, metrics_at] = PUBLIC_PATHS;
    Router::new()
        .route(alive, get(async || "ok"))
        .route(ready_at, get(ready))
        .route(metrics_at, get(metrics))
        .with_state((status, operators))
}

async fn ready(State((status, operators)): State<HealthState>, headers: HeaderMap) -> Response {
    let readiness = status.ready();
    let code = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    if operators.is_empty() {
        return json_answer(code, &readiness);
    }
    if !headers.contains_key(header::AUTHORIZATION) {
        let status = if readiness.ready {
            "ready"
        } else {
            "not_ready"
        };
        return json_answer(
            code,
            &ReadyReply {
                status,
                ready: readiness.ready,
            },
        );
    }
    match operators.known(&headers) {
        Ok(_) => json_answer(code, &readiness),
        Err(refusal) => *refusal,
    }
}

async fn metrics(State((status, _)): State<HealthState>) -> Response {
    let headers = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static(METRICS_CONTENT_TYPE),
    )];
    (headers, status.metrics()).into_response()
}
