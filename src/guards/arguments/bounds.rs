//! Does what a contract's schema bounds exist, and can the bound bind it? A `maximum` of text, or
//! of an argument that the tool does not have, would be a bound in its author's mind only.

use crate::model::diagnostic::Problems;
use crate::schema::kinds::{ELEMENT_STEP, JsonKind, kind_at};
use serde_json::{Map, Value};

/// Nested schemas that are looked at; the compiler refuses deeper ones by itself.
const MAX_SCHEMA_DEPTH: usize = 32;

/// The properties that `schema` names, each with its key and its path from the root of the
/// arguments. What stands in alternatives or behind conditions need not hold, and is left out.
pub(super) fn bounded(schema: &Map<String, Value>) -> Vec<(Vec<String>, Vec<String>)> {
    let mut found = Vec::new();
    each(
        schema,
        &mut SchemaSpot::default(),
        &mut |spot: &SchemaSpot, _: &Value| {
            found.push((spot.key.clone(), spot.path.clone()));
        },
    );
    found
}

/// Where a property stands: its keys in the schema, and its path from the root of the arguments.
#[derive(Debug, Default)]
struct SchemaSpot {
    key: Vec<String>,
    path: Vec<String>,
}

/// Shows each property that `schema` names.
fn each(
    schema: &Map<String, Value>,
    spot: &mut SchemaSpot,
    look: &mut impl FnMut(&SchemaSpot, &Value),
) {
    if spot.key.len() > 2 * MAX_SCHEMA_DEPTH {
        return;
    }
    // The parts of an `allOf` are those of a contract and its variant: keys as each has written
    // them.
    let parts = schema.get("allOf").and_then(Value::as_array);
    for part in parts.into_iter().flatten().filter_map(Value::as_object) {
        each(part, spot, look);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let (keys, steps) = (spot.key.len(), spot.path.len());
        spot.key.extend(["properties".to_owned(), name.clone()]);
        spot.path.push(name.clone());
        look(spot, property);
        if let Value::Object(members) = property {
            each(members, spot, look);
        }
        spot.key.truncate(keys);
        spot.path.truncate(steps);
    }
    if let Some(Value::Object(items)) = schema.get("items") {
        spot.key.push("items".to_owned());
        spot.path.push(ELEMENT_STEP.to_owned());
        each(items, spot, look);
        spot.path.pop();
        spot.key.pop();
    }
}

/// Notes where `overlay` bounds an argument by what no value that `server` takes is bound by.
pub(super) fn compare(overlay: &Value, server: &Value, problems: &mut Problems) {
    let Value::Object(overlay) = overlay else {
        return;
    };
    let mut look = |spot: &SchemaSpot, schema: &Value| {
        let (Value::Object(members), Some(kind)) = (schema, kind_at(server, &spot.path)) else {
            return;
        };
        for (keyword, value) in members {
            let Some(message) = unbound(&spot.path.join("."), kind, keyword, value) else {
                continue;
            };
            let key: Vec<String> = spot.key.iter().chain([keyword]).cloned().collect();
            let hint = format!("the tool's own schema says {}", kind.words());
            note(&key, problems, |problems| problems.error(message, hint));
        }
    };
    each(overlay, &mut SchemaSpot::default(), &mut look);
}

/// What is wrong with a keyword over an argument that is of this `kind` in the tool's schema.
fn unbound(name: &str, kind: JsonKind, keyword: &str, value: &Value) -> Option<String> {
    if let Some(other) = JsonKind::bounded_by(keyword) {
        let message = format!(
            "`{keyword}` bounds {}, and `{name}` is {}: it bounds nothing",
            other.words(),
            kind.words()
        );
        return (other != kind).then_some(message);
    }
    let fits = match (keyword, value) {
        ("type", Value::String(_) | Value::Array(_)) => {
            kind_at(&serde_json::json!({ "type": value }), &[]).is_none_or(|own| own == kind)
        }
        ("const", value) => JsonKind::of(value) == kind,
        ("enum", Value::Array(values)) => values.iter().any(|one| JsonKind::of(one) == kind),
        _ => true,
    };
    (!fits).then(|| {
        format!(
            "`{keyword}` asks for another type than `{name}` has, which is {}: no call passes",
            kind.words()
        )
    })
}

fn note(key: &[String], problems: &mut Problems, tell: impl FnOnce(&mut Problems)) {
    match key.split_first() {
        Some((first, rest)) => problems.under(first.clone(), |problems| note(rest, problems, tell)),
        None => tell(problems),
    }
}
