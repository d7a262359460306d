//! What is kept of a call so that it can be taken back (003-64): with its intent what its contract
//! names and what that takes over of the arguments, with its outcome the parts of the result.

use crate::gate::call::Call;
use crate::gate::record::hashes::params_hash;
use crate::gate::record::is_tool_error;
use crate::gate::steps::proof::Broken;
use crate::gate::steps::shaper::Shaper;
use crate::guards::ToolRules;
use crate::guards::identity::kept_of;
use crate::guards::rollback::{ARGUMENTS_PREFIX, RESULT_PREFIX, Rollback, UndoCheck, filled};
use crate::guards::task::Belonging;
use crate::mcp::message::Message;
use crate::model::call::ToolCall;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, TenantId, ToolName, UserId};
use crate::model::times::millis;
use crate::store::claims::Store;
use crate::store::state::kept_text::{KeptText, MAX_KEPT_TEXT_BYTES};
use crate::store::state::undo::{AnswerWorth, UndoPieces, UndoTerms};
use serde_json::{Map, Value, json};

/// The parts under which it is kept.
pub(in crate::gate) const ARGUMENTS_PART: &str = "arguments";
pub(in crate::gate) const VALUES_PART: &str = "values";
/// Why an undo cannot be made of what is longer than may be kept.
pub(in crate::gate) const TOO_LONG: &str = "what it needs of the call was too long to be kept";
/// Bytes of why an undo cannot be made, in the ledger.
const MAX_LACK_BYTES: usize = 500;

/// How the call is taken back, as its contract says before it is sent; none where no call does that,
/// and for a call that takes another one back itself.
pub(in crate::gate) fn terms(
    store: &dyn Store,
    call: &Call,
    rules: &ToolRules,
) -> Option<Box<UndoTerms>> {
    let rollback = rules.undo.call().filter(|_| call.compensates().is_none())?;
    let mut taken = rollback.taken(ARGUMENTS_PREFIX, &call.judged.arguments);
    taken.extend(of_check(rollback, ARGUMENTS_PREFIX, &call.judged.arguments));
    let kept = kept_text(rollback, &taken);
    let caller = &call.origin.caller;
    let action = call.judged.action.to_string();
    // What takes nothing of the result is known now: its outcome may be told by no answer.
    let made = filled(&rollback.arguments, &taken, &action).ok();
    let made = made.map(|made| known_by(caller, &rollback.tool, &Value::Object(made)));
    Some(Box::new(UndoTerms {
        tool: rollback.tool.clone(),
        arguments: store.seal_text(call.judged.action, ARGUMENTS_PART, &kept),
        within: millis(rollback.within),
        agent: caller.agent.to_string(),
        tenant: caller.tenant.as_ref().map(ToString::to_string),
        user: caller.user.as_ref().map(ToString::to_string),
        place: place_of(caller, &call.judged),
        by_agent: rollback.by_agent,
        call: made,
        caller: Some(kept_of(caller)),
    }))
}

/// What is kept with the intent of a call of which that is `taken` over.
fn kept_text(rollback: &Rollback, taken: &Map<String, Value>) -> String {
    let check = rollback.check.as_deref();
    let kept = json!({
        "arguments": rollback.arguments, "values": taken, "check": check.map(UndoCheck::kept),
    });
    kept.to_string()
}

/// The task or session that the call's agent names; none where it names neither.
pub(in crate::gate) fn place_of(caller: &Caller, judged: &ToolCall) -> Option<Digest> {
    let belonging = Belonging::of(caller, judged).ok()?;
    let place = belonging.place(caller);
    place.is_named().then_some(place.key)
}

/// What the check of `rollback` takes over.
fn of_check(rollback: &Rollback, prefix: &str, from: &Value) -> Map<String, Value> {
    let check = rollback.check.as_deref();
    check
        .map(|check| check.taken(prefix, from))
        .unwrap_or_default()
}

