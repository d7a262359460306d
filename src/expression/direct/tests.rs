//! What is decided without the language is what the language says.

use super::*;
use crate::expression::{ExpressionSetBuilder, LazyCaller};
use crate::model::diagnostic::Problems;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

fn caller() -> Caller {
    Caller {
        tenant: Some(TenantId::new("t_001")),
        roles: vec!["x".to_owned(), "finance".to_owned()],
        model: Some("openai/gpt-5".to_owned()),
        ..Caller::named("support-bot")
    }
}

/// What both say of `when`: first without the language, if that decides; then the language.
fn said(when: &str, arguments: &Value) -> (Option<bool>, Option<bool>) {
    let (mut gathering, mut problems) = (ExpressionSetBuilder::default(), Problems::default());
    let read = gathering.read(when, &mut problems);
    let (tree, _) = read.unwrap_or_else(|| panic!("{when}: {:?}", problems.into_found()));
    let (set, _) = gathering.finish();
    let caller = caller();
    let seen = LazyCaller::new(&caller);
    let input = set
        .sight(&seen, arguments)
        .expect("the arguments are short");
    let direct = DirectTest::of(&tree).and_then(|test| {
        test.truth(DirectInput {
            caller: &caller,
            arguments,
        })
    });
    let Ok(cel::Value::Bool(by_language)) = input.resolve(&tree) else {
        return (direct, None);
    };
    (direct, Some(by_language))
}

fn operand() -> impl Strategy<Value = String> {
    select(vec![
        "arguments.a",
        "arguments['b c']",
        "arguments.deep.x",
        "arguments.deep",
        "arguments.absent",
        "caller.agent",
        "caller.tenant",
        "caller.user",
        "caller.model",
        "caller.owner",
        "0",
        "-3",
        "9007199254740993",
        "2u",
        "1.5",
        "'x'",
        "'openai/gpt-5'",
        "true",
        "null",
        "size(caller.roles)",
        "size(arguments.a)",
        "arguments.deep.size()",
    ])
    .prop_map(str::to_owned)
}

/// Looks at texts, and at what is none.
fn look() -> impl Strategy<Value = String> {
    let text = select(vec![
        "arguments.a",
        "arguments['b c']",
        "caller.agent",
        "caller.user",
        "'xyz'",
    ]);
    let function = select(vec!["startsWith", "endsWith", "contains"]);
    let part = select(vec![
        "'x'",
        "'t'",
        "''",
        "arguments.a",
        "caller.agent",
        "0",
        "null",
    ]);
    let pattern = select(vec!["^x", "n.*e$", "bot", "^$"]);
    prop_oneof![
        (text.clone(), function, part).prop_map(|(text, is, part)| format!("{text}.{is}({part})")),
        (text.clone(), pattern.clone()).prop_map(|(text, like)| format!("re({text}, '{like}')")),
        (text, pattern).prop_map(|(text, like)| format!("{text}.matches('{like}')")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let comparison = select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let leaf = prop_oneof![
        2 => operand(),
        6 => (operand(), comparison, operand()).prop_map(|(one, is, other)| format!("{one} {is} {other}")),
        3 => look(),
        1 => operand().prop_map(|one| format!("{one} in caller.roles")),
        1 => operand().prop_map(|one| format!("{one} in ['x', 0, true, null, 'y']")),
        1 => operand().prop_map(|one| format!("{one} in [1.5, 'x']")),
        1 => select(vec!["a", "absent", "deep.x", "a.x", "absent.x"])
            .prop_map(|path| format!("has(arguments.{path})")),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) && ({other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) || ({other})")),
            inner.prop_map(|one| format!("!({one})")),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    select(vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-3),
        json!(9_007_199_254_740_993_i64),
        json!(u64::MAX),
        json!(1.5),
        json!("x"),
        json!("finance"),
        json!("\u{e9}"),
        json!(["x"]),
        json!({ "x": 0 }),
        json!({}),
    ])
}

fn arguments() -> impl Strategy<Value = Value> {
    (value(), value(), prop::option::of(value())).prop_map(|(a, b, deep)| {
        let mut arguments = json!({ "a": a, "b c": b });
        if let Some(deep) = deep {
            arguments["deep"] = json!({ "x": deep });
        }
        arguments
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// What is decided without the language is what the language says, and what fails there is decided
    /// nowhere else.
    #[test]
    fn what_is_decided_is_what_the_language_says(when in expression(), arguments in arguments()) {
        let (direct, by_language) = said(&when, &arguments);
        if direct.is_some() {
            prop_assert_eq!(direct, by_language, "{} {}", when, arguments);
        }
    }
}

/// The rules that people write need no more.
#[test]
fn simple_expressions_are_decided_without_the_language() {
    let arguments = json!({ "n": 1_250_000, "s": "CNY", "to": { "kind": "own" }, "b": true });
    for (when, truth) in [
        (
            "arguments.n > 1000000 && !('finance' in caller.roles)",
            false,
        ),
        ("arguments.n > 1000000 && !('admin' in caller.roles)", true),
        ("arguments.n <= 1250000", true),
        ("arguments.s in ['CNY', 'USD']", true),
        (
            "arguments.s != 'CNY' || arguments['to'].kind == 'own'",
            true,
        ),
        ("has(arguments.absent) && arguments.absent > 5", false),
        ("has(arguments.to.kind) && arguments.b", true),
        ("caller.group == null", true),
        ("caller.owner || caller.tenant != 't_001'", false),
        ("size(arguments.s) > 2 && arguments.to.size() == 1", true),
        (
            "arguments.s.startsWith('C') && !arguments.s.endsWith('C')",
            true,
        ),
        ("caller.agent.contains(arguments.to.kind)", false),
    ] {
        assert_eq!(said(when, &arguments), (Some(truth), Some(truth)), "{when}");
    }
}

/// What fails, or is more than a comparison, is the language's.
#[test]
fn what_may_fail_is_left_to_the_language() {
    let arguments = json!({ "n": 1, "f": 1.5, "list": [1], "big": u64::MAX });
    for (when, by_language) in [
        ("arguments.absent > 1", None),
        ("arguments.n > 'x'", None),
        ("arguments.n", None),
        ("!arguments.n", None),
        ("has(arguments.n.x)", None),
        ("arguments.absent > 1 || arguments.n == 1", Some(true)),
        ("arguments.n == 1.0", Some(true)),
        ("arguments.f > 1", Some(true)),
        ("arguments.big > 1", Some(true)),
        ("arguments.list == [1]", Some(true)),
        ("size(arguments.n) == 1", None),
        ("arguments.n.startsWith('1')", None),
        ("size(caller.roles) == 2", Some(true)),
        ("re('x', '^x')", Some(true)),
        ("'x'.matches('^y') || arguments.n == 1", Some(true)),
        ("'n' in arguments", Some(true)),
        ("arguments.list.exists(i, i == 1)", Some(true)),
    ] {
        assert_eq!(said(when, &arguments), (None, by_language), "{when}");
    }
}
