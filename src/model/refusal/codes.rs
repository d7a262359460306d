//! The codes of refusals, as `docs/refusals.md` lists them.

/// The codes that are not a contract's own, with what each means and what an agent can do.
pub const REFUSAL_CODES: &[(&str, &str, &str)] = &[
    (
        "tool_not_allowlisted",
        "the tool is unknown, hidden from this caller, or has no contract",
        "list the tools and use one of those",
    ),
    (
        "schema_invalid",
        "an argument breaks the tool's schema or its contract, or judging by them takes more computing than a call may",
        "correct the argument that the pointer names; send fewer or smaller values",
    ),
    (
        "rbac_denied",
        "the caller has none of the roles that the contract asks for",
        "ask an operator for one of the roles, or use another tool",
    ),
    (
        "tenant_mismatch",
        "the call names another tenant than the caller's",
        "use the caller's own tenant",
    ),
    (
        "resource_denied",
        "the call names a resource outside the caller's reach",
        "use a resource of the caller's own",
    ),
    (
        "hook_blocked",
        "a hook of the operator's does not let the call pass, or did not do its part",
        "do what the reason says; if the answer is not final, send the same call again later",
    ),
    (
        "state_out_of_order",
        "the task cannot come to the state that its agent reports from where it is",
        "plan the call before it is executed, execute before summarizing; or report no state",
    ),
    (
        "loop_detected",
        "the task's calls repeat themselves without getting anywhere",
        "do something else: other arguments, another tool, or report what is missing",
    ),
    (
        "idempotency_key_required",
        "the call has no idempotency key that can be used",
        "call again with one key, the same whenever this very call is sent again",
    ),
    (
        "idempotency_conflict",
        "the idempotency key was used for a call with other arguments",
        "send the first arguments again, or give a new key for a second call",
    ),
    (
        "duplicate_in_flight",
        "the same call is still running; its result is not known yet",
        "send the same call with the same key again after the given time",
    ),
    (
        "idempotency_key_expired",
        "the idempotency key was used long ago; what came of it is no longer kept",
        "find out what it has done; give a new key only for a second call",
    ),
    (
        "draft_required",
        "the call confirms a draft that its task has not made",
        "make the draft with the tool that the answer names, then confirm that one",
    ),
    (
        "budget_calls_exceeded",
        "the tool was called as often in this task as its contract allows",
        "go on without it, or report what is missing",
    ),
    (
        "budget_exceeded",
        "the task has used up its steps, tool_calls, cost, duration or failures, or the tool its rate",
        "stop, and report what was done and what is missing; after a rate, send the same call later",
    ),
    (
        "rate_exceeded",
        "the caller, an agent that started it, or its group, makes more calls than it may in a span of time",
        "send the same call again after the given time",
    ),
    (
        "approval_pending",
        "a person has to allow the call, and has not decided yet",
        "send the same call with the same arguments again: it waits for the decision",
    ),
    (
        "approval_denied",
        "a person has said no to the call",
        "do what the reason says, or report what was refused; don't send the call again",
    ),
    (
        "approval_timeout",
        "nobody has decided in time whether the call may run",
        "report it; to ask once more, send the same call again later",
    ),
    (
        "approver_unreachable",
        "a person has to allow the call, and none can be asked",
        "report it to an operator, naming the action id",
    ),
    (
        "planned",
        "the call was only planned: it would be sent now, and was not",
        "to run it, send the same call with the state `execute`",
    ),
    (
        "fenced",
        "another holder of the session has gone on since",
        "stop: another one works on this session",
    ),
    (
        "session_busy",
        "other calls of the session have to end first",
        "send the same call again after the given time",
    ),
    (
        "secret_denied",
        "a secret reference stands where none may, is not well-formed, or its secret cannot be had",
        "put the whole reference where the tool takes it, or ask an operator, naming the action id",
    ),
    (
        "executed_but_not_recorded",
        "the tool has run, and its answer could not be recorded",
        "don't repeat it; use the result that is attached, and tell an operator, naming the action id",
    ),
    (
        "upstream_unavailable",
        "the tool server could not be reached, or refused the call before it did anything",
        "send the same call again later",
    ),
    (
        "outcome_unknown",
        "the call was sent and no answer to it came: it may have run",
        "don't repeat it, with a new key least of all; ask an operator, naming the action id",
    ),
    (
        "upstream_failed",
        "the tool server broke off a call that changes nothing",
        "send the same call again",
    ),
    (
        "cancelled",
        "the agent cancelled the call or went away",
        "nothing; call again if the answer is still wanted",
    ),
    (
        "overloaded",
        "too many calls are in flight",
        "send the same call again after the given time",
    ),
    (
        "internal_error",
        "toolgate itself broke before anything was sent",
        "don't repeat it; tell an operator, naming the action id",
    ),
    (
        "store_unavailable",
        "the ledger cannot be written, so no side effect may run",
        "send the same call again later; tell an operator",
    ),
];
