//! Every "no" an agent can read. What is said of each stands once: in a file of this folder, or,
//! where only its guard knows it, in the guard's own. `guards::REFUSAL_CODES` lists all codes.

use super::ids::ActionId;
use super::reply::CredentialLack;
use super::task::TaskState;
use std::borrow::Cow;
use std::sync::Arc;

pub(crate) mod contract;
mod facts;
pub(crate) mod people;
pub(crate) mod sending;
pub(crate) mod task;

pub(crate) use facts::{Ran, RefusalKind};
pub use facts::{RefusalCode, RefusalFacts, Retry};
pub use people::PendingHold;

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
    /// A rule of the contract is true (its own code).
    Rule {
        /// The code the contract gives.
        code: Arc<str>,
        /// What the contract says is expected; its author's words.
        expected: String,
    },
    /// A rule of the contract could not be judged, for no fault of the call's.
    RuleFailed {
        /// The rule's code, for operators.
        code: Arc<str>,
        /// What went wrong, in words of ours.
        why: &'static str,
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
        /// Was the call carried out before?
        has_run: bool,
    },
    /// The key was used for a call with other arguments (004-24).
    IdempotencyConflict,
    /// The same call is running, and did not end while this one waited (004-31).
    DuplicateInFlight {
        /// When to ask again, in milliseconds.
        after_ms: u64,
    },
    /// The same call has asked its agent something or become a task, in words that this agent's
    /// revision or capabilities do not know.
    OutcomePending {
        /// When to ask again, in milliseconds.
        after_ms: u64,
    },
    /// The key was used long ago; what came of it is no longer kept.
    IdempotencyKeyExpired,
    /// The call is held until a person decides, and may be sent again meanwhile (guarantees §7).
    ApprovalPending {
        /// A person with one of these roles may decide.
        roles: Vec<String>,
        /// The hold; none for a call that nobody makes.
        hold: Option<PendingHold>,
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
    /// A person had allowed the call, and it did not run in time.
    ApprovalLapsed {
        /// The approval.
        id: ActionId,
        /// The operators who had allowed it.
        by: Vec<String>,
        /// Until when it could run, RFC 3339 in UTC.
        until: String,
    },
    /// As many calls wait for a person as may.
    ApprovalQueueFull {
        /// How many, and whose.
        waiting: String,
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
    /// What the tool server would have to be shown is not at hand; nothing was sent.
    NoCredential(CredentialLack),
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
    /// The same, before anything was sent.
    CancelledUnsent {
        /// The hold in which the call waited for a person, if it did.
        hold: Option<ActionId>,
    },
    /// Too many calls at once.
    Overloaded,
    /// The ledger cannot be written.
    StoreUnavailable,
    /// What the ledger says is not known yet, and only reads are served until it is.
    StoreOpening {
        /// How much of it is.
        percent: u8,
    },
    /// toolgate broke before anything was sent.
    InternalError,
    /// A refusal that only its guard knows; what is said of it stands in the guard's file.
    OfGuard(Box<RefusalFacts>),
}

impl Refusal {
    /// What is to be said of it.
    fn facts(&self) -> Cow<'_, RefusalFacts> {
        Cow::Owned(match self {
            Self::OfGuard(facts) => return Cow::Borrowed(facts),
            Self::ToolNotAllowlisted => contract::tool_not_allowlisted(),
            Self::SchemaInvalid { expected, .. } => contract::schema_invalid(expected),
            Self::Rule { expected, .. } => contract::rule(expected),
            Self::RuleFailed { .. } => contract::rule_failed(),
            Self::HookBlocked { reason, .. } => contract::hook_blocked(reason),
            Self::HookBroken { why, .. } => contract::hook_broken(why),
            Self::SecretDenied => contract::secret_denied(),
            Self::StateOutOfOrder { before, state } => task::state_out_of_order(*before, *state),
            Self::Planned => task::planned(),
            Self::LoopDetected { pattern, has_run } => task::loop_detected(pattern, *has_run),
            Self::IdempotencyConflict => task::idempotency_conflict(),
            Self::DuplicateInFlight { after_ms } => task::duplicate_in_flight(*after_ms),
            Self::OutcomePending { after_ms } => task::outcome_pending(*after_ms),
            Self::IdempotencyKeyExpired => task::idempotency_key_expired(),
            Self::Fenced => task::fenced(),
            Self::SessionBusy => task::session_busy(),
            Self::ApprovalPending { roles, hold } => people::approval_pending(roles, hold.as_ref()),
            Self::ApprovalDenied { id, why } => people::approval_denied(*id, why),
            Self::ApprovalTimeout { id, why } => people::approval_timeout(*id, why),
            Self::ApprovalLapsed { id, by, until } => people::approval_lapsed(*id, by, until),
            Self::ApprovalQueueFull { waiting } => people::approval_queue_full(waiting),
            Self::ApproverUnreachable { why } => people::approver_unreachable(why),
            Self::UpstreamUnavailable => sending::upstream_unavailable(),
            Self::NoCredential(lack) => sending::no_credential(*lack),
            Self::UpstreamRefused => sending::upstream_refused(),
            Self::OutcomeUnknown => sending::outcome_unknown(),
            Self::ExecutedButNotRecorded => sending::executed_but_not_recorded(),
            Self::UpstreamFailed => sending::upstream_failed(),
            Self::Cancelled => sending::cancelled(),
            Self::CancelledUnsent { hold } => sending::cancelled_unsent(*hold),
            Self::Overloaded => sending::overloaded(),
            Self::StoreUnavailable => sending::store_unavailable(),
            Self::StoreOpening { percent } => sending::store_opening(*percent),
            Self::InternalError => sending::internal_error(),
        })
    }

    /// The stable code.
    pub fn code(&self) -> &str {
        let contracts = self.contract_code().map(|code| &**code);
        contracts.or(self.own_code()).unwrap_or_default()
    }

    /// The code of a contract's rule; none for toolgate's own.
    pub fn contract_code(&self) -> Option<&Arc<str>> {
        if let Self::Rule { code, .. } = self {
            Some(code)
        } else {
            None
        }
    }

    /// toolgate's own code; none for a contract's.
    pub fn own_code(&self) -> Option<&'static str> {
        self.facts().code.map(|own| own.code)
    }

    /// JSON pointer to the argument at fault.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other refusal is of one argument"
    )]
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::SchemaInvalid { pointer, .. } => Some(pointer),
            Self::OfGuard(facts) => facts.pointer.as_deref(),
            _ => None,
        }
    }

    /// The hold that it is about, by which operators know it.
    pub fn hold(&self) -> Option<ActionId> {
        self.facts().hold
    }

    /// Where a person reads of what is held, where that is known.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other refusal has a page of its own"
    )]
    pub fn page(&self) -> Option<&str> {
        match self {
            Self::ApprovalPending { hold, .. } => hold.as_ref()?.page.as_deref(),
            _ => None,
        }
    }

    /// Does nobody wait for the call any more?
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::CancelledUnsent { .. })
    }

    /// What was used up, as budgets name it.
    pub fn dimension(&self) -> Option<&'static str> {
        self.facts().dimension
    }

    /// Is it what the policy says of the call, which the same call would read again?
    pub fn is_verdict(&self) -> bool {
        let facts = self.facts();
        facts.is_of_policy && matches!(facts.retry, Retry::Never | Retry::NewKey)
    }

    /// Whether and how to try again.
    pub fn retry(&self) -> Retry {
        self.facts().retry
    }

    /// Whether the tool may have run.
    pub fn may_have_run(&self) -> bool {
        matches!(self.facts().ran, Ran::Maybe | Ran::Yes)
    }

    /// One sentence for the model: the code, where, what was expected, what to do, and whether the
    /// tool ran.
    pub fn words(&self) -> String {
        let (code, facts) = (self.code(), self.facts());
        // The words of others may end with a stop already.
        let what = facts.what.trim_end_matches('.');
        let (ran, next) = (facts.ran.words(), &facts.next);
        match self.pointer().filter(|pointer| !pointer.is_empty()) {
            Some(pointer) => format!("{code} at {pointer}: {what}. {ran} {next}"),
            None => format!("{code}: {what}. {ran} {next}"),
        }
    }
}
