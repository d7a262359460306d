//! What a grant covers, and an oracle that says it in another way.

use super::*;
use crate::model::approvers::{Approver, ApproverName};
use crate::store::state::grant::{GrantScope, GrantTotal};
use oracle::{Dice, allows};
use serde_json::json;
use std::sync::Arc;

mod oracle;

/// Calls that are compared with the oracle where `TOOLGATE_GRANT_CALLS` says no other number; `tests/run` says a
/// million, which take half a minute.
const CALLS: u64 = 8_000;

fn constraint(pointer: &str, is: ArgumentRule) -> ArgumentConstraint {
    let pointer = pointer.to_owned();
    ArgumentConstraint {
        pointer,
        numbered_members: Vec::new(),
        is,
    }
}

fn policy() -> Digest {
    Digest::of(b"policy")
}

fn grant(constraints: Vec<ArgumentConstraint>) -> Grant {
    Grant {
        id: crate::model::ids::ActionId::generate(),
        minted: 0,
        until: 1000,
        max_uses: 10,
        scope: GrantScope {
            agent: "bot".to_owned(),
            tenant: Some("t_1".to_owned()),
            user: Some("ada".to_owned()),
            tool: ToolName::new("bank__pay"),
            schema_hash: "hash".to_owned(),
            bound_to: policy().to_string(),
            beside: None,
        },
        constraints: constraints.into(),
        total: None,
        who: "ann".to_owned(),
        why: "due".to_owned(),
        roles: vec!["finance".to_owned()],
        shown: None,
        uses: 0,
        moved: Amount::default(),
        last: None,
        revoked: None,
    }
}

fn call<'a>(tool: &'a ToolName, arguments: &'a Value) -> GrantSubject<'a> {
    GrantSubject {
        agent: "bot",
        tenant: Some("t_1"),
        user: Some("ada"),
        tool,
        definition: "hash",
        arguments,
        beside: None,
        policy: policy(),
    }
}

/// Whether constraints take arguments, by the guard.
fn takes(constraints: &[ArgumentConstraint], arguments: &Value) -> bool {
    fit(constraints, arguments).is_ok()
}

/// Calls that each differ from `same` in one part of a grant's scope, and how a miss is told.
fn others<'a>(
    same: GrantSubject<'a>,
    tool: &'a ToolName,
    beside: &'a Value,
) -> [(GrantSubject<'a>, &'static str); 8] {
    let (agent, tenant, user) = ("Bot", None, Some("eve"));
    let (definition, beside, policy) = ("new", Some(beside), Digest::of(b"new"));
    [
        (GrantSubject { agent, ..same }, "another agent"),
        (GrantSubject { tenant, ..same }, "another tenant"),
        (GrantSubject { user: None, ..same }, "another user"),
        (GrantSubject { user, ..same }, "another user"),
        (GrantSubject { tool, ..same }, "another tool"),
        (GrantSubject { definition, ..same }, "the tool has changed"),
        (GrantSubject { policy, ..same }, "the policy"),
        (GrantSubject { beside, ..same }, "beside its arguments"),
    ]
}

/// The names of a scope count byte for byte, what is missing in one of both, too.
#[test]
fn a_grant_is_for_one_agent_tenant_user_tool_definition_and_contract() {
    let (tool, other, arguments) = (
        ToolName::new("bank__pay"),
        ToolName::new("bank__wipe"),
        json!({}),
    );
    let (same, beside) = (call(&tool, &arguments), json!({ "task": {} }));
    let granted = grant(vec![]);
    assert!(covers(&granted, &same).is_ok());
    for (call, why) in others(same, &other, &beside) {
        let miss = covers(&granted, &call).unwrap_err().to_string();
        assert!(miss.contains(why), "{miss}");
    }
    let scope = GrantScope {
        beside: Some(digest_of_beside(&beside)),
        ..granted.scope.clone()
    };
    let shown = Grant { scope, ..granted };
    assert!(covers(&shown, &same).is_err());
    let with = GrantSubject {
        beside: Some(&beside),
        ..same
    };
    assert!(covers(&shown, &with).is_ok());
}

