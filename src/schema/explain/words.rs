//! The words for faults that a value has by itself, and names made safe to show.

use super::{as_integer, equal};
use crate::model::number::{compare, whole};
use crate::schema::metered::pay;
use serde_json::{Map, Number, Value};

/// A name from outside, in characters.
const NAME_CHARS_MAX: usize = 64;
/// A pointer, in characters.
const POINTER_CHARS_MAX: usize = 256;
/// What writing a value takes, in units of work, beside its text.
const WRITE_WORK_UNITS: u64 = 8;
/// Members of an enum that are listed.
pub(super) const MAX_ENUM_LISTED: usize = 10;

/// `text` without control characters, cut at `longest` characters.
pub(in crate::schema) fn cut(text: &str, longest: usize) -> String {
    let mut safe: String = text
        .chars()
        .take(longest)
        .map(|c| if is_safe(c) { c } else { '\u{fffd}' })
        .collect();
    if text.chars().nth(longest).is_some() {
        safe.push('…');
    }
    safe
}

/// `text`, which is safe to show, cut at `longest` characters.
pub(super) fn shortened(text: String, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A part of a schema as its author wrote it, as far as it is shown.
pub(super) fn written(members: &Map<String, Value>, longest: usize) -> String {
    let whole = Value::Object(members.clone());
    pay(&whole, WRITE_WORK_UNITS, 1);
    cut(&whole.to_string(), longest)
}

/// Control characters and those that turn the reading direction could dress a name up as something
/// else.
fn is_safe(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '`')
}

/// A name from outside, safe to show.
pub(in crate::schema) fn shown(name: &str) -> String {
    cut(name, NAME_CHARS_MAX)
}

/// The JSON pointer of a path, safe to show.
pub(in crate::schema) fn pointer(path: &[String]) -> String {
    let mut pointer = String::new();
    for step in path {
        pointer.push('/');
        pointer.push_str(&shown(step).replace('~', "~0").replace('/', "~1"));
    }
    cut(&pointer, POINTER_CHARS_MAX)
}

/// What `members` expect of `value` itself and it is not.
pub(super) fn itself(members: &Map<String, Value>, value: &Value) -> Option<String> {
    members
        .iter()
        .find_map(|(keyword, wanted)| match keyword.as_str() {
            "type" => kind(wanted, value),
            "enum" => wanted
                .as_array()
                .filter(|all| !all.iter().any(|one| equal(one, value)))
                .map(|all| format!("one of {}", listed(all))),
            "const" => {
                (!equal(wanted, value)).then(|| format!("the value {}", shown_value(wanted)))
            }
            _ => match value {
                Value::Number(number) => range(keyword, wanted, number),
                Value::String(text) => length(keyword, wanted, text.chars().count(), CHARACTERS),
                Value::Array(elements) => length(keyword, wanted, elements.len(), ITEMS),
                Value::Object(object) => length(keyword, wanted, object.len(), PROPERTIES),
                Value::Null | Value::Bool(_) => None,
            },
        })
}

/// The type of `value`, if `members` ask for another.
pub(super) fn another_kind(members: &Map<String, Value>, value: &Value) -> Option<&'static str> {
    kind(members.get("type")?, value)?;
    Some(match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    })
}

fn kind(wanted: &Value, value: &Value) -> Option<String> {
    let kinds: Vec<&str> = match wanted {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    let is = |kind: &str| match (kind, value) {
        ("integer", Value::Number(number)) => as_integer(number),
        ("number", Value::Number(_))
        | ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("object", Value::Object(_))
        | ("array", Value::Array(_))
        | ("null", Value::Null) => true,
        _ => false,
    };
    let name = |kind: &&str| match *kind {
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "boolean" => "true or false",
        "object" => "an object",
        "array" => "an array",
        "null" => "null",
        _ => "another type",
    };
    if kinds.iter().any(|kind| is(kind)) {
        return None;
    }
    Some(kinds.iter().map(name).collect::<Vec<_>>().join(" or "))
}

/// A value of the schema, as far as it is shown.
pub(super) fn shown_value(value: &Value) -> String {
    pay(value, WRITE_WORK_UNITS, 1);
    cut(&value.to_string(), NAME_CHARS_MAX)
}

/// The first of `all`.
pub(super) fn listed(all: &[Value]) -> String {
    let words: Vec<String> = all.iter().take(MAX_ENUM_LISTED).map(shown_value).collect();
    let more = if all.len() > MAX_ENUM_LISTED {
        ", …"
    } else {
        ""
    };
    cut(&format!("{}{more}", words.join(", ")), 300)
}

fn range(keyword: &str, wanted: &Value, number: &Number) -> Option<String> {
    let Value::Number(limit) = wanted else {
        return None;
    };
    let stands = compare(number, limit);
    let (broken, words) = match keyword {
        "minimum" => (stands.is_lt(), "at least"),
        "maximum" => (stands.is_gt(), "at most"),
        "exclusiveMinimum" => (stands.is_le(), "more than"),
        "exclusiveMaximum" => (stands.is_ge(), "less than"),
        "multipleOf" => (is_no_multiple(number, limit), "a multiple of"),
        _ => return None,
    };
    broken.then(|| format!("{words} {wanted}"))
}

/// Of fractions the remainder is not exact.
fn is_no_multiple(number: &Number, of: &Number) -> bool {
    if let (Some(number), Some(of)) = (whole(number), whole(of)) {
        return of != 0 && number % of != 0;
    }
    let (Some(number), Some(of)) = (number.as_f64(), of.as_f64()) else {
        return false;
    };
    number.fract() == 0.0 && of.fract() == 0.0 && number % of != 0.0
}

/// What a length is counted in.
struct LengthUnit {
    /// What follows `min` and `max` in the keyword.
    keyword: &'static str,
    one: &'static str,
    many: &'static str,
}

const CHARACTERS: &LengthUnit = &LengthUnit {
    keyword: "Length",
    one: "character",
    many: "characters",
};
const ITEMS: &LengthUnit = &LengthUnit {
    keyword: "Items",
    one: "item",
    many: "items",
};
const PROPERTIES: &LengthUnit = &LengthUnit {
    keyword: "Properties",
    one: "property",
    many: "properties",
};

fn length(keyword: &str, wanted: &Value, length: usize, unit: &LengthUnit) -> Option<String> {
    let (edge, what) = keyword.split_at_checked(3)?;
    let limit = wanted.as_f64().filter(|_| what == unit.keyword)?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a length is bounded by the message's"
    )]
    let length = length as f64;
    let words = match edge {
        "min" if length < limit => "at least",
        "max" if length > limit => "at most",
        _ => return None,
    };
    Some(format!(
        "{words} {wanted} {}",
        if wanted.as_u64() == Some(1) {
            unit.one
        } else {
            unit.many
        }
    ))
}
