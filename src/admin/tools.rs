//! Tools that operators take away and give back (003-41). What is away is for operators with a
//! token to read, and for those with the role for it to change.

use super::operators::{OperatorIdentity, Operators};
use super::{json_answer, json_body, parse_body, refusal, unfit};
use crate::model::disabled::Disabled;
use crate::model::ids::ToolName;
use crate::model::verbs::OperatorVerb;
use crate::store::claims::Store;
use crate::store::disabling::{Disabling, DisablingChange, DisablingError};
use crate::telemetry::metrics::Metrics;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 16 << 10;

/// What the door needs to take tools away.
#[derive(Clone)]
pub struct Switches {
    /// What is away.
    pub disabling: Arc<Disabling>,
    /// The time.
    pub store: Arc<dyn Store>,
    /// What operators count.
    pub metrics: Arc<Metrics>,
    /// Could there be such a tool? A name with a typo would take nothing away.
    pub is_known: Arc<dyn Fn(&ToolName) -> bool + Send + Sync>,
}

/// The answer to `GET /api/tools/disabled`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisabledList {
    /// What is away, by name.
    pub disabled: Disabled,
}

/// The answer to a change that was made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchReply {
    /// `server__tool`.
    pub tool: ToolName,
    /// Is it away now?
    pub disabled: bool,
    /// Who the ledger names.
    pub who: String,
}

/// The body of a change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SwitchRequest {
    /// The operator's reason.
    why: String,
}

#[derive(Clone)]
struct ToolsState {
    switches: Switches,
    operators: Arc<Operators>,
}

pub(super) fn routes(switches: Switches, operators: Arc<Operators>) -> Router {
    Router::new()
        .route("/api/tools/disabled", get(list))
        .route("/api/tools/{tool}/disable", post(disable))
        .route("/api/tools/{tool}/enable", post(enable))
        .with_state(ToolsState {
            switches,
            operators,
        })
}

async fn list(State(desk): State<ToolsState>, headers: HeaderMap) -> Response {
    match desk.operators.known(&headers) {
        Ok(_) => json_answer(
            StatusCode::OK,
            &DisabledList {
                disabled: desk.switches.disabling.disabled().await,
            },
        ),
        Err(refusal) => *refusal,
    }
}

async fn disable(
    State(desk): State<ToolsState>,
    Path(tool): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    change(&desk, (&tool, true), &headers, body).await
}

async fn enable(
    State(desk): State<ToolsState>,
    Path(tool): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    change(&desk, (&tool, false), &headers, body).await
}

async fn change(
    desk: &ToolsState,
    (tool, disable): (&str, bool),
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let who = match desk.operators.may(
        headers,
        &[OperatorVerb::Switch],
        OperatorVerb::Switch.words(),
    ) {
        Ok(OperatorIdentity { name, .. }) => name,
        Err(refusal) => return *refusal,
    };
    let body = match json_body(headers, body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    let Some(SwitchRequest { why }) = parse_body(body.as_ref()) else {
        return unfit("send {\"why\": \"…\"}: it stands in the ledger for good");
    };
    let (tool, at) = (ToolName::new(tool), desk.switches.store.now());
    if disable && !(desk.switches.is_known)(&tool) {
        let hint = "name it `server__tool`, as the listing and the contracts do";
        return refusal(StatusCode::NOT_FOUND, "there is no such tool", hint);
    }
    match desk
        .switches
        .disabling
        .make(DisablingChange {
            tool: tool.clone(),
            disable,
            who: who.clone(),
            why,
            at,
        })
        .await
    {
        Ok(()) => json_answer(
            StatusCode::OK,
            &SwitchReply {
                tool,
                disabled: disable,
                who,
            },
        ),
        Err(unchanged) => refused(&unchanged),
    }
}

fn refused(unchanged: &DisablingError) -> Response {
    let (status, hint) = match unchanged {
        DisablingError::Unfit(_) => (StatusCode::BAD_REQUEST, "correct the request"),
        DisablingError::NotDisabled => (
            StatusCode::NOT_FOUND,
            "GET /api/tools/disabled lists those that are",
        ),
        DisablingError::TooMany => (
            StatusCode::CONFLICT,
            "set `disabled: true` for the whole server in toolgate.yaml",
        ),
        DisablingError::Store(_) | DisablingError::Unrecorded(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "/readyz and the log say what is wrong",
        ),
    };
    refusal(status, &unchanged.to_string(), hint)
}
