//! Refusals by `not`, and by `then` and `else`: which part it is, and what would pass.

use super::fault;
use serde_json::{Value, json};

/// A schema, arguments that it refuses, the place, and what is expected there.
fn cases() -> Vec<(Value, Value, &'static str, &'static str)> {
    let is = |name: &str, value: &str| json!({ "properties": { name: { "const": value } }, "required": [name] });
    vec![
        (
            json!({ "not": { "required": ["b"] } }),
            json!({ "b": 1 }),
            "",
            "the property `b` to be absent",
        ),
        (
            json!({ "not": { "required": ["a", "b"] } }),
            json!({ "a": 1, "b": 1 }),
            "",
            "not all of the properties `a`, `b` at once",
        ),
        (
            json!({ "not": is("mode", "x") }),
            json!({ "mode": "x" }),
            "/mode",
            "another value than \"x\"",
        ),
        (
            json!({ "properties": { "mode": { "not": { "enum": ["x", "y"] } } } }),
            json!({ "mode": "y" }),
            "/mode",
            "none of \"x\", \"y\"",
        ),
        (
            json!({ "properties": { "name": { "not": { "pattern": "^tmp" } } } }),
            json!({ "name": "tmp1" }),
            "/name",
            "text that does not match the pattern `^tmp`",
        ),
        (
            json!({ "not": { "anyOf": [{ "required": ["x"] }, { "required": ["y"] }] } }),
            json!({ "y": 1 }),
            "",
            "the property `y` to be absent",
        ),
        (
            json!({ "not": { "properties": { "a": { "const": 1 }, "b": { "const": 2 } }, "required": ["a", "b"] } }),
            json!({ "a": 1, "b": 2 }),
            "",
            "not at once that `a` is 1 and `b` is 2",
        ),
    ]
}

/// The same of `not` over numbers.
fn of_numbers() -> Vec<(Value, Value, &'static str, &'static str)> {
    vec![
        (
            json!({ "properties": { "n": { "not": { "minimum": 5 } } } }),
            json!({ "n": 6 }),
            "/n",
            "a number less than 5",
        ),
        (
            json!({ "properties": { "n": { "not": { "exclusiveMaximum": 5 } } } }),
            json!({ "n": 1 }),
            "/n",
            "a number of at least 5",
        ),
        (
            json!({ "properties": { "n": { "not": { "type": "string" } } } }),
            json!({ "n": "x" }),
            "/n",
            "another type than string",
        ),
        (
            json!({ "not": { "properties": { "n": { "minimum": 5, "maximum": 9 }, "mode": { "const": "x" } }, "required": ["n", "mode"] } }),
            json!({ "n": 6, "mode": "x" }),
            "",
            "not at once that `n` is at least 5 and is at most 9 and `mode` is \"x\"",
        ),
        (
            json!({ "properties": { "n": { "not": { "multipleOf": 5, "minimum": 1 } } } }),
            json!({ "n": 10 }),
            "/n",
            "what does not fit the part `not` of the schema, {\"multipleOf\":5,\"minimum\":1}",
        ),
    ]
}

/// The same of `then` and `else`.
fn conditional() -> Vec<(Value, Value, &'static str, &'static str)> {
    let is = |name: &str, value: &str| json!({ "properties": { name: { "const": value } }, "required": [name] });
    let urgent = json!({ "if": is("mode", "delete"), "then": { "required": ["reason"] },
        "else": { "properties": { "force": { "type": "boolean" } } } });
    let kinds = json!({ "if": { "properties": { "kind": { "enum": ["a", "b"] } }, "required": ["kind", "id"] },
        "then": { "properties": { "id": { "minimum": 5 } } } });
    vec![
        (
            urgent.clone(),
            json!({ "mode": "delete" }),
            "",
            "the property `reason` to be present, because `mode` is \"delete\"",
        ),
        (
            urgent,
            json!({ "mode": "keep", "force": "yes" }),
            "/force",
            "true or false, got a string, unless `mode` is \"delete\"",
        ),
        (
            json!({ "if": { "properties": { "amount": { "exclusiveMinimum": 1000 } }, "required": ["amount"] },
                "then": { "required": ["reason"] } }),
            json!({ "amount": 1001 }),
            "",
            "the property `reason` to be present, because `amount` is more than 1000",
        ),
        (
            json!({ "dependentRequired": { "force": ["reason"] } }),
            json!({ "force": true }),
            "",
            "the property `reason` to be present, because `force` is present",
        ),
        (
            json!({ "dependentSchemas": { "force": { "properties": { "count": { "maximum": 1 } } } } }),
            json!({ "force": true, "count": 2 }),
            "/count",
            "at most 1, because `force` is present",
        ),
        (
            kinds,
            json!({ "kind": "b", "id": 1 }),
            "/id",
            "at least 5, because `kind` is one of \"a\", \"b\" and `id` is present",
        ),
    ]
}

