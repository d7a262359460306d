//! Who is asked about what, and what a decision is about.

use super::*;
use crate::model::approvers::Approver;
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

/// 001-37, 001-39, 003-47, 003-97: what deletes, pays or grants is asked for unless its contract
/// says otherwise; 003-98: what is irreversible is asked for each time, and no contract can say
/// otherwise. At least one person decides.
#[test]
fn what_is_dear_is_asked_for() {
    let never = Some(r#"{ "ask": "never" }"#);
    for (written, actions, irreversible, asks, errors) in [
        (None, &["read"][..], false, false, &[][..]),
        (None, &["write"], false, false, &[]),
        (None, &["notify"], false, false, &[]),
        (None, &["delete"], false, true, &[]),
        (None, &["pay"], false, true, &[]),
        (None, &["write", "grant"], false, true, &[]),
        (None, &["write"], true, true, &[]),
        (never, &["delete"], false, false, &[]),
        (never, &["write"], true, true, &["ask"]),
        (
            Some(r#"{ "ask": "on-miss" }"#),
            &["write"],
            true,
            true,
            &["ask"],
        ),
        (
            Some(r#"{ "ask": "on-miss" }"#),
            &["delete"],
            false,
            true,
            &[],
        ),
        (Some("{}"), &["write"], false, true, &[]),
        (
            Some(r#"{ "required": 0 }"#),
            &["write"],
            true,
            true,
            &["required"],
        ),
        (
            Some(r#"{ "required": 6 }"#),
            &["write"],
            true,
            true,
            &["required"],
        ),
        (
            Some(r#"{ "approvers": [] }"#),
            &["write"],
            true,
            true,
            &["approvers"],
        ),
        (
            Some(r#"{ "approvers": [" "] }"#),
            &["write"],
            true,
            true,
            &["approvers"],
        ),
        (
            Some(r#"{ "approve_by": "0s", "execute_by": "2h", "hold": "5m" }"#),
            &["pay"],
            false,
            true,
            &["approve_by", "execute_by", "hold"],
        ),
    ] {
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

/// guarantees §7, threat-model §3E E1, E3: a decision is about one call and no other; how its JSON
/// is written says nothing.
#[test]
fn a_decision_is_about_one_call() {
    let caller = Caller {
        tenant: Some(TenantId::new("t_1")),
        ..Caller::named("bot")
    };
    let (tool, other) = (
        ToolName::new("billing__pay"),
        ToolName::new("billing__refund"),
    );
    let arguments =
        json!({ "amount": 9_007_199_254_740_993_u64, "to": { "iban": "x", "name": "y" } });
    let bound = ApprovalSubject {
        caller: &caller,
        session: None,
        tool: &tool,
        definition: "d1",
        arguments: &arguments,
        round: None,
        beside: None,
        policy: "p1",
    };
    let key = Rule::key(&bound);
    let same: Value =
        serde_json::from_str(r#"{"to":{"name":"y","iban":"x"},"amount":9007199254740993}"#)
            .unwrap();
    assert_eq!(
        Rule::key(&ApprovalSubject {
            arguments: &same,
            ..bound
        }),
        key
    );
    let tenant = Caller {
        tenant: Some(TenantId::new("t_2")),
        ..caller.clone()
    };
    let no_tenant = Caller {
        tenant: None,
        ..caller.clone()
    };
    let agent = Caller {
        tenant: caller.tenant.clone(),
        ..Caller::named("bot2")
    };
    let near = json!({ "amount": 9_007_199_254_740_992_u64, "to": { "iban": "x", "name": "y" } });
    let more = json!({ "amount": 9_007_199_254_740_993_u64, "to": { "iban": "x", "name": "y" }, "note": "" });
    for another in [
        ApprovalSubject {
            caller: &tenant,
            ..bound
        },
        ApprovalSubject {
            caller: &no_tenant,
            ..bound
        },
        ApprovalSubject {
            caller: &agent,
            ..bound
        },
        ApprovalSubject {
            session: Some(""),
            ..bound
        },
        ApprovalSubject {
            session: Some("s"),
            ..bound
        },
        ApprovalSubject {
            tool: &other,
            ..bound
        },
        ApprovalSubject {
            definition: "d2",
            ..bound
        },
        ApprovalSubject {
            arguments: &near,
            ..bound
        },
        ApprovalSubject {
            arguments: &more,
            ..bound
        },
        ApprovalSubject {
            round: Some(Digest::of(b"answer")),
            ..bound
        },
        ApprovalSubject {
            beside: Some(&arguments),
            ..bound
        },
        ApprovalSubject {
            beside: Some(&more),
            ..bound
        },
        ApprovalSubject {
            policy: "p2",
            ..bound
        },
    ] {
        assert_ne!(Rule::key(&another), key, "{another:?}");
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
        name: name.to_owned(),
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
        let answer = rule.reach(&approvers, &caller, (&small, &[]));
        assert_eq!(answer.is_ok(), reached, "{names:?}");
        assert!(
            answer.is_ok() || answer.is_err_and(|refusal| refusal.code() == "approver_unreachable")
        );
    }
    let both = Approvers(vec![one("ann"), one("bob")]);
    let fits = json!({ "note": "x".repeat(MAX_HELD_ARGUMENTS_BYTES - 11) });
    assert_eq!(rule.reach(&both, &caller, (&fits, &[None])), Ok(()));
    let long = json!({ "note": "x".repeat(MAX_HELD_ARGUMENTS_BYTES - 10) });
    for too_long in [
        (&long, vec![]),
        (&fits, vec![Some(small.clone())]),
        (&fits, vec![None, Some(small.clone())]),
    ] {
        assert_eq!(
            rule.reach(&both, &caller, (too_long.0, &too_long.1))
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
    let judge = |stand: &HoldStatus| rule.judge(key, stand, (id, "soon"));
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
    assert!(Rule::unneeded(Some(&rule)).is_none());
    assert!(Rule::unneeded(None).is_some_and(|approved| approved.hold().is_none()));
}
