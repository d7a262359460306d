//! What a rollback takes over from the call that is taken back, and the arguments that are made of it.
//! What was taken over is never looked into again: a value that reads like a place stays a value.

use super::{ACTION_PLACEHOLDER, RESULT_PREFIX, Rollback, stands_for_a_part};
use serde_json::{Map, Value};

/// Up to which every whole number is a double of its own: 2^53 − 1.
const LARGEST_SURE_DOUBLE: f64 = 9_007_199_254_740_991.0;

/// What an undo cannot be made without: a part that the call or its result does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the call has no `{0}`, which its rollback needs")]
pub(crate) struct MissingPart(String);

impl Rollback {
    /// The parts of `from` that the arguments name behind `prefix`, by the text that stands for them.
    pub fn taken(&self, prefix: &str, from: &Value) -> Map<String, Value> {
        taken(&self.arguments, prefix, from)
    }
}

/// The parts of `from` that `named` has behind `prefix`, by the text that stands for them.
pub(crate) fn taken(named: &Map<String, Value>, prefix: &str, from: &Value) -> Map<String, Value> {
    let mut parts = Map::new();
    for named in named.values() {
        take(named, prefix, from, &mut parts);
    }
    parts
}

/// The arguments that are `named`, with `parts` in their places, and the action id of the call that
/// is taken back in its own.
///
/// # Errors
/// [`MissingPart`]: nothing is known for one of the places.
pub(crate) fn filled(
    named: &Map<String, Value>,
    parts: &Map<String, Value>,
    action: &str,
) -> Result<Map<String, Value>, MissingPart> {
    let filled = named
        .iter()
        .map(|(name, value)| Ok((name.clone(), fill(value, parts, action)?)));
    filled.collect()
}

fn take(named: &Value, prefix: &str, from: &Value, parts: &mut Map<String, Value>) {
    match named {
        Value::String(text) => {
            let part = text.strip_prefix(prefix);
            let part = part.and_then(|pointer| from.pointer(pointer));
            let part = part.filter(|part| prefix != RESULT_PREFIX || is_sure(part));
            parts.extend(part.map(|part| (text.clone(), part.clone())));
        }
        Value::Array(items) => {
            for item in items {
                take(item, prefix, from, parts);
            }
        }
        Value::Object(members) => {
            for member in members.values() {
                take(member, prefix, from, parts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether what a tool server says names something, and the same to all who read it: it is there, and
/// its whole numbers are as they were written. An undo with another id takes back what nobody meant.
fn is_sure(part: &Value) -> bool {
    !part.is_null() && has_sure_numbers(part)
}

/// The levels of a result are bounded where it is read.
fn has_sure_numbers(part: &Value) -> bool {
    match part {
        Value::Number(number) => {
            let is_small = |number: f64| number.abs() <= LARGEST_SURE_DOUBLE;
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(is_small)
        }
        Value::Array(items) => items.iter().all(has_sure_numbers),
        Value::Object(members) => members.values().all(has_sure_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// The levels of `named` are those of a policy file, which are bounded where it is read.
fn fill(named: &Value, parts: &Map<String, Value>, action: &str) -> Result<Value, MissingPart> {
    match named {
        Value::String(text) if text == ACTION_PLACEHOLDER => Ok(action.into()),
        Value::String(text) if stands_for_a_part(text) => {
            let part = parts.get(text).cloned();
            part.ok_or_else(|| MissingPart(text.clone()))
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| fill(item, parts, action));
            items.collect::<Result<_, _>>().map(Value::Array)
        }
        Value::Object(members) => filled(members, parts, action).map(Value::Object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(named.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ARGUMENTS_PREFIX;
    use super::*;
    use crate::model::ids::ToolName;
    use serde_json::json;
    use std::time::Duration;

    fn rollback(arguments: Value) -> Rollback {
        let Value::Object(arguments) = arguments else {
            unreachable!()
        };
        Rollback {
            tool: ToolName::new("bank__undo"),
            arguments,
            within: Duration::from_hours(24),
            check: None,
            by_agent: false,
        }
    }

    /// 003-64: the call that takes another one back is made of what that one was sent with and gave; what it
    /// lacks is named, and a value that reads like a place is no place.
    #[test]
    fn arguments_are_made_of_what_was_taken_over() {
        let rollback = rollback(json!({
            "tenant": "arguments#/tenant", "ids": ["result#/id"], "why": { "by": "action#", "word": "undo" }, "all": "result#",
        }));
        let arguments = json!({ "tenant": "result#/id", "amount": 7 });
        let result = json!({ "id": 7, "secret": "never" });
        let mut parts = rollback.taken(ARGUMENTS_PREFIX, &arguments);
        assert_eq!(json!(parts), json!({ "arguments#/tenant": "result#/id" }));
        parts.extend(rollback.taken(RESULT_PREFIX, &result));
        let made = filled(&rollback.arguments, &parts, "0190").unwrap();
        assert_eq!(
            json!(made),
            json!({ "tenant": "result#/id", "ids": [7], "why": { "by": "0190", "word": "undo" }, "all": result })
        );
        assert!(rollback.fits(&json!(made), &arguments), "{made:?}");
        let lacking = rollback.taken(RESULT_PREFIX, &json!({ "name": "x" }));
        let refused = filled(&rollback.arguments, &lacking, "0190").unwrap_err();
        assert!(
            refused.to_string().contains("arguments#/tenant")
                || refused.to_string().contains("result#/id"),
            "{refused}"
        );
    }

    /// 003-64: what is no id, or one that is read in two ways, is none; whole numbers of 64 bits are exact.
    #[test]
    fn what_is_not_sure_is_missing() {
        let rollback = rollback(json!({ "id": "result#/id", "name": "arguments#/name" }));
        for (id, is_there) in [
            ("7", true),
            ("9007199254740993", true),
            ("18446744073709551615", true),
            ("18446744073709551616", false),
            ("-9223372036854775809", false),
            ("1e300", false),
            ("0.5", true),
            ("\"\"", true),
            ("null", false),
            ("{\"of\": [null, 18446744073709551616]}", false),
            ("{\"of\": [null, 1]}", true),
        ] {
            let result: Value = serde_json::from_str(&format!("{{\"id\":{id}}}")).unwrap();
            let taken = rollback.taken(RESULT_PREFIX, &result);
            assert_eq!(taken.contains_key("result#/id"), is_there, "{id}");
        }
        let said = rollback.taken(ARGUMENTS_PREFIX, &json!({ "name": null }));
        assert_eq!(json!(said), json!({ "arguments#/name": null }), "as sent");
    }
}
