//! Scenarios of schemas that are quarantined.

use super::*;
use serde_json::json;

fn nested(depth: usize) -> Value {
    (1..depth).fold(json!({}), |inner, _| json!({ "not": inner }))
}

fn wide(keyword: &str, count: usize) -> Value {
    json!({ keyword: (0..count).map(|n| json!({ "const": n })).collect::<Vec<_>>() })
}

fn named(keyword: &str, count: usize, name: impl Fn(usize) -> String, value: &Value) -> Value {
    json!({ keyword: (0..count).map(|n| (name(n), value.clone())).collect::<serde_json::Map<_, _>>() })
}

/// Each definition asks for the next one twice: 2^n when written out.
fn ladder(steps: usize) -> Value {
    let mut definitions = serde_json::Map::new();
    for n in 0..steps {
        let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        definitions.insert(format!("d{n}"), json!({ "allOf": [next, next] }));
    }
    definitions.insert(format!("d{steps}"), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

#[test]
fn schemas_within_the_bounds_pass() {
    let table = [
        json!({}),
        json!({ "type": "object", "additionalProperties": false }),
        json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#" }),
        json!({ "$schema": "https://json-schema.org/draft-07/schema" }),
        // A reference as data, or as a property's name, is none.
        json!({ "properties": { "a": { "enum": [{ "$ref": "http://x/" }], "default": { "$ref": "file:///etc/passwd" } } } }),
        json!({ "const": { "$ref": "http://x/" }, "examples": [{ "$ref": "http://x/" }] }),
        json!({ "properties": { "$ref": { "type": "string" }, "pattern": { "type": "string" } } }),
        // References that stay inside: by pointer, by anchor, within an embedded resource, to the
        // root, in a circle.
        json!({ "properties": { "a": { "$ref": "#/$defs/a~1b%20c" } }, "$defs": { "a/b c": { "type": "string" } } }),
        json!({ "$ref": "#here", "$defs": { "x": { "$anchor": "here", "type": "object" } } }),
        json!({ "$defs": { "x": { "$id": "urn:x", "$ref": "#/$defs/y", "$defs": { "y": {} } } } }),
        json!({ "$id": "https://example.com/s", "properties": { "again": { "$ref": "#" } } }),
        json!({ "$dynamicAnchor": "node", "properties": { "next": { "$dynamicRef": "#node" } } }),
        nested(32),
        ladder(10),
        wide("oneOf", 64),
        named("patternProperties", 64, |n| format!("^{n}$"), &json!({})),
    ];
    for schema in table {
        assert_eq!(judge(&schema), Ok(()), "{schema}");
    }
}

fn assert_quarantined(schema: &Value, label: &str) {
    assert_eq!(judge(schema).expect_err(label).label(), label);
}

#[test]
fn schemas_of_no_known_dialect_quarantine() {
    for (schema, label) in [
        (json!(null), "not_an_object"),
        (json!(true), "not_an_object"),
        (json!([]), "not_an_object"),
        (
            json!({ "$schema": "http://json-schema.org/draft-04/schema#" }),
            "unknown_dialect",
        ),
        (
            json!({ "$schema": "http://evil.example/schema" }),
            "unknown_dialect",
        ),
        (json!({ "$schema": 7 }), "unknown_dialect"),
        (
            json!({ "not": { "$schema": "http://json-schema.org/draft-04/schema#" } }),
            "unknown_dialect",
        ),
    ] {
        assert_quarantined(&schema, label);
    }
}

#[test]
fn references_that_lead_out_or_nowhere_quarantine() {
    for (schema, label) in [
        (
            json!({ "$ref": "http://127.0.0.1:1/s.json" }),
            "remote_reference",
        ),
        (
            json!({ "$defs": { "unused": { "$ref": "file:///etc/passwd" } } }),
            "remote_reference",
        ),
        (
            json!({ "$id": "http://x/", "$ref": "y.json" }),
            "remote_reference",
        ),
        (json!({ "$dynamicRef": "http://x/#a" }), "remote_reference"),
        (json!({ "$ref": 3 }), "remote_reference"),
        (json!({ "$ref": "#/$defs/absent" }), "dangling_reference"),
        (json!({ "$ref": "#absent" }), "dangling_reference"),
        (
            json!({ "$ref": "#/type", "type": "object" }),
            "dangling_reference",
        ),
    ] {
        assert_quarantined(&schema, label);
    }
}

#[test]
fn schemas_beyond_the_bounds_quarantine() {
    for (schema, label) in [
        (json!({ "description": "x".repeat(64 << 10) }), "too_large"),
        (nested(33), "too_deep"),
        (
            json!({ "default": (0..32).fold(json!(1), |inner, _| json!([inner])) }),
            "too_deep",
        ),
        (
            named("properties", 2_000, |n| format!("p{n}"), &json!(true)),
            "too_many_subschemas",
        ),
        (
            named("patternProperties", 65, |n| format!("^{n}$"), &json!({})),
            "too_many_patterns",
        ),
        (json!({ "pattern": "x".repeat(513) }), "pattern_too_long"),
        (
            named(
                "properties",
                9,
                |n| format!("p{n}"),
                &json!({ "$dynamicRef": "#" }),
            ),
            "too_many_dynamic_references",
        ),
        (ladder(14), "too_many_expansions"),
        (ladder(30), "too_many_expansions"),
        (
            json!({ "enum": (0..1_001).collect::<Vec<_>>() }),
            "enum_too_long",
        ),
        (
            json!({ "enum": (0..101).map(|n| json!([n])).collect::<Vec<_>>() }),
            "enum_too_long",
        ),
        (wide("oneOf", 65), "too_many_alternatives"),
        (wide("anyOf", 65), "too_many_alternatives"),
    ] {
        assert_quarantined(&schema, label);
    }
}
