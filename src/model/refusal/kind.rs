//! What a code says of the call that was refused with it. One place for the commands that compare:
//! replays and reports (003-117).

use super::CODES;

/// What the policy alone says of a call, besides the codes of contracts' rules.
const OF_THE_POLICY: [&str; 6] = [
    "tool_not_allowlisted",
    "schema_invalid",
    "rbac_denied",
    "tenant_mismatch",
    "resource_denied",
    "hook_blocked",
];
/// What the budget of a task or the rate of a tool says.
const OF_BUDGETS: [&str; 2] = ["budget_exceeded", "budget_calls_exceeded"];

/// What a code is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The policy does not let this caller make this call, whatever was called before: identity,
    /// permission, schema, rule, hook.
    Violation,
    /// The task, or the tool in its span of time, has used up what it may.
    Overrun,
    /// Anything else: keys, sessions, loops, drafts, people, secrets, tool servers, toolgate
    /// itself.
    Other,
}

impl Kind {
    /// What `code` is about; one that is not toolgate's own is that of a contract's rule.
    pub fn of(code: &str) -> Self {
        let is_own = CODES.iter().any(|(known, ..)| *known == code);
        match code {
            code if OF_BUDGETS.contains(&code) => Self::Overrun,
            code if OF_THE_POLICY.contains(&code) || !is_own => Self::Violation,
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
        for code in OF_THE_POLICY.iter().chain(&OF_BUDGETS) {
            assert!(CODES.iter().any(|(known, ..)| known == code), "{code}");
        }
        for (code, expected) in [
            ("rbac_denied", Kind::Violation),
            ("amount_out_of_range", Kind::Violation),
            ("budget_exceeded", Kind::Overrun),
            ("budget_calls_exceeded", Kind::Overrun),
            ("loop_detected", Kind::Other),
            ("outcome_unknown", Kind::Other),
            ("idempotency_conflict", Kind::Other),
        ] {
            assert_eq!(Kind::of(code), expected, "{code}");
        }
    }
}
