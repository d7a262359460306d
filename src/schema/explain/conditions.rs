//! Faults under `not`, `then` and `else`: which part of the schema it is, and what would pass.
//!
//! Here a schema that holds is a fault, too, so that it has to be known for certain that it does:
//! where a keyword is met that the walk does not judge, nothing is said.

use super::words::{MAX_ENUM_LISTED, cut, listed, shortened, shown, shown_value, written};
use super::{Breach, ExplainWalk, MAX_REFERENCE_CHAIN, as_integer};
use serde_json::{Map, Value};

/// Keywords that bound nothing.
const ANNOTATION_KEYWORDS: &[&str] = &[
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$schema",
    "$defs",
    "definitions",
];
/// Keywords that the walk judges in whole, whatever the value is.
const JUDGED_KEYWORDS: &[&str] = &[
    "type",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    // With `if`.
    "then",
    "else",
];
/// Characters of a schema's part that are shown.
const PART_CHARS_MAX: usize = 160;

/// Characters of what a condition says, with all that it stands in.
const CONDITION_CHARS_MAX: usize = 300;

/// One keyword of a schema.
struct SchemaKeyword<'s> {
    members: &'s Map<String, Value>,
    name: &'s str,
    said: &'s Value,
}

impl ExplainWalk<'_> {
    /// A certain fault of `value` under the conditions of `members`.
    pub(super) fn conditional(
        &mut self,
        members: &Map<String, Value>,
        value: &Value,
        chain: usize,
    ) -> Option<Breach> {
        if let Some(never) = members.get("not")
            && self.holds(never, value, chain + 1) == Some(true)
        {
            return Some(self.unlike(never, value, chain + 1));
        }
        if let Some(found) = self.dependent(members, value, chain) {
            return Some(found);
        }
        let when = members.get("if")?;
        let (part, link) = if self.holds(when, value, chain + 1)? {
            ("then", "because")
        } else {
            ("else", "unless")
        };
        let found = self.find(members.get(part)?, value, chain + 1)?;
        let got = found
            .got
            .map(|got| format!(", got {got}"))
            .unwrap_or_default();
        Some(Breach {
            expected: shortened(
                format!("{}{got}, {link} {}", found.expected, condition(when)),
                CONDITION_CHARS_MAX,
            ),
            got: None,
            ..found
        })
    }

    /// A certain fault of `value` under what `members` ask of it beside one of its own members.
    fn dependent(
        &mut self,
        members: &Map<String, Value>,
        value: &Value,
        chain: usize,
    ) -> Option<Breach> {
        let object = value.as_object()?;
        let keywords: &[&str] = if self.reference_alone {
            &["dependencies"]
        } else {
            &["dependentRequired", "dependentSchemas"]
        };
        let asked = keywords
            .iter()
            .filter_map(|keyword| members.get(*keyword)?.as_object())
            .flatten();
        for (name, asks) in asked.filter(|(name, _)| object.contains_key(*name)) {
            let found = if let Value::Array(names) = asks {
                let mut names = names.iter().filter_map(Value::as_str);
                let absent = names.find(|name| !object.contains_key(*name));
                absent.map(|absent| {
                    self.violation(format!("the property `{}` to be present", shown(absent)))
                })
            } else {
                self.find(asks, value, chain + 1)
            };
            if let Some(found) = found {
                let got = found
                    .got
                    .map_or(String::new(), |got| format!(", got {got}"));
                return Some(Breach {
                    expected: shortened(
                        format!(
                            "{}{got}, because `{}` is present",
                            found.expected,
                            shown(name)
                        ),
                        CONDITION_CHARS_MAX,
                    ),
                    got: None,
                    ..found
                });
            }
        }
        None
    }

    /// Whether `schema` takes `value`; none where that is not certain.
    fn holds(&mut self, schema: &Value, value: &Value, chain: usize) -> Option<bool> {
        if self.find(schema, value, chain).is_some() {
            return Some(false);
        }
        self.covers(schema, value, chain).then_some(true)
    }

    /// Whether the walk judges all that `schema` says of `value`: what it finds no fault with then
    /// has none.
    fn covers(&mut self, schema: &Value, value: &Value, chain: usize) -> bool {
        let Some(left) = self.left.checked_sub(1).filter(|left| *left > 0) else {
            return false;
        };
        self.left = left;
        match schema {
            Value::Bool(_) => true,
            Value::Object(_) if chain > MAX_REFERENCE_CHAIN => false,
            Value::Object(members) => {
                let is_alone = self.reference_alone && members.contains_key("$ref");
                let mut keywords = members
                    .iter()
                    .filter(|(keyword, _)| !is_alone || keyword.as_str() == "$ref");
                keywords.all(|(name, said)| {
                    let keyword = SchemaKeyword {
                        members,
                        name,
                        said,
                    };
                    self.covers_keyword(&keyword, value, chain)
                })
            }
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
        }
    }

    fn covers_keyword(&mut self, keyword: &SchemaKeyword<'_>, value: &Value, chain: usize) -> bool {
        let SchemaKeyword {
            members,
            name: keyword,
            said,
        } = *keyword;
        let list = || said.as_array().into_iter().flatten();
        match keyword {
            _ if ANNOTATION_KEYWORDS.contains(&keyword) || JUDGED_KEYWORDS.contains(&keyword) => {
                true
            }
            "multipleOf" => value
                .as_number()
                .is_none_or(|number| as_integer(number) && said.is_u64()),
            "pattern" => {
                let known = said.as_str().and_then(|pattern| self.patterns.get(pattern));
                !value.is_string() || known.is_some()
            }
            "format" => !value.is_string(),
            "properties" | "additionalProperties" | "items" | "prefixItems" => {
                self.covers_parts(members, value)
            }
            "$ref" => said
                .as_str()
                .and_then(|target| self.target(target))
                .is_some_and(|target| self.covers(target, value, chain + 1)),
            "allOf" => list().all(|schema| self.covers(schema, value, chain + 1)),
            "anyOf" => list().any(|schema| self.holds(schema, value, chain + 1) == Some(true)),
            "oneOf" => {
                let all: Option<Vec<bool>> = list()
                    .map(|schema| self.holds(schema, value, chain + 1))
                    .collect();
                all.is_some_and(|all| all.iter().filter(|holds| **holds).count() == 1)
            }
            "not" => self.holds(said, value, chain + 1) == Some(false),
            "if" => match self.holds(said, value, chain + 1) {
                Some(holds) => members
                    .get(if holds { "then" } else { "else" })
                    .is_none_or(|part| self.covers(part, value, chain + 1)),
                None => false,
            },
            _ => false,
        }
    }

    fn covers_parts(&mut self, members: &Map<String, Value>, value: &Value) -> bool {
        match value {
            Value::Object(object) => {
                let declared = members.get("properties").and_then(Value::as_object);
                let rest = members.get("additionalProperties");
                object.iter().all(|(name, value)| {
                    match declared.and_then(|declared| declared.get(name)).or(rest) {
                        Some(schema) => self.covers(schema, value, 0),
                        None => true,
                    }
                })
            }
            Value::Array(elements) => {
                let first = members.get("prefixItems").and_then(Value::as_array);
                let rest = members.get("items");
                if rest.is_some_and(Value::is_array) {
                    return false;
                }
                elements.iter().enumerate().all(|(index, element)| {
                    match first.and_then(|first| first.get(index)).or(rest) {
                        Some(schema) => self.covers(schema, element, 0),
                        None => true,
                    }
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    /// What would pass where `value` fits `never` and must not.
    fn unlike(&mut self, never: &Value, value: &Value, chain: usize) -> Breach {
        let Value::Object(members) = never else {
            return self.violation("no value here".to_owned());
        };
        let target = members.get("$ref").and_then(Value::as_str);
        if let Some(target) = target.and_then(|target| self.target(target))
            && chain <= MAX_REFERENCE_CHAIN
            && bounding(members).count() == 1
        {
            return self.unlike(target, value, chain + 1);
        }
        let branches = members.get("anyOf").and_then(Value::as_array);
        for branch in branches.into_iter().flatten() {
            if chain <= MAX_REFERENCE_CHAIN && self.holds(branch, value, chain + 1) == Some(true) {
                return self.unlike(branch, value, chain + 1);
            }
        }
        if let Some((name, schema, below)) = only_property(members, value)
            && chain <= MAX_REFERENCE_CHAIN
        {
            self.path.push(name.to_owned());
            let found = self.unlike(schema, below, chain + 1);
            self.path.pop();
            return found;
        }
        self.violation(other_than(members))
    }
}

/// The members of a schema that bound something.
fn bounding(members: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    members
        .iter()
        .map(|(keyword, said)| (keyword.as_str(), said))
        .filter(|(keyword, _)| !ANNOTATION_KEYWORDS.contains(keyword))
}

/// The one property that `members` bound, with its schema and value, if they bound nothing else.
fn only_property<'s>(
    members: &'s Map<String, Value>,
    value: &'s Value,
) -> Option<(&'s str, &'s Value, &'s Value)> {
    let properties = members.get("properties")?.as_object()?;
    let (name, schema) = properties.iter().next().filter(|_| properties.len() == 1)?;
    let is_only = bounding(members).all(|(keyword, said)| match keyword {
        "properties" | "type" => true,
        "required" => said
            .as_array()
            .is_some_and(|names| names.iter().all(|one| one == name.as_str())),
        _ => false,
    });
    let below = value.get(name)?;
    is_only.then_some((name.as_str(), schema, below))
}

/// What is not as `members` say.
fn other_than(members: &Map<String, Value>) -> String {
    let mut said = bounding(members).filter(|(keyword, _)| *keyword != "type");
    match (said.next(), said.next()) {
        (Some(("required", Value::Array(names))), None)
            if (1..=MAX_ENUM_LISTED).contains(&names.len()) =>
        {
            let names: Vec<String> = names
                .iter()
                .filter_map(Value::as_str)
                .map(|name| format!("`{}`", shown(name)))
                .collect();
            match names.as_slice() {
                [name] => format!("the property {name} to be absent"),
                names => format!("not all of the properties {} at once", names.join(", ")),
            }
        }
        (Some(("properties", _)), _) | (Some(_), Some(("properties", _))) => {
            format!("not at once that {}", condition_of(members))
        }
        (None, _) if members.get("type").is_some_and(Value::is_string) => {
            let kind = members["type"].as_str().unwrap_or_default();
            format!("another type than {}", shown(kind))
        }
        (said, more) => {
            let only = said.filter(|_| more.is_none());
            only.and_then(|(keyword, said)| opposite(keyword, said))
                .unwrap_or_else(|| {
                    format!(
                        "what does not fit the part `not` of the schema, {}",
                        part(members)
                    )
                })
        }
    }
}

/// When `when` holds, in words.
fn condition(when: &Value) -> String {
    match when {
        Value::Object(members) => condition_of(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            "that is always so".to_owned()
        }
    }
}

fn condition_of(members: &Map<String, Value>) -> String {
    let is_plain =
        bounding(members).all(|(keyword, _)| matches!(keyword, "properties" | "required" | "type"));
    let properties = members.get("properties").and_then(Value::as_object);
    let required = members.get("required").and_then(Value::as_array);
    let count = properties.map_or(0, Map::len) + required.map_or(0, Vec::len);
    if count > 2 * MAX_ENUM_LISTED {
        return format!("this holds: {}", part(members));
    }
    let mut parts: Vec<String> = properties
        .into_iter()
        .flatten()
        .filter_map(|(name, schema)| says(name, schema.as_object()?))
        .collect();
    let is_told = parts.len() == properties.map_or(0, Map::len);
    parts.extend(
        required
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|name| properties.is_none_or(|named| !named.contains_key(*name)))
            .map(|name| format!("`{}` is present", shown(name))),
    );
    if is_plain && is_told && !parts.is_empty() {
        return shortened(parts.join(" and "), CONDITION_CHARS_MAX);
    }
    format!("this holds: {}", part(members))
}

/// What is said of one property, if it is said in a word.
fn says(name: &str, schema: &Map<String, Value>) -> Option<String> {
    let name = shown(name);
    let said: Option<Vec<String>> = bounding(schema)
        .filter(|(keyword, _)| *keyword != "type")
        .map(|(keyword, said)| phrase(keyword, said))
        .collect();
    let said = said?;
    if said.is_empty() {
        let kind = schema.get("type").and_then(Value::as_str)?;
        return Some(format!("`{name}` is of the type {}", shown(kind)));
    }
    Some(format!("`{name}` {}", said.join(" and ")))
}

/// What one keyword says of a value.
fn phrase(keyword: &str, said: &Value) -> Option<String> {
    Some(match (keyword, said) {
        ("const", value) => format!("is {}", shown_value(value)),
        ("enum", Value::Array(values)) => format!("is one of {}", listed(values)),
        ("pattern", Value::String(pattern)) => {
            format!("matches the pattern `{}`", cut(pattern, 128))
        }
        ("minimum", limit) => format!("is at least {limit}"),
        ("maximum", limit) => format!("is at most {limit}"),
        ("exclusiveMinimum", limit) => format!("is more than {limit}"),
        ("exclusiveMaximum", limit) => format!("is less than {limit}"),
        ("minLength", limit) => format!("is at least {limit} characters long"),
        ("maxLength", limit) => format!("is at most {limit} characters long"),
        _ => return None,
    })
}

/// What passes where a value must not be as one keyword says.
fn opposite(keyword: &str, said: &Value) -> Option<String> {
    Some(match (keyword, said) {
        ("const", value) => format!("another value than {}", shown_value(value)),
        ("enum", Value::Array(values)) => format!("none of {}", listed(values)),
        ("pattern", Value::String(pattern)) => format!(
            "text that does not match the pattern `{}`",
            cut(pattern, 128)
        ),
        // What is no number fits these, too.
        ("minimum", limit) => format!("a number less than {limit}"),
        ("maximum", limit) => format!("a number more than {limit}"),
        ("exclusiveMinimum", limit) => format!("a number of at most {limit}"),
        ("exclusiveMaximum", limit) => format!("a number of at least {limit}"),
        ("minLength", limit) => format!("text of less than {limit} characters"),
        ("maxLength", limit) => format!("text of more than {limit} characters"),
        _ => return None,
    })
}

/// A part of a schema as its author wrote it.
fn part(members: &Map<String, Value>) -> String {
    written(members, PART_CHARS_MAX)
}
