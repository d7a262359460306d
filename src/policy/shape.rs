//! Does a tree have the shape of its structs? All problems at once, found with the JSON Schema of
//! the very structs that read the tree afterwards, so that neither can know a key that the other
//! does not.

use crate::model::diagnostic::Problems;
use crate::model::pointer::steps;
pub(crate) use crate::model::spelling::suggest;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError, Validator};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

mod whole;

/// A file that people write: it can be described, read and handed on to any task (002-08). What
/// lacks one of these is no input of ours and does not compile as one.
pub(crate) trait AsWritten: JsonSchema + DeserializeOwned + Send + 'static {}

impl<T: JsonSchema + DeserializeOwned + Send + 'static> AsWritten for T {}

/// The JSON Schema (draft 2020-12) of `T`, as `toolgate schema` prints it.
pub(crate) fn schema_of<T: AsWritten>() -> Value {
    schemars::SchemaGenerator::default()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Reads `tree` as `T`. What is wrong is noted and left out, so that the rest can be judged as
/// well; nothing comes back if there is no rest.
pub(crate) fn read<T: AsWritten>(mut tree: Value, problems: &mut Problems) -> Option<T> {
    let schema = schema_of::<T>();
    let validator = jsonschema::options()
        .with_keyword(whole::FORMAT_KEYWORD, whole::keyword)
        .build(&schema)
        .ok();
    let mut wrong = blanks(&tree, &mut Vec::new());
    wrong.extend(flaws(&schema, validator.as_ref(), &tree));
    for flaw in &wrong {
        note(problems, &flaw.path, &flaw.message, &flaw.hint);
        prune(&mut tree, flaw);
    }
    if wrong
        .iter()
        .any(|flaw| flaw.path.is_empty() && !flaw.missing)
    {
        return None;
    }
    for flaw in flaws(&schema, validator.as_ref(), &tree) {
        let entry = flaw.path.into_iter().take(2).collect();
        prune(
            &mut tree,
            &Flaw {
                path: entry,
                missing: false,
                ..flaw
            },
        );
    }
    let read = serde_json::from_value(tree);
    // What the schema lets pass and the struct does not has no place, and the struct's words.
    if let (Err(error), true) = (&read, wrong.is_empty()) {
        problems.error(error.to_string(), "compare it with `toolgate schema`");
    }
    read.ok()
}

fn flaws(schema: &Value, validator: Option<&Validator>, tree: &Value) -> Vec<Flaw> {
    let mut found = Vec::new();
    for error in validator
        .into_iter()
        .flat_map(|validator| validator.iter_errors(tree))
    {
        explain(schema, error, &mut found);
    }
    found
}

struct Flaw {
    path: Vec<String>,
    message: String,
    hint: String,
    /// Something is not there.
    missing: bool,
}

fn note(problems: &mut Problems, path: &[String], message: &str, hint: &str) {
    match path.split_first() {
        Some((first, rest)) => problems.under(first.clone(), |problems| {
            note(problems, rest, message, hint);
        }),
        None => problems.error(message, hint),
    }
}

/// Takes away what is wrong, or the list that holds it. What misses something stays, unless a list
/// holds it.
fn prune(tree: &mut Value, flaw: &Flaw) {
    let mut at = tree;
    for (depth, step) in flaw.path.iter().enumerate() {
        let Value::Object(map) = at else { return };
        let last = depth + 1 == flaw.path.len();
        let holds_list = map.get(step).is_some_and(Value::is_array);
        if holds_list || (last && !flaw.missing) {
            map.shift_remove(step);
            return;
        }
        let Some(below) = map.get_mut(step) else {
            return;
        };
        at = below;
    }
}

/// A key without a value is never a choice: `allow:` must not mean "all". JSON Schemas may hold
/// nulls.
fn blanks(tree: &Value, path: &mut Vec<String>) -> Vec<Flaw> {
    let below: Vec<(String, &Value)> = match tree {
        Value::Null => {
            let hint = "write a value, or take the key away".to_owned();
            return vec![Flaw {
                path: path.clone(),
                message: "empty value".to_owned(),
                hint,
                missing: false,
            }];
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => return Vec::new(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (key.clone(), item)).collect(),
    };
    let mut found = Vec::new();
    for (step, item) in below {
        if (step == "arguments" || step == "inputSchema") && item.is_object() {
            continue;
        }
        path.push(step);
        found.extend(blanks(item, path));
        path.pop();
    }
    found
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the keywords that no struct of ours produces share one answer"
)]
fn explain(schema: &Value, error: ValidationError<'_>, wrong: &mut Vec<Flaw>) {
    let path: Vec<String> = steps(error.instance_path().as_str());
    if error.instance().is_null() {
        return;
    }
    let around = |keyword_path: &str| {
        keyword_path
            .rsplit_once('/')
            .and_then(|(parent, _)| schema.pointer(parent))
            .cloned()
    };
    let shape = around(error.schema_path().as_str());
    let flaw = |message: String, hint: String| Flaw {
        path: path.clone(),
        message,
        hint,
        missing: false,
    };
    match error.kind() {
        ValidationErrorKind::AnyOf { .. } => {
            let ValidationErrorKind::AnyOf { context } = error.into_parts().kind else {
                return;
            };
            // `Option<T>` is T or null, and null was sorted out above.
            for inner in context.into_iter().next().into_iter().flatten() {
                explain(schema, inner, wrong);
            }
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = keys(shape.as_ref());
            wrong.extend(unexpected.iter().map(|key| Flaw {
                path: path.iter().chain([key]).cloned().collect(),
                message: format!("unknown key `{key}`"),
                hint: suggest(key, &known),
                missing: false,
            }));
        }
        ValidationErrorKind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let about = shape
                .as_ref()
                .and_then(|shape| shape["properties"][key]["description"].as_str());
            let hint = format!("add `{key}`: {}", about.unwrap_or("it has no default"));
            wrong.push(Flaw {
                missing: true,
                ..flaw(format!("missing `{key}`"), hint)
            });
        }
        kind => {
            let (message, hint) = value_flaw(kind, shape.as_ref());
            wrong.push(flaw(message, hint));
        }
    }
}

