//! An operator has the tool server asked now what became of a call, by the probe of its contract. For
//! operators who may resolve calls: what is found can end one.

use super::super::asked::action_of;
use super::super::operator_request::OperatorRequest;
use super::super::{json_answer, refusal};
use crate::model::verbs::OperatorVerb;
use crate::store::operator::asking::Unasked;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

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
    mut asked: OperatorRequest,
) -> Result<Response, Response> {
    let what = "have tool servers asked what became of calls";
    asked.permit_to(what, OperatorVerb::Resolve)?;
    let ProbeRequest {} = asked.written(BODY_BYTES_MAX, "send {}").await?;
    let action = action_of(&action)?;
    let OperatorRequest { door, known, .. } = asked;
    let answered = door.switches.asker.ask(action, &known.name).await;
    let answered = answered.map_err(|unasked| unanswered(&unasked))?;
    door.switches.recount.notify_one();
    Ok(json_answer(StatusCode::OK, &answered))
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
        | Unasked::OtherRights
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
