//! Until when a call can be taken back that was just answered, as its agent reads it (003-64).

use super::{Ending, RecordedCall, is_tool_error};
use crate::guards::Mode;
use crate::model::times::millis;
use crate::store::operator::time;

/// RFC 3339 in UTC; none where no call takes it back, where something is missing that this needs, and where the call
/// was not carried out. An answer that is given again says it of the call whose answer it is.
pub(in crate::gate) fn undo_until(recorded: &RecordedCall<'_>, ending: &Ending) -> Option<String> {
    let RecordedCall {
        gate,
        policy,
        call,
        found,
        ..
    } = *recorded;
    let dispatch = &found.dispatch;
    let before = found.key.undo_until();
    let is_sent = dispatch.attempts > 0 && dispatch.changes == Some(true) && dispatch.can_undo;
    let is_told = (is_sent || before.is_some()) && policy.mode == Mode::Enforce;
    let answer = ending.as_ref().ok().filter(|answer| !answer.is_error);
    let result = answer.filter(|_| is_told)?.body.as_ref()?;
    // A question or the handle of a task is no end.
    if is_tool_error(result) || result.get("content").is_none() || call.compensates().is_some() {
        return None;
    }
    if before.is_some() {
        return before.map(time);
    }
    let admitted = recorded.admitted()?;
    let rollback = admitted.rules().undo.call()?;
    let now = gate.effects.store.now();
    Some(time(now.saturating_add(millis(rollback.within))))
}
