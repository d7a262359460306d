//! Tools that nobody is shown, or nobody in some profile. For operators with a token only: the
//! words name tools.

use super::health::ProcessStatus;
use super::json_answer;
use super::operators::Operators;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use serde::Serialize;
use std::sync::Arc;

/// One tool that is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// Its server.
    pub server: String,
    /// The profile that cannot show it; none when nobody is shown it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// As in `toolgate_quarantined_tools{reason}`.
    pub reason: String,
    /// The tool and the reason in words.
    pub why: String,
}

/// The answer to `GET /api/quarantined`.
#[derive(Debug, Serialize)]
struct QuarantineList {
    tools: Vec<Quarantined>,
}

type QuarantineState = (Arc<dyn ProcessStatus>, Arc<Operators>);

pub(super) fn routes(status: Arc<dyn ProcessStatus>, operators: Arc<Operators>) -> Router {
    Router::new()
        .route("/api/quarantined", get(list))
        .with_state((status, operators))
}

async fn list(State((status, operators)): State<QuarantineState>, headers: HeaderMap) -> Response {
    match operators.known(&headers) {
        Ok(_) => json_answer(
            StatusCode::OK,
            &QuarantineList {
                tools: status.quarantined(),
            },
        ),
        Err(refusal) => *refusal,
    }
}
