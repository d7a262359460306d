//! Refusals of what was called before: by the task, with the key, in the session.

use super::facts::{Ran, RefusalCode, RefusalFacts, RefusalKind, Retry};
use crate::model::task::TaskState;

pub(crate) const STATE_OUT_OF_ORDER: RefusalCode = RefusalCode {
    code: "state_out_of_order",
    meaning: "the task cannot come to the state that its agent reports from where it is",
    remedy: "plan the call before it is executed, execute before summarizing; or report no state",
    kind: RefusalKind::Other,
};

pub(super) fn state_out_of_order(before: Option<TaskState>, state: TaskState) -> RefusalFacts {
    let is = before.map_or_else(
        || "in no state yet".to_owned(),
        |before| format!("in `{}`", before.word()),
    );
    RefusalFacts::new(
        &STATE_OUT_OF_ORDER,
        format!("a task that is {is} cannot come to `{}`", state.word()),
        "Plan the call before it is executed, and execute before summarizing.",
    )
}

pub(crate) const PLANNED: RefusalCode = RefusalCode {
    code: "planned",
    meaning: "the call was only planned: it would be sent now, and was not",
    remedy: "to run it, send the same call with the state `execute`",
    kind: RefusalKind::Other,
};

pub(super) fn planned() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::SameKey,
        ..RefusalFacts::new(
            &PLANNED,
            "the call would pass, and was only planned",
            "To run it, send the same call with the state `execute`.",
        )
    }
}

pub(crate) const LOOP_DETECTED: RefusalCode = RefusalCode {
    code: "loop_detected",
    meaning: "the task's calls repeat themselves without getting anywhere",
    remedy: "do something else: other arguments, another tool, or report what is missing",
    kind: RefusalKind::Other,
};

pub(super) fn loop_detected(pattern: &str, has_run: bool) -> RefusalFacts {
    RefusalFacts {
        ran: if has_run { Ran::NotAgain } else { Ran::No },
        is_of_policy: false,
        ..RefusalFacts::new(
            &LOOP_DETECTED,
            format!("the task goes in circles: {pattern}"),
            "Don't send it again: do something else, or report what is missing.",
        )
    }
}

pub(crate) const IDEMPOTENCY_CONFLICT: RefusalCode = RefusalCode {
    code: "idempotency_conflict",
    meaning: "the idempotency key was used for a call with other arguments",
    remedy: "send the first arguments again, or give a new key for a second call",
    kind: RefusalKind::Other,
};

pub(super) fn idempotency_conflict() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::NewKey,
        ran: Ran::NotAgain,
        ..RefusalFacts::new(
            &IDEMPOTENCY_CONFLICT,
            "this idempotency key was used for a call with other arguments",
            "Send the first arguments again to get that result; for a second, different call give a new key.",
        )
    }
}

pub(crate) const DUPLICATE_IN_FLIGHT: RefusalCode = RefusalCode {
    code: "duplicate_in_flight",
    meaning: "the same call is still running; its result is not known yet",
    remedy: "send the same call with the same key again after the given time",
    kind: RefusalKind::Other,
};

pub(super) fn duplicate_in_flight(after_ms: u64) -> RefusalFacts {
    RefusalFacts {
        retry: Retry::AfterMs(after_ms),
        ran: Ran::Once,
        ..RefusalFacts::new(
            &DUPLICATE_IN_FLIGHT,
            "duplicate suppressed: the same call is still running, and its result is not known yet",
            "Send the same call with the same key again a little later to get its result.",
        )
    }
}

pub(crate) const OUTCOME_PENDING: RefusalCode = RefusalCode {
    code: "outcome_pending",
    meaning: "the same call has been made, and waits for answers or goes on as a task, which this request cannot read",
    remedy: "go on where the call was made, or send it again here after the given time; if nobody can, ask an operator, naming the action id",
    kind: RefusalKind::Other,
};

pub(super) fn outcome_pending(after_ms: u64) -> RefusalFacts {
    RefusalFacts {
        retry: Retry::AfterMs(after_ms),
        ran: Ran::Once,
        ..RefusalFacts::new(
            &OUTCOME_PENDING,
            "the same call has been made, and waits for answers or goes on as a task, which this request cannot read",
            "Go on where the call was made: answer what it asks, or ask after its task; or send the same call again here later, with no other \
             key. If nobody can go on with it, ask an operator, naming the action id.",
        )
    }
}

pub(crate) const IDEMPOTENCY_KEY_EXPIRED: RefusalCode = RefusalCode {
    code: "idempotency_key_expired",
    meaning: "the idempotency key was used long ago; what came of it is no longer kept",
    remedy: "find out what it has done; give a new key only for a second call",
    kind: RefusalKind::Other,
};

pub(super) fn idempotency_key_expired() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::NewKey,
        ran: Ran::NotAgain,
        ..RefusalFacts::new(
            &IDEMPOTENCY_KEY_EXPIRED,
            "this idempotency key was used long ago, and its result is no longer kept",
            "Find out what that call has done; only for a second execution give a new key.",
        )
    }
}

pub(crate) const FENCED: RefusalCode = RefusalCode {
    code: "fenced",
    meaning: "another holder of the session has gone on since",
    remedy: "stop: another one works on this session",
    kind: RefusalKind::Other,
};

pub(super) fn fenced() -> RefusalFacts {
    RefusalFacts::new(
        &FENCED,
        "another holder of this session has gone on since",
        "Stop: another one works on this session.",
    )
}

pub(crate) const SESSION_BUSY: RefusalCode = RefusalCode {
    code: "session_busy",
    meaning: "other calls of the session have to end first",
    remedy: "send the same call again after the given time",
    kind: RefusalKind::Other,
};

pub(super) fn session_busy() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::AfterMs(1000),
        ..RefusalFacts::new(
            &SESSION_BUSY,
            "other calls of this session have to end first",
            "Send the same call again in a second.",
        )
    }
}
