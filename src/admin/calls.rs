//! Calls that have not come to an end, and what operators say of them. For operators with the role
//! for it only: who says that a call did not run makes the same call run again.

pub(super) mod asking;

use super::asked::{action_of, state_of};
use super::hints;
use super::operator_request::OperatorRequest;
use super::operators::OperatorIdentity;
use super::{OperatorsDoor, json_answer, parse_body, refusal, unfit};
use crate::mcp::json::Text;
use crate::model::verbs::OperatorVerb;
use crate::store::operator::{
    MAX_RESOLVED_RESULT_BYTES, OPEN_STATES, OpenCall, OperatorFinding, Resolution, Unresolved,
    open_calls, resolve,
};
use crate::store::state::hold::Hold;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = MAX_RESOLVED_RESULT_BYTES + (16 << 10);

/// The answer to `GET /api/calls`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OpenCallList {
    /// Calls that have not come to an end, and held ones that the operator may see; oldest first.
    pub calls: Vec<OpenCall>,
}

/// The answer to a resolution that was taken.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ResolveReply {
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
pub(super) struct ResolveRequest {
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

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/api/calls", get(list))
        .route("/api/calls/{action}/probe", post(asking::probe))
        .route("/api/calls/{action}/resolve", post(settle))
}

async fn list(
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
    uri: Uri,
) -> Result<Response, Response> {
    let verbs = [OperatorVerb::Resolve, OperatorVerb::Audit];
    let what = "list calls that have not come to an end";
    door.operators.permit(&known, &verbs, what)?;
    let state = state_of(&uri, &OPEN_STATES)?;
    // Who may not see that a call is held is not told so here either.
    let seeing = known.seeing(door.switches.store.now());
    let sees = |hold: &Hold| {
        let mut roles = seeing.iter();
        door.operators.audits(&known) || roles.any(|role| hold.roles.contains(role))
    };
    let calls = open_calls(&*door.switches.store, state.as_deref(), sees)
        .await
        .map_err(|error| refused(&error.into()))?;
    Ok(json_answer(StatusCode::OK, &OpenCallList { calls }))
}

async fn settle(
    Path(action): Path<String>,
    mut asked: OperatorRequest,
) -> Result<Response, Response> {
    asked.permit(OperatorVerb::Resolve)?;
    let body = asked.text(BODY_BYTES_MAX).await?;
    let OperatorRequest { door, known, .. } = asked;
    let action = action_of(&action)?;
    let who = known.name;
    let resolution = body.and_then(|body| read(&body, who.clone())).ok_or_else(|| {
        unfit(
            "send {\"verdict\": \"applied\" | \"not_applied\" | \"abandon\", \"why\": \"…\"}, and with `applied` perhaps a \
             \"result\"",
        )
    })?;
    let state = resolve(&*door.switches.store, action, resolution)
        .await
        .map_err(|unresolved| refused(&unresolved))?;
    door.switches.recount.notify_one();
    let reply = ResolveReply {
        action_id: action.to_string(),
        state: state.to_owned(),
        who,
    };
    Ok(json_answer(StatusCode::OK, &reply))
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
        Unresolved::Held(_) => hints::HELD,
        Unresolved::InFlight => (
            StatusCode::CONFLICT,
            "GET /api/calls says when it is `unknown`",
        ),
        Unresolved::Ended(_) => hints::KNOWN,
        Unresolved::Own => (StatusCode::FORBIDDEN, "ask another operator with the role"),
        Unresolved::Unfit(_) => hints::UNFIT,
        Unresolved::Store(_) => hints::NO_STORE,
    };
    refusal(status, &unresolved.to_string(), hint)
}
