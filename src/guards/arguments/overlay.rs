//! Judges the text of a contract's schema: keywords that don't exist, and names that the tool
//! server doesn't know.

use super::bounds::note;
use super::keyword_values;
use crate::model::diagnostic::Problems;
use crate::model::spelling::{distance, suggest};
use crate::schema::{Schema, mentions};
use serde_json::{Map, Value};

/// Keywords with data, one schema, a list of schemas, schemas by name: what draft 2020-12 knows,
/// and draft-07 besides.
const DATA_KEYWORDS: &[&str] = &[
    "$schema",
    "$id",
    "$ref",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "contentEncoding",
    "contentMediaType",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
];
const SCHEMA_KEYWORDS: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
const SCHEMA_LIST_KEYWORDS: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
const SCHEMA_MAP_KEYWORDS: &[&str] = &[
    "properties",
    "patternProperties",
    "dependentSchemas",
    "$defs",
    "definitions",
    "dependencies",
];

/// Nested schemas that are looked at; the compiler refuses deeper ones by itself.
const MAX_SCHEMA_DEPTH: usize = 32;

/// Whether every keyword of `schema` exists and has a value that it can have. Notes each that
/// doesn't.
pub(super) fn judge(schema: &Value, problems: &mut Problems) -> bool {
    subschema(schema, schema, problems, MAX_SCHEMA_DEPTH)
}

/// Judges `schema`, a part of `root`.
fn subschema(root: &Value, schema: &Value, problems: &mut Problems, depth: usize) -> bool {
    let Value::Object(members) = schema else {
        return true;
    };
    if depth == 0 {
        return true;
    }
    let mut fine = true;
    for (keyword, value) in members {
        fine &= problems.under(keyword, |problems| {
            judge_keyword(root, keyword, value, problems, depth - 1)
        });
    }
    fine
}

fn judge_keyword(
    root: &Value,
    keyword: &str,
    value: &Value,
    problems: &mut Problems,
    depth: usize,
) -> bool {
    let of_list = SCHEMA_LIST_KEYWORDS.contains(&keyword);
    let of_map = SCHEMA_MAP_KEYWORDS.contains(&keyword);
    let of_schema = SCHEMA_KEYWORDS.contains(&keyword);
    // The names below it would be read against it, and what they mean could not be shown.
    let wrong = if keyword == "$id" && depth + 1 < MAX_SCHEMA_DEPTH {
        Some((
            "a schema inside a contract's has no `$id`".to_owned(),
            "name it by `$anchor`, or refer to it as `#/$defs/…`".to_owned(),
        ))
    } else if DATA_KEYWORDS.contains(&keyword) {
        keyword_values::wrong(root, keyword, value)
    } else if let (Value::Array(schemas), true) = (value, of_list || keyword == "items") {
        let below = schemas.iter().enumerate();
        let below = below.map(|(index, one)| (index.to_string(), one));
        return each(root, below, problems, depth);
    } else if let (Value::Object(schemas), true) = (value, of_map) {
        let below = schemas.iter().map(|(name, one)| (name.clone(), one));
        return each(root, below, problems, depth);
    } else if of_schema && (value.is_object() || value.is_boolean()) {
        return subschema(root, value, problems, depth);
    } else if of_list || of_map || of_schema {
        Some(keyword_values::no_schemas(keyword, of_list, of_map))
    } else {
        Some(unknown(keyword))
    };
    let is_fine = wrong.is_none();
    if let Some((message, hint)) = wrong {
        problems.error(message, hint);
    }
    is_fine
}

fn unknown(keyword: &str) -> (String, String) {
    let message = format!(
        "`{}` is not a keyword of JSON Schema",
        keyword.escape_debug()
    );
    let hint = match nearest(keyword) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "a property is described under `properties`".to_owned(),
    };
    (message, hint)
}

/// Judges schemas, each under its name or index.
fn each<'s>(
    root: &Value,
    schemas: impl Iterator<Item = (String, &'s Value)>,
    problems: &mut Problems,
    depth: usize,
) -> bool {
    let mut fine = true;
    for (step, one) in schemas {
        fine &= problems.under(step, |problems| subschema(root, one, problems, depth));
    }
    fine
}

fn nearest(keyword: &str) -> Option<&'static str> {
    let all = [
        DATA_KEYWORDS,
        SCHEMA_KEYWORDS,
        SCHEMA_LIST_KEYWORDS,
        SCHEMA_MAP_KEYWORDS,
    ]
    .into_iter()
    .flatten()
    .copied();
    // Letters in another case count nothing.
    let written = keyword.to_lowercase();
    let near = all
        .map(|known| (distance(&written, &known.to_lowercase()), known))
        .min()?;
    (near.0 <= 1 + keyword.len() / 4).then_some(near.1)
}

/// Warns where `overlay` names a property that `server` does not declare, and where it says again
/// what `server` says (002-11, 002-34).
pub(super) fn compare(overlay: &Value, server: &Schema, problems: &mut Problems) {
    if let Value::Object(members) = overlay {
        repeats(members, &server.source(), problems);
    }
    mentions::each(overlay, &mut |mention, schema| {
        let path = &mention.path;
        // What it excludes for certain withholds the tool, which is told elsewhere.
        let is_lacking = server.names().lack(path) && !server.names().exclude(path);
        if schema.is_none() || mention.is_more || !mention.patterns.is_empty() || !is_lacking {
            return;
        }
        let message = format!(
            "the tool's input schema has no property `{}`",
            path.last().map_or("", String::as_str).escape_debug()
        );
        note(&mention.key, problems, |problems| {
            let last = path.last().map_or("", String::as_str);
            problems.warning(message, suggest(last, &server.names().beside(path)));
        });
    });
}

/// What `said` has word for word is kept by the tool's own schema; here it only grows old.
fn repeats(overlay: &Map<String, Value>, said: &Value, problems: &mut Problems) {
    for (keyword, value) in overlay
        .iter()
        .filter(|(keyword, _)| DATA_KEYWORDS.contains(&keyword.as_str()))
    {
        let is_said = match (keyword.as_str(), value, said.get(keyword)) {
            ("required", Value::Array(names), Some(Value::Array(known))) => {
                names.iter().any(|name| known.contains(name))
            }
            (_, _, known) => known == Some(value),
        };
        if is_said {
            let message = format!("`{keyword}` repeats what the tool's own schema says");
            problems.under(keyword, |problems| {
                problems.warning(message, "take it away: a call must satisfy both");
            });
        }
    }
    let Some(properties) = overlay.get("properties").and_then(Value::as_object) else {
        return;
    };
    problems.under("properties", |problems| {
        for (name, schema) in properties {
            if let (Value::Object(members), known @ Value::Object(_)) =
                (schema, &said["properties"][name])
            {
                problems.under(name, |problems| repeats(members, known, problems));
            }
        }
    });
}
