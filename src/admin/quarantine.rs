//! Tools that nobody is shown, or nobody in some profile. For operators with a token only: the
//! words name tools.

use super::operators::OperatorIdentity;
use super::status::Quarantined;
use super::{OperatorsDoor, json_answer};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// The answer to `GET /api/quarantined`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct QuarantineList {
    tools: Vec<Quarantined>,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new().route("/api/quarantined", get(list))
}

async fn list(_: OperatorIdentity, State(door): State<Arc<OperatorsDoor>>) -> Response {
    let tools = door.status.quarantined();
    json_answer(StatusCode::OK, &QuarantineList { tools })
}
