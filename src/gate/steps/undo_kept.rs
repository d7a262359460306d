//! What is kept of a call so that it can be taken back (003-64): with its intent what its contract
//! names and what that takes over of the arguments, with its outcome the parts of the result.

use crate::gate::call::Call;
use crate::gate::record::is_tool_error;
use crate::gate::steps::proof::Broken;
use crate::guards::ToolRules;
use crate::guards::rollback::{ARGUMENTS_PREFIX, RESULT_PREFIX, Rollback, UndoCheck};
use crate::mcp::message::Message;
use crate::model::ids::ActionId;
use crate::model::times::millis;
use crate::store::claims::Store;
use crate::store::state::undo::{AnswerWorth, UndoTerms};
use serde_json::{Map, Value, json};

/// The parts under which it is kept.
pub(in crate::gate) const ARGUMENTS_PART: &str = "arguments";
pub(in crate::gate) const VALUES_PART: &str = "values";

/// How the call is taken back, as its contract says before it is sent; none where no call does that,
/// and for a call that takes another one back itself.
pub(in crate::gate) fn terms(
    store: &dyn Store,
    call: &Call,
    rules: &ToolRules,
) -> Option<Box<UndoTerms>> {
    let rollback = rules.undo.call().filter(|_| call.origin.undoes.is_none())?;
    let mut taken = rollback.taken(ARGUMENTS_PREFIX, &call.judged.arguments);
    let check = rollback.check.as_deref();
    taken.extend(of_check(rollback, ARGUMENTS_PREFIX, &call.judged.arguments));
    let kept = json!({
        "arguments": rollback.arguments, "values": taken, "check": check.map(UndoCheck::kept),
    });
    let kept = kept.to_string();
    let caller = &call.origin.caller;
    Some(Box::new(UndoTerms {
        tool: rollback.tool.clone(),
        arguments: store.seal_text(call.judged.action, ARGUMENTS_PART, &kept),
        within: millis(rollback.within),
        agent: caller.agent.to_string(),
        tenant: caller.tenant.as_ref().map(ToString::to_string),
        user: caller.user.as_ref().map(ToString::to_string),
    }))
}

/// What the check of `rollback` takes over.
fn of_check(rollback: &Rollback, prefix: &str, from: &Value) -> Map<String, Value> {
    let check = rollback.check.as_deref();
    check
        .map(|check| check.taken(prefix, from))
        .unwrap_or_default()
}

/// What an answer leaves for an undo, before anything is taken out of it for its agent.
pub(in crate::gate) fn worth(
    store: &dyn Store,
    action: ActionId,
    rules: &ToolRules,
    ended: &Result<Message, Broken>,
) -> AnswerWorth {
    // What two readers read differently says nothing.
    let answer = ended.as_ref().ok().filter(|answer| answer.odd.is_none());
    let Some(answer) = answer else {
        return AnswerWorth::Unread;
    };
    let result = answer.body.as_ref().filter(|_| !answer.is_error);
    let Some(result) = result.filter(|result| !is_tool_error(result)) else {
        return AnswerWorth::Failed;
    };
    let Some(rollback) = rules.undo.call() else {
        return AnswerWorth::Unread;
    };
    let structured = result.get("structuredContent");
    let structured = structured.map_or(Value::Null, |structured| structured.value());
    let mut values = rollback.taken(RESULT_PREFIX, &structured);
    values.extend(of_check(rollback, RESULT_PREFIX, &structured));
    if values.is_empty() {
        return AnswerWorth::Unread;
    }
    let values = Value::Object(values).to_string();
    AnswerWorth::Kept(store.seal_text(action, VALUES_PART, &values))
}
