//! Every refusal as agents read it.

use crate::guards::budget::shortage;
use crate::guards::idempotency::given::key_required;
use crate::guards::{REFUSAL_CODES, confirms, kind_of, permission, rate, task};
use crate::model::ids::{ActionId, TenantId, ToolName};
use crate::model::refusal::{PendingHold, Refusal, RefusalKind};
use crate::model::reply::CredentialLack;
use crate::model::task::{TaskState, TaskStopped};
use std::fmt::Write as _;

fn pointer() -> String {
    "/customer/id".to_owned()
}

/// Of the caller and its arguments.
fn of_the_contract() -> Vec<Refusal> {
    vec![
        Refusal::ToolNotAllowlisted,
        Refusal::SchemaInvalid {
            pointer: pointer(),
            expected: "a text of at most 8 characters".to_owned(),
        },
        Refusal::SchemaInvalid {
            pointer: String::new(),
            expected: "`amount` to be there".to_owned(),
        },
        permission::rbac_denied(&["teller".to_owned(), "chief".to_owned()]),
        permission::tenant_mismatch(&pointer(), Some(&TenantId::new("t_001"))),
        permission::resource_denied(&pointer(), &["/data/t_001/*".to_owned()]),
        Refusal::Rule {
            code: "amount_out_of_range".into(),
            expected: "an amount of at most 100".to_owned(),
        },
        Refusal::RuleFailed {
            code: "amount_out_of_range".into(),
            why: "it divides by zero",
        },
    ]
}

fn of_hooks() -> Vec<Refusal> {
    let by = || "screening".to_owned();
    vec![
        Refusal::HookBlocked {
            by: by(),
            reason: "Not on Sundays.".to_owned(),
        },
        Refusal::HookBlocked {
            by: by(),
            reason: String::new(),
        },
        Refusal::HookBroken {
            by: by(),
            why: "it did not answer within 2s".to_owned(),
        },
    ]
}

/// Of what was called before.
fn of_the_order() -> Vec<Refusal> {
    let plan = TaskState::read("plan").unwrap();
    vec![
        Refusal::StateOutOfOrder {
            before: None,
            state: plan,
        },
        Refusal::StateOutOfOrder {
            before: Some(plan),
            state: TaskState::read("summarize").unwrap(),
        },
        Refusal::Planned,
        task::not_planned(),
        task::stopped_by(&TaskStopped {
            who: "eve".to_owned(),
            why: "it writes to the wrong account".to_owned(),
            at: 0,
        }),
        Refusal::LoopDetected {
            has_run: true,
            pattern: "the same call again and again",
        },
        Refusal::LoopDetected {
            has_run: false,
            pattern: "the same call again and again",
        },
        key_required("a text of 1 to 255 bytes"),
        Refusal::IdempotencyConflict,
        Refusal::DuplicateInFlight { after_ms: 1500 },
        Refusal::OutcomePending { after_ms: 1500 },
        Refusal::IdempotencyKeyExpired,
        confirms::draft_required(&pointer(), &ToolName::new("billing__draft")),
        shortage::calls_exceeded(3),
    ]
}

fn of_approvals() -> Vec<Refusal> {
    vec![
        Refusal::ApprovalPending {
            roles: vec!["finance".to_owned(), "chief".to_owned()],
            hold: None,
        },
        Refusal::ApprovalPending {
            roles: vec!["finance".to_owned()],
            hold: Some(PendingHold {
                id: ActionId::generate(),
                until: "2026-11-21T10:00:00Z".to_owned(),
                page: Some("https://gate.example/approvals/0198f1a2".to_owned()),
                after_ms: 10_000,
            }),
        },
        Refusal::ApprovalDenied {
            id: ActionId::generate(),
            why: "not before Monday".to_owned(),
        },
        Refusal::ApprovalTimeout {
            id: ActionId::generate(),
            why: "nobody has decided in time",
        },
        Refusal::ApproverUnreachable {
            why: "not enough operators are configured who may",
        },
        Refusal::ApprovalLapsed {
            id: ActionId::generate(),
            by: vec!["ann".to_owned(), "bob".to_owned()],
            until: "2026-07-28T09:01:00Z".to_owned(),
        },
        Refusal::ApprovalQueueFull {
            waiting: "20 calls of this user".to_owned(),
        },
    ]
}

