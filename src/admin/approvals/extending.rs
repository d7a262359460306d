//! An operator gives a held call more time: as long again as it had, once.

use super::uncounted;
use super::word_request::{WordForm, WordRequest};
use super::words::as_shown;
use crate::admin::operators::OperatorIdentity;
use crate::admin::{OperatorsDoor, json_answer};
use crate::model::ids::ActionId;
use crate::store::approvals::{DecisionError, ExtensionRequest, extend};
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

impl WordForm for ExtensionBody {
    const FORM: &'static str = "send {\"why\": \"…\", \"shown\": \"sha256:…\"}, or {}; who gives it more time is who the token names";
}

pub(super) async fn take(word: WordRequest<ExtensionBody>) -> Result<Response, Response> {
    let WordRequest {
        door,
        known,
        id,
        body: asked,
    } = word;
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
    let (store, void) = (&*door.switches.store, &*door.switches.void);
    let asked = ExtensionRequest {
        who: known.name.clone(),
        roles: known.seeing(store.now()),
        why: asked.why,
    };
    extend(store, void, id, asked).await
}
