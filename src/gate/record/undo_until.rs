//! Until when a call can be taken back that was just answered, as its agent reads it (003-64).

use super::{Ending, RecordedCall, is_tool_error};
use crate::guards::Mode;
use crate::model::times::millis;
use crate::store::operator::time;

/// RFC 3339 in UTC; none where no call takes it back, where it was not carried out, or was before.
pub(in crate::gate) fn undo_until(recorded: &RecordedCall<'_>, ending: &Ending) -> Option<String> {
    let RecordedCall {
        gate, policy, call, ..
    } = *recorded;
    let dispatch = &recorded.found.dispatch;
    let changed = dispatch.attempts > 0 && dispatch.changes == Some(true);
    let is_sent = changed && policy.mode == Mode::Enforce;
    let answer = ending.as_ref().ok().filter(|answer| !answer.is_error);
    let result = answer.filter(|_| is_sent)?.body.as_ref()?;
    // A question or the handle of a task is no end.
    if is_tool_error(result) || result.get("content").is_none() || call.compensates().is_some() {
        return None;
    }
    let admitted = recorded.admitted()?;
    let rollback = admitted.rules().undo.call()?;
    let now = gate.effects.store.now();
    Some(time(now.saturating_add(millis(rollback.within))))
}
