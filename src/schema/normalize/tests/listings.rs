//! Listings to try, and how a model that obeys a schema would say a call.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other kinds share one answer"
)]

use super::super::{ArgumentMapping, NormalizedSchema};
use crate::model::reads::Profile;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

pub(super) struct Listing {
    pub(super) name: &'static str,
    pub(super) tools: Vec<Value>,
}

/// Real listings and hostile ones; `tests/corpus/README.md` says where they are from.
pub(super) fn corpus() -> Vec<Listing> {
    [
        (
            "everything",
            include_str!("../../../../tests/corpus/everything.json"),
        ),
        (
            "filesystem",
            include_str!("../../../../tests/corpus/filesystem.json"),
        ),
        (
            "memory",
            include_str!("../../../../tests/corpus/memory.json"),
        ),
        (
            "sequential-thinking",
            include_str!("../../../../tests/corpus/sequential-thinking.json"),
        ),
        ("git", include_str!("../../../../tests/corpus/git.json")),
        ("fetch", include_str!("../../../../tests/corpus/fetch.json")),
        ("time", include_str!("../../../../tests/corpus/time.json")),
        (
            "python",
            include_str!("../../../../tests/corpus/python.json"),
        ),
        (
            "shapes",
            include_str!("../../../../tests/corpus/shapes.json"),
        ),
        (
            "hostile",
            include_str!("../../../../tests/corpus/hostile.json"),
        ),
    ]
    .map(|(name, text)| {
        let listing: Value = text.parse().unwrap();
        Listing {
            name,
            tools: listing["tools"].as_array().unwrap().clone(),
        }
    })
    .into()
}

/// Says `call` as the normalized schema asks, and reads it back; what went wrong, if it did.
pub(super) fn said(
    profile: Profile,
    normal: &NormalizedSchema,
    call: &Value,
) -> Result<(), String> {
    let schema = if profile == Profile::Gemini {
        as_json_schema(&normal.schema)
    } else {
        normal.schema.clone()
    };
    // A value that is a text in one alternative can be itself in another.
    said_so((profile, &schema), normal, (call, true)).or_else(|why| {
        let itself = said_so((profile, &schema), normal, (call, false));
        itself.map_err(|_| why)
    })
}

/// The same; in texts, where the profile has texts for values, or not.
fn said_so(
    (profile, schema): (Profile, &Value),
    normal: &NormalizedSchema,
    (call, in_texts): (&Value, bool),
) -> Result<(), String> {
    let said = renamed(&normal.back, call, in_texts);
    let said = if profile == Profile::OpenaiStrict {
        filled(schema, &said)
    } else {
        said
    };
    if !takes(schema, &said) {
        return Err(format!("{said} is not taken"));
    }
    let read = normal
        .back
        .read(&said)
        .map_err(|violation| violation.expected)?
        .unwrap_or(said.clone());
    if same(&read, call) {
        Ok(())
    } else {
        Err(format!("{said} comes back as {read}"))
    }
}

thread_local! {
    /// Validators already made: most schemas are asked several times.
    static CACHED_VALIDATORS: RefCell<HashMap<String, Rc<jsonschema::Validator>>> = RefCell::default();
}
/// Validators that are kept.
const MAX_CACHED_VALIDATORS: usize = 512;

pub(super) fn takes(schema: &Value, value: &Value) -> bool {
    let text = schema.to_string();
    let validator = CACHED_VALIDATORS.with_borrow_mut(|made| {
        if made.len() > MAX_CACHED_VALIDATORS {
            made.clear();
        }
        let make = || {
            jsonschema::options()
                .with_draft(jsonschema::Draft::Draft202012)
                .build(schema)
                .unwrap()
        };
        made.entry(text).or_insert_with(|| Rc::new(make())).clone()
    });
    validator.is_valid(value)
}

/// Equal as JSON Schema compares: 1 is 1.0.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let both = |(name, one): (&String, &Value)| {
                other.get(name).is_some_and(|other| same(one, other))
            };
            one.len() == other.len() && one.iter().all(both)
        }
        _ => one == other,
    }
}

/// `OpenAPI`'s `nullable` as JSON Schema says it.
pub(super) fn as_json_schema(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let mut plain = Map::new();
    for (keyword, value) in members {
        let value = match (keyword.as_str(), value) {
            ("properties", Value::Object(named)) => named
                .iter()
                .map(|(name, schema)| (name.clone(), as_json_schema(schema)))
                .collect::<Map<_, _>>()
                .into(),
            ("anyOf", Value::Array(branches)) => branches.iter().map(as_json_schema).collect(),
            ("items", schema) => as_json_schema(schema),
            ("nullable", _) => continue,
            (_, value) => value.clone(),
        };
        plain.insert(keyword.clone(), value);
    }
    if schema["nullable"] == true {
        json!({ "anyOf": [plain, { "type": "null" }] })
    } else {
        plain.into()
    }
}

/// Shown names instead of the tool's own; so with texts, if `in_texts`.
fn renamed(back: &ArgumentMapping, value: &Value, in_texts: bool) -> Value {
    match value {
        Value::Object(members) => {
            let shown = |name: &String| {
                let found = back.names.iter().find(|(_, declared)| *declared == name);
                found.map_or_else(|| name.clone(), |(shown, _)| shown.clone())
            };
            let nothing = ArgumentMapping::default();
            let below = |name: &String| {
                back.below
                    .get(name)
                    .or(back.rest.as_deref())
                    .unwrap_or(&nothing)
            };
            members
                .iter()
                .map(|(name, value)| (shown(name), renamed(below(name), value, in_texts)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(elements) => {
            let nothing = ArgumentMapping::default();
            let inside = back.inside.as_deref().unwrap_or(&nothing);
            elements
                .iter()
                .map(|element| renamed(inside, element, in_texts))
                .collect()
        }
        scalar => {
            let text = back
                .values
                .iter()
                .find(|(_, meant)| in_texts && same(meant, scalar));
            text.map_or_else(|| scalar.clone(), |(text, _)| text.as_str().into())
        }
    }
}

/// With a null for what the schema requires and `value` does not have.
fn filled(schema: &Value, value: &Value) -> Value {
    if let Some(branches) = schema["anyOf"].as_array() {
        let tried = branches
            .iter()
            .map(|branch| (branch, filled(branch, value)));
        let found = tried
            .into_iter()
            .find(|(branch, filled)| takes(branch, filled));
        return found.map_or_else(|| value.clone(), |(_, filled)| filled);
    }
    match value {
        Value::Object(members) => {
            let properties = &schema["properties"];
            let below = |(name, value): (&String, &Value)| {
                (name.clone(), filled(&properties[name.as_str()], value))
            };
            let mut filled: Map<String, Value> = members.iter().map(below).collect();
            for name in schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
            {
                if !filled.contains_key(name) && takes(&properties[name], &Value::Null) {
                    filled.insert(name.to_owned(), Value::Null);
                }
            }
            filled.into()
        }
        Value::Array(elements) => elements
            .iter()
            .map(|element| filled(&schema["items"], element))
            .collect(),
        scalar => scalar.clone(),
    }
}