/// One constraint's pointer and rule, arguments, and whether they fit.
type ConstraintCase = (&'static str, ArgumentRule, Value, bool);

/// Whether each takes just the arguments that it has to.
fn judge_taken(cases: Vec<ConstraintCase>) {
    for (pointer, is, arguments, expected) in cases {
        let one = constraint(pointer, is);
        let found = takes(std::slice::from_ref(&one), &arguments);
        assert_eq!(found, expected, "{one:?} {arguments}");
    }
}

#[test]
fn each_argument_is_as_it_was_granted() {
    use ArgumentRule::{AtMost, Equals, OneOf};
    let at_most = |most: &str| AtMost(serde_json::from_str(most).unwrap());
    judge_taken(vec![
        ("/a", Equals(json!(1)), json!({ "a": 1 }), true),
        ("/a", Equals(json!(1)), json!({ "a": 1.0 }), false),
        ("/a", Equals(json!(0.0)), json!({ "a": -0.0 }), false),
        ("/a", Equals(json!(1)), json!({}), false),
        ("/a", Equals(json!(null)), json!({}), false),
        ("/a", Equals(json!(1)), json!({ "a": 1, "b": 1 }), false),
        (
            "",
            Equals(json!({ "a": 1, "b": 2 })),
            json!({ "b": 2, "a": 1 }),
            true,
        ),
        (
            "",
            Equals(json!({ "a": 1 })),
            json!({ "a": 1, "b": 2 }),
            false,
        ),
        (
            "/a",
            OneOf(vec![json!("x"), json!("y")]),
            json!({ "a": "y" }),
            true,
        ),
        ("/a", OneOf(vec![json!("x")]), json!({ "a": "X" }), false),
        ("/a", at_most("500"), json!({ "a": 500 }), true),
        ("/a", at_most("500"), json!({ "a": 500.000_000_1 }), false),
        (
            "/a",
            at_most("9007199254740992"),
            json!({ "a": 9_007_199_254_740_993_u64 }),
            false,
        ),
        ("/a", at_most("500"), json!({ "a": -1 }), false),
        ("/a", at_most("500"), json!({ "a": "5" }), false),
    ]);
    assert!(takes(&[], &json!({})), "no arguments at all");
    assert!(!takes(&[], &json!({ "a": null })) && !takes(&[], &json!([])));
}

#[test]
fn a_start_leads_nowhere_else_and_anything_opens_its_place_alone() {
    use ArgumentRule::{Any, StartsWith};
    let starts = |start: &str| StartsWith(start.to_owned());
    judge_taken(vec![
        ("/a", starts("/srv/"), json!({ "a": "/srv/x/y" }), true),
        ("/a", starts("/srv/"), json!({ "a": "/srv" }), false),
        ("/a", starts("/srv/"), json!({ "a": "/srv/../etc" }), false),
        (
            "/a",
            starts("/srv/"),
            json!({ "a": "/srv/%2e%2E%2fetc" }),
            false,
        ),
        ("/a", starts("/srv/"), json!({ "a": "/srv/..\\etc" }), false),
        ("/a", starts("/srv/."), json!({ "a": "/srv/../etc" }), false),
        ("/a", starts("/srv/"), json!({ "a": "/srv/a..b" }), true),
        ("/a", starts("x"), json!({ "a": ["x"] }), false),
        ("/a", Any, json!({}), true),
        ("/a", Any, json!({ "a": { "b": [1] } }), true),
        ("/a/b", Any, json!({ "a": { "b": 1, "c": 1 } }), false),
        ("/a/0", Any, json!({ "a": [1] }), true),
        ("/a/0", Any, json!({ "a": [1, 2] }), false),
        ("/a~1b", Any, json!({ "a/b": 1 }), true),
        ("/a", Any, json!([1]), false),
        ("/a", Any, json!({ "a~1": 1 }), false),
    ]);
}

/// What is added up has to be an amount, and what the call takes is that.
#[test]
fn a_total_counts_one_argument() {
    let tool = ToolName::new("bank__pay");
    let total = GrantTotal {
        pointer: "/a".to_owned(),
        at_most: Amount::of(&Number::from(10_u8)).unwrap(),
    };
    let granted = Grant {
        total: Some(total),
        ..grant(vec![constraint("/a", ArgumentRule::Any)])
    };
    let takes = |a: Value| {
        let used = covers(&granted, &call(&tool, &json!({ "a": a })));
        used.map(|used| used.amount.to_string())
    };
    assert_eq!(takes(json!(2.5)).as_deref(), Ok("2.5"));
    for wrong in [json!(-1), json!("2"), json!(null), json!(1e-10)] {
        assert_eq!(takes(wrong), Err(GrantMiss::NoAmount("/a".to_owned())));
    }
}

/// The operator who granted has to be one who may decide, and not the agent or its user.
#[test]
fn an_operator_who_may_not_decide_any_more_has_granted_nothing() {
    let operator = |name: &str, role: &str| Approver {
        name: ApproverName::One(name.to_owned()),
        stands_in: Vec::new(),
        roles: vec![role.to_owned()],
    };
    let rule = Rule {
        roles: vec!["finance".to_owned()],
        on_miss: true,
        ..Rule::of(None, true).unwrap().into_owned()
    };
    let (tool, arguments, granted) = (ToolName::new("bank__pay"), json!({}), grant(vec![]));
    let passes = |rule: &Rule, grant: &Grant, approvers: &[(&str, &str)]| {
        let known = approvers.iter().map(|(name, role)| operator(name, role));
        let approvers = Approvers(known.collect());
        let passed = rule.granted(&approvers, grant, &call(&tool, &arguments));
        passed.is_ok_and(|approved| approved.grant().is_some() && approved.hold().is_none())
    };
    assert!(passes(&rule, &granted, &[("ann", "finance")]));
    assert!(!passes(
        &rule,
        &granted,
        &[("bob", "finance"), ("ann", "sre")]
    ));
    let own = Grant {
        who: "Ada".to_owned(),
        ..granted.clone()
    };
    assert!(
        !passes(&rule, &own, &[("Ada", "finance")]),
        "the user itself"
    );
    let lenient = Rule {
        self_approval: true,
        ..rule.clone()
    };
    assert!(passes(&lenient, &own, &[("Ada", "finance")]));
    let always = Rule {
        on_miss: false,
        ..rule
    };
    assert!(!passes(&always, &granted, &[("ann", "finance")]));
}

/// 001-38: what counts for a grant is judged for each call that it would cover, by its own variant: one that
/// several people have to allow, or whose contract leaves another argument open, is asked about.
#[test]
fn a_grant_counts_by_the_variant_of_the_call() {
    let small = Rule {
        roles: vec!["finance".to_owned()],
        on_miss: true,
        grant_any: vec!["/note".to_owned()],
        ..Rule::of(None, true).unwrap().into_owned()
    };
    let kinds = vec![json!("small"), json!("large")];
    let granted = grant(vec![
        constraint("/kind", ArgumentRule::OneOf(kinds)),
        constraint("/note", ArgumentRule::Any),
    ]);
    let approvers = Approvers(vec![Approver {
        name: ApproverName::One("ann".to_owned()),
        stands_in: Vec::new(),
        roles: vec!["finance".to_owned()],
    }]);
    let tool = ToolName::new("bank__pay");
    let miss = |rule: &Rule, kind: &str| {
        let arguments = json!({ "kind": kind, "note": "n" });
        let passed = rule.granted(&approvers, &granted, &call(&tool, &arguments));
        passed.err().map(|miss| miss.to_string())
    };
    assert_eq!(miss(&small, "small"), None);
    let large = Rule {
        needed: 2,
        ..small.clone()
    };
    let told = miss(&large, "large").unwrap();
    assert!(told.starts_with("2 people have to allow"), "{told}");
    let closed = Rule {
        grant_any: Vec::new(),
        ..small
    };
    let told = miss(&closed, "large").unwrap();
    assert!(told.contains("leaves the argument `/note` open"), "{told}");
}

/// Any calls against any grants: the guard says what an oracle says that knows nothing of it.
#[test]
fn any_call_is_covered_as_an_oracle_says() {
    let calls = std::env::var("TOOLGATE_GRANT_CALLS").ok();
    let calls = calls.map_or(CALLS, |calls| calls.parse().unwrap());
    let mut dice = Dice(0x00c0_ffee);
    let (mut covered, mut checked) = (0_u64, 0_u64);
    while checked < calls {
        let shown = dice.arguments();
        let constraints: Arc<[ArgumentConstraint]> = dice.constraints(&shown).into();
        for _ in 0..8 {
            let arguments = dice.like(&shown);
            let found = takes(&constraints, &arguments);
            let expected = allows(&constraints, &arguments);
            assert_eq!(found, expected, "{constraints:?} {arguments}");
            (covered, checked) = (covered + u64::from(found), checked + 1);
        }
    }
    let share = covered * 100 / checked;
    assert!((10..90).contains(&share), "{share} % are covered");
}
