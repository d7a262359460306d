//! Schemas for which the random scenario once found a loss that was not named, or an output that a
//! profile refuses; each as small as it became.

use super::random::holds;
use super::*;

/// Seeds of the calls that each is tried with.
const CALL_SEEDS: u64 = 64;

/// 001-21, 002-01, 002-21, policy §12: they hold now.
#[test]
fn what_was_found_holds() {
    for (name, schema) in values().into_iter().chain(parts()) {
        for seed in 0..CALL_SEEDS {
            if let Err(why) = holds(&schema, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                panic!("{name}, {schema}: {why}");
            }
        }
    }
}

/// A name for what was wrong, and the schema.
type FoundCase = (&'static str, Value);

/// A schema of an object that has this.
fn of(property: &Value) -> Value {
    json!({ "type": "object", "properties": { "a": property }, "required": ["a"] })
}

/// What was found in values that are named.
fn values() -> Vec<FoundCase> {
    vec![
        (
            "an `enum` without a value of its type takes nothing, not anything of the type",
            of(&json!({ "type": "string", "enum": [2, true] })),
        ),
        (
            "null stays where `enum` and type have it beside texts",
            of(&json!({ "type": ["string", "null"], "enum": ["a", null] })),
        ),
        (
            "a type of which `enum` has no value is no alternative",
            of(&json!({ "type": ["string", "integer"], "enum": ["a"] })),
        ),
        (
            "a text below one alternative does not hide what it is in another",
            of(
                &json!({ "anyOf": [{ "properties": { "a": { "enum": [1] } } }, { "properties": { "a": {} } }] }),
            ),
        ),
        (
            "an `enum` of null alone is null",
            of(&json!({ "enum": [null] })),
        ),
        (
            "null is added once where the type has it and `enum` does not",
            json!({ "type": "object", "properties": { "a": { "type": ["string", "null"], "enum": ["a"] } } }),
        ),
        (
            "a member of `enum` that another part excludes by its type is not shown as a text",
            of(
                &json!({ "allOf": [{ "anyOf": [{ "type": ["string", "null"] }] }, { "enum": [null, 1] }] }),
            ),
        ),
        (
            "an `enum` of which no type is left takes nothing, not null",
            of(&json!({ "allOf": [{ "type": ["string", "null"] }, { "enum": [1] }] })),
        ),
        (
            "alternatives that all take nothing are no `enum` without members",
            of(&json!({ "type": "array", "maxItems": 2,
                "prefixItems": [{ "type": "integer", "enum": [2.5] }, { "type": "object", "enum": ["a"] }] })),
        ),
        (
            "a constant that `enum` does not have takes nothing",
            of(&json!({ "allOf": [{ "const": 1 }, { "enum": ["a"] }] })),
        ),
    ]
}

/// What was found in the parts of objects and arrays.
fn parts() -> Vec<FoundCase> {
    vec![
        (
            "`unevaluatedProperties` does not stay where a name is added that it counts",
            of(
                &json!({ "required": ["a"], "unevaluatedProperties": false, "if": false, "then": {}, "else": {} }),
            ),
        ),
        (
            "`unevaluatedItems` does not stay where `items` are given",
            of(
                &json!({ "type": "array", "prefixItems": [{ "type": "string" }], "unevaluatedItems": false }),
            ),
        ),
        (
            "a name that is required and not declared stays what `additionalProperties` says",
            of(&json!({ "required": ["a"], "additionalProperties": { "type": "string" } })),
        ),
        (
            "so it does where a pattern may name it",
            of(
                &json!({ "required": ["a"], "patternProperties": { "^b": {} }, "additionalProperties": { "type": "string" } }),
            ),
        ),
        (
            "an open object takes a renamed property under its own name, too",
            json!({ "type": "object", "properties": { "x y": { "type": "string" }, "名": { "type": "string" } } }),
        ),
        (
            "a pattern does not read a name that an alternative shows",
            of(
                &json!({ "patternProperties": { "^[a-x_]": { "type": "boolean" } },
                "anyOf": [{ "required": ["$ref"], "additionalProperties": { "type": "string" } }, { "type": "string" }] }),
            ),
        ),
        (
            "so it is where the type is an alternative's",
            of(&json!({ "anyOf": [{ "type": "boolean" }, { "type": "null" }], "enum": [null, 1] })),
        ),
        (
            "a root that takes nothing is no object that takes anything",
            json!({ "type": "object", "allOf": [false] }),
        ),
    ]
}
