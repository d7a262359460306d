//! What stands in for a value that is missing or cannot be read, so that everything else can be
//! judged. Nothing is told of it, and nothing is ever run with it.

use serde_json::{Map, Value, json};

/// Definitions that refer to definitions, at most.
const MAX_REFERENCES: usize = 16;

/// The text that stands in for one.
pub(crate) const UNREAD_TEXT: &str = "?";

/// A value that the struct behind `shape`, a part of `schema`, can be read from.
pub(super) fn of(schema: &Value, shape: &Value) -> Value {
    within(schema, shape, MAX_REFERENCES)
}

fn within(schema: &Value, shape: &Value, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else {
        return Value::Null;
    };
    let shape = resolved(schema, shape);
    for keyword in ["anyOf", "oneOf"] {
        if let Some(first) = shape.get(keyword).and_then(|one| one.get(0)) {
            return within(schema, first, depth);
        }
    }
    if let Some(word) = shape.get("const").or_else(|| shape["enum"].get(0)) {
        return word.clone();
    }
    let kind = shape["type"].as_str().or_else(|| shape["type"][0].as_str());
    match kind {
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("array") => {
            let one = || within(schema, &shape["items"], depth);
            let is_filled = shape["minItems"].as_u64() > Some(0);
            Value::Array(is_filled.then(one).into_iter().collect())
        }
        Some("object") => {
            let needed = shape["required"].as_array().into_iter().flatten();
            let filled = needed.filter_map(Value::as_str).map(|key| {
                let value = within(schema, &shape["properties"][key], depth);
                (key.to_owned(), value)
            });
            Value::Object(filled.collect::<Map<_, _>>())
        }
        _ => json!(UNREAD_TEXT),
    }
}

/// `shape`, or what it refers to.
pub(super) fn resolved<'s>(schema: &'s Value, shape: &'s Value) -> &'s Value {
    let mut at = shape;
    for _ in 0..MAX_REFERENCES {
        let to = at["$ref"].as_str().and_then(|to| to.strip_prefix('#'));
        match to.and_then(|to| schema.pointer(to)) {
            Some(other) => at = other,
            None => break,
        }
    }
    at
}
