//! Scenarios of a contract's rules; those of the documents' example are in `example`.

use super::*;
use crate::guards::evidence::Checked;
use crate::model::diagnostic::Problem;
use crate::model::ids::TenantId;
use crate::schema::Schema;
use serde_json::json;

mod example;
mod failing;
mod misspelt;

fn caller() -> Caller {
    Caller {
        tenant: Some(TenantId::new("t_001")),
        roles: vec!["billing_admin".to_owned()],
        group: Some("support".to_owned()),
        ..Caller::named("support-bot")
    }
}

fn written(code: &str, when: &str) -> RuleSettings {
    RuleSettings {
        code: code.to_owned(),
        when: when.to_owned(),
        expected: None,
    }
}

fn compile(rules: &[(&str, &str)]) -> (Rule, Vec<String>) {
    let mut problems = Problems::default();
    let all = rules.iter().map(|(code, when)| written(code, when));
    let rule = Settings(all.collect()).compile(&mut problems);
    let words = |problem: Problem| {
        let index: usize = problem.path[0].parse().unwrap();
        format!(
            "{}: {}",
            problem.path.join("."),
            placed(&problem, rules[index].1)
        )
    };
    (rule, problems.into_found().into_iter().map(words).collect())
}

/// The problem's words, behind the place in the expression `when` that is meant.
fn placed(problem: &Problem, when: &str) -> String {
    match problem.part.map(|part| part.place_in(when)) {
        Some((line, column)) => format!("{line}:{column}: {}", problem.message),
        None => problem.message.clone(),
    }
}

fn permit() -> Permit {
    Permit::mint(&Checked::mint())
}

/// Whether the call is refused.
fn refused(when: &str, arguments: &Value) -> bool {
    let (rule, problems) = compile(&[("no", when)]);
    assert_eq!(problems, [""; 0], "{when}");
    match rule.apply(
        &caller(),
        arguments,
        &DeclaredArguments::default(),
        &permit(),
    ) {
        Ok(_) => false,
        Err(refusal) => {
            assert_eq!(refusal.code(), "no");
            true
        }
    }
}

#[test]
fn rules_read_the_caller_and_compute() {
    let call = json!({ "n": 120, "f": 1.5, "list": [{ "p": 1 }, { "p": 9 }], "s": "ab-1", "deep": { "x y": true }, "big": "a" });
    for (when, expected) in [
        ("'finance' in caller.roles", false),
        (
            "caller.agent == 'support-bot' && caller.tenant == 't_001' && caller.group == 'support'",
            true,
        ),
        ("caller.owner", false),
        ("caller.model == null", true),
        ("arguments.n + 1 == 121", true),
        ("arguments.n * 2 - 240 == 0 && arguments.n > 119.5", true),
        ("arguments.f > 1", true),
        ("arguments.list.exists(i, i.p > 8)", true),
        ("arguments.list.all(i, i.p > 8)", false),
        ("arguments.list.exists(i, i.p > arguments.n)", false),
        ("size(arguments.list) > 1", true),
        ("arguments.deep['x y']", true),
        ("'n' in arguments", true),
        ("size(arguments) > 99", false),
        ("has(arguments.absent)", false),
        ("has(arguments.absent) && arguments.absent > 1", false),
        ("type(arguments.n) == int", true),
        ("re(arguments.s, '^[a-z]+-[0-9]$')", true),
        ("arguments.s.matches('^x')", false),
        ("arguments.s.startsWith('ab')", true),
        // What fails over what the agent gave, and what is neither true nor false, refuses.
        ("arguments.absent > 1", true),
        ("arguments.n", true),
        ("re(arguments.n, 'x')", true),
        ("false", false),
    ] {
        assert_eq!(refused(when, &call), expected, "{when}");
    }
}

