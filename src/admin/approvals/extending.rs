//! An operator gives a held call more time: as long again as it had, once.

use super::words::as_shown;
use super::{said_of, uncounted};
use crate::admin::operators::OperatorIdentity;
use crate::admin::{OperatorsDoor, json_answer};
use crate::model::ids::ActionId;
use crate::store::approvals::{DecisionError, extend};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The body of a request for more time.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::admin) struct ExtensionBody {
    /// The operator's reason, if there is one to give.
    pub why: Option<String>,
    /// `shown` of the call, as it was when the operator looked at it: another is refused.
    pub shown: Option<String>,
}

/// The answer to a request for more time that was granted.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ExtensionReply {
    /// The approval.
    pub id: String,
    /// From then on nobody can decide, RFC 3339 in UTC.
    pub approve_by: String,
    /// Who the ledger names.
    pub who: String,
}

pub(super) async fn take(
    Path(id): Path<String>,
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Response> {
    const FORM: &str = "send {\"why\": \"…\", \"shown\": \"sha256:…\"}, or {}; who gives it more time is who the token names";
    let (id, asked) = said_of(&id, &headers, body, FORM).await?;
    let given = extends(&door, &known, id, asked).await;
    let reply = ExtensionReply {
        id: id.to_string(),
        approve_by: given.map_err(|why| uncounted(&why))?,
        who: known.name,
    };
    Ok(json_answer(StatusCode::OK, &reply))
}

/// Gives the held call `id` more time for `known`; until when.
pub(in crate::admin) async fn extends(
    door: &OperatorsDoor,
    known: &OperatorIdentity,
    id: ActionId,
    asked: ExtensionBody,
) -> Result<String, DecisionError> {
    as_shown(door, known, id, asked.shown.as_deref()).await?;
    let store = &*door.switches.store;
    let roles = known.seeing(store.now());
    extend(store, id, known.name.clone(), roles, asked.why.as_deref()).await
}
