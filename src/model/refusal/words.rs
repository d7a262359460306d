//! What a refusal says to the model: one sentence each for what is wrong, whether the tool ran, and
//! what to do.

use super::Refusal;
use crate::model::counted::counted;
use crate::model::task::TaskState;

const SECRET_TEXT: &str = "a secret reference stands where none may, or its secret cannot be had";
const SECRET_HINT: &str = "Write the reference as the whole value of an argument that takes one, or ask an operator, naming the action id.";

impl Refusal {
    /// Whether the tool may have run.
    pub fn may_have_run(&self) -> bool {
        matches!(
            self,
            Self::OutcomeUnknown
                | Self::UpstreamFailed
                | Self::Cancelled
                | Self::ExecutedButNotRecorded
        )
    }

    /// One sentence for the model: the code, where, what was expected, what to do, and whether the
    /// tool ran.
    pub fn words(&self) -> String {
        let code = self.code();
        let (what, next) = self.explanation();
        // The words of others may end with a stop already.
        let what = what.trim_end_matches('.');
        match self.pointer().filter(|pointer| !pointer.is_empty()) {
            Some(pointer) => format!("{code} at {pointer}: {what}. {} {next}", self.ran()),
            None => format!("{code}: {what}. {} {next}", self.ran()),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all others have run or not")]
    fn ran(&self) -> &'static str {
        match self {
            Self::ExecutedButNotRecorded => "The tool has run.",
            Self::IdempotencyConflict | Self::IdempotencyKeyExpired => {
                "The tool did not run again."
            }
            Self::DuplicateInFlight { .. } => "The tool runs once.",
            _ if self.may_have_run() => "The tool may have run.",
            _ => "The tool did not run.",
        }
    }

    fn explanation(&self) -> (String, String) {
        let (what, next): (String, &str) = match self {
            Self::LoopDetected { .. }
            | Self::StateOutOfOrder { .. }
            | Self::Planned
            | Self::IdempotencyKeyRequired { .. }
            | Self::IdempotencyConflict
            | Self::DuplicateInFlight { .. }
            | Self::IdempotencyKeyExpired
            | Self::DraftRequired { .. }
            | Self::BudgetCallsExceeded { .. }
            | Self::BudgetExceeded { .. }
            | Self::Fenced
            | Self::SessionBusy
            | Self::ExecutedButNotRecorded => return self.of_the_task(),
            Self::RateExceeded { after_ms } => (
                again_in("the tool", *after_ms),
                "Send the same call again then.",
            ),
            Self::CallerRateExceeded { after_ms } => (
                again_in("tools", *after_ms),
                "Send the same call again then, and fewer calls from now on.",
            ),
            Self::ApprovalPending { .. }
            | Self::ApprovalDenied { .. }
            | Self::ApprovalTimeout { .. }
            | Self::ApproverUnreachable { .. } => return self.of_a_person(),
            Self::SecretDenied => (SECRET_TEXT.into(), SECRET_HINT),
            Self::ToolNotAllowlisted
            | Self::SchemaInvalid { .. }
            | Self::RbacDenied { .. }
            | Self::TenantMismatch { .. }
            | Self::ResourceDenied { .. }
            | Self::Rule { .. } => return self.of_the_contract(),
            Self::HookBlocked { reason, .. } => return blocked(reason),
            Self::HookBroken { why, .. } => (
                format!("it could not be prepared: {why}"),
                "Send the same call again later, or ask an operator.",
            ),
            Self::UpstreamUnavailable
            | Self::UpstreamRefused
            | Self::OutcomeUnknown
            | Self::UpstreamFailed => return self.of_the_server(),
            Self::Cancelled => (
                "the call was cancelled".into(),
                "Call again if the answer is still wanted.",
            ),
            Self::Overloaded => (
                "too many calls are in flight".into(),
                "Send the same call again in a second.",
            ),
            Self::InternalError => (
                "toolgate itself broke; nothing was sent".into(),
                "Don't send it again; report the action id to an operator.",
            ),
            Self::StoreUnavailable => (
                "the ledger cannot be written".into(),
                "Send the same call again later and tell an operator.",
            ),
        };
        (what, next.to_owned())
    }

    /// The refusals of steps 2 to 5: what the policy says of the tool, its arguments and its caller.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "explanation names them all, and is exhaustive"
    )]
    fn of_the_contract(&self) -> (String, String) {
        let (what, next): (String, &str) = match self {
            Self::SchemaInvalid { expected, .. } => (
                format!("expected {expected}"),
                "Correct the argument and call again.",
            ),
            Self::RbacDenied { needed } => (
                format!("the caller needs one of the roles: {}", needed.join(", ")),
                "Ask an operator for the role, or use another tool.",
            ),
            Self::TenantMismatch { .. } => (
                "expected the caller's own tenant".into(),
                "Call again with the caller's own tenant.",
            ),
            Self::ResourceDenied { .. } => (
                "expected a resource of the caller's own".into(),
                "Call again with a resource of the caller's own.",
            ),
            Self::Rule { expected, .. } => (
                expected.clone(),
                "Change the arguments so that the rule holds, or ask an operator.",
            ),
            _ => (
                "this tool is not available to this caller".into(),
                "List the tools and use one of those.",
            ),
        };
        (what, next.to_owned())
    }

    /// The refusals of step 14: what came of sending.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "explanation names them all, and is exhaustive"
    )]
    fn of_the_server(&self) -> (String, String) {
        let (what, next) = match self {
            Self::UpstreamUnavailable => (
                "the tool server cannot be reached; nothing was sent",
                "Send the same call again later.",
            ),
            Self::UpstreamRefused => (
                "the tool server refused the call before it did anything",
                "Send the same call again later.",
            ),
            Self::UpstreamFailed => (
                "the tool server broke off; the tool changes nothing",
                "Send the same call again.",
            ),
            _ => (
                "the call was sent and no answer to it came",
                "Don't send it again, with a new key least of all; ask an operator, naming the action id.",
            ),
        };
        (what.to_owned(), next.to_owned())
    }

    /// The refusals of step 10: what a person has said, or has not.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "explanation names them all, and is exhaustive"
    )]
    fn of_a_person(&self) -> (String, String) {
        match self {
            Self::ApprovalPending { roles, hold } => {
                let until = hold
                    .as_ref()
                    .map(|(_, until)| format!(", and can until {until}"))
                    .unwrap_or_default();
                (
                    format!(
                        "a person with the role {} has to allow this call{until}",
                        roles.join(" or ")
                    ),
                    "Send the same call with the same arguments again: it waits for the decision."
                        .to_owned(),
                )
            }
            Self::ApprovalDenied { why, .. } => (
                format!("a person has denied this call: {why}"),
                "Don't send it again: do what the reason says, or report that it was denied."
                    .to_owned(),
            ),
            Self::ApprovalTimeout { why, .. } => (
                (*why).to_owned(),
                "Report it; to ask once more, send the same call again later.".to_owned(),
            ),
            _ => {
                let why = if let Self::ApproverUnreachable { why } = self {
                    *why
                } else {
                    "none can be asked"
                };
                (
                    format!("a person has to allow this call, and {why}"),
                    "Don't send it again; report the action id to an operator.".to_owned(),
                )
            }
        }
    }

    /// The refusals of steps 7 to 12: those that look beyond one call.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "explanation names them all, and is exhaustive"
    )]
    fn of_the_task(&self) -> (String, String) {
        let (what, next): (String, &str) = match self {
            Self::StateOutOfOrder { before, state } => (
                format!("a task that is {} cannot come to `{}`", is(*before), state.word()),
                "Plan the call before it is executed, and execute before summarizing.",
            ),
            Self::Planned => (
                "the call would pass, and was only planned".into(),
                "To run it, send the same call with the state `execute`.",
            ),
            Self::LoopDetected { pattern } => (
                format!("the task goes in circles: {pattern}"),
                "Don't send it again: do something else, or report what is missing.",
            ),
            Self::IdempotencyKeyRequired { expected } => {
                (format!("expected {expected}"), "Call again with such a key.")
            }
            Self::IdempotencyConflict => (
                "this idempotency key was used for a call with other arguments".into(),
                "Send the first arguments again to get that result; for a second, different call give a new key.",
            ),
            Self::DuplicateInFlight { .. } => (
                "duplicate suppressed: the same call is still running, and its result is not known yet".into(),
                "Send the same call with the same key again a little later to get its result.",
            ),
            Self::IdempotencyKeyExpired => (
                "this idempotency key was used long ago, and its result is no longer kept".into(),
                "Find out what that call has done; only for a second execution give a new key.",
            ),
            Self::DraftRequired { tool, .. } => (
                format!("expected a draft that `{tool}` has made in this task"),
                "Make the draft first, then call again and name it.",
            ),
            Self::BudgetCallsExceeded { most } => (
                format!("this task may call the tool {}, and has", counted(*most, "time")),
                "Go on without it, or stop and report what was done and what is missing.",
            ),
            Self::BudgetExceeded { dimension, left, reads_remain } => (
                format!("the task has reached its limit of {dimension}; left: {left}"),
                if *reads_remain {
                    "Only tools that change nothing may still be called; report what was done and what is missing."
                } else {
                    "Stop, and report what was done and what is missing."
                },
            ),
            Self::Fenced => {
                ("another holder of this session has gone on since".into(), "Stop: another one works on this session.")
            }
            Self::SessionBusy => {
                ("other calls of this session have to end first".into(), "Send the same call again in a second.")
            }
            _ => (
                "its answer could not be recorded".into(),
                "Don't send it again: use the attached result, and report the action id to an operator.",
            ),
        };
        (what, next.to_owned())
    }
}

fn again_in(what: &str, after_ms: u64) -> String {
    format!(
        "{what} may be called again in {} seconds",
        after_ms.div_ceil(1000)
    )
}

/// A hook's reason is for the model to read, and nothing it has to obey.
fn blocked(reason: &str) -> (String, String) {
    if reason.is_empty() {
        return (
            "a hook does not let the call pass".to_owned(),
            "Do something else, or ask an operator.".to_owned(),
        );
    }
    (
        reason.to_owned(),
        "Do what the reason says, or ask an operator.".to_owned(),
    )
}

/// Where a task is, in words.
fn is(state: Option<TaskState>) -> String {
    state.map_or_else(
        || "in no state yet".to_owned(),
        |state| format!("in `{}`", state.word()),
    )
}
