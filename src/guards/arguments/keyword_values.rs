//! Judges the values of keywords in a contract's schema, each by itself, so that each that is wrong
//! has its place.

use crate::model::spelling::suggest;
use crate::schema::Schema;
use serde_json::{Map, Value};

/// The types of JSON Schema.
const TYPE_NAMES: [&str; 7] = [
    "string", "integer", "number", "boolean", "array", "object", "null",
];
/// The formats that are judged.
const FORMATS: [&str; 18] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "uri-template",
    "iri",
    "iri-reference",
    "idn-email",
    "idn-hostname",
    "uuid",
    "regex",
    "json-pointer",
];

/// What is wrong with `value`, that of a keyword with data in a part of `root`, and what to do.
pub(super) fn wrong(root: &Value, keyword: &str, value: &Value) -> Option<(String, String)> {
    if keyword == "$ref" {
        return lost(root, value);
    }
    // These are the root's, and were judged with it; or say nothing about values.
    if keyword.starts_with('$') {
        return None;
    }
    let mut alone = Map::new();
    if let Some(dialect) = root.get("$schema") {
        alone.insert("$schema".to_owned(), dialect.clone());
        // One that is unknown is no matter of each keyword.
        Schema::compile_contract(&Value::Object(alone.clone())).ok()?;
    }
    alone.insert(keyword.to_owned(), value.clone());
    let reason = Schema::compile_contract(&Value::Object(alone)).err()?;
    let write = |example: &str| format!("write `{keyword}: {example}`");
    let text = value.as_str();
    Some(match (keyword, text) {
        ("type", Some(name)) => (
            format!("`{}` is no type of JSON Schema", name.escape_debug()),
            suggest(name, &TYPE_NAMES.map(str::to_owned)),
        ),
        ("type", None) => (
            "expected the name of a type, or a list of them".to_owned(),
            write("string"),
        ),
        ("format", Some(name)) => (
            format!("`{}` is no format that is judged", name.escape_debug()),
            suggest(name, &FORMATS.map(str::to_owned)),
        ),
        ("pattern", Some(_)) => (
            "not a regular expression, or one that is too costly to match".to_owned(),
            "write one such as `^[a-z]{1,20}$`; a letter that has a meaning, such as `(`, stands behind `\\`"
                .to_owned(),
        ),
        ("pattern" | "format", None) => ("expected text".to_owned(), write("\"…\"")),
        ("required" | "enum" | "examples", _) => {
            let example = match text {
                Some(one) if one.chars().count() < 40 => format!("[{}]", one.escape_debug()),
                _ => "[name]".to_owned(),
            };
            ("expected a list".to_owned(), write(&example))
        }
        ("maximum" | "exclusiveMaximum" | "minimum" | "exclusiveMinimum" | "multipleOf", _) => {
            ("expected a number".to_owned(), write(&digits(value)))
        }
        (counted, _) if counted.starts_with("max") || counted.starts_with("min") => {
            ("expected a whole number, 0 or more".to_owned(), write(&digits(value)))
        }
        ("uniqueItems", _) => ("expected `true` or `false`".to_owned(), write("true")),
        _ => (
            reason.to_string(),
            "write a JSON Schema of draft 2020-12 that describes the arguments".to_owned(),
        ),
    })
}

/// The number that was written as a text, or another.
fn digits(value: &Value) -> String {
    let text = value.as_str().filter(|text| text.parse::<u32>().is_ok());
    text.unwrap_or("10").to_owned()
}

/// A reference that leads nowhere.
fn lost(root: &Value, value: &Value) -> Option<(String, String)> {
    let to = value.as_str()?;
    let Some(pointer) = to.strip_prefix('#') else {
        return Some((
            "a `$ref` leads out of the schema: only `#…` is followed".to_owned(),
            "write what it refers to under `$defs`, and `$ref: '#/$defs/name'`".to_owned(),
        ));
    };
    // Anchors are looked up by the compiler.
    if !pointer.starts_with('/') || root.pointer(pointer).is_some() {
        return None;
    }
    let defined = ["$defs", "definitions"]
        .into_iter()
        .find_map(|key| root[key].as_object());
    let known: Vec<String> = defined
        .into_iter()
        .flat_map(|defined| defined.keys().cloned())
        .collect();
    let name = pointer.rsplit('/').next().unwrap_or_default();
    let hint = if known.is_empty() {
        "describe it under `$defs`".to_owned()
    } else {
        suggest(name, &known)
    };
    Some(("a `$ref` leads to nothing in the schema".to_owned(), hint))
}

/// A keyword that holds schemas and has something else.
pub(super) fn no_schemas(keyword: &str, is_list: bool, is_map: bool) -> (String, String) {
    let (what, example) = if is_list {
        ("a list of schemas", "[{ type: string }]")
    } else if is_map {
        (
            "a mapping of names to schemas",
            "{ name: { type: string } }",
        )
    } else if keyword == "additionalProperties" || keyword == "unevaluatedProperties" {
        ("a schema, or `true` or `false`", "false")
    } else {
        ("a schema", "{ type: string }")
    };
    (
        format!("expected {what}"),
        format!("write `{keyword}: {example}`"),
    )
}
