//! What a code says of the call that was refused with it. One place for the commands that compare:
//! replays and reports (003-117).

use super::REFUSAL_CODES;

/// What the policy alone says of a call, besides the codes of contracts' rules.
const POLICY_CODES: [&str; 6] = [
    "tool_not_allowlisted",
    "schema_invalid",
    "rbac_denied",
    "tenant_mismatch",
    "resource_denied",
    "hook_blocked",
];
/// What the budget of a task, or the rate of a tool or caller, says.
const BUDGET_CODES: [&str; 3] = ["budget_exceeded", "budget_calls_exceeded", "rate_exceeded"];

/// What a code is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// The policy does not let this caller make this call, whatever was called before: identity,
    /// permission, schema, rule, hook.
    Violation,
    /// The task has used up what it may, or the tool or the caller what it may in a span of time.
    Overrun,
    /// Anything else: keys, sessions, loops, drafts, people, secrets, tool servers, toolgate
    /// itself.
    Other,
}

impl RefusalKind {
    /// What `code` is about; one that is not toolgate's own is that of a contract's rule.
    pub(crate) fn of(code: &str) -> Self {
        let is_own = REFUSAL_CODES.iter().any(|(known, ..)| *known == code);
        match code {
            code if BUDGET_CODES.contains(&code) => Self::Overrun,
            code if POLICY_CODES.contains(&code) || !is_own => Self::Violation,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 003-117: each code is one kind, and those that are named exist.
    #[test]
    fn every_code_is_of_one_kind() {
        for code in POLICY_CODES.iter().chain(&BUDGET_CODES) {
            assert!(
                REFUSAL_CODES.iter().any(|(known, ..)| known == code),
                "{code}"
            );
        }
        for (code, expected) in [
            ("rbac_denied", RefusalKind::Violation),
            ("amount_out_of_range", RefusalKind::Violation),
            ("budget_exceeded", RefusalKind::Overrun),
            ("budget_calls_exceeded", RefusalKind::Overrun),
            ("loop_detected", RefusalKind::Other),
            ("outcome_unknown", RefusalKind::Other),
            ("idempotency_conflict", RefusalKind::Other),
        ] {
            assert_eq!(RefusalKind::of(code), expected, "{code}");
        }
    }
}
