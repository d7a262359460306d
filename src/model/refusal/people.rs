//! Refusals of what a person has said, or has not.

use super::facts::{RefusalCode, RefusalFacts, RefusalKind, Retry};
use crate::model::ids::ActionId;

pub(crate) const APPROVAL_PENDING: RefusalCode = RefusalCode {
    code: "approval_pending",
    meaning: "a person has to allow the call, and has not decided yet",
    remedy: "send the same call with the same arguments again: it waits for the decision",
    kind: RefusalKind::Other,
};

/// Milliseconds after which a call that is held is sent again.
pub(crate) const PENDING_RETRY_MS: u64 = 5_000;

/// A held call, as its agent reads of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingHold {
    /// The call that asked first.
    pub id: ActionId,
    /// Until when it can be decided, RFC 3339 in UTC.
    pub until: String,
    /// Where a person reads of it, and decides after a login; none where the configuration names no
    /// address.
    pub page: Option<String>,
    /// When the same call may be sent again, in milliseconds.
    pub after_ms: u64,
}

pub(super) fn approval_pending(roles: &[String], hold: Option<&PendingHold>) -> RefusalFacts {
    let until = hold.map_or_else(String::new, |hold| {
        let page = hold.page.as_ref();
        let page = page.map_or_else(String::new, |page| format!(", at {page}"));
        format!(", and can until {}{page}", hold.until)
    });
    let after_ms = hold.map_or(PENDING_RETRY_MS, |hold| hold.after_ms);
    let roles = roles.join(" or ");
    RefusalFacts {
        retry: Retry::WhenApproved(after_ms),
        hold: hold.map(|hold| hold.id),
        ..RefusalFacts::new(
            &APPROVAL_PENDING,
            format!("a person with the role {roles} has to allow this call{until}"),
            format!(
                "Send the same call with the same arguments again in {} seconds: it waits for the decision, and runs once. With \
                 another idempotency key or other arguments it is a second call, about which a person is asked anew.",
                after_ms.div_ceil(1000)
            ),
        )
    }
}

pub(crate) const APPROVAL_DENIED: RefusalCode = RefusalCode {
    code: "approval_denied",
    meaning: "a person has said no to the call",
    remedy: "do what the reason says, or report what was refused; don't send the call again",
    kind: RefusalKind::Other,
};

pub(super) fn approval_denied(id: ActionId, why: &str) -> RefusalFacts {
    RefusalFacts {
        hold: Some(id),
        ..RefusalFacts::new(
            &APPROVAL_DENIED,
            format!("a person has denied this call: {why}"),
            "Don't send it again: do what the reason says, or report that it was denied.",
        )
    }
}

pub(crate) const APPROVAL_TIMEOUT: RefusalCode = RefusalCode {
    code: "approval_timeout",
    meaning: "nobody has decided in time whether the call may run",
    remedy: "report it; to ask once more, send the same call again later",
    kind: RefusalKind::Other,
};

pub(super) fn approval_timeout(id: ActionId, why: &'static str) -> RefusalFacts {
    RefusalFacts {
        retry: Retry::SameKey,
        hold: Some(id),
        ..RefusalFacts::new(
            &APPROVAL_TIMEOUT,
            why,
            "Report it; to ask once more, send the same call again later.",
        )
    }
}

pub(crate) const APPROVAL_LAPSED: RefusalCode = RefusalCode {
    code: "approval_lapsed",
    meaning: "a person had allowed the call, and it was not sent in time",
    remedy: "send the same call again: a person is asked once more",
    kind: RefusalKind::Other,
};

/// Milliseconds for which a held call that nobody decided in time, or that was allowed and did not run
/// in time, still says so (guarantees §7); then a person is asked anew.
pub(crate) const EXPIRED_HOLD_GRACE_MS: u64 = 15_000;

pub(super) fn approval_lapsed(id: ActionId, by: &[String], until: &str) -> RefusalFacts {
    let seconds = EXPIRED_HOLD_GRACE_MS.div_ceil(1000);
    RefusalFacts {
        retry: Retry::AfterMs(EXPIRED_HOLD_GRACE_MS),
        hold: Some(id),
        ..RefusalFacts::new(
            &APPROVAL_LAPSED,
            format!(
                "{} had allowed this call until {until}, and it was not sent by then; a person can be asked again in {seconds} \
                 seconds",
                by.join(" and ")
            ),
            "To ask once more, send the same call again then.",
        )
    }
}

pub(crate) const APPROVAL_QUEUE_FULL: RefusalCode = RefusalCode {
    code: "approval_queue_full",
    meaning: "a person has to allow the call, and as many wait for one as may",
    remedy: "send the same call again later, and fewer of them at once",
    kind: RefusalKind::Other,
};

/// Milliseconds after which a call that found no room among the held ones is tried again.
const QUEUE_RETRY_MS: u64 = 30_000;

pub(super) fn approval_queue_full(waiting: &str) -> RefusalFacts {
    RefusalFacts {
        retry: Retry::AfterMs(QUEUE_RETRY_MS),
        ..RefusalFacts::new(
            &APPROVAL_QUEUE_FULL,
            format!("a person has to allow this call, and {waiting} wait for one already"),
            "Send the same call again when some of them are decided.",
        )
    }
}

pub(crate) const APPROVER_UNREACHABLE: RefusalCode = RefusalCode {
    code: "approver_unreachable",
    meaning: "a person has to allow the call, and none can be asked",
    remedy: "report it to an operator, naming the action id",
    kind: RefusalKind::Other,
};

pub(super) fn approver_unreachable(why: &str) -> RefusalFacts {
    RefusalFacts::new(
        &APPROVER_UNREACHABLE,
        format!("a person has to allow this call, and {why}"),
        "Don't send it again; report the action id to an operator.",
    )
}