/// Issue 15 part 5: an agent reads which part refuses its call, and what would pass.
#[test]
fn a_condition_says_which_part_it_is_and_what_would_pass() {
    let all = [cases(), of_numbers(), conditional()];
    for (schema, arguments, pointer, expected) in all.into_iter().flatten() {
        let (place, words) = fault(&schema, &arguments);
        assert_eq!(
            (place.as_str(), words.as_str()),
            (pointer, expected),
            "{schema} {arguments}"
        );
    }
}

/// What the walk does not judge in whole is not said to hold: no part that is innocent is named.
#[test]
fn what_is_not_certain_is_not_blamed() {
    let whole = "arguments that match the tool's input schema";
    for schema in [
        // Whether these hold is not judged, so neither `not` nor `then` can be blamed.
        json!({ "not": { "propertyNames": { "pattern": "^b" } }, "minProperties": 1, "maxProperties": 0 }),
        json!({ "if": { "dependentRequired": { "b": ["c"] } }, "else": { "required": ["x"] }, "maxProperties": 0 }),
    ] {
        let (_, words) = fault(&schema, &json!({ "b": 1 }));
        assert_eq!(words, "at most 0 properties", "{schema}");
    }
    let unknown =
        json!({ "if": { "propertyNames": { "pattern": "^b" } }, "then": { "required": ["x"] } });
    assert_eq!(fault(&unknown, &json!({ "b": 1 })).1, whole);
    // Two of `oneOf` hold, which refuses, and no part of them does.
    let both = json!({ "oneOf": [{ "required": ["b"] }, { "minProperties": 1 }] });
    assert_eq!(fault(&both, &json!({ "b": 1 })).1, whole);
}

/// Alternatives keep the backticks of what each expects.
#[test]
fn alternatives_keep_their_backticks() {
    let schema = json!({ "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] });
    assert_eq!(
        fault(&schema, &json!({})).1,
        "the property `a` to be present, or the property `b` to be present"
    );
    let hostile = json!({ "anyOf": [{ "required": ["a`\u{202e}"] }, { "required": ["b"] }] });
    assert_eq!(
        fault(&hostile, &json!({})).1,
        "the property `a\u{fffd}\u{fffd}` to be present, or the property `b` to be present"
    );
}

/// Each definition asks the one before it twice: `depth` of them are 2^depth questions.
fn nested(depth: usize) -> Value {
    let mut definitions = serde_json::Map::new();
    definitions.insert("0".to_owned(), json!({ "required": ["x"] }));
    for nth in 1..=depth {
        let inner = json!({ "$ref": format!("#/$defs/{}", nth - 1) });
        let both = json!({ "not": { "anyOf": [inner.clone(), { "not": inner }] } });
        definitions.insert(nth.to_string(), both);
    }
    json!({ "$ref": format!("#/$defs/{depth}"), "$defs": definitions })
}

/// Conditions within conditions end in bounded work: a server's schema may be hostile.
#[test]
fn conditions_within_each_other_end() {
    use crate::schema::{Quarantine, Schema};
    let (mut judged, mut too_many) = (0, 0);
    for depth in 1..=40 {
        match Schema::compile(&nested(depth)) {
            Ok(schema) => {
                // Which part it is may stay unsaid, where finding it takes too much.
                let refused = schema
                    .accepts(&json!({}))
                    .expect_err("`not` of what always holds");
                assert!(!refused.expected.is_empty(), "{depth}");
                judged += 1;
            }
            Err(why) => {
                assert_eq!(why, Quarantine::TooManyExpansions, "{depth}");
                too_many += 1;
            }
        }
    }
    assert!(judged > 3 && too_many > 20, "{judged}, {too_many}");
    let itself = Schema::compile(&json!({ "$defs": {
        "a": { "anyOf": [{ "not": { "$ref": "#/$defs/a" } }, { "if": { "$ref": "#/$defs/a" }, "then": false }] } },
        "not": { "$ref": "#/$defs/a" }, "maxProperties": 0 }));
    drop(itself.map(|schema| schema.accepts(&json!({ "x": 1 }))));
}