/// What is wrong with one value, and what to do about it.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the keywords that no struct of ours produces share one answer"
)]
fn value_flaw(kind: &ValidationErrorKind, shape: Option<&Value>) -> (String, String) {
    let (message, hint) = match kind {
        ValidationErrorKind::Type { kind } => (format!("expected {}", types(kind)), ""),
        ValidationErrorKind::Enum { options } => (format!("expected one of {options}"), ""),
        ValidationErrorKind::OneOfNotValid { .. } => {
            let options = shape
                .and_then(|shape| shape["oneOf"].as_array())
                .into_iter()
                .flatten();
            let words: Vec<String> = options
                .filter_map(|one| one["const"].as_str())
                .map(|one| format!("`{one}`"))
                .collect();
            (format!("expected one of {}", words.join(", ")), "")
        }
        ValidationErrorKind::MaxLength { limit } => {
            (format!("longer than {limit} characters"), "shorten it")
        }
        ValidationErrorKind::MinLength { .. } => ("is blank".to_owned(), "write something"),
        ValidationErrorKind::MinItems { .. } => ("is empty".to_owned(), "name at least one"),
        ValidationErrorKind::Minimum { limit } => {
            (format!("is less than {limit}"), "write a larger number")
        }
        ValidationErrorKind::Custom { message, .. } => (message.clone(), ""),
        kind => (
            format!("breaks `{}` of its schema", kind.keyword()),
            "compare it with `toolgate schema`",
        ),
    };
    (message, hint.to_owned())
}

fn keys(shape: Option<&Value>) -> Vec<String> {
    let properties = shape.and_then(|shape| shape["properties"].as_object());
    properties
        .into_iter()
        .flat_map(|map| map.keys().cloned())
        .collect()
}

fn types(kind: &TypeKind) -> String {
    let of: Vec<&str> = match kind {
        TypeKind::Single(single) => vec![name(*single)],
        TypeKind::Multiple(several) => several.iter().map(name).collect(),
    };
    of.into_iter()
        .filter(|name| !name.is_empty())
        .collect::<Vec<_>>()
        .join(" or ")
}

fn name(of: JsonType) -> &'static str {
    match of {
        JsonType::Array => "a list",
        JsonType::Boolean => "`true` or `false`",
        JsonType::Integer => "a whole number",
        JsonType::Null => "",
        JsonType::Number => "a number",
        JsonType::Object => "a mapping",
        JsonType::String => "text",
    }
}

#[cfg(test)]
mod tests;
