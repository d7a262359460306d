//! Arguments that an operator may change on the page of a held call: a field for each, without a script.

use super::form::FormFields;
use crate::admin::OperatorsDoor;
use crate::admin::approvals::editing::{Editing, edits};
use crate::admin::approvals::{seen, status_of};
use crate::admin::operators::OperatorIdentity;
use crate::mcp::readable::is_misleading;
use crate::model::ids::ActionId;
use crate::store::approvals::editing::value_of;
use crate::store::approvals::{DecisionError, OpenHold, show};
use axum::http::StatusCode;
use serde_json::Value;
use std::collections::BTreeMap;

/// What fields are called that change an argument; its pointer follows.
pub(super) const EDIT_FIELD_PREFIX: &str = "edit:";

/// A field for one argument.
#[derive(Debug)]
pub(super) struct EditField {
    /// Where the argument is, as a JSON pointer.
    pub pointer: String,
    /// Its value, as a browser may show it and give it back.
    pub value: String,
    /// Whether it is a text, which may have several lines.
    pub is_text: bool,
}

/// The fields of a call that waits: what a browser would give back otherwise than it is has none.
pub(super) fn fields(hold: &OpenHold) -> Vec<EditField> {
    let Some(arguments) = &hold.arguments else {
        return Vec::new();
    };
    let fields = hold.terms.may_edit.iter().filter_map(|pointer| {
        let current = arguments.pointer(pointer);
        let value = match current {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let is_odd = |letter: char| is_misleading(letter) || letter.is_control() && letter != '\n';
        let is_plain = !value.chars().any(is_odd);
        is_plain.then(|| EditField {
            pointer: pointer.clone(),
            value,
            is_text: current.is_some_and(Value::is_string),
        })
    });
    fields.collect()
}

/// What came of the form, or why nothing did.
pub(super) async fn edited(
    door: &OperatorsDoor,
    known: &OperatorIdentity,
    id: ActionId,
    form: &FormFields,
) -> Result<String, (StatusCode, String)> {
    let refused = |why: DecisionError| (status_of(&why), format!("Nothing was changed: {why}."));
    let (store, void) = (&*door.switches.store, &*door.switches.void);
    let hold = show(store, void, id).await;
    let hold = hold.map_err(|error| refused(error.into()))?;
    // Who may not see it is not told that it is there, nor what is wrong with the form.
    let hold = hold.and_then(|hold| seen(door, hold, known));
    let hold = hold.ok_or_else(|| refused(DecisionError::Gone(id)))?;
    let changes = changes(&hold, form);
    let changes = changes.map_err(|why| refused(DecisionError::Uneditable(why)))?;
    let editing = Editing {
        changes,
        why: form.why(),
        shown: form.first("shown").to_owned(),
        surface: "page",
    };
    let edited = Box::pin(edits(door, known, id, editing)).await;
    let edited = edited.map_err(refused)?;
    let voided = edited.edits.last().map(|edit| edit.voided.join(", "));
    let again = match voided.filter(|names| !names.is_empty()) {
        Some(names) => format!(" What was said by {names} is void."),
        None => String::new(),
    };
    Ok(format!(
        "Changed. It does not run yet: look at it as it is now, and allow it.{again}"
    ))
}

/// What is written otherwise than it is.
fn changes(hold: &OpenHold, form: &FormFields) -> Result<BTreeMap<String, Value>, String> {
    let mut changes = BTreeMap::new();
    for (pointer, written) in form.behind(EDIT_FIELD_PREFIX) {
        let arguments = hold.arguments.as_ref();
        let current = arguments.and_then(|arguments| arguments.pointer(pointer));
        // An argument that is not there stays away, unless something is written.
        if current.is_none() && written.is_empty() {
            continue;
        }
        // Browsers send lines with both ends.
        let value = value_of(current, &written.replace("\r\n", "\n"));
        let value = value.map_err(|why| format!("{pointer}: {why}"))?;
        if current != Some(&value) {
            changes.insert(pointer.to_owned(), value);
        }
    }
    Ok(changes)
}
