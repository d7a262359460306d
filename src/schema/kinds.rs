//! Of which JSON type an argument is, as far as a schema says so for certain at its place.
//!
//! Only what holds for every call that passes is read: `type`, `const` and `enum`, beside `$ref`
//! and in `allOf`, and in alternatives where all of them agree. What is said elsewhere can only
//! narrow that further.

use super::dialect::{Dialect, dialect};
use super::survey::unescape;
use serde_json::{Map, Value};
use std::cell::Cell;

/// What stands in a path for an element of a list.
pub(crate) const ELEMENT_STEP: &str = "*";

/// Subschemas of one place that are looked at.
const MAX_PLACES: usize = 64;
/// References, parts and alternatives within each other.
const MAX_DEPTH: usize = 16;
/// Looks at subschemas for one answer: alternatives that refer to each other multiply.
const MAX_KIND_STEPS: usize = 2_000;

/// A type of JSON; whole numbers are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl JsonKind {
    /// The type of a value.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    /// The type that a schema's `type` names.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "integer" | "number" => Self::Number,
            "string" => Self::String,
            "array" => Self::Array,
            "object" => Self::Object,
            _ => return None,
        })
    }

    /// The only type whose values a keyword of a schema bounds.
    pub(crate) fn bounded_by(keyword: &str) -> Option<Self> {
        Some(match keyword {
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                Self::Number
            }
            "minLength" | "maxLength" | "pattern" => Self::String,
            "minItems" | "maxItems" | "uniqueItems" | "items" | "prefixItems" | "contains" => {
                Self::Array
            }
            "minProperties"
            | "maxProperties"
            | "properties"
            | "required"
            | "additionalProperties"
            | "patternProperties"
            | "propertyNames" => Self::Object,
            _ => return None,
        })
    }

    /// As people say it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "true or false",
            Self::Number => "a number",
            Self::String => "text",
            Self::Array => "a list",
            Self::Object => "an object",
        }
    }
}

/// The type of the argument on `path` from the root, if `schema` leaves only one.
pub(crate) fn kind_at(schema: &Value, path: &[String]) -> Option<JsonKind> {
    let reader = KindReader::of(schema);
    reader.kind(&reader.at(path)?, 0)
}

/// Whether `schema` says of which type the argument on `path` is, and everything in it.
pub(crate) fn is_settled(schema: &Value, path: &[String]) -> bool {
    let reader = KindReader::of(schema);
    reader
        .at(path)
        .is_some_and(|places| reader.settled(&places, 0))
}

/// The one type that all `kinds` are of.
fn agreed(mut kinds: impl Iterator<Item = Option<JsonKind>>) -> Option<JsonKind> {
    let first = kinds.next()??;
    kinds.all(|kind| kind == Some(first)).then_some(first)
}

/// Reads what holds for every call.
pub(super) struct KindReader<'s> {
    root: &'s Value,
    /// Draft-07 ignores what stands beside a `$ref`.
    reference_alone: bool,
    left: Cell<usize>,
}

/// Subschemas that all hold for one value.
pub(super) type Places<'s> = Vec<&'s Map<String, Value>>;

impl<'s> KindReader<'s> {
    pub(super) fn of(root: &'s Value) -> Self {
        Self {
            root,
            reference_alone: dialect(root) == Some(Dialect::Draft07),
            left: Cell::new(MAX_KIND_STEPS),
        }
    }

    /// Whether another look may be taken.
    pub(super) fn goes_on(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    /// What holds for the argument on `path`; none if nothing is said of it.
    pub(super) fn at(&self, path: &[String]) -> Option<Places<'s>> {
        let mut places = self.all_of(self.root);
        for step in path {
            places = self.below(&places, step);
        }
        (!places.is_empty()).then_some(places)
    }

    /// `schema`, what it refers to, and its parts.
    pub(super) fn all_of(&self, schema: &'s Value) -> Places<'s> {
        let mut places = Vec::new();
        self.gather(schema, 0, &mut places);
        places
    }

    fn gather(&self, schema: &'s Value, depth: usize, places: &mut Places<'s>) {
        let Value::Object(members) = schema else {
            return;
        };
        if depth > MAX_DEPTH || places.len() >= MAX_PLACES || !self.goes_on() {
            return;
        }
        let target = members.get("$ref").and_then(|target| self.target(target));
        if target.is_none() || !self.reference_alone {
            places.push(members);
        }
        let parts = members.get("allOf").and_then(Value::as_array);
        let parts = parts
            .into_iter()
            .flatten()
            .filter(|_| target.is_none() || !self.reference_alone);
        for next in target.into_iter().chain(parts) {
            self.gather(next, depth + 1, places);
        }
    }

    fn target(&self, reference: &Value) -> Option<&'s Value> {
        self.root
            .pointer(&unescape(reference.as_str()?.strip_prefix('#')?)?)
    }

