//! Whether an argument can be what an operator expects of it, as far as a schema says for certain at its
//! place that it cannot.
//!
//! What holds for every call is read, as in [`super::kinds`]; where nothing is known, nothing is said.

use super::kinds::{ELEMENT_STEP, KindReader};
use crate::model::number::compare;
use serde_json::{Map, Number, Value};

/// What is expected of an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExpectedValue<'v> {
    /// One of these.
    OneOf(&'v [Value]),
    /// A number from 0 to this.
    AtMost(&'v Number),
    /// A text that begins so.
    Begins(&'v str),
}

/// Why the argument on `path` can never be what is `expected`, in words that follow its name; none where
/// it can, or nobody knows.
pub(crate) fn contradiction(
    schema: &Value,
    path: &[String],
    expected: ExpectedValue<'_>,
) -> Option<String> {
    // Elements are named by `*` to the reader: what is said of one of them is not known there.
    let is_element = |step: &String| step == ELEMENT_STEP || step.parse::<usize>().is_ok();
    if path.iter().any(is_element) {
        return None;
    }
    let reader = KindReader::of(schema);
    let places = reader.at(path)?;
    match expected {
        ExpectedValue::OneOf(values) => {
            let mut whys = values.iter().map(|value| unfit(&places, value));
            let first = whys.next()??;
            whys.all(|why| why.is_some()).then_some(first)
        }
        ExpectedValue::AtMost(most) => {
            let range = |value: &Value| is_within(value, most);
            first(&places, |place| beneath(place, most))
                .or_else(|| first(&places, |place| other_kind(place, &["integer", "number"])))
                .or_else(|| first(&places, |place| none_listed(place, range)))
        }
        ExpectedValue::Begins(start) => {
            let begins = |value: &Value| value.as_str().is_some_and(|text| text.starts_with(start));
            first(&places, |place| overlong(place, start.chars().count()))
                .or_else(|| first(&places, |place| other_kind(place, &["string"])))
                .or_else(|| first(&places, |place| none_listed(place, begins)))
        }
    }
}

/// The members that every call has.
pub(crate) fn required(schema: &Value) -> Vec<String> {
    let reader = KindReader::of(schema);
    let places = reader.all_of(schema).into_iter();
    let lists = places.filter_map(|place| place.get("required")?.as_array());
    let mut names: Vec<String> = lists
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn first(
    places: &[&Map<String, Value>],
    judge: impl FnMut(&&Map<String, Value>) -> Option<String>,
) -> Option<String> {
    places.iter().find_map(judge)
}

/// Why `value` fits one of `places` not.
fn unfit(places: &[&Map<String, Value>], value: &Value) -> Option<String> {
    first(places, |place| other_kind(place, &kinds_of(value)))
        .or_else(|| {
            let is_plain = !value.is_object() && !value.is_array();
            let listed =
                |place: &&Map<String, Value>| none_listed(place, |one| is_same(one, value));
            is_plain.then(|| first(places, listed)).flatten()
        })
        .or_else(|| {
            let number = value.as_number()?;
            first(places, |place| {
                beneath(place, number).or_else(|| beyond(place, number))
            })
        })
        .or_else(|| {
            let length = value.as_str()?.chars().count();
            first(places, |place| {
                overlong(place, length).or_else(|| curt(place, length))
            })
        })
}

/// The names that a schema has for the type of `value`.
fn kinds_of(value: &Value) -> Vec<&'static str> {
    match value {
        Value::Null => vec!["null"],
        Value::Bool(_) => vec!["boolean"],
        Value::String(_) => vec!["string"],
        Value::Array(_) => vec!["array"],
        Value::Object(_) => vec!["object"],
        // A number that is whole however it is written; what is too large to tell may be.
        Value::Number(number) if number.as_f64().is_none_or(|real| real.fract() == 0.0) => {
            vec!["integer", "number"]
        }
        Value::Number(_) => vec!["number"],
    }
}

/// Where the schema's `type` names none of `kinds`.
fn other_kind(place: &Map<String, Value>, kinds: &[&str]) -> Option<String> {
    let said = place.get("type")?;
    let names = said
        .as_array()
        .map_or(std::slice::from_ref(said), Vec::as_slice);
    let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
    let names = names.filter(|names| !names.is_empty())?;
    let is_among = names.iter().any(|name| kinds.contains(name));
    (!is_among).then(|| format!("is of the type {} by its schema", names.join(" or ")))
}

/// Where the schema lists values, and none that `fits`.
fn none_listed(place: &Map<String, Value>, fits: impl Fn(&Value) -> bool) -> Option<String> {
    let values = match (place.get("const"), place.get("enum")) {
        (Some(value), _) => std::slice::from_ref(value),
        (None, Some(Value::Array(values))) => values,
        (None, _) => return None,
    };
    let is_listed = values.iter().any(fits);
    (!is_listed).then(|| "is one of other values by its schema".to_owned())
}

/// As values of an argument and of a schema are compared: 1 is 1.0.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other).is_eq(),
        _ => one == other,
    }
}

