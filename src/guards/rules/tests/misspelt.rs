//! Rules that can only fail or be useless, found before any call.

use super::*;
use serde_json::json;

fn tool() -> Schema {
    let schema = json!({
        "type": "object",
        "properties": {
            "amount": { "type": "integer" },
            "currency": { "enum": ["CNY", "USD"] },
            "name": { "type": "string" },
            "urgent": { "type": "boolean" },
            "note": { "type": ["string", "null"] },
            "any": {},
            "to": { "type": "object", "properties": { "iban": { "type": "string" } } },
            "lines": { "type": "array", "items": { "type": "object", "properties": { "price": { "type": "number" } } } },
            "tags": { "type": "array", "items": { "type": "string" } },
            "more": { "type": "object", "additionalProperties": true, "properties": { "a": {} } },
        },
    });
    Schema::compile(&schema).unwrap()
}

fn found(when: &str) -> Vec<String> {
    let (rule, _) = compile(&[("no", when)]);
    let mut problems = Problems::default();
    rule.check_against(DeclaredArguments::of(&tool(), None), 0, &mut problems);
    let words = |problem: Problem| {
        format!(
            "{}: {}; {}",
            problem.path.join("."),
            placed(&problem, when),
            problem.hint.unwrap_or_default()
        )
    };
    problems.into_found().into_iter().map(words).collect()
}

/// A rule with a slip, and what is said of it.
const SLIPS: &[(&str, &str)] = &[
    (
        "arguments.amuont > 5",
        "1:11: the tool has no argument `amuont`; did you mean `amount`?",
    ),
    (
        "has(arguments.amuont) && arguments.amount > 5",
        "the tool has no argument `amuont`; did you mean `amount`?",
    ),
    (
        "arguments.to.ibna == 'x'",
        "the tool has no argument `to.ibna`; did you mean `iban`?",
    ),
    (
        "arguments['curency'] == 'EUR'",
        "the tool has no argument `curency`; did you mean `currency`?",
    ),
    (
        "arguments.lines.exists(i, i.prize > 5)",
        "the tool has no argument `lines.*.prize`; did you mean `price`?",
    ),
    (
        "arguments.amount",
        "a rule is true or false, and this is a number",
    ),
    (
        "arguments.name",
        "a rule is true or false, and this is text",
    ),
    (
        "size(arguments.tags)",
        "a rule is true or false, and this is a number",
    ),
    (
        "arguments.tags.filter(t, t == 'a')",
        "a rule is true or false, and this is a list",
    ),
    (
        "arguments.amount > '5'",
        "compares a number with text; write both in the same kind",
    ),
    (
        "arguments.amount == '5'",
        "compares a number with text, which are never equal",
    ),
    (
        "arguments.currency != 5",
        "compares text with a number, which are never equal",
    ),
    (
        "arguments.name && true",
        "true or false is expected here, and this is text",
    ),
    (
        "!arguments.amount",
        "true or false is expected here, and this is a number",
    ),
    ("arguments.name + 1 == 'a1'", "adds a number to text"),
    (
        "arguments.name * 2 > 5",
        "a number is expected here, and this is text",
    ),
    ("size(arguments.amount) > 5", "`size` is asked of a number"),
    (
        "arguments.amount.startsWith('5')",
        "text is expected here, and this is a number",
    ),
    (
        "re(arguments.amount, '^5')",
        "text is expected here, and this is a number",
    ),
    (
        "'a' in arguments.name",
        "`in` looks into a list or an object, and this is text; write `text.contains(part)`",
    ),
    (
        "arguments.currency in [1, 2]",
        "looks for text in a list in which each element is a number",
    ),
    (
        "5 in arguments.tags",
        "looks for a number in a list in which each element is text",
    ),
    ("arguments.tags > 5", "compares a list with a number"),
    (
        "arguments.tags > arguments.tags",
        "a list is neither more nor less than another",
    ),
    (
        "arguments.amount.all(x, x > 5)",
        "goes through the elements of a list or an object, and this is a number",
    ),
    (
        "arguments.lines.all(l, l.price > 'a')",
        "compares a number with text",
    ),
    (
        "arguments.name.part == 1",
        "`part` is read of text; only an object has parts with names",
    ),
    (
        "arguments.amount > 5 ? arguments.name : 'x'",
        "a rule is true or false, and this is text",
    ),
    ("caller.agent > 5", "compares text with a number"),
    (
        "caller.owner == 'yes'",
        "compares true or false with text, which are never equal",
    ),
];

