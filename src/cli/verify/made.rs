//! Arguments that nobody wrote: made up from schemas, others that differ from them, and some that no schema takes.
//! Whether they are right is never said here: the gate's own steps judge them.

use crate::model::pointer;
use serde_json::{Map, Value, json};

/// How deep schemas and values go.
const MAX_DEPTH: usize = 12;
/// Parts of schemas that hold for one value, at most.
const MAX_PARTS: usize = 64;
/// Items of a list and letters of a text, at most.
const MAX_LENGTH: u64 = 4_096;
/// What a text is where nothing is said of it.
const PLAIN_TEXT: &str = "verify";
/// A member that no schema declares.
const STRANGE_MEMBER: &str = "toolgate_verify";
/// Kinds of values, in the order in which they are chosen.
const KINDS: [&str; 7] = [
    "object", "string", "integer", "number", "boolean", "array", "null",
];

/// A schema, and the one that its references are of.
#[derive(Debug, Clone, Copy)]
struct SchemaPart<'a> {
    root: &'a Value,
    schema: &'a Value,
}

/// How much is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MadeMembers {
    /// What the schemas require.
    Required,
    /// All that they declare at the top: nothing else is known of the tool.
    Declared,
}

/// A value that all of these schemas may take; none where nothing can be made up.
pub(super) fn made(schemas: &[Value], members: MadeMembers) -> Option<Value> {
    let parts: Vec<SchemaPart<'_>> = schemas.iter().map(SchemaPart::of).collect();
    value_of(&parts, members, 0)
}

/// Values that differ from `arguments` in one member, which those schemas may take, too.
pub(super) fn others(arguments: &Value, schemas: &[Value]) -> Vec<Value> {
    let parts: Vec<SchemaPart<'_>> = schemas.iter().map(SchemaPart::of).collect();
    let all = flattened(&parts);
    let members = arguments.as_object().into_iter().flatten();
    let changed = members.flat_map(|(name, value)| {
        let mut choices = choices(&member(&all, name));
        choices.extend(beside(value));
        choices.retain(|choice| choice != value);
        choices
            .into_iter()
            .map(move |choice| with(arguments, name, choice))
    });
    let mut found: Vec<Value> = changed.collect();
    let absent = declared(&all).into_iter();
    let absent = absent.filter(|name| arguments.get(name).is_none());
    found.extend(absent.filter_map(|name| {
        let value = value_of(&member(&all, &name), MadeMembers::Required, 1)?;
        Some(with(arguments, &name, value))
    }));
    found.truncate(MAX_PARTS);
    found
}

/// Values beside `arguments` of which each may be one that no schema takes.
pub(super) fn wrong(arguments: &Value) -> Vec<Value> {
    let names = arguments.as_object().into_iter().flat_map(Map::keys);
    let mut found: Vec<Value> = names
        .take(MAX_PARTS)
        .flat_map(|name| {
            let is_object = arguments[name].is_object();
            let strange = if is_object {
                json!(7)
            } else {
                json!({ PLAIN_TEXT: [7] })
            };
            [with(arguments, name, strange), without(arguments, name)]
        })
        .collect();
    found.push(with(arguments, STRANGE_MEMBER, json!(true)));
    found
}

/// The same with `value` at the path `steps`, where objects lead there.
pub(super) fn put(arguments: &mut Value, steps: &[String], value: Value) {
    let Some((last, above)) = steps.split_last() else {
        return;
    };
    let mut place = arguments;
    for step in above {
        let Some(members) = place.as_object_mut() else {
            return;
        };
        place = members.entry(step.clone()).or_insert_with(|| json!({}));
    }
    if let Some(members) = place.as_object_mut() {
        members.insert(last.clone(), value);
    }
}

fn with(arguments: &Value, name: &str, value: Value) -> Value {
    let mut changed = arguments.clone();
    put(&mut changed, &[name.to_owned()], value);
    changed
}

fn without(arguments: &Value, name: &str) -> Value {
    let mut changed = arguments.clone();
    if let Some(members) = changed.as_object_mut() {
        members.remove(name);
    }
    changed
}