fn is_within(value: &Value, most: &Number) -> bool {
    let none = Number::from(0_u8);
    let number = value.as_number();
    number.is_some_and(|number| compare(number, &none).is_ge() && compare(number, most).is_le())
}

/// Where all numbers up to `most` are below what the schema takes.
fn beneath(place: &Map<String, Value>, most: &Number) -> Option<String> {
    let bound = |keyword: &str| place.get(keyword).and_then(Value::as_number);
    if let Some(least) = bound("minimum").filter(|least| compare(most, least).is_lt()) {
        return Some(format!("is at least {least} by its schema"));
    }
    let above = bound("exclusiveMinimum").filter(|above| compare(most, above).is_le())?;
    Some(format!("is more than {above} by its schema"))
}

fn beyond(place: &Map<String, Value>, number: &Number) -> Option<String> {
    let bound = |keyword: &str| place.get(keyword).and_then(Value::as_number);
    if let Some(most) = bound("maximum").filter(|most| compare(number, most).is_gt()) {
        return Some(format!("is at most {most} by its schema"));
    }
    let below = bound("exclusiveMaximum").filter(|below| compare(number, below).is_ge())?;
    Some(format!("is less than {below} by its schema"))
}

/// Where a text of `length` characters at least is longer than the schema takes.
fn overlong(place: &Map<String, Value>, length: usize) -> Option<String> {
    let most = place.get("maxLength").and_then(Value::as_u64)?;
    let is_longer = u64::try_from(length).is_ok_and(|length| length > most);
    is_longer.then(|| format!("has at most {most} characters by its schema"))
}