/// Issue 15 part 5: each slip is an error with its column and what to do.
#[test]
fn a_slip_in_a_rule_is_found_before_any_call() {
    for (when, words) in SLIPS {
        let found = found(when);
        assert!(
            found.len() == 1 && found[0].starts_with("0.when: ") && found[0].contains(words),
            "{when}: {found:?}"
        );
    }
}

/// What can be right is no error.
#[test]
fn no_rule_that_can_be_right_is_an_error() {
    for when in [
        "arguments.amount < 1 || arguments.amount > 5000000",
        "arguments.amount > 1.5",
        "!(arguments.currency in ['CNY', 'USD'])",
        "size(arguments.name) > 64 || arguments.name.size() < 1",
        "has(arguments.note) && arguments.note != null && arguments.note.contains('x')",
        "arguments.name == null",
        "arguments.any > 5 || arguments.any == 'x' || arguments.any",
        "arguments.more.b > 5",
        "arguments.to.iban.startsWith('DE')",
        "arguments.lines.exists(l, l.price > 5.0) || arguments.lines.all(l, has(l.price))",
        "arguments.lines.map(l, l.price).exists(p, p > 5)",
        "arguments.lines[0].price > 5",
        "arguments.tags.exists_one(t, t == 'a') && 'b' in arguments.tags",
        "arguments.tags.filter(t, t == 'a').size() > 1",
        "int(arguments.name) + arguments.amount > 5",
        "arguments.name + 'a' == 'ba'",
        "string(arguments.amount) == '5'",
        "type(arguments.any) == string && type(arguments.amount) != int",
        "dyn(arguments.amount) == '5'",
        "'amount' in arguments",
        "arguments.all(k, k != 'x')",
        "size(arguments) > 3",
        "(arguments.urgent ? arguments.amount : 5) > 3",
        "arguments.urgent ? arguments.amount > 3 : true",
        "'finance' in caller.roles && caller.tenant == 't' && caller.model.startsWith('openai')",
        "caller.owner",
        "true",
        "[1, 'a'].exists(x, x == arguments.amount)",
        "{'a': 1}['a'] == 1",
        "re(arguments.name, '^a') || arguments.name.matches('b')",
        "-arguments.amount < 5 && arguments.amount % 2 == 1",
    ] {
        assert_eq!(found(when), [""; 0], "{when}");
    }
}

/// Without a tool's schema, the contract's own says of which type its arguments are.
#[test]
fn a_contracts_own_schema_says_the_types() {
    let schema = json!({ "properties": { "amount": { "type": "integer" } } });
    let roles = ["finance".to_owned()];
    for (when, words) in [
        (
            "arguments.amount > '5'",
            "1:18: compares a number with text",
        ),
        (
            "'finanec' in caller.roles",
            "no caller has the role `finanec`",
        ),
        ("'finance' in caller.roles", ""),
        ("arguments.other > '5'", ""),
    ] {
        let mut problems = Problems::default();
        let settings = Settings(vec![written("no", when)]);
        settings.compile_beside(schema.as_object().unwrap(), &roles, &mut problems);
        let found: Vec<String> = problems
            .into_found()
            .into_iter()
            .map(|problem| placed(&problem, when))
            .collect();
        assert!(
            found.concat().contains(words) && found.is_empty() == words.is_empty(),
            "{when}: {found:?}"
        );
    }
}