/// What the call that takes this one back takes over of its arguments, and its check; none where no call does, or
/// where that is too much to be kept.
pub(in crate::gate) fn taken_over(call: &Call, rules: &ToolRules) -> Option<Map<String, Value>> {
    let rollback = rules.undo.call();
    let rollback = rollback.filter(|_| call.compensates().is_none())?;
    let mut taken = rollback.taken(ARGUMENTS_PREFIX, &call.judged.arguments);
    if !is_short(&taken) {
        return None;
    }
    let of_check = of_check(rollback, ARGUMENTS_PREFIX, &call.judged.arguments);
    if is_short(&of_check) {
        taken.extend(of_check);
    }
    Some(taken)
}

fn is_short(parts: &Map<String, Value>) -> bool {
    let bytes: usize = parts.values().map(|part| part.to_string().len()).sum();
    bytes <= MAX_KEPT_TEXT_BYTES
}

/// What an answer leaves for an undo, before anything is taken out of it for its agent.
pub(in crate::gate) fn worth(
    store: &dyn Store,
    action: ActionId,
    shaper: &Shaper,
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
    let Some(rollback) = shaper.rules.undo.call() else {
        return AnswerWorth::Unread;
    };
    let structured = result.get("structuredContent");
    let structured = structured.map_or(Value::Null, |structured| structured.value());
    let mut values = rollback.taken(RESULT_PREFIX, &structured);
    values.extend(of_check(rollback, RESULT_PREFIX, &structured));
    let taken = shaper.rest.as_ref().and_then(|rest| rest.taken.as_ref());
    let parts = taken.map(|taken| {
        let mut parts = taken.clone();
        parts.extend(values.clone());
        parts
    });
    let action_text = action.to_string();
    let made = |named: &Map<String, Value>| {
        let parts = parts.as_ref().ok_or_else(|| TOO_LONG.to_owned())?;
        filled(named, parts, &action_text).map_err(|missing| missing.to_string())
    };
    let call = made(&rollback.arguments);
    let can_be_checked = rollback.check.as_deref().map_or(Ok(()), |check| {
        let made = made(&check.arguments).map(drop);
        made.map_err(|why| format!("its check cannot be made: {why}"))
    });
    let values = (!values.is_empty()).then(|| {
        let values = Value::Object(values).to_string();
        store.seal_text(action, VALUES_PART, &values)
    });
    let is_cut = matches!(values, Some(KeptText::LeftOut { .. }))
        || taken.is_some_and(|taken| kept_text(rollback, taken).len() > MAX_KEPT_TEXT_BYTES);
    let lacks = call.as_ref().err().cloned().or(can_be_checked.err());
    let lacks = lacks.or_else(|| is_cut.then(|| TOO_LONG.to_owned()));
    AnswerWorth::Kept(Box::new(UndoPieces {
        values,
        call: call.ok().map(|made| {
            let made = Value::Object(made);
            known_by(&shaper.caller, &rollback.tool, &made)
        }),
        lacks: lacks.map(short),
    }))
}

/// What is kept of why an undo cannot be made: a contract names places of any length.
fn short(mut why: String) -> String {
    why.truncate(why.floor_char_boundary(MAX_LACK_BYTES));
    why
}

/// What a call is known by that its caller makes, should it take another of its calls back: the same
/// tool, the same arguments in whatever order, and nobody else's.
pub(in crate::gate) fn known_by(caller: &Caller, tool: &ToolName, arguments: &Value) -> Digest {
    let hash = params_hash(arguments);
    let tenant = caller.tenant.as_ref().map(TenantId::as_str);
    let of_user = caller.user.as_ref().map(UserId::as_str);
    let named = [[u8::from(tenant.is_some())], [u8::from(of_user.is_some())]];
    let parts: [&[u8]; 7] = [
        tool.as_str().as_bytes(),
        hash.as_bytes(),
        caller.agent.as_str().as_bytes(),
        &named[0],
        tenant.unwrap_or_default().as_bytes(),
        &named[1],
        of_user.unwrap_or_default().as_bytes(),
    ];
    Digest::of_parts("call that takes another one back", &parts)
}
