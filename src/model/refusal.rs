//! Every "no" an agent can read. Codes are stable, `snake_case`, and listed in docs/refusals.md; a
//! test compares.

use super::ids::{ActionId, ToolName};
use super::task::TaskState;
use std::sync::Arc;

mod codes;
pub(crate) mod kind;
mod words;

pub use codes::REFUSAL_CODES;

/// May the agent try again?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same call will be refused again.
    Never,
    /// The same call may be sent again as it is.
    SameKey,
    /// Only with a key that was not used before, and only if a second execution is meant.
    NewKey,
    /// The same call, once a person has allowed it; sent before, it waits for that.
    WhenApproved,
    /// Again after this many milliseconds.
    AfterMs(u64),
}

impl Retry {
    /// The word on the wire.
    pub fn word(self) -> String {
        match self {
            Self::Never => "never".to_owned(),
            Self::SameKey => "same_key".to_owned(),
            Self::NewKey => "new_key".to_owned(),
            Self::WhenApproved => "when_approved".to_owned(),
            Self::AfterMs(ms) => format!("after_ms:{ms}"),
        }
    }
}

/// Why a call was not answered by the tool. Never holds a value of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Unknown, hidden or without a contract: one answer for all (003-21).
    ToolNotAllowlisted,
    /// The arguments break the tool's schema or the contract's.
    SchemaInvalid {
        /// JSON pointer to the argument.
        pointer: String,
        /// What would have been right.
        expected: String,
    },
    /// The caller has none of the roles the contract asks for (003-22).
    RbacDenied {
        /// The roles of which one is needed.
        needed: Vec<String>,
    },
    /// The call names another tenant than the caller's (003-23).
    TenantMismatch {
        /// JSON pointer to the tenant argument.
        pointer: String,
    },
    /// The call names a resource outside the caller's reach (003-100).
    ResourceDenied {
        /// JSON pointer to the resource argument.
        pointer: String,
    },
    /// A rule of the contract is true (its own code).
    Rule {
        /// The code the contract gives.
        code: Arc<str>,
        /// What the contract says is expected; its author's words.
        expected: String,
    },
    /// A hook of the operator's does not let the call pass (001-24).
    HookBlocked {
        /// The hook, for operators.
        by: String,
        /// Its reason, in plain text of at most 200 characters; empty for none.
        reason: String,
    },
    /// A step or hook that has to change or see the call did not do its part, so nothing was sent
    /// (policy §1, decision 10).
    HookBroken {
        /// The step or hook, for operators.
        by: String,
        /// What went wrong, in words of ours.
        why: String,
    },
    /// The task cannot come to the state that its agent reports from where it is (003-73 … 003-76).
    StateOutOfOrder {
        /// Where it is; none: nowhere yet.
        before: Option<TaskState>,
        /// What its agent reports.
        state: TaskState,
    },
    /// The call was only planned: it would be sent now (003-74).
    Planned,
    /// The calls of the task repeat themselves without getting anywhere.
    LoopDetected {
        /// How they do, in words.
        pattern: &'static str,
    },
    /// The contract asks for a key, and the call came without one that can be used (004-11).
    IdempotencyKeyRequired {
        /// What would have been right.
        expected: &'static str,
    },
    /// The key was used for a call with other arguments (004-24).
    IdempotencyConflict,
    /// The same call is running, and did not end while this one waited (004-31).
    DuplicateInFlight {
        /// When to ask again, in milliseconds.
        after_ms: u64,
    },
    /// The key was used long ago; what came of it is no longer kept.
    IdempotencyKeyExpired,
    /// The call confirms a draft that its task has not made (003-P4d).
    DraftRequired {
        /// JSON pointer to the argument that names the draft.
        pointer: String,
        /// The tool that makes it.
        tool: ToolName,
    },
    /// The tool was called as often in this task as its contract allows (003-27).
    BudgetCallsExceeded {
        /// How often that is.
        most: u64,
    },
    /// The task has used up something that it has a limit for (003-40).
    BudgetExceeded {
        /// What it has used up: `steps`, `tool_calls`, `cost`, `duration`, `failures` or
        /// `failures_in_a_row`.
        dimension: &'static str,
        /// What is left of what else has a limit, in words.
        left: String,
        /// Tools that change nothing may still be called.
        reads_remain: bool,
    },
    /// The tool was called as often in a span of time as its contract allows.
    RateExceeded {
        /// When there is room again, in milliseconds.
        after_ms: u64,
    },
    /// The caller, an agent that started it, or its group, calls faster than it may.
    CallerRateExceeded {
        /// When there is room again, in milliseconds.
        after_ms: u64,
    },
    /// The call is held until a person decides, and may be sent again meanwhile (guarantees §7).
    ApprovalPending {
        /// A person with one of these roles may decide.
        roles: Vec<String>,
        /// The hold, by the call that asked first, and until when, RFC 3339 in UTC; none for a
        /// call that nobody makes.
        hold: Option<(ActionId, String)>,
    },
    /// A person has said no.
    ApprovalDenied {
        /// The hold.
        id: ActionId,
        /// That person's reason, in plain text.
        why: String,
    },
    /// Nobody has decided in time, or what was asked is not what would run now.
    ApprovalTimeout {
        /// The hold.
        id: ActionId,
        /// What it is, in words of ours.
        why: &'static str,
    },
    /// A person has to allow the call, and none can be asked.
    ApproverUnreachable {
        /// Why, in words of ours.
        why: &'static str,
    },
    /// Another holder of the session has gone on since.
    Fenced,
    /// Other calls with side effects of the session have to end first.
    SessionBusy,
    /// A secret reference stands where none may, or its secret cannot be had (002-31).
    SecretDenied,
    /// The tool server could not be reached; nothing was sent.
    UpstreamUnavailable,
    /// The call was sent, and the tool server refused it before it did anything: so a contract or
    /// an operator knows.
    UpstreamRefused,
    /// The call was sent and no answer to it came.
    OutcomeUnknown,
    /// The tool has answered, and the answer could not be recorded.
    ExecutedButNotRecorded,
    /// A call that changes nothing broke off; it is safe to repeat.
    UpstreamFailed,
    /// The agent cancelled the call or went away.
    Cancelled,
    /// Too many calls at once.
    Overloaded,
    /// The ledger cannot be written.
    StoreUnavailable,
    /// toolgate broke before anything was sent.
    InternalError,
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::ToolNotAllowlisted => "tool_not_allowlisted",
            Self::SchemaInvalid { .. } => "schema_invalid",
            Self::RbacDenied { .. } => "rbac_denied",
            Self::TenantMismatch { .. } => "tenant_mismatch",
            Self::ResourceDenied { .. } => "resource_denied",
            Self::Rule { code, .. } => code,
            Self::HookBlocked { .. } | Self::HookBroken { .. } => "hook_blocked",
            Self::StateOutOfOrder { .. } => "state_out_of_order",
            Self::Planned => "planned",
            Self::LoopDetected { .. } => "loop_detected",
            Self::IdempotencyKeyRequired { .. } => "idempotency_key_required",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::DuplicateInFlight { .. } => "duplicate_in_flight",
            Self::IdempotencyKeyExpired => "idempotency_key_expired",
            Self::DraftRequired { .. } => "draft_required",
            Self::BudgetCallsExceeded { .. } => "budget_calls_exceeded",
            Self::BudgetExceeded { .. } | Self::RateExceeded { .. } => "budget_exceeded",
            Self::CallerRateExceeded { .. } => "rate_exceeded",
            Self::ApprovalPending { .. } => "approval_pending",
            Self::ApprovalDenied { .. } => "approval_denied",
            Self::ApprovalTimeout { .. } => "approval_timeout",
            Self::ApproverUnreachable { .. } => "approver_unreachable",
            Self::Fenced => "fenced",
            Self::SessionBusy => "session_busy",
            Self::SecretDenied => "secret_denied",
            Self::ExecutedButNotRecorded => "executed_but_not_recorded",
            Self::UpstreamUnavailable | Self::UpstreamRefused => "upstream_unavailable",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::UpstreamFailed => "upstream_failed",
            Self::Cancelled => "cancelled",
            Self::Overloaded => "overloaded",
            Self::StoreUnavailable => "store_unavailable",
            Self::InternalError => "internal_error",
        }
    }

    /// The code of a contract's rule; none for toolgate's own.
    pub fn contract_code(&self) -> Option<&Arc<str>> {
        if let Self::Rule { code, .. } = self {
            Some(code)
        } else {
            None
        }
    }

    /// toolgate's own code, as listed in [`REFUSAL_CODES`]; none for a contract's.
    pub fn own_code(&self) -> Option<&'static str> {
        let code = self.contract_code().is_none().then(|| self.code())?;
        REFUSAL_CODES
            .iter()
            .map(|(known, ..)| *known)
            .find(|known| *known == code)
    }

    /// JSON pointer to the argument at fault.
    pub fn pointer(&self) -> Option<&str> {
        if let Self::SchemaInvalid { pointer, .. }
        | Self::TenantMismatch { pointer }
        | Self::ResourceDenied { pointer }
        | Self::DraftRequired { pointer, .. } = self
        {
            Some(pointer)
        } else {
            None
        }
    }

    /// The hold that it is about, by which operators know it.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other refusal is of a hold"
    )]
    pub fn hold(&self) -> Option<ActionId> {
        match self {
            Self::ApprovalPending { hold, .. } => hold.as_ref().map(|(id, _)| *id),
            Self::ApprovalDenied { id, .. } | Self::ApprovalTimeout { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// What was used up, as budgets name it.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other refusal is of a budget"
    )]
    pub fn dimension(&self) -> Option<&'static str> {
        match self {
            Self::BudgetExceeded { dimension, .. } => Some(dimension),
            Self::BudgetCallsExceeded { .. } => Some("calls_per_task"),
            Self::RateExceeded { .. } => Some("rate"),
            _ => None,
        }
    }

    /// Is it what the policy says of the call, which the same call would read again?
    pub fn is_verdict(&self) -> bool {
        let is_none = matches!(
            self,
            Self::LoopDetected { .. }
                | Self::InternalError
                | Self::ExecutedButNotRecorded
                | Self::OutcomeUnknown
        );
        !is_none && matches!(self.retry(), Retry::Never | Retry::NewKey)
    }

    /// Whether and how to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::UpstreamUnavailable
            | Self::UpstreamRefused
            | Self::UpstreamFailed
            | Self::Cancelled
            | Self::StoreUnavailable
            | Self::HookBroken { .. }
            | Self::ApprovalTimeout { .. }
            | Self::Planned => Retry::SameKey,
            Self::ApprovalPending { .. } => Retry::WhenApproved,
            Self::Overloaded | Self::SessionBusy => Retry::AfterMs(1000),
            Self::DuplicateInFlight { after_ms }
            | Self::RateExceeded { after_ms }
            | Self::CallerRateExceeded { after_ms } => Retry::AfterMs(*after_ms),
            Self::IdempotencyKeyRequired { .. }
            | Self::IdempotencyConflict
            | Self::IdempotencyKeyExpired => Retry::NewKey,
            Self::ToolNotAllowlisted
            | Self::SchemaInvalid { .. }
            | Self::RbacDenied { .. }
            | Self::TenantMismatch { .. }
            | Self::ResourceDenied { .. }
            | Self::Rule { .. }
            | Self::HookBlocked { .. }
            | Self::StateOutOfOrder { .. }
            | Self::LoopDetected { .. }
            | Self::DraftRequired { .. }
            | Self::BudgetCallsExceeded { .. }
            | Self::BudgetExceeded { .. }
            | Self::ApprovalDenied { .. }
            | Self::ApproverUnreachable { .. }
            | Self::Fenced
            | Self::SecretDenied
            | Self::InternalError
            | Self::ExecutedButNotRecorded
            | Self::OutcomeUnknown => Retry::Never,
        }
    }
}

#[cfg(test)]
mod tests;
