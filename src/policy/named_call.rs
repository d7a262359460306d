//! Can a call be made that a contract itself names: one that takes another one back, or a look at what
//! became of one? What stands for a part of another call is not known before that call, and is not
//! judged (003-64).

use super::shape::suggest;
use crate::guards::arguments;
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use crate::schema::Schema;
use serde_json::{Map, Value, json};

/// Keywords of a schema by which an object may have members that it does not name.
const OPENING_KEYWORDS: [&str; 3] = [
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
];
/// Where a schema has what its parts refer to.
const DEFINING_KEYWORDS: [&str; 3] = ["$schema", "$defs", "definitions"];

/// A call as a contract names it.
pub(super) struct NamedCall<'a> {
    /// What it calls.
    pub(super) tool: &'a ToolName,
    /// Its arguments, as written.
    pub(super) arguments: &'a Map<String, Value>,
    /// What begins every message.
    pub(super) unfit: &'a str,
    /// What may stand before the name of a part of another call.
    pub(super) parts: &'a [&'a str],
    /// Arguments that toolgate itself fills in.
    pub(super) filled: Vec<String>,
    /// Whether a text stands for a part of another call.
    pub(super) stands_for_a_part: fn(&str) -> bool,
}

impl NamedCall<'_> {
    /// Notes what does not fit `schema`, the tool's or its contract's, which has no arguments but
    /// the `known` ones.
    pub(super) fn judge(&self, schema: &Value, known: Option<&[String]>, problems: &mut Problems) {
        self.judge_required(schema, problems);
        self.judge_names(known, problems);
        self.judge_values(schema, problems);
    }

    /// Does the call have what `schema` asks for?
    fn judge_required(&self, schema: &Value, problems: &mut Problems) {
        let Self { tool, unfit, .. } = self;
        let required = schema["required"].as_array().into_iter().flatten();
        let unset = required.filter_map(Value::as_str).filter(|name| {
            !self.arguments.contains_key(*name) && !self.filled.iter().any(|filled| filled == name)
        });
        problems.under("arguments", |problems| {
            for name in unset {
                let parts: Vec<String> = self
                    .parts
                    .iter()
                    .map(|prefix| format!("`{prefix}{name}`"))
                    .collect();
                problems.error(
                    format!("{unfit}: `{tool}` requires `{name}`, which it leaves unset"),
                    format!(
                        "add `{name}`: a value, or a part of the call such as {}",
                        parts.join(" or ")
                    ),
                );
            }
        });
    }

    /// Has it nothing but these arguments, where they are known?
    fn judge_names(&self, known: Option<&[String]>, problems: &mut Problems) {
        let Self { tool, unfit, .. } = self;
        let Some(known) = known else { return };
        problems.under("arguments", |problems| {
            for name in self.arguments.keys().filter(|name| !known.contains(name)) {
                problems.under(name.clone(), |problems| {
                    problems.error(
                        format!("{unfit}: `{tool}` has no argument `{name}`"),
                        suggest(name, known),
                    );
                });
            }
        });
    }

    /// Values that `schema` lets nothing of come.
    fn judge_values(&self, schema: &Value, problems: &mut Problems) {
        let properties = schema["properties"].as_object();
        let written = self
            .arguments
            .iter()
            .filter(|(_, value)| is_known(value, self.stands_for_a_part));
        problems.under("arguments", |problems| {
            for (name, value) in written {
                let Some(said) = properties.and_then(|properties| properties.get(name)) else {
                    continue;
                };
                let mut alone: Map<String, Value> = DEFINING_KEYWORDS
                    .iter()
                    .filter_map(|key| Some(((*key).to_owned(), schema.get(key)?.clone())))
                    .collect();
                alone.insert("properties".to_owned(), json!({ name: said }));
                // A part of it that cannot be judged alone is judged when the call is made.
                let judged = Schema::compile(&Value::Object(alone))
                    .map(|alone| arguments::fit(&alone, &json!({ name: value })));
                if let Ok(Err(violation)) = judged {
                    let Self { tool, unfit, .. } = self;
                    problems.under(name.clone(), |problems| {
                        problems.error(
                            format!("{unfit}: `{tool}` does not take this value of `{name}`"),
                            format!("expected {}", violation.expected),
                        );
                    });
                }
            }
        });
    }
}

/// The arguments that the schema names, if it leaves no others open.
pub(super) fn declared_names(schema: &Value) -> Option<Vec<String>> {
    let is_open = OPENING_KEYWORDS
        .iter()
        .filter_map(|keyword| schema.get(keyword))
        .any(|said| *said != Value::Bool(false));
    let composed = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if"];
    let is_composed = composed.iter().any(|keyword| schema.get(keyword).is_some());
    let names = schema["properties"].as_object()?;
    // A server that declares no argument may say nothing of them.
    let is_open = is_open || names.is_empty();
    (!is_open && !is_composed).then(|| names.keys().cloned().collect())
}

/// Whether nothing in the value stands for a part of a call.
pub(super) fn is_known(value: &Value, stands_for_a_part: fn(&str) -> bool) -> bool {
    let is_known = |value: &Value| is_known(value, stands_for_a_part);
    match value {
        Value::String(text) => !stands_for_a_part(text),
        Value::Array(items) => items.iter().all(is_known),
        Value::Object(members) => members.values().all(is_known),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}
