//! An operator changes arguments of a held call before it is allowed: those that its contract names, and
//! judged as if the agent had sent them.

use super::word_request::{WordForm, WordRequest};
use super::words::right_of;
use super::{seen, uncounted};
use crate::admin::operators::OperatorIdentity;
use crate::admin::{OperatorsDoor, json_answer};
use crate::model::ids::ActionId;
use crate::store::approvals::editing::{EditRequest, edit};
use crate::store::approvals::{DecisionError, OpenHold, show};
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The body of a change of arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct EditBody {
    /// The new values by JSON pointer; only what `may_edit` of the call names.
    changes: BTreeMap<String, Value>,
    /// The operator's reason.
    why: String,
    /// `shown` of the call, as it was when the operator looked at it: another is refused.
    shown: String,
}

/// What an operator changes, and how.
#[derive(Debug)]
pub(in crate::admin) struct Editing {
    /// The new values by JSON pointer.
    pub changes: BTreeMap<String, Value>,
    /// The operator's reason.
    pub why: String,
    /// What names the call as the operator was shown it.
    pub shown: String,
    /// Where it is done: `page` or `api`.
    pub surface: &'static str,
}

impl WordForm for EditBody {
    const FORM: &'static str = "send {\"changes\": {\"/amount\": 900}, \"why\": \"…\", \"shown\": \"sha256:…\"}; who changes it is who the token names";
}

pub(super) async fn take(word: WordRequest<EditBody>) -> Result<Response, Response> {
    let WordRequest {
        door,
        known,
        id,
        body,
    } = word;
    let EditBody {
        changes,
        why,
        shown,
    } = body;
    let editing = Editing {
        changes,
        why,
        shown,
        surface: "api",
    };
    let edited = Box::pin(edits(&door, &known, id, editing)).await;
    let hold = edited.map_err(|why| uncounted(&why))?;
    Ok(json_answer(StatusCode::OK, &hold))
}

/// Changes the held call `id` for `known`; gives it as it is then.
pub(in crate::admin) async fn edits(
    door: &OperatorsDoor,
    known: &OperatorIdentity,
    id: ActionId,
    editing: Editing,
) -> Result<OpenHold, DecisionError> {
    let (store, void) = (&*door.switches.store, &*door.switches.void);
    let Editing {
        changes,
        why,
        shown,
        surface,
    } = editing;
    // Who may not see it is not told that it is there.
    let hold = show(store, void, id).await?;
    let hold = hold.and_then(|hold| seen(door, hold, known));
    let hold = hold.ok_or(DecisionError::Gone(id))?;
    let asked = EditRequest {
        who: known.name.clone(),
        right: right_of(door, known, &hold),
        why,
        shown,
        surface: surface.to_owned(),
        changes,
    };
    let edited = edit(store, void, &*door.switches.edits, id, asked).await?;
    door.switches.recount.notify_one();
    Ok(edited)
}