#[test]
fn an_expression_that_cannot_be_trusted_is_an_error_with_its_column() {
    for (when, words) in [
        ("arguments.a >", "1:14: ends where more was expected"),
        ("  argument.a > 1", "1:3: unknown name `argument`"),
        ("arguments.a == EUR", "1:16: unknown name `EUR`"),
        ("true &&\n foo", "2:2: unknown name `foo`"),
        ("caller.tenat == 'x'", "the caller has no `tenat`"),
        ("lower(arguments.a) == 'x'", "unknown function `lower`"),
        ("_hidden(arguments.a)", "unknown function `_hidden`"),
        (
            "arguments.a > 9007199254740992.0",
            "1:15: a number that is not exact",
        ),
        ("arguments.a in [1.5, 1e300]", "a number that is not exact"),
        (
            "arguments.a.all(x, x.all(y, y > 1))",
            "a loop within a loop",
        ),
        (
            "arguments.a.map(x, arguments.b.filter(y, y > x)) == []",
            "a loop within a loop",
        ),
        (
            "arguments.a.all(x, x in arguments.b)",
            "once for each element",
        ),
        (
            "arguments.a.all(x, arguments.t.contains(x))",
            "once for each element",
        ),
        (
            "arguments.a.all(x, size(arguments.t) > 1)",
            "once for each element",
        ),
        (
            "arguments.a.matches(arguments.b)",
            "the pattern is not a text written here",
        ),
        (
            "re('x', arguments.b)",
            "the pattern is not a text written here",
        ),
        ("re(arguments.a, '(')", "not a pattern"),
        ("re(arguments.a, '(?=a)')", "not a pattern"),
        (r"re(arguments.a, '\\p{L}{1000}')", "not a pattern"),
        ("arguments.?a == 1", "1:"),
        ("a.b.C{x: 1} == 1", "messages have no types"),
        ("x", "unknown name `x`"),
        ("[1].all(x, true) && x", "unknown name `x`"),
        ("", "1:1: ends where more was expected"),
    ] {
        let (_, problems) = compile(&[("no", when)]);
        assert!(
            problems
                .iter()
                .any(|said| said.starts_with("0.when: ") && said.contains(words)),
            "{when}: {problems:?}"
        );
    }
    let (_, problems) = compile(&[("no", &format!("arguments.a == '{}'", "x".repeat(5_000)))]);
    assert_eq!(problems.len(), 1);
}

#[test]
fn a_code_is_lower_case_and_not_one_of_ours() {
    for (code, fine) in [
        ("amount_out_of_range", true),
        ("a1", true),
        ("", false),
        ("1a", false),
        ("_a", false),
        ("A", false),
        ("a-b", false),
        ("a b", false),
        ("é", false),
        ("schema_invalid", false),
        ("tool_not_allowlisted", false),
    ] {
        assert_eq!(compile(&[(code, "false")]).1.is_empty(), fine, "{code}");
    }
    assert!(compile(&[(&"a".repeat(64), "false")]).1.is_empty());
    assert!(!compile(&[(&"a".repeat(65), "false")]).1.is_empty());
}

#[test]
fn the_refusal_carries_the_contracts_words() {
    let written = |expected: Option<&str>| RuleSettings {
        code: "no".to_owned(),
        when: "true".to_owned(),
        expected: expected.map(str::to_owned),
    };
    for (own, words) in [
        (Some("an amount of at most 10"), "an amount of at most 10"),
        (None, "a call that the contract's rule `no` allows"),
    ] {
        let rule = Settings(vec![written(own)]).compile(&mut Problems::default());
        let refusal = rule
            .apply(
                &caller(),
                &json!({}),
                &DeclaredArguments::default(),
                &permit(),
            )
            .expect_err("true refuses");
        assert_eq!(
            refusal,
            Refusal::Rule {
                code: "no".into(),
                expected: words.to_owned()
            }
        );
    }
}

