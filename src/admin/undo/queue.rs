//! Undos that were asked for, or tried, and are not done: listed, and dropped by operators who say why.

use super::refused;
use crate::admin::asked::{action_of, state_of};
use crate::admin::operator_request::OperatorRequest;
use crate::admin::operators::OperatorIdentity;
use crate::admin::{OperatorsDoor, json_answer};
use crate::model::verbs::OperatorVerb;
use crate::store::undos::wanted::{WANTED_STATES, WantedUndo, wanted};
use crate::store::undos::{DroppedUndo, NoUndo, drop_asked};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 16 << 10;
/// What may be sent.
const FORM: &str = "send {\"why\": \"…\"}";

/// The answer to `GET /api/undos`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WantedUndoList {
    /// Undos that were asked for, or tried, and are not done; those first whose call was made last.
    pub undos: Vec<WantedUndo>,
}

/// The body of what drops an undo.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct DropBody {
    /// The operator's reason.
    why: String,
}

/// The answer to an undo that was dropped.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DroppedReply {
    /// The call that is not taken back so.
    pub action_id: String,
    /// Who the ledger names.
    pub who: String,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/api/undos", get(list))
        .route("/api/undos/{action}/drop", post(leave))
}

async fn list(
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
    uri: Uri,
) -> Result<Response, Response> {
    let verbs = [OperatorVerb::Resolve, OperatorVerb::Audit];
    door.operators.permit(&known, &verbs, "list undos")?;
    let state = state_of(&uri, &WANTED_STATES)?;
    let undos = wanted(&*door.switches.store, state.as_deref()).await;
    let undos = undos.map_err(|error| refused(&error.into()))?;
    Ok(json_answer(StatusCode::OK, &WantedUndoList { undos }))
}

async fn leave(
    Path(action): Path<String>,
    mut asked: OperatorRequest,
) -> Result<Response, Response> {
    asked.permit_to("drop undos", OperatorVerb::Resolve)?;
    let DropBody { why } = asked.written(BODY_BYTES_MAX, FORM).await?;
    let of = action_of(&action)?;
    let OperatorRequest { door, known, .. } = asked;
    let who = known.name;
    let reply = DroppedReply {
        action_id: of.to_string(),
        who: who.clone(),
    };
    let dropped = DroppedUndo { of, who, why };
    dropped_by(&door, dropped)
        .await
        .map_err(|why| refused(&why))?;
    Ok(json_answer(StatusCode::OK, &reply))
}

/// Drops what was asked for, for pages and programs.
pub(in crate::admin) async fn dropped_by(
    door: &OperatorsDoor,
    dropped: DroppedUndo,
) -> Result<(), NoUndo> {
    drop_asked(&*door.switches.store, dropped).await?;
    door.switches.recount.notify_one();
    Ok(())
}
