//! An operator changes arguments of a held call before it is allowed: those that its contract names,
//! to what the call itself could have brought. What was said before is void (guarantees §7).

use super::decision_error::not_theirs;
use super::{DecisionError, OpenHold, VoidJudge, as_shown, why_void};
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::model::absence::DecidingRight;
use crate::model::ids::ActionId;
use crate::model::pointer;
use crate::store::claims::Store;
use crate::store::operator::reason;
use crate::store::state::CommandRefusal;
use crate::store::state::command::{EditHold, StoreCommand};
use crate::store::state::event::StoreEvent;
use crate::store::state::hold::{
    Hold, HoldQuestion, MAX_DECISION_REASON_BYTES, MAX_HELD_ARGUMENTS_BYTES, MAX_HOLD_EDITS,
    Undecided,
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;

/// Judges the call that is held as one with other arguments.
pub(crate) trait EditJudge: Send + Sync {
    /// Why the call could not be made with these arguments; none where it could.
    fn unfit<'a>(
        &'a self,
        question: &'a HoldQuestion,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Option<String>>;
}

/// What an operator changes.
#[derive(Debug, Clone)]
pub(crate) struct EditRequest {
    /// The operator.
    pub who: String,
    /// By whose right.
    pub right: DecidingRight,
    /// The operator's reason.
    pub why: String,
    /// What names the call as the operator was shown it.
    pub shown: String,
    /// Where it is done.
    pub surface: String,
    /// The new values, by JSON pointer.
    pub changes: BTreeMap<String, Value>,
}

/// Changes arguments of the held call `id`, durably, if the call could have brought them; gives the call
/// as it is then.
pub(crate) async fn edit(
    store: &dyn Store,
    void: &VoidJudge,
    judge: &dyn EditJudge,
    id: ActionId,
    asked: EditRequest,
) -> Result<OpenHold, DecisionError> {
    let why = reason(&asked.why, MAX_DECISION_REASON_BYTES).map_err(DecisionError::Unfit)?;
    let (key, hold) = store.find_hold(id).await?.ok_or(DecisionError::Gone(id))?;
    let now = store.now();
    let was_void = why_void(void, &hold, now);
    if !hold.is_waiting(now) && was_void.is_none() {
        return Err(DecisionError::Gone(id));
    }
    if !hold.is_decided_by(&asked.who, &asked.right.roles) {
        return Err(not_theirs(store, &hold, std::iter::once(&asked.who)).await?);
    }
    as_shown(&OpenHold::of(&hold, now, void), Some(&asked.shown))?;
    if let Some(why) = was_void {
        return Err(DecisionError::Void(why));
    }
    let arguments = changed(&hold, &asked.changes).map_err(DecisionError::Uneditable)?;
    if let Some(why) = judge.unfit(&hold.question, &arguments).await {
        return Err(DecisionError::Uneditable(why));
    }
    let edit = EditHold {
        key,
        id,
        who: asked.who.clone(),
        right: asked.right,
        why,
        surface: Some(asked.surface),
        edits: hold.edits.len(),
        pointers: asked.changes.into_keys().collect(),
        arguments,
    };
    match store.run(StoreCommand::Edit(Box::new(edit)), None).await? {
        Ok(StoreEvent::Edited(edited)) => {
            let pointers = edited.edit.pointers.join(", ");
            tracing::info!(%id, tool = %hold.question.tool, who = edited.edit.who, pointers, "an operator has changed arguments of a held call");
        }
        Err(CommandRefusal::Undecided(Undecided::Edited)) => return Err(DecisionError::Changed),
        Err(CommandRefusal::Undecided(Undecided::NotYours)) => {
            return Err(not_theirs(store, &hold, std::iter::once(&asked.who)).await?);
        }
        Err(CommandRefusal::Undecided(Undecided::EditsSpent)) => {
            let words = format!("they were changed {MAX_HOLD_EDITS} times, which is the most");
            return Err(DecisionError::Uneditable(words));
        }
        Ok(_) | Err(_) => return Err(DecisionError::Gone(id)),
    }
    let now = super::show(store, void, id).await?;
    now.ok_or(DecisionError::Gone(id))
}

/// The arguments with these changes, or why there can be none.
fn changed(hold: &Hold, changes: &BTreeMap<String, Value>) -> Result<Value, String> {
    let question = &hold.question;
    let mut arguments = question.arguments.clone();
    for (pointer, value) in changes {
        if !question.terms.may_edit.contains(pointer) {
            return Err(format!(
                "the contract does not let an operator change {pointer}"
            ));
        }
        let place = place(&mut arguments, pointer)
            .ok_or_else(|| format!("the call has no place for {pointer}"))?;
        *place = value.clone();
    }
    if arguments == question.arguments {
        return Err("nothing would be different".to_owned());
    }
    // Numbers that change on the way and names that look alike are refused here as at the agents' door.
    if Text::read(Text::of(&arguments).bytes(), &AGENT_JSON_LIMITS).is_err() {
        return Err("they could not be sent: two readers would read them differently".to_owned());
    }
    let whole = HoldQuestion {
        arguments,
        unedited: question
            .unedited
            .clone()
            .or_else(|| Some(question.arguments.clone())),
        ..question.clone()
    };
    if whole.weight() > MAX_HELD_ARGUMENTS_BYTES {
        return Err("they would be longer than a person can be shown".to_owned());
    }
    Ok(whole.arguments)
}

/// Where `pointer` leads; a member that is not there yet is made, in an object that is.
fn place<'a>(arguments: &'a mut Value, pointer: &str) -> Option<&'a mut Value> {
    if arguments.pointer(pointer).is_some() {
        return arguments.pointer_mut(pointer);
    }
    let mut steps = pointer::steps(pointer);
    let last = steps.pop()?;
    let parent = arguments.pointer_mut(&pointer::of(&steps))?;
    Some(parent.as_object_mut()?.entry(last).or_insert(Value::Null))
}

/// The value that an operator has written as `text` for an argument that is `current` so far: a text as it
/// is in place of a text, else JSON.
pub(crate) fn value_of(current: Option<&Value>, text: &str) -> Result<Value, String> {
    match current {
        Some(Value::String(_)) => Ok(Value::from(text)),
        Some(_) => serde_json::from_str(text.trim())
            .map_err(|_| format!("`{}` is no JSON, such as 900 or true", text.escape_debug())),
        None => Ok(serde_json::from_str(text.trim()).unwrap_or_else(|_| Value::from(text))),
    }
}