/// threat-model §3A A3: with an open schema only the rule knows the name that it judges.
#[test]
fn a_name_that_a_rule_reads_is_not_escaped_by_another_case() {
    let (rule, _) = compile(&[(
        "no",
        "has(arguments.amount) && arguments.amount > 10 || arguments.to.id == 'x'",
    )]);
    for (arguments, pointer) in [
        (json!({ "Amount": 99, "to": { "id": "y" } }), "/Amount"),
        (json!({ "to": { "ID": "x", "id ": 1 } }), "/to/ID"),
    ] {
        let refusal = rule
            .apply(
                &caller(),
                &arguments,
                &DeclaredArguments::default(),
                &permit(),
            )
            .expect_err(pointer);
        assert_eq!(
            (refusal.code(), refusal.pointer()),
            ("schema_invalid", Some(pointer))
        );
    }
    assert!(
        rule.apply(
            &caller(),
            &json!({ "to": { "id": "y" } }),
            &DeclaredArguments::default(),
            &permit()
        )
        .is_ok()
    );
}

#[test]
fn only_what_rules_read_is_counted_and_too_much_is_refused() {
    let long = "x".repeat(70_000);
    assert!(!refused(
        "arguments.n > 1",
        &json!({ "n": 1, "content": long })
    ));
    for when in ["size(arguments.content) < 1", "'x' in arguments"] {
        let (rule, _) = compile(&[("no", when)]);
        let refusal = rule
            .apply(
                &caller(),
                &json!({ "content": long }),
                &DeclaredArguments::default(),
                &permit(),
            )
            .expect_err(when);
        assert_eq!(refusal.code(), "schema_invalid");
        assert!(!refusal.words().contains("xxx"));
    }
    assert!(
        Rule::default()
            .apply(
                &caller(),
                &json!({ "content": long }),
                &DeclaredArguments::default(),
                &permit()
            )
            .is_ok()
    );
}

/// When a rule refuses, and what is known of that before any call; nothing, where it depends.
const DECIDED: &[(&str, &str)] = &[
    ("arguments.amount > 100", "never"),
    ("100 < arguments.amount", "never"),
    ("arguments.amount > 99", ""),
    ("arguments.amount < 1 || arguments.amount > 100", "never"),
    ("arguments.loose < 1", "never"),
    ("arguments.currency == 'EUR'", "never"),
    ("!(arguments.currency in ['CNY', 'USD', 'EUR'])", "never"),
    ("!(arguments.currency in ['CNY'])", ""),
    ("size(arguments.name) > 8", "never"),
    ("arguments.name.size() > 7", ""),
    ("arguments.to.kind != 'own'", "never"),
    ("has(arguments.absent)", "never"),
    ("has(arguments.absent) && arguments.absent > 5", "never"),
    ("arguments.absent == 1", "always"),
    ("arguments.amount >= 1", "always"),
    ("arguments.amount >= 2", ""),
    ("caller.owner && arguments.amount > 100", "never"),
    ("!caller.owner", ""),
    ("arguments.amount > 100 || !caller.owner", ""),
    ("true", "always"),
    ("false", "never"),
    ("arguments.loose.all(x, true)", ""),
];

/// What is decided before any call is said at load: rules that are never true, always true, or
/// never tried (003-114).
#[test]
fn rules_that_no_call_decides_are_named() {
    let schema = json!({
        "properties": {
            "amount": { "type": "integer", "minimum": 1, "maximum": 100 },
            "loose": { "minimum": 1 },
            "currency": { "enum": ["CNY", "USD"] },
            "name": { "type": "string", "maxLength": 8 },
            "to": { "properties": { "kind": { "const": "own" } }, "additionalProperties": false },
        },
        "additionalProperties": false,
    });
    for (when, expected) in DECIDED {
        let mut problems = Problems::default();
        let rules = Settings(vec![
            written("first", when),
            written("second", "!caller.owner"),
        ]);
        let _rule = rules.compile_beside(schema.as_object().unwrap(), &[], &mut problems);
        let found: Vec<String> = problems
            .into_found()
            .into_iter()
            .map(|problem| problem.message)
            .collect();
        let words: &[&str] = match *expected {
            "never" => {
                &["is never true: the contract's `arguments`, or the rule itself, rule it out"]
            }
            "always" => &[
                "refuses every call",
                "is never tried: `first` refuses every call before it",
            ],
            _ => &[],
        };
        assert_eq!(found, words, "{when}");
    }
}
