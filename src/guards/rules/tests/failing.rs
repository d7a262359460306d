//! Rules that fail: whose mistake it is.

use super::*;
use serde_json::json;

/// What a call is refused with whose rule fails, in a tool with this schema.
fn code(when: &str, server: &Value, arguments: &Value) -> String {
    let (rule, problems) = compile(&[("no", when)]);
    assert_eq!(problems, [""; 0], "{when}");
    let server = Schema::compile(server).unwrap();
    server
        .accepts(arguments)
        .expect("the schema lets it through");
    let declared = DeclaredArguments::of(&server, None);
    match rule.apply(&caller(), arguments, &declared, &permit()) {
        Ok(_) => "passed".to_owned(),
        Err(refusal) => refusal.code().to_owned(),
    }
}

/// 003-24: what the agent left out, or gave in a type that no schema rules out, is refused by the
/// rule's own code; a rule that fails over what the schema lets through is its author's mistake.
#[test]
fn a_rule_that_fails_says_whose_mistake_it_is() {
    let said = json!({
        "type": "object",
        "properties": {
            "n": { "type": "integer" },
            "text": { "type": "string" },
            "flag": { "type": "boolean" },
            "list": { "type": "array", "items": { "type": "object", "properties": { "p": { "type": "number" } } } },
            "free": { "type": "array" },
            "any": {},
        },
    });
    let call = json!({ "n": 0, "text": "a", "flag": true, "list": [{ "p": 1 }, {}], "free": ["a"], "any": "b" });
    for (when, expected) in [
        // The schema lets these values through, and the rule cannot take them.
        ("arguments.n > 'a'", "rule_failed"),
        ("arguments.text + 1 == 2", "rule_failed"),
        ("arguments.n", "rule_failed"),
        ("arguments.text", "rule_failed"),
        ("100 / arguments.n > 5", "rule_failed"),
        ("100 % arguments.n > 5", "rule_failed"),
        (
            "arguments.n + 9223372036854775807 > 1 || arguments.n - 9223372036854775807 - 2 < 1",
            "no",
        ),
        ("arguments.n - 9223372036854775807 - 2 < 1", "rule_failed"),
        ("caller.model.startsWith('openai/')", "rule_failed"),
        // What lacks something is the rule's own.
        ("{'EUR': 100}[arguments.text] > 5", "rule_failed"),
        ("[1, 2][arguments.n + 5] > 1", "rule_failed"),
        // The tool has no such argument: no agent can give it.
        ("arguments.txet == 'a'", "rule_failed"),
        // The agent left it out, or an element lacks it.
        ("arguments.list.exists(i, i.p > 8)", "no"),
        ("arguments.list[7].p > 8", "no"),
        // The schema does not say which type it has.
        ("arguments.any > 5", "no"),
        ("arguments.free.exists(i, i > 8)", "no"),
        ("arguments.any", "no"),
        // What is judged is judged.
        ("arguments.n > 5", "passed"),
        ("arguments.flag", "no"),
    ] {
        assert_eq!(code(when, &said, &call), expected, "{when}");
    }
    let without = json!({ "text": "a" });
    assert_eq!(code("arguments.n > 5", &said, &without), "no");
    // Where the tool takes names that it does not declare, an agent could have given it.
    let open = json!({ "properties": { "n": {} }, "additionalProperties": true });
    assert_eq!(code("arguments.txet == 'a'", &open, &call), "no");
}

/// The agent reads that nothing it changes will help; an operator reads why.
#[test]
fn a_failed_rule_is_for_an_operator() {
    let (rule, _) = compile(&[("too_much", "100 / arguments.n > 5")]);
    let refusal = rule
        .apply(
            &caller(),
            &json!({ "n": 0 }),
            &DeclaredArguments::default(),
            &permit(),
        )
        .expect_err("it divides by zero");
    assert_eq!(
        refusal,
        Refusal::RuleFailed {
            code: "too_much".into(),
            why: "it divides by zero"
        }
    );
    assert_eq!(
        refusal.words(),
        "rule_failed: a rule of the tool's contract cannot be judged; other arguments will not help. The tool did not run. Ask an operator, naming the action id."
    );
}
