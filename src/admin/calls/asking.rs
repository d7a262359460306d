//! An operator has the tool server asked now what became of a call, by the probe of its contract. For
//! operators who may resolve calls: what is found can end one.

use super::super::operators::OperatorIdentity;
use super::super::{OperatorsDoor, json_answer, json_body, parse_body, refusal, unfit};
use crate::model::ids::ActionId;
use crate::model::verbs::OperatorVerb;
use crate::store::operator::asking::Unasked;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 1 << 10;
/// What an operator can do where toolgate cannot ask.
const ASK_YOURSELF: &str =
    "look at the tool server yourself, and say what became of it: `toolgate calls resolve`";

/// The body of the request: nothing is to be said.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct ProbeRequest {}

pub(super) async fn probe(
    Path(action): Path<String>,
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Response> {
    let verb = OperatorVerb::Resolve;
    let what = "have tool servers asked what became of calls";
    door.operators.permit(&known, &[verb], what)?;
    let body = json_body(&headers, body, BODY_BYTES_MAX).await?;
    let ProbeRequest {} = parse_body(body.as_ref()).ok_or_else(|| unfit("send {}"))?;
    let action = action
        .parse::<ActionId>()
        .map_err(|_| unfit("an action id is a UUID, as answers and the ledger have it"))?;
    let asked = door.switches.asker.ask(action, &known.name).await;
    let asked = asked.map_err(|unasked| unanswered(&unasked))?;
    door.switches.recount.notify_one();
    Ok(json_answer(StatusCode::OK, &asked))
}

fn unanswered(unasked: &Unasked) -> Response {
    let (status, hint) = match unasked {
        Unasked::NoClaim(_) => (
            StatusCode::NOT_FOUND,
            "GET /api/calls lists the calls that can be asked about",
        ),
        Unasked::NotUnknown(_) => (
            StatusCode::CONFLICT,
            "`toolgate ledger show` says what is known",
        ),
        Unasked::NoQuestion
        | Unasked::OtherProbe
        | Unasked::NoCaller
        | Unasked::NoTool
        | Unasked::Sealed(_)
        | Unasked::Damaged => (StatusCode::CONFLICT, ASK_YOURSELF),
        Unasked::Busy => (StatusCode::CONFLICT, "ask again in a moment"),
        Unasked::Store(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "/readyz and the log say what is wrong",
        ),
    };
    refusal(status, &unasked.to_string(), hint)
}
