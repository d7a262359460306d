//! Who is asked about what, and what a decision is about.

use super::*;
use crate::model::approvers::{Approver, ApproverName};
use crate::model::diagnostic::Severity;
use crate::model::ids::TenantId;
use serde_json::json;

fn compiled(
    written: Option<&str>,
    actions: &[&str],
    irreversible: bool,
) -> (Option<Rule>, Vec<String>) {
    let written = written.map(|yaml| serde_json::from_str::<Settings>(yaml).unwrap());
    let actions: Vec<String> = actions.iter().map(|action| (*action).to_owned()).collect();
    let mut problems = Problems::default();
    let rule = compile(written, &actions, irreversible, &mut problems);
    let errors = problems
        .into_found()
        .into_iter()
        .filter(|problem| problem.severity == Severity::Error);
    (rule, errors.map(|problem| problem.path.join(".")).collect())
}

/// A section as written, actions, whether the contract says irreversible, whether a person is
/// asked, and the keys of errors.
type AskCase = (
    Option<&'static str>,
    &'static [&'static str],
    bool,
    bool,
    &'static [&'static str],
);

const NEVER: Option<&str> = Some(r#"{ "ask": "never" }"#);
const ON_MISS: Option<&str> = Some(r#"{ "ask": "on-miss" }"#);
const REQUIRES_NONE: Option<&str> = Some(r#"{ "required": 0 }"#);
const REQUIRES_SIX: Option<&str> = Some(r#"{ "required": 6 }"#);
const NO_ROLES: Option<&str> = Some(r#"{ "approvers": [] }"#);
const BLANK_ROLE: Option<&str> = Some(r#"{ "approvers": [" "] }"#);
const WRONG_TIMES: Option<&str> =
    Some(r#"{ "approve_by": "0s", "execute_by": "2h", "hold": "5m" }"#);

const ASK_CASES: &[AskCase] = &[
    (None, &["read"], false, false, &[]),
    (None, &["write"], false, false, &[]),
    (None, &["notify"], false, false, &[]),
    (None, &["delete"], false, true, &[]),
    (None, &["pay"], false, true, &[]),
    (None, &["write", "grant"], false, true, &[]),
    (None, &["write"], true, true, &[]),
    (NEVER, &["delete"], false, false, &[]),
    (NEVER, &["write"], true, true, &["ask"]),
    (ON_MISS, &["write"], true, true, &["ask"]),
    (ON_MISS, &["delete"], false, true, &[]),
    (Some("{}"), &["write"], false, true, &[]),
    (REQUIRES_NONE, &["write"], true, true, &["required"]),
    (REQUIRES_SIX, &["write"], true, true, &["required"]),
    (NO_ROLES, &["write"], true, true, &["approvers"]),
    (BLANK_ROLE, &["write"], true, true, &["approvers"]),
    (
        WRONG_TIMES,
        &["pay"],
        false,
        true,
        &["approve_by", "execute_by", "hold"],
    ),
];

/// 001-37, 001-39, 003-47, 003-97: what deletes, pays or grants is asked for unless its contract
/// says otherwise; 003-98: what is irreversible is asked for each time, and no contract can say
/// otherwise. At least one person decides.
#[test]
fn what_is_dear_is_asked_for() {
    for &(written, actions, irreversible, asks, errors) in ASK_CASES {
        let (rule, found) = compiled(written, actions, irreversible);
        assert_eq!(
            (rule.is_some(), &found[..]),
            (
                asks,
                &errors
                    .iter()
                    .map(|one| (*one).to_owned())
                    .collect::<Vec<_>>()[..]
            ),
            "{written:?} {actions:?}"
        );
        assert!(rule.is_none_or(|rule| rule.needed >= 1 || !found.is_empty()));
    }
    let (rule, _) = compiled(None, &["pay"], false);
    let rule = rule.unwrap();
    assert_eq!(
        (&rule.roles[..], rule.needed, rule.self_approval),
        (&["approver".to_owned()][..], 1, false)
    );
    assert_eq!(
        (rule.approve_for, rule.execute_for, rule.hold),
        (
            DEFAULT_APPROVE_TIMEOUT,
            DEFAULT_EXECUTE_TIMEOUT,
            DEFAULT_HOLD_TIMEOUT
        )
    );
}

/// A call that a person decides about.
struct Payment {
    caller: Caller,
    tool: ToolName,
    arguments: Value,
}

impl Payment {
    fn new() -> Self {
        Self {
            caller: Caller {
                tenant: Some(TenantId::new("t_1")),
                ..Caller::named("bot")
            },
            tool: ToolName::new("billing__pay"),
            arguments: json!({ "amount": 9_007_199_254_740_993_u64, "to": { "iban": "x", "name": "y" } }),
        }
    }

    fn subject(&self) -> ApprovalSubject<'_> {
        ApprovalSubject {
            caller: &self.caller,
            tool: &self.tool,
            definition: "d1",
            arguments: &self.arguments,
            round: None,
            beside: None,
            policy: Digest::of(b"p1"),
            over: None,
        }
    }

    fn assert_another(&self, another: &ApprovalSubject<'_>) {
        assert_ne!(
            Rule::key(another),
            Rule::key(&self.subject()),
            "{another:?}"
        );
    }
}

/// guarantees §7, threat-model §3E E1, E3: a decision is about one call and no other.
#[test]
fn a_decision_is_about_one_call() {
    let payment = Payment::new();
    let bound = payment.subject();
    let other = ToolName::new("billing__refund");
    for another in [
        ApprovalSubject {
            tool: &other,
            ..bound
        },
        ApprovalSubject {
            definition: "d2",
            ..bound
        },
        ApprovalSubject {
            round: Some(Digest::of(b"answer")),
            ..bound
        },
        ApprovalSubject {
            policy: Digest::of(b"p2"),
            ..bound
        },
    ] {
        payment.assert_another(&another);
    }
}

/// The same of the arguments; how their JSON is written says nothing.
#[test]
fn a_decision_is_about_these_arguments() {
    let payment = Payment::new();
    let bound = payment.subject();
    let same: Value =
        serde_json::from_str(r#"{"to":{"name":"y","iban":"x"},"amount":9007199254740993}"#)
            .unwrap();
    assert_eq!(
        Rule::key(&ApprovalSubject {
            arguments: &same,
            ..bound
        }),
        Rule::key(&bound)
    );
    let near = json!({ "amount": 9_007_199_254_740_992_u64, "to": { "iban": "x", "name": "y" } });
    let more = json!({ "amount": 9_007_199_254_740_993_u64, "to": { "iban": "x", "name": "y" }, "note": "" });
    for another in [
        ApprovalSubject {
            arguments: &near,
            ..bound
        },
        ApprovalSubject {
            arguments: &more,
            ..bound
        },
        ApprovalSubject {
            beside: Some(&payment.arguments),
            ..bound
        },
        ApprovalSubject {
            beside: Some(&more),
            ..bound
        },
    ] {
        payment.assert_another(&another);
    }
}

/// The same of the caller.
#[test]
fn a_decision_is_about_this_caller() {
    let payment = Payment::new();
    for caller in [
        Caller {
            tenant: Some(TenantId::new("t_2")),
            ..payment.caller.clone()
        },
        Caller {
            tenant: None,
            ..payment.caller.clone()
        },
        Caller {
            tenant: payment.caller.tenant.clone(),
            ..Caller::named("bot2")
        },
    ] {
        payment.assert_another(&ApprovalSubject {
            caller: &caller,
            ..payment.subject()
        });
    }
}

/// guarantees §7: who cannot be asked refuses at once, and what cannot be shown whole is not asked.
#[test]
fn nobody_to_ask_means_no() {
    let rule = compiled(
        Some(r#"{ "approvers": ["finance"], "required": 2 }"#),
        &["pay"],
        false,
    )
    .0
    .unwrap();
    let one = |name: &str| Approver {
        name: ApproverName::One(name.to_owned()),
        stands_in: Vec::new(),
        roles: vec!["finance".to_owned()],
    };
    let caller = Caller::named("bot");
    let small = json!({ "note": "x" });
    for (names, reached) in [
        (&[][..], false),
        (&["ann"], false),
        (&["ann", "bot"], false),
        (&["ann", "bob"], true),
    ] {
        let approvers = Approvers(names.iter().map(|name| one(name)).collect());
        let answer = rule.reach(&approvers, &caller, &small, &[]);
        assert_eq!(answer.is_ok(), reached, "{names:?}");
        assert!(
            answer.is_ok() || answer.is_err_and(|refusal| refusal.code() == "approver_unreachable")
        );
    }
    let both = Approvers(vec![one("ann"), one("bob")]);
    let fits = json!({ "note": "x".repeat(MAX_HELD_ARGUMENTS_BYTES - 11) });
    assert_eq!(rule.reach(&both, &caller, &fits, &[None]), Ok(()));
    let long = json!({ "note": "x".repeat(MAX_HELD_ARGUMENTS_BYTES - 10) });
    for too_long in [
        (&long, vec![]),
        (&fits, vec![Some(small.clone())]),
        (&fits, vec![None, Some(small.clone())]),
    ] {
        assert_eq!(
            rule.reach(&both, &caller, too_long.0, &too_long.1)
                .unwrap_err()
                .code(),
            "approver_unreachable"
        );
    }
}

/// guarantees §7: only what has been allowed passes.
#[test]
fn only_what_is_allowed_passes() {
    let rule = compiled(None, &["pay"], false).0.unwrap();
    let (key, id) = (Digest::of(b"hold"), ActionId::generate());
    let judge = |stand: &HoldStatus| rule.judge(key, stand, id, "soon");
    assert!(judge(&HoldStatus::Absent).is_ok_and(|approved| approved.is_none()));
    assert!(
        judge(&HoldStatus::Allowed).is_ok_and(|approved| approved.unwrap().hold() == Some(key))
    );
    let denied = HoldStatus::Denied {
        who: "ann".to_owned(),
        why: "too much".to_owned(),
    };
    for (stand, code) in [
        (HoldStatus::Pending, "approval_pending"),
        (denied, "approval_denied"),
        (HoldStatus::TimedOut, "approval_timeout"),
    ] {
        let refusal = judge(&stand).unwrap_err();
        assert_eq!((refusal.code(), refusal.hold()), (code, Some(id)));
        assert!(
            !refusal.words().contains("ann"),
            "who decided is no agent's business"
        );
    }
    let lapsed = HoldStatus::Lapsed {
        by: vec!["ann".to_owned()],
        until: 0,
    };
    let refusal = judge(&lapsed).unwrap_err();
    assert_eq!(
        (refusal.code(), refusal.hold()),
        ("approval_lapsed", Some(id))
    );
    let words = refusal.words();
    assert!(
        words.contains("ann had allowed") && words.contains("until soon"),
        "{words}"
    );
    assert!(Rule::unneeded(Some(&rule)).is_none());
    assert!(Rule::unneeded(None).is_some_and(|approved| approved.hold().is_none()));
}
