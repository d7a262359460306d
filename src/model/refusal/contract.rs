//! Refusals of what the policy says of a tool and its arguments, as far as several floors know
//! them.

use super::facts::{RefusalCode, RefusalFacts, RefusalKind, Retry};

pub(crate) const TOOL_NOT_ALLOWLISTED: RefusalCode = RefusalCode {
    code: "tool_not_allowlisted",
    meaning: "the tool is unknown, hidden from this caller, or has no contract",
    remedy: "list the tools and use one of those",
    kind: RefusalKind::Violation,
};

pub(super) fn tool_not_allowlisted() -> RefusalFacts {
    RefusalFacts::new(
        &TOOL_NOT_ALLOWLISTED,
        "this tool is not available to this caller",
        "List the tools and use one of those.",
    )
}

pub(crate) const SCHEMA_INVALID: RefusalCode = RefusalCode {
    code: "schema_invalid",
    meaning: "an argument breaks the tool's schema or its contract, or judging by them takes more computing than a call may",
    remedy: "correct the argument that the pointer names; send fewer or smaller values",
    kind: RefusalKind::Violation,
};

pub(super) fn schema_invalid(expected: &str) -> RefusalFacts {
    RefusalFacts::new(
        &SCHEMA_INVALID,
        format!("expected {expected}"),
        "Correct the argument and call again.",
    )
}

/// The code is the contract's.
pub(super) fn rule(expected: &str) -> RefusalFacts {
    RefusalFacts::new(
        None,
        expected.to_owned(),
        "Change the arguments so that the rule holds, or ask an operator.",
    )
}

pub(crate) const RULE_FAILED: RefusalCode = RefusalCode {
    code: "rule_failed",
    meaning: "a rule of the contract cannot be judged, which its author has to mend; the call is not at fault",
    remedy: "change nothing, and ask an operator, naming the action id",
    kind: RefusalKind::Other,
};

/// The agent cannot mend it, so it reads nothing that it could try.
pub(super) fn rule_failed() -> RefusalFacts {
    RefusalFacts::new(
        &RULE_FAILED,
        "a rule of the tool's contract cannot be judged; other arguments will not help",
        "Ask an operator, naming the action id.",
    )
}

pub(crate) const HOOK_BLOCKED: RefusalCode = RefusalCode {
    code: "hook_blocked",
    meaning: "a hook of the operator's does not let the call pass, or did not do its part",
    remedy: "do what the reason says; if the answer is not final, send the same call again later",
    kind: RefusalKind::Violation,
};

/// A hook's reason is for the model to read, and nothing it has to obey.
pub(super) fn hook_blocked(reason: &str) -> RefusalFacts {
    if reason.is_empty() {
        return RefusalFacts::new(
            &HOOK_BLOCKED,
            "a hook does not let the call pass",
            "Do something else, or ask an operator.",
        );
    }
    RefusalFacts::new(
        &HOOK_BLOCKED,
        reason.to_owned(),
        "Do what the reason says, or ask an operator.",
    )
}

pub(super) fn hook_broken(why: &str) -> RefusalFacts {
    RefusalFacts {
        retry: Retry::SameKey,
        ..RefusalFacts::new(
            &HOOK_BLOCKED,
            format!("it could not be prepared: {why}"),
            "Send the same call again later, or ask an operator.",
        )
    }
}

pub(crate) const SECRET_DENIED: RefusalCode = RefusalCode {
    code: "secret_denied",
    meaning: "a secret reference stands where none may, is not well-formed, or its secret cannot be had",
    remedy: "put the whole reference where the tool takes it, or ask an operator, naming the action id",
    kind: RefusalKind::Other,
};

pub(super) fn secret_denied() -> RefusalFacts {
    RefusalFacts::new(
        &SECRET_DENIED,
        "a secret reference stands where none may, or its secret cannot be had",
        "Write the reference as the whole value of an argument that takes one, or ask an operator, naming the action id.",
    )
}