    fn below(&self, places: &Places<'s>, step: &str) -> Places<'s> {
        let next = |place: &&'s Map<String, Value>| {
            let properties = place.get("properties").and_then(Value::as_object);
            if let Some(schema) = properties.and_then(|named| named.get(step)) {
                return Some(schema);
            }
            if step == ELEMENT_STEP && !place.contains_key("prefixItems") {
                return place.get("items");
            }
            let is_other = !place.contains_key("patternProperties");
            place.get("additionalProperties").filter(|_| is_other)
        };
        places
            .iter()
            .filter_map(next)
            .flat_map(|schema| self.all_of(schema))
            .take(MAX_PLACES)
            .collect()
    }

    fn kind(&self, places: &Places<'s>, depth: usize) -> Option<JsonKind> {
        places.iter().find_map(|place| self.said(place, depth))
    }

    /// The type that one subschema leaves.
    fn said(&self, place: &'s Map<String, Value>, depth: usize) -> Option<JsonKind> {
        if depth > MAX_DEPTH || !self.goes_on() {
            return None;
        }
        let by_type = match place.get("type") {
            Some(Value::String(name)) => JsonKind::named(name),
            Some(Value::Array(names)) => {
                agreed(names.iter().map(|name| JsonKind::named(name.as_str()?)))
            }
            _ => None,
        };
        let by_value = || place.get("const").map(JsonKind::of);
        let by_values = || {
            let values = place.get("enum")?.as_array()?;
            agreed(values.iter().map(|value| Some(JsonKind::of(value))))
        };
        let by_alternatives = || {
            ["anyOf", "oneOf"].into_iter().find_map(|keyword| {
                let all = place.get(keyword)?.as_array()?;
                agreed(
                    all.iter()
                        .map(|schema| self.kind(&self.all_of(schema), depth + 1)),
                )
            })
        };
        by_type
            .or_else(by_value)
            .or_else(by_values)
            .or_else(by_alternatives)
    }

    fn settled(&self, places: &Places<'s>, depth: usize) -> bool {
        if depth > MAX_DEPTH || !self.goes_on() {
            return false;
        }
        let inside = |step: &str| {
            let below = self.below(places, step);
            !below.is_empty() && self.settled(&below, depth + 1)
        };
        match self.kind(places, 0) {
            None => false,
            Some(JsonKind::Array) => inside(ELEMENT_STEP),
            Some(JsonKind::Object) => {
                let mut names = places
                    .iter()
                    .filter_map(|place| place.get("properties")?.as_object())
                    .flat_map(Map::keys)
                    .peekable();
                names.peek().is_some() && names.all(|name| inside(name))
            }
            Some(JsonKind::Null | JsonKind::Boolean | JsonKind::Number | JsonKind::String) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> Vec<String> {
        text.split('.')
            .filter(|step| !step.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// 003-114: only what holds for every call is told, so that no rule that is right is an error.
    #[test]
    fn only_a_certain_type_is_told() {
        let schema = json!({
            "$defs": { "money": { "type": "integer" }, "loop": { "$ref": "#/$defs/loop" } },
            "type": "object",
            "properties": {
                "text": { "type": "string" },
                "amount": { "$ref": "#/$defs/money" },
                "number": { "type": ["integer", "number"] },
                "maybe": { "type": ["string", "null"] },
                "either": { "anyOf": [{ "type": "string" }, { "type": "number" }] },
                "both": { "oneOf": [{ "const": "a" }, { "enum": ["b", "c"] }] },
                "part": { "allOf": [{ "minimum": 1 }, { "type": "number" }] },
                "loop": { "$ref": "#/$defs/loop" },
                "open": {},
                "any": true,
                "list": { "type": "array", "items": { "type": "object", "properties": { "n": { "const": 1 } } } },
                "pair": { "type": "array", "prefixItems": [{ "type": "string" }], "items": { "type": "number" } },
                "map": { "type": "object", "additionalProperties": { "type": "boolean" } },
                "mixed": { "enum": [1, "a"] },
            },
        });
        for (at, expected) in [
            ("", Some(JsonKind::Object)),
            ("text", Some(JsonKind::String)),
            ("amount", Some(JsonKind::Number)),
            ("number", Some(JsonKind::Number)),
            ("maybe", None),
            ("either", None),
            ("both", Some(JsonKind::String)),
            ("part", Some(JsonKind::Number)),
            ("loop", None),
            ("open", None),
            ("any", None),
            ("absent", None),
            ("list", Some(JsonKind::Array)),
            ("list.*", Some(JsonKind::Object)),
            ("list.*.n", Some(JsonKind::Number)),
            ("pair.*", None),
            ("map.x", Some(JsonKind::Boolean)),
            ("mixed", None),
        ] {
            assert_eq!(kind_at(&schema, &path(at)), expected, "{at}");
        }
        for (at, expected) in [
            ("text", true),
            ("list", true),
            ("pair", false),
            ("map", false),
            ("open", false),
            ("absent", false),
        ] {
            assert_eq!(is_settled(&schema, &path(at)), expected, "{at}");
        }
    }

    #[test]
    fn draft_07_ignores_what_stands_beside_a_reference() {
        let beside = json!({ "$ref": "#/definitions/a", "type": "string" });
        let mut schema = json!({ "definitions": { "a": {} }, "properties": { "x": beside } });
        assert_eq!(kind_at(&schema, &path("x")), Some(JsonKind::String));
        schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        assert_eq!(kind_at(&schema, &path("x")), None);
    }
}
