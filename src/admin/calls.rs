//! Calls that have not come to an end, and what operators say of them. For operators with the role
//! for it only: who says that a call did not run makes the same call run again.

use super::operators::{OperatorIdentity, Operators};
use super::{json_answer, json_body, parse_body, refusal, unfit};
use crate::mcp::json::Text;
use crate::model::ids::ActionId;
use crate::model::verbs::OperatorVerb;
use crate::store::claims::Store;
use crate::store::operator::{
    MAX_RESOLVED_RESULT_BYTES, OpenCall, OperatorFinding, Resolution, Unresolved, open_calls,
    resolve,
};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = MAX_RESOLVED_RESULT_BYTES + (16 << 10);

/// The answer to `GET /api/calls`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCallList {
    /// Calls that have not come to an end, the oldest first.
    pub calls: Vec<OpenCall>,
}

/// The answer to a resolution that was taken.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolveReply {
    /// The call.
    pub action_id: String,
    /// What it became.
    pub state: String,
    /// Who the ledger names.
    pub who: String,
}

/// The body of a resolution.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResolveRequest {
    /// What became of the call.
    verdict: ResolveVerdict,
    /// How the operator knows.
    why: String,
    /// The result of the call, where it was applied.
    #[serde(default, rename = "result")]
    _result: Option<Value>,
}

/// What an operator can say.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum ResolveVerdict {
    /// It was carried out.
    Applied,
    /// It was not.
    NotApplied,
    /// Nobody will find out.
    Abandon,
}

#[derive(Clone)]
struct CallsState {
    store: Arc<dyn Store>,
    operators: Arc<Operators>,
}

pub(super) fn routes(store: Arc<dyn Store>, operators: Arc<Operators>) -> Router {
    Router::new()
        .route("/api/calls", get(list))
        .route("/api/calls/{action}/resolve", post(settle))
        .with_state(CallsState { store, operators })
}

async fn list(State(desk): State<CallsState>, headers: HeaderMap, uri: Uri) -> Response {
    if let Err(refusal) = desk.operators.may(
        &headers,
        &[OperatorVerb::Resolve, OperatorVerb::Audit],
        "list calls that have not come to an end",
    ) {
        return *refusal;
    }
    let query = uri.query().unwrap_or_default().as_bytes();
    let mut state = None;
    for (name, value) in url::form_urlencoded::parse(query) {
        if name != "state" || !["dispatching", "awaiting_input", "unknown"].contains(&&*value) {
            return unfit("only ?state=dispatching, awaiting_input or unknown can be asked for");
        }
        state = Some(value.into_owned());
    }
    match open_calls(&*desk.store, state.as_deref()).await {
        Ok(calls) => json_answer(StatusCode::OK, &OpenCallList { calls }),
        Err(error) => refused(&error.into()),
    }
}

async fn settle(
    State(desk): State<CallsState>,
    Path(action): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let who = match desk.operators.may(
        &headers,
        &[OperatorVerb::Resolve],
        OperatorVerb::Resolve.words(),
    ) {
        Ok(OperatorIdentity { name, .. }) => name,
        Err(refusal) => return *refusal,
    };
    let body = match json_body(&headers, body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    let Ok(action) = action.parse::<ActionId>() else {
        return unfit("an action id is a UUID, as answers and the ledger have it");
    };
    let Some(resolution) = body.and_then(|body| read(&body, who)) else {
        return unfit(
            "send {\"verdict\": \"applied\" | \"not_applied\" | \"abandon\", \"why\": \"…\"}, and with `applied` perhaps a \
             \"result\"",
        );
    };
    let who = resolution.who.clone();
    match resolve(&*desk.store, action, resolution).await {
        Ok(state) => json_answer(
            StatusCode::OK,
            &ResolveReply {
                action_id: action.to_string(),
                state: state.to_owned(),
                who,
            },
        ),
        Err(unresolved) => refused(&unresolved),
    }
}

/// What the body says; none when it is not what it has to be.
fn read(text: &Text, who: String) -> Option<Resolution> {
    let ResolveRequest { verdict, why, .. } = parse_body(Some(text))?;
    // As it was written: it is what agents read.
    let verdict = match (verdict, text.get("result")) {
        (ResolveVerdict::Applied, result) => OperatorFinding::Applied(result),
        (ResolveVerdict::NotApplied, None) => OperatorFinding::NotApplied,
        (ResolveVerdict::Abandon, None) => OperatorFinding::Abandon,
        (ResolveVerdict::NotApplied | ResolveVerdict::Abandon, Some(_)) => return None,
    };
    Some(Resolution { verdict, who, why })
}

fn refused(unresolved: &Unresolved) -> Response {
    let (status, hint) = match unresolved {
        Unresolved::NoClaim(_) => (
            StatusCode::NOT_FOUND,
            "GET /api/calls lists the calls that can be resolved",
        ),
        Unresolved::InFlight => (
            StatusCode::CONFLICT,
            "GET /api/calls says when it is `unknown`",
        ),
        Unresolved::Ended(_) => (
            StatusCode::CONFLICT,
            "`toolgate ledger show` says how that is known",
        ),
        Unresolved::Own => (StatusCode::FORBIDDEN, "ask another operator with the role"),
        Unresolved::Unfit(_) => (StatusCode::BAD_REQUEST, "correct the request"),
        Unresolved::Store(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "/readyz and the log say what is wrong",
        ),
    };
    refusal(status, &unresolved.to_string(), hint)
}
