//! Which texts an argument may be, as far as a schema lists them at its place.
//!
//! What holds for every call is read, as in [`super::kinds`]; `null` chooses nothing and is left
//! out.

use super::kinds::KindReader;
use serde_json::{Map, Value};

/// References and alternatives within each other.
const MAX_DEPTH: usize = 16;

/// The values by which the argument on `path` can choose, `true` and `false` as texts, if `schema`
/// lists them: none for one that is neither text nor a truth.
pub(crate) fn choices_at(schema: &Value, path: &[String]) -> Option<Vec<String>> {
    let reader = KindReader::of(schema);
    listed(&reader, &reader.at(path)?, 0)
}

/// Of subschemas that all hold, the first that lists values.
fn listed(
    reader: &KindReader<'_>,
    places: &[&Map<String, Value>],
    depth: usize,
) -> Option<Vec<String>> {
    places
        .iter()
        .find_map(|place| valued(place))
        .or_else(|| {
            places
                .iter()
                .find_map(|place| alternatives(reader, place, depth))
        })
        .or_else(|| places.iter().find_map(|place| typed(place)))
}

fn valued(place: &Map<String, Value>) -> Option<Vec<String>> {
    let values = match (place.get("const"), place.get("enum")) {
        (Some(value), _) => std::slice::from_ref(value),
        (None, Some(Value::Array(values))) => values,
        (None, _) => return None,
    };
    let text = |value: &Value| match value {
        // The texts choose nothing.
        Value::String(text) if matches!(&**text, "true" | "false") => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    };
    Some(values.iter().filter_map(text).collect())
}

/// All of them have to list their values.
fn alternatives(
    reader: &KindReader<'_>,
    place: &Map<String, Value>,
    depth: usize,
) -> Option<Vec<String>> {
    ["anyOf", "oneOf"].into_iter().find_map(|keyword| {
        let all = place.get(keyword)?.as_array()?;
        let mut values = Vec::new();
        for schema in all {
            let places = reader.all_of(schema);
            let below = (depth < MAX_DEPTH && reader.goes_on())
                .then(|| listed(reader, &places, depth + 1))?;
            values.extend(below?);
        }
        Some(values)
    })
}

fn typed(place: &Map<String, Value>) -> Option<Vec<String>> {
    let said = place.get("type")?;
    let names = said
        .as_array()
        .map_or(std::slice::from_ref(said), Vec::as_slice);
    let has = |name: &str| names.iter().any(|one| one == name);
    let truths = || {
        ["true", "false"]
            .into_iter()
            .filter(|_| has("boolean"))
            .map(str::to_owned)
    };
    (!has("string")).then(|| truths().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// 002-32: the values are those that a call can choose a case by.
    #[test]
    fn values_are_found_wherever_they_are_listed() {
        let modes = json!({ "enum": ["a", "b"] });
        for (mode, values) in [
            (modes.clone(), Some("a b")),
            (json!({ "const": "a" }), Some("a")),
            (json!({ "enum": ["a", null, 5, true] }), Some("a true")),
            (json!({ "anyOf": [modes, { "type": "null" }] }), Some("a b")),
            (
                json!({ "oneOf": [{ "const": "a" }, { "$ref": "#/$defs/m" }] }),
                Some("a c"),
            ),
            (json!({ "$ref": "#/$defs/m" }), Some("c")),
            (
                json!({ "allOf": [{ "type": "string" }, { "enum": ["a"] }] }),
                Some("a"),
            ),
            (json!({ "type": "boolean" }), Some("true false")),
            (json!({ "type": ["boolean", "null"] }), Some("true false")),
            (json!({ "type": "integer" }), Some("")),
            (json!({ "type": ["array", "object"] }), Some("")),
            (json!({ "type": ["string", "null"] }), None),
            (
                json!({ "anyOf": [{ "enum": ["a"] }, { "type": "string" }] }),
                None,
            ),
            (json!({ "$ref": "#/$defs/loop" }), None),
            (json!({}), None),
        ] {
            let schema = json!({ "properties": { "mode": mode }, "$defs": { "m": { "enum": ["c"] },
                "loop": { "anyOf": [{ "$ref": "#/$defs/loop" }, { "$ref": "#/$defs/loop" }] } } });
            let found = choices_at(&schema, &["mode".to_owned()]);
            assert_eq!(
                found.map(|found| found.join(" ")).as_deref(),
                values,
                "{schema}"
            );
        }
    }
}
