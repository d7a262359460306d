//! An operator's word on a held call, and on calls like it: exactly these arguments, unless the form says
//! up to which bound a number may go.

use super::form::FormFields;
use crate::admin::OperatorsDoor;
use crate::admin::approvals::status_of;
use crate::admin::approvals::words::as_shown;
use crate::admin::grants::minting::{AlwaysWord, always};
use crate::admin::operators::OperatorIdentity;
use crate::guards::approval::grant_terms::{ConstraintWords, GrantTerms};
use crate::model::ids::ActionId;
use crate::model::pointer::of;
use axum::http::StatusCode;

/// What fields are called that bound a number; the argument's name follows.
pub(super) const BOUND_FIELD_PREFIX: &str = "at_most:";

/// What came of the form, or why nothing did.
pub(super) async fn granted(
    door: &OperatorsDoor,
    known: &OperatorIdentity,
    id: ActionId,
    fields: &FormFields,
) -> Result<String, (StatusCode, String)> {
    let refused = |status, words: String| (status, format!("Nothing was done: {words}."));
    let as_shown = as_shown(door, known, id, Some(fields.first("shown"))).await;
    as_shown.map_err(|why| refused(status_of(&why), why.to_string()))?;
    let terms = terms(fields).map_err(|words| refused(StatusCode::BAD_REQUEST, words))?;
    let word = AlwaysWord {
        id,
        known: known.clone(),
        why: fields.why(),
        terms,
        surface: "page",
    };
    let minted = Box::pin(always(door, word)).await;
    let minted = minted.map_err(|why| refused(StatusCode::CONFLICT, why.to_string()))?;
    Ok(format!(
        "Allowed, and up to {} calls like it: the grant {} can be taken back on the page of grants.",
        minted.grant.max_uses, minted.grant.id
    ))
}

fn terms(fields: &FormFields) -> Result<GrantTerms, String> {
    let uses = fields.first("uses").trim();
    let uses = uses
        .parse()
        .map_err(|_| format!("`{}` is no number of calls", uses.escape_debug()))?;
    let mut constraints = Vec::new();
    for (name, bound) in fields
        .behind(BOUND_FIELD_PREFIX)
        .filter(|(_, bound)| !bound.trim().is_empty())
    {
        let at_most = serde_json::from_str(bound.trim())
            .map_err(|_| format!("`{}` is no number", bound.escape_debug()))?;
        constraints.push(ConstraintWords {
            pointer: of(&[name.to_owned()]),
            at_most: Some(at_most),
            ..ConstraintWords::default()
        });
    }
    Ok(GrantTerms {
        until: Some(fields.first("until").to_owned()),
        uses: Some(uses),
        constraints,
        total: None,
    })
}