fn curt(place: &Map<String, Value>, length: usize) -> Option<String> {
    let least = place.get("minLength").and_then(Value::as_u64)?;
    let is_shorter = u64::try_from(length).is_ok_and(|length| length < least);
    is_shorter.then(|| format!("has at least {least} characters by its schema"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn says(schema: &Value, name: &str, expected: ExpectedValue<'_>) -> Option<String> {
        contradiction(schema, &[name.to_owned()], expected)
    }

    /// What is said of an argument of that schema that has to be one of `values`.
    fn one_of(values: &[Value], schema: &Value) -> Option<String> {
        let schema = json!({ "properties": { "a": schema } });
        says(&schema, "a", ExpectedValue::OneOf(values))
    }

    /// Each of these values is told to be none of that schema, in words with these.
    fn tells(rows: &[(Value, Value, &str)]) {
        for (value, schema, told) in rows {
            let why = one_of(std::slice::from_ref(value), schema);
            let is_told = why.as_ref().is_some_and(|why| why.contains(told));
            assert!(is_told, "{value} {schema}: {why:?}");
        }
    }

    /// 001-38: only what no call can have for certain is told.
    #[test]
    fn what_is_of_another_type_or_not_listed_is_told() {
        let (kind, text) = (|name: &str| json!({ "type": name }), json!("x"));
        tells(&[
            (text.clone(), kind("integer"), "type integer"),
            (json!(1.5), kind("integer"), "type integer"),
            (
                json!(1),
                json!({ "type": ["string", "null"] }),
                "string or null",
            ),
            (
                text.clone(),
                json!({ "enum": ["y", 1] }),
                "one of other values",
            ),
            (json!(2), json!({ "const": 1 }), "one of other values"),
            (
                json!([]),
                json!({ "allOf": [kind("object")] }),
                "type object",
            ),
        ]);
        let several = one_of(&[text, json!(true)], &kind("number"));
        assert_eq!(
            several.as_deref(),
            Some("is of the type number by its schema")
        );
    }

    /// 001-38: the same of what is out of bounds.
    #[test]
    fn what_is_out_of_bounds_is_told() {
        tells(&[
            (json!(2), json!({ "minimum": 3 }), "at least 3"),
            (json!(3), json!({ "exclusiveMinimum": 3 }), "more than 3"),
            (json!(4), json!({ "maximum": 3 }), "at most 3"),
            (json!(3), json!({ "exclusiveMaximum": 3 }), "less than 3"),
            (json!("abc"), json!({ "maxLength": 2 }), "at most 2 char"),
            (json!("a"), json!({ "minLength": 2 }), "at least 2 char"),
        ]);
    }

    /// 001-38: what some call can have is not, and neither is what nobody knows.
    #[test]
    fn what_an_argument_can_be_is_not_told() {
        for (values, schema) in [
            (vec![json!(1.0)], json!({ "type": "integer", "enum": [1] })),
            (vec![json!("x"), json!(4)], json!({ "type": "number" })),
            (vec![json!({ "b": 1 })], json!({ "const": { "b": 1.0 } })),
            (
                vec![json!("x")],
                json!({ "anyOf": [{ "type": "integer" }, {}] }),
            ),
            (vec![json!("x")], json!(true)),
            (vec![json!(2)], json!({ "minLength": 3, "maximum": 2 })),
            (vec![], json!({ "type": "number" })),
        ] {
            assert_eq!(one_of(&values, &schema), None, "{schema}");
        }
    }

    /// 001-38: bounds and beginnings that nothing meets.
    #[test]
    fn what_no_number_or_text_meets_is_told() {
        let (five, root) = (
            Number::from(5_u8),
            |schema: Value| json!({ "properties": { "a": schema } }),
        );
        for (schema, told) in [
            (json!({ "type": "string" }), Some("type string")),
            (json!({ "minimum": 6 }), Some("at least 6")),
            (json!({ "exclusiveMinimum": 5 }), Some("more than 5")),
            (json!({ "enum": [6, -1, "5"] }), Some("one of other values")),
            (json!({ "enum": [6, 5] }), None),
            (json!({ "type": "integer", "minimum": 5 }), None),
            (json!({}), None),
        ] {
            let why = says(&root(schema.clone()), "a", ExpectedValue::AtMost(&five));
            assert_eq!(why.is_some(), told.is_some(), "{schema}: {why:?}");
            assert!(
                why.unwrap_or_default().contains(told.unwrap_or_default()),
                "{schema}"
            );
        }
        for (schema, told) in [
            (json!({ "type": "integer" }), Some("type integer")),
            (json!({ "maxLength": 3 }), Some("at most 3 characters")),
            (json!({ "enum": ["/tmp/a"] }), Some("one of other values")),
            (json!({ "enum": ["/tmp/a", "/srv/a"] }), None),
            (json!({ "type": "string", "maxLength": 4 }), None),
        ] {
            let why = says(&root(schema.clone()), "a", ExpectedValue::Begins("/srv"));
            assert_eq!(why.is_some(), told.is_some(), "{schema}: {why:?}");
            assert!(
                why.unwrap_or_default().contains(told.unwrap_or_default()),
                "{schema}"
            );
        }
        let listed =
            json!({ "properties": { "a": { "properties": { "0": { "type": "string" } } } } });
        let path = ["a".to_owned(), "0".to_owned()];
        assert_eq!(
            contradiction(&listed, &path, ExpectedValue::AtMost(&five)),
            None
        );
    }

    /// 001-38: also what stands in parts of it, or where it refers to.
    #[test]
    fn what_every_call_has_is_told() {
        let schema = json!({
            "required": ["b"], "allOf": [{ "required": ["a", "b"] }], "$ref": "#/$defs/more",
            "$defs": { "more": { "required": ["c"] } }, "anyOf": [{ "required": ["d"] }],
        });
        assert_eq!(required(&schema), ["a", "b", "c"]);
        assert_eq!(required(&json!(true)), Vec::<String>::new());
    }
}
