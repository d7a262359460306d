//! Bounds that no value of the tool's type can be bound by.

use super::*;

/// Issue 15 part 5: a bound over what is of another type binds nothing.
#[test]
fn a_bound_that_cannot_bind_is_an_error() {
    let server = json!({ "properties": {
        "text": { "type": "string" }, "n": { "type": "integer" }, "any": {},
        "list": { "type": "array", "items": { "type": "number" } } } });
    let server = Schema::compile(&server).unwrap();
    for (overlay, expected) in [
        (
            json!({ "text": { "maximum": 5 } }),
            "properties.text.maximum: `maximum` bounds a number, and `text` is text: it bounds nothing",
        ),
        (
            json!({ "n": { "maxLength": 5 } }),
            "properties.n.maxLength: `maxLength` bounds text, and `n` is a number: it bounds nothing",
        ),
        (json!({ "list": { "items": { "pattern": "^a" } } }), ""),
        (
            json!({ "n": { "type": "string" } }),
            "properties.n.type: `type` asks for another type than `n` has, which is a number: no call passes",
        ),
        (
            json!({ "text": { "const": 5 } }),
            "properties.text.const: `const` asks for another type than `text` has, which is text: no call passes",
        ),
        (json!({ "text": { "enum": [5, "a"] } }), ""),
        (json!({ "n": { "format": "int32", "maximum": 100 } }), ""),
        (
            json!({ "n": { "maximum": 5, "type": "number" }, "any": { "maximum": 5 }, "text": { "maxLength": 5 } }),
            "",
        ),
    ] {
        let (rule, _) = compile(&json!({ "properties": overlay }));
        let mut problems = Problems::default();
        rule.check_against(&server, &mut problems);
        let told = found(problems).into_iter().map(|(_, path, words)| {
            format!("{path}: {}", words.split("; ").next().unwrap_or_default())
        });
        assert_eq!(told.collect::<Vec<_>>().join("; "), expected, "{overlay}");
    }
}