/// Values next to one.
fn beside(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(is) => vec![json!(!is)],
        Value::String(text) => vec![json!(format!("{text}2")), json!(format!("{text}-2"))],
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => vec![
                json!(whole.saturating_add(1)),
                json!(whole.saturating_sub(1)),
                json!(whole.saturating_mul(2)),
            ],
            (None, Some(real)) => vec![json!(real + 1.0), json!(real - 1.0)],
            (None, None) => Vec::new(),
        },
        Value::Array(list) => {
            let longer = list.iter().chain(list.first()).cloned();
            vec![longer.collect()]
        }
        Value::Null | Value::Object(_) => Vec::new(),
    }
}

impl<'a> SchemaPart<'a> {
    fn of(schema: &'a Value) -> Self {
        Self {
            root: schema,
            schema,
        }
    }

    fn at(self, schema: &'a Value) -> Self {
        Self { schema, ..self }
    }

    /// This part and all that hold with it; of several of which one has to hold, the first that is more than null.
    fn gather(self, into: &mut Vec<Self>, depth: usize) {
        if depth > MAX_DEPTH || into.len() >= MAX_PARTS {
            return;
        }
        into.push(self);
        let named = self.schema["$ref"].as_str();
        let named = named.and_then(|named| named.strip_prefix('#'));
        if let Some(found) = named.and_then(|named| pointer::at(self.root, named)) {
            self.at(found).gather(into, depth + 1);
        }
        for inner in self.schema["allOf"].as_array().into_iter().flatten() {
            self.at(inner).gather(into, depth + 1);
        }
        for key in ["anyOf", "oneOf"] {
            let mut choices = self.schema[key].as_array().into_iter().flatten();
            if let Some(chosen) = choices.find(|choice| choice["type"] != "null") {
                self.at(chosen).gather(into, depth + 1);
            }
        }
    }
}

fn flattened<'a>(parts: &[SchemaPart<'a>]) -> Vec<SchemaPart<'a>> {
    let mut all = Vec::new();
    for part in parts {
        part.gather(&mut all, 0);
    }
    all
}

/// What the parts say of the member `name`.
fn member<'a>(all: &[SchemaPart<'a>], name: &str) -> Vec<SchemaPart<'a>> {
    let said = all.iter().filter_map(|part| {
        let schema = part.schema["properties"].get(name)?;
        Some(part.at(schema))
    });
    said.collect()
}

fn words_in(all: &[SchemaPart<'_>], words: impl Fn(&Value) -> Vec<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in all.iter().flat_map(|part| words(part.schema)) {
        if !found.contains(&word) && found.len() < MAX_PARTS {
            found.push(word);
        }
    }
    found
}