fn of_limits() -> Vec<Refusal> {
    let left = "cost: 3, tool_calls: 7";
    let used = |dimension, reads_remain| shortage::exceeded_of(&[dimension], left, reads_remain);
    vec![
        used("steps", true),
        used("tool_calls", false),
        used("cost", true),
        used("duration", true),
        used("failures", true),
        used("failures_in_a_row", true),
        shortage::exceeded_of(&["cost", "steps"], left, false),
        shortage::user_exceeded_of(&["cost"], left, false, 3_600_000),
        shortage::tool_failed(3, false),
        shortage::tool_failed(1, true),
        shortage::rate_exceeded(60_000),
        rate::rate_exceeded(1_500),
    ]
}

/// Of what became of the call, or kept it from being sent.
fn of_sending() -> Vec<Refusal> {
    vec![
        Refusal::Fenced,
        Refusal::SessionBusy,
        Refusal::SecretDenied,
        Refusal::ExecutedButNotRecorded,
        Refusal::UpstreamUnavailable,
        Refusal::NoCredential(CredentialLack::Token),
        Refusal::NoCredential(CredentialLack::Proof),
        Refusal::NoCredential(CredentialLack::Session),
        Refusal::UpstreamRefused,
        Refusal::OutcomeUnknown,
        Refusal::UpstreamFailed,
        Refusal::Cancelled,
        Refusal::CancelledUnsent { hold: None },
        Refusal::CancelledUnsent {
            hold: Some(ActionId::generate()),
        },
        Refusal::Overloaded,
        Refusal::StoreUnavailable,
        Refusal::StoreOpening { percent: 41 },
        Refusal::InternalError,
    ]
}

/// One of each, with what it can say.
fn all() -> Vec<Refusal> {
    [
        of_the_contract(),
        of_hooks(),
        of_the_order(),
        of_approvals(),
        of_limits(),
        of_sending(),
    ]
    .concat()
}

/// 004-32, issue 4 "snapshots of every refusal": code, place, dimension, retry and words of each;
/// no code is missing.
#[test]
fn every_refusal_says_what_is_wrong_whether_it_ran_and_what_to_do() {
    let mut text = String::new();
    for refusal in all() {
        let retry = refusal.retry().word();
        let dimension = refusal
            .dimension()
            .map(|dimension| format!(", {dimension}"))
            .unwrap_or_default();
        writeln!(text, "[{retry}{dimension}] {}", refusal.words()).unwrap();
    }
    insta::assert_snapshot!("every_refusal", text);
    let all = all();
    let missing: Vec<&str> = REFUSAL_CODES
        .iter()
        .map(|own| own.code)
        .filter(|code| all.iter().all(|one| one.own_code() != Some(code)))
        .collect();
    assert_eq!(missing, [""; 0]);
}

/// 003-117: each code is one kind.
#[test]
fn every_code_is_of_one_kind() {
    for (code, expected) in [
        ("rbac_denied", RefusalKind::Violation),
        ("amount_out_of_range", RefusalKind::Violation),
        ("budget_exceeded", RefusalKind::Overrun),
        ("budget_calls_exceeded", RefusalKind::Overrun),
        ("rule_failed", RefusalKind::Other),
        ("task_stopped", RefusalKind::Other),
        ("not_planned", RefusalKind::Other),
        ("loop_detected", RefusalKind::Other),
        ("outcome_unknown", RefusalKind::Other),
        ("idempotency_conflict", RefusalKind::Other),
    ] {
        assert_eq!(kind_of(code), expected, "{code}");
    }
}
