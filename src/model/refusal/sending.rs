//! Refusals of what became of a call that was to be sent, or was; and of toolgate itself.

use super::facts::{Ran, RefusalCode, RefusalFacts, RefusalKind, Retry};
use crate::model::ids::ActionId;
use crate::model::reply::CredentialLack;

pub(crate) const EXECUTED_BUT_NOT_RECORDED: RefusalCode = RefusalCode {
    code: "executed_but_not_recorded",
    meaning: "the tool has run, and its answer could not be recorded",
    remedy: "don't repeat it; use the result that is attached, and tell an operator, naming the action id",
    kind: RefusalKind::Other,
};

pub(super) fn executed_but_not_recorded() -> RefusalFacts {
    RefusalFacts {
        ran: Ran::Yes,
        is_of_policy: false,
        ..RefusalFacts::new(
            &EXECUTED_BUT_NOT_RECORDED,
            "its answer could not be recorded",
            "Don't send it again: use the attached result, and report the action id to an operator.",
        )
    }
}

pub(crate) const UPSTREAM_UNAVAILABLE: RefusalCode = RefusalCode {
    code: "upstream_unavailable",
    meaning: "the tool server could not be reached, or refused the call before it did anything",
    remedy: "send the same call again later",
    kind: RefusalKind::Other,
};

pub(super) fn upstream_unavailable() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::SameKey,
        ..RefusalFacts::new(
            &UPSTREAM_UNAVAILABLE,
            "the tool server cannot be reached; nothing was sent",
            "Send the same call again later.",
        )
    }
}

pub(super) fn no_credential(lack: CredentialLack) -> RefusalFacts {
    let (what, next) = match lack {
        CredentialLack::Token => (
            "the authorization server of the tool server gives no token for it; nothing was sent",
            "Send the same call again later.",
        ),
        CredentialLack::Proof => (
            "the tool server is asked in the name of its caller, whose own token is not at hand or is over; nothing was sent",
            "Come with a token that an identity provider has signed, and send the same call again.",
        ),
        CredentialLack::Session => (
            "the session at the tool server was begun in the name of another; nothing was sent",
            "Begin a new session, and send the same call again.",
        ),
    };
    RefusalFacts {
        retry: Retry::SameKey,
        ..RefusalFacts::new(&UPSTREAM_UNAVAILABLE, what, next)
    }
}

pub(super) fn upstream_refused() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::SameKey,
        ..RefusalFacts::new(
            &UPSTREAM_UNAVAILABLE,
            "the tool server refused the call before it did anything",
            "Send the same call again later.",
        )
    }
}

pub(crate) const OUTCOME_UNKNOWN: RefusalCode = RefusalCode {
    code: "outcome_unknown",
    meaning: "the call was sent and no answer to it came: it may have run",
    remedy: "don't repeat it, with a new key least of all; ask an operator, naming the action id",
    kind: RefusalKind::Other,
};

pub(super) fn outcome_unknown() -> RefusalFacts {
    RefusalFacts {
        ran: Ran::Maybe,
        is_of_policy: false,
        ..RefusalFacts::new(
            &OUTCOME_UNKNOWN,
            "the call was sent and no answer to it came",
            "Don't send it again, with a new key least of all; ask an operator, naming the action id.",
        )
    }
}

pub(crate) const UPSTREAM_FAILED: RefusalCode = RefusalCode {
    code: "upstream_failed",
    meaning: "the tool server broke off a call that changes nothing",
    remedy: "send the same call again",
    kind: RefusalKind::Other,
};

pub(super) fn upstream_failed() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::SameKey,
        ran: Ran::Maybe,
        ..RefusalFacts::new(
            &UPSTREAM_FAILED,
            "the tool server broke off; the tool changes nothing",
            "Send the same call again.",
        )
    }
}

pub(crate) const CANCELLED: RefusalCode = RefusalCode {
    code: "cancelled",
    meaning: "the agent cancelled the call or went away",
    remedy: "nothing; call again if the answer is still wanted",
    kind: RefusalKind::Other,
};

pub(super) fn cancelled() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::SameKey,
        ran: Ran::Maybe,
        ..RefusalFacts::new(
            &CANCELLED,
            "the call was cancelled",
            "Call again if the answer is still wanted.",
        )
    }
}

pub(super) fn cancelled_unsent(hold: Option<ActionId>) -> RefusalFacts {
    let (what, next) = match hold {
        Some(_) => (
            "the call was cancelled while it waited for a person; what was asked stays open",
            "Send the same call again if the answer is still wanted: it waits for the same decision.",
        ),
        None => (
            "the call was cancelled before it was sent",
            "Call again if the answer is still wanted.",
        ),
    };
    RefusalFacts {
        retry: Retry::SameKey,
        hold,
        ..RefusalFacts::new(&CANCELLED, what, next)
    }
}

pub(crate) const OVERLOADED: RefusalCode = RefusalCode {
    code: "overloaded",
    meaning: "too many calls are in flight",
    remedy: "send the same call again after the given time",
    kind: RefusalKind::Other,
};

pub(super) fn overloaded() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::AfterMs(1000),
        ..RefusalFacts::new(
            &OVERLOADED,
            "too many calls are in flight",
            "Send the same call again in a second.",
        )
    }
}

pub(crate) const STORE_UNAVAILABLE: RefusalCode = RefusalCode {
    code: "store_unavailable",
    meaning: "the ledger cannot be written, so no side effect may run",
    remedy: "send the same call again later; tell an operator",
    kind: RefusalKind::Other,
};

pub(super) fn store_unavailable() -> RefusalFacts {
    RefusalFacts {
        retry: Retry::SameKey,
        ..RefusalFacts::new(
            &STORE_UNAVAILABLE,
            "the ledger cannot be written",
            "Send the same call again later and tell an operator.",
        )
    }
}

pub(super) fn store_opening(percent: u8) -> RefusalFacts {
    RefusalFacts {
        retry: Retry::AfterMs(5000),
        ..RefusalFacts::new(
            &STORE_UNAVAILABLE,
            format!("toolgate has started and still reads its ledger ({percent} % so far)"),
            "Send the same call again in five seconds, or go on with calls that only read.",
        )
    }
}

pub(crate) const INTERNAL_ERROR: RefusalCode = RefusalCode {
    code: "internal_error",
    meaning: "toolgate itself broke before anything was sent",
    remedy: "don't repeat it; tell an operator, naming the action id",
    kind: RefusalKind::Other,
};

pub(super) fn internal_error() -> RefusalFacts {
    RefusalFacts {
        is_of_policy: false,
        ..RefusalFacts::new(
            &INTERNAL_ERROR,
            "toolgate itself broke; nothing was sent",
            "Don't send it again; report the action id to an operator.",
        )
    }
}