fn declared(all: &[SchemaPart<'_>]) -> Vec<String> {
    words_in(all, |schema| {
        let members = schema["properties"].as_object();
        members.map_or_else(Vec::new, |members| members.keys().cloned().collect())
    })
}

fn required(all: &[SchemaPart<'_>]) -> Vec<String> {
    words_in(all, |schema| {
        let names = schema["required"].as_array().into_iter().flatten();
        names
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect()
    })
}

/// The values that are spelled out and that all parts name.
fn choices(parts: &[SchemaPart<'_>]) -> Vec<Value> {
    let all = flattened(parts);
    let lists: Vec<Vec<Value>> = all
        .iter()
        .filter_map(|part| {
            let only = part.schema.get("const").map(|only| vec![only.clone()]);
            only.or_else(|| part.schema["enum"].as_array().cloned())
        })
        .collect();
    let Some((first, rest)) = lists.split_first() else {
        return Vec::new();
    };
    let named = first
        .iter()
        .filter(|value| rest.iter().all(|list| list.contains(value)));
    named.take(MAX_PARTS).cloned().collect()
}

fn value_of(parts: &[SchemaPart<'_>], members: MadeMembers, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Some(chosen) = choices(parts).into_iter().find(|choice| !choice.is_null()) {
        return Some(chosen);
    }
    let all = flattened(parts);
    Some(match kind_of(&all)? {
        "object" => return object_of(&all, members, depth),
        "string" => json!(text_of(&all)?),
        "integer" => json!(whole_of(&all)),
        "number" => number_of(&all),
        "boolean" => json!(true),
        "array" => {
            let items: Vec<SchemaPart<'_>> = all
                .iter()
                .filter_map(|part| Some(part.at(part.schema.get("items")?)))
                .collect();
            let least = largest(&all, "minItems").unwrap_or(0.0);
            let count = (0..MAX_LENGTH)
                .take_while(|count| below(*count, least))
                .count();
            let item = || value_of(&items, MadeMembers::Required, depth + 1);
            let list: Option<Vec<Value>> = (0..count).map(|_| item()).collect();
            json!(list?)
        }
        _ => Value::Null,
    })
}

/// The kind that all parts allow; a text where none says one.
fn kind_of(all: &[SchemaPart<'_>]) -> Option<&'static str> {
    // What has to be whole for one part may be any number for another.
    let is_whole = all.iter().any(|part| part.schema["type"] == "integer");
    let is_kind = |said: &Value, kind: &str| {
        said == kind || (said == "number" && kind == "integer" && is_whole)
    };
    let allows = |kind: &str| {
        all.iter().all(|part| match &part.schema["type"] {
            Value::Array(several) => several.iter().any(|one| is_kind(one, kind)),
            only @ Value::String(_) => is_kind(only, kind),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
        })
    };
    let says = |key: &str| all.iter().any(|part| part.schema.get(key).is_some());
    if all.iter().all(|part| part.schema.get("type").is_none()) {
        let is_object = says("properties") || says("required");
        let is_number = says("minimum") || says("maximum") || says("multipleOf");
        return Some(match (is_object, is_number, says("items")) {
            (true, ..) => "object",
            (_, true, _) => "integer",
            (_, _, true) => "array",
            (false, false, false) => "string",
        });
    }
    KINDS.into_iter().find(|kind| allows(kind))
}

fn object_of(all: &[SchemaPart<'_>], members: MadeMembers, depth: usize) -> Option<Value> {
    let mut names = required(all);
    if members == MadeMembers::Declared {
        names.extend(declared(all));
    }
    let mut made = Map::new();
    for name in names {
        let value = value_of(&member(all, &name), MadeMembers::Required, depth + 1)?;
        made.insert(name, value);
    }
    Some(Value::Object(made))
}

fn bounds<'a>(all: &'a [SchemaPart<'_>], key: &'a str) -> impl Iterator<Item = f64> + 'a {
    all.iter().filter_map(move |part| part.schema[key].as_f64())
}

fn largest(all: &[SchemaPart<'_>], key: &str) -> Option<f64> {
    bounds(all, key).reduce(f64::max)
}

fn smallest(all: &[SchemaPart<'_>], key: &str) -> Option<f64> {
    bounds(all, key).reduce(f64::min)
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn below(count: u64, bound: f64) -> bool {
    (count as f64) < bound
}

/// A whole number within the bounds, as small as they let it be from 1 on.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast saturates, and what comes of it is judged"
)]
fn whole_of(all: &[SchemaPart<'_>]) -> i64 {
    let least = largest(all, "minimum").map(f64::ceil);
    let above = largest(all, "exclusiveMinimum").map(|bound| bound.floor() + 1.0);
    let most = smallest(all, "maximum").map(f64::floor);
    let under = smallest(all, "exclusiveMaximum").map(|bound| bound.ceil() - 1.0);
    let least = least.into_iter().chain(above).reduce(f64::max);
    let most = most.into_iter().chain(under).reduce(f64::min);
    let start = least.unwrap_or_else(|| most.map_or(1.0, |most| most.min(1.0)));
    let step = largest(all, "multipleOf").filter(|step| *step > 0.0);
    step.map_or(start, |step| (start / step).ceil() * step) as i64
}

fn number_of(all: &[SchemaPart<'_>]) -> Value {
    let whole = whole_of(all);
    let most = smallest(all, "maximum");
    let least = largest(all, "minimum");
    match (least, most) {
        // No whole number may lie between them.
        (Some(least), Some(most)) if most - least < 1.0 => json!(least),
        _ => json!(whole),
    }
}

fn text_of(all: &[SchemaPart<'_>]) -> Option<String> {
    let format = all.iter().find_map(|part| part.schema["format"].as_str());
    let told = match format {
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("date") => "2026-01-01",
        Some("time") => "00:00:00Z",
        Some("email") => "verify@example.com",
        Some("uri" | "url") => "https://example.com/verify",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("hostname") => "example.com",
        Some("ipv4") => "192.0.2.1",
        _ => PLAIN_TEXT,
    };
    let (least, most) = (largest(all, "minLength"), smallest(all, "maxLength"));
    let fits = |count: u64| most.is_none_or(|most| below(count, most));
    let mut text: String = (0_u64..)
        .zip(told.chars())
        .take_while(|(count, _)| fits(*count))
        .map(|(_, letter)| letter)
        .collect();
    let mut length = u64::try_from(text.chars().count()).ok()?;
    while least.is_some_and(|least| below(length, least)) {
        if length >= MAX_LENGTH {
            return None;
        }
        text.push('v');
        length += 1;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guards::arguments;
    use crate::schema::Schema;

    fn fits(schema: &Value, value: &Value) -> bool {
        arguments::fit(&Schema::compile(schema).unwrap(), value).is_ok()
    }

    /// What is made up is taken by the schema it was made from, and so is what differs from it; what is wrong is not.
    #[test]
    fn what_is_made_up_fits() {
        for schema in [
            json!({ "type": "object" }),
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "integer", "minimum": 7, "maximum": 9 } } }),
            json!({ "type": "object", "required": ["a", "b"], "additionalProperties": false, "properties": {
                "a": { "enum": ["EUR", "USD"] }, "b": { "type": ["null", "string"], "maxLength": 3 } } }),
            json!({ "type": "object", "required": ["a"], "$defs": { "id": { "type": "string", "minLength": 20 } },
                "properties": { "a": { "$ref": "#/$defs/id" } } }),
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "array", "minItems": 2,
                "items": { "type": "object", "required": ["n"], "properties": { "n": { "type": "number", "exclusiveMinimum": 0 } } } } } }),
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "anyOf": [{ "type": "null" }, { "type": "boolean" }] } } }),
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "integer", "multipleOf": 5, "minimum": 11 } } }),
        ] {
            let made = made(std::slice::from_ref(&schema), MadeMembers::Required).unwrap();
            assert!(fits(&schema, &made), "{schema}: {made}");
            let others = others(&made, std::slice::from_ref(&schema));
            // Where nothing is required, what is made is empty: nothing in it can be another, or wrong.
            let is_bare = schema.get("required").is_none();
            let differing = others
                .iter()
                .any(|other| *other != made && fits(&schema, other));
            assert!(differing || is_bare, "{schema}: {others:?}");
            let refused = wrong(&made).iter().any(|wrong| !fits(&schema, wrong));
            assert!(refused || is_bare, "{schema}");
        }
    }

    /// Of a tool of which only its contract speaks, all is made that it speaks of; bounds of both count.
    #[test]
    fn several_schemas_hold_at_once() {
        let server =
            json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 2 } } });
        let contract = json!({ "properties": { "n": { "minimum": 5 }, "c": { "enum": ["x"] } } });
        let both = [server, contract];
        assert_eq!(
            made(&both, MadeMembers::Declared),
            Some(json!({ "n": 5, "c": "x" }))
        );
        assert_eq!(made(&both, MadeMembers::Required), Some(json!({})));
    }

    /// A schema without end, and one that nothing fits, are no loop and no panic.
    #[test]
    fn what_cannot_be_made_is_not() {
        let endless =
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "$ref": "#" } } });
        assert_eq!(made(&[endless], MadeMembers::Required), None);
        let long = json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "string", "minLength": 1e9 } } });
        assert_eq!(made(&[long], MadeMembers::Required), None);
        let torn = [json!({ "type": "object" }), json!({ "type": "string" })];
        assert_eq!(made(&torn, MadeMembers::Required), None);
    }

    /// The caller's tenant may stand where nothing stands yet.
    #[test]
    fn a_value_is_put_where_it_is_asked_for() {
        let mut arguments = json!({ "a": 1 });
        put(
            &mut arguments,
            &["of".to_owned(), "tenant".to_owned()],
            json!("t_1"),
        );
        put(
            &mut arguments,
            &["a".to_owned(), "b".to_owned()],
            json!("no"),
        );
        assert_eq!(arguments, json!({ "a": 1, "of": { "tenant": "t_1" } }));
    }
}
