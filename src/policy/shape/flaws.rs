//! What is wrong in a tree, by the JSON Schema of its struct, in the words of who wrote it.

use super::remedy::{self, Judged, Wanted};
use super::stand_in;
use crate::model::diagnostic::PROBLEMS_AT_MOST;
use crate::model::pointer::steps;
use crate::model::spelling::{nearest, suggest};
use crate::policy::locate::EMPTY_VALUE_MESSAGE;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::Value;

/// One thing that is wrong.
pub(super) struct Flaw {
    pub(super) path: Vec<String>,
    pub(super) message: String,
    pub(super) hint: String,
    pub(super) kind: FlawKind,
}

/// What is done about it, so that the rest can be judged.
pub(super) enum FlawKind {
    /// Nothing is there: at `path` stands what lacks the key.
    Missing { key: String, stand_in: Value },
    /// There is no such key: the one that was meant, if that shows.
    Unknown { meant: Option<String> },
    /// A value, for which another stands in; none: it can be read as it is.
    Value { stand_in: Option<Value> },
    /// There is no value.
    Blank,
}

/// What is wrong in `tree`: values that are none, and what `validator` finds. Of many no more than show
/// that they are too many.
pub(super) fn wrong_in(
    judged: Judged<'_>,
    validator: Option<&Validator>,
    tree: &Value,
) -> Vec<Flaw> {
    let mut wrong = Vec::new();
    blanks(tree, &mut Vec::new(), &mut wrong);
    wrong.extend(flaws(judged, validator, tree));
    wrong
}

/// What `validator`, of `schema`, finds in `tree`, likewise.
pub(super) fn flaws(judged: Judged<'_>, validator: Option<&Validator>, tree: &Value) -> Vec<Flaw> {
    let mut found = Vec::new();
    for error in validator
        .into_iter()
        .flat_map(|validator| validator.iter_errors(tree))
    {
        explain(judged, error, &mut found);
        if found.len() > PROBLEMS_AT_MOST {
            break;
        }
    }
    found
}

/// A key without a value is never a choice: `allow:` must not mean "all". JSON Schemas may hold
/// nulls.
fn blanks(tree: &Value, path: &mut Vec<String>, found: &mut Vec<Flaw>) {
    if found.len() > PROBLEMS_AT_MOST {
        return;
    }
    let below: Vec<(String, &Value)> = match tree {
        Value::Null => {
            return found.push(Flaw {
                path: path.clone(),
                message: EMPTY_VALUE_MESSAGE.to_owned(),
                hint: "write a value, or take the key away".to_owned(),
                kind: FlawKind::Blank,
            });
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (key.clone(), item)).collect(),
    };
    for (step, item) in below {
        if (step == "arguments" || step == "inputSchema") && item.is_object() {
            continue;
        }
        path.push(step);
        blanks(item, path, found);
        path.pop();
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the keywords that no struct of ours produces share one answer"
)]
fn explain(judged: Judged<'_>, error: ValidationError<'_>, wrong: &mut Vec<Flaw>) {
    let schema = judged.schema;
    let path: Vec<String> = steps(error.instance_path().as_str());
    if error.instance().is_null() {
        return;
    }
    let around = |keyword_path: &str| {
        keyword_path
            .rsplit_once('/')
            .and_then(|(parent, _)| schema.pointer(parent))
    };
    let shape = around(error.schema_path().as_str());
    match error.kind() {
        ValidationErrorKind::AnyOf { .. } => {
            let ValidationErrorKind::AnyOf { context } = error.into_parts().kind else {
                return;
            };
            // `Option<T>` is T or null, and null was sorted out above.
            for inner in context.into_iter().next().into_iter().flatten() {
                explain(judged, inner, wrong);
            }
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let around = Around {
                path: &path,
                given: error.instance(),
                shape,
            };
            let told = unexpected.iter().take(PROBLEMS_AT_MOST + 1);
            wrong.extend(told.map(|key| around.unknown(key)));
        }
        ValidationErrorKind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let around = Around {
                path: &path,
                given: error.instance(),
                shape,
            };
            wrong.push(around.missing(key, schema));
        }
        kind => {
            let wanted = Wanted {
                path: &path,
                given: error.instance(),
                judged,
                shape,
            };
            let (message, hint) = value_flaw(kind, &wanted);
            let stand_in = remedy::stand_in(kind, &wanted);
            wrong.push(Flaw {
                path,
                message,
                hint,
                kind: FlawKind::Value { stand_in },
            });
        }
    }
}

/// A mapping, and the schema of what may stand in it.
struct Around<'a> {
    path: &'a [String],
    given: &'a Value,
    shape: Option<&'a Value>,
}

impl Around<'_> {
    fn unknown(&self, key: &str) -> Flaw {
        let known = keys(self.shape);
        let map = self.given.as_object();
        let is_free = |key: &&str| map.is_some_and(|map| !map.contains_key(*key));
        let meant = nearest(key, &known).filter(is_free).map(str::to_owned);
        Flaw {
            path: [self.path, &[key.to_owned()]].concat(),
            message: format!("unknown key `{key}`"),
            hint: suggest(key, &known),
            kind: FlawKind::Unknown { meant },
        }
    }

    fn missing(&self, key: &str, schema: &Value) -> Flaw {
        let shape = self.shape.map(|shape| &shape["properties"][key]);
        let about = shape.and_then(|shape| shape["description"].as_str());
        let stand_in = stand_in::of(schema, shape.unwrap_or(&Value::Null));
        Flaw {
            path: self.path.to_vec(),
            message: format!("missing `{key}`"),
            hint: format!("add `{key}`: {}", about.unwrap_or("it has no default")),
            kind: FlawKind::Missing {
                key: key.to_owned(),
                stand_in,
            },
        }
    }
}

/// What is wrong with one value, and what to do about it.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the keywords that no struct of ours produces share one answer"
)]
fn value_flaw(kind: &ValidationErrorKind, wanted: &Wanted<'_>) -> (String, String) {
    let (message, hint) = match kind {
        ValidationErrorKind::Type { kind } => {
            return (format!("expected {}", types(kind)), wanted.example(kind));
        }
        ValidationErrorKind::Enum { .. } | ValidationErrorKind::OneOfNotValid { .. } => {
            let options = wanted.options();
            let words: Vec<String> = options.iter().map(|one| format!("`{one}`")).collect();
            let message = format!("expected one of {}", words.join(", "));
            return (message, wanted.option(&options));
        }
        ValidationErrorKind::MaxLength { limit } => {
            (format!("longer than {limit} characters"), "shorten it")
        }
        ValidationErrorKind::MinLength { .. } => ("is blank".to_owned(), "write something"),
        ValidationErrorKind::MinItems { .. } => ("is empty".to_owned(), "name at least one"),
        ValidationErrorKind::Minimum { limit } => {
            (format!("is less than {limit}"), "write a larger number")
        }
        ValidationErrorKind::Custom { message, .. } => {
            return (message.clone(), wanted.written("5"));
        }
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

/// The types, in words.
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
