//! Arguments of a recorded call, short enough for a sample.

use serde_json::{Map, Value};

/// Bytes of the arguments of a sample, and objects and lists within each other.
const MAX_SAMPLE_BYTES: usize = 2_000;
const MAX_SAMPLE_DEPTH: usize = 24;
/// Characters to which the texts of a longer one are cut; the first that does is taken.
const CUT_TEXT_CHARS: [usize; 3] = [400, 100, 25];

/// The arguments with long texts cut, if they have to be; none where that is not enough.
pub(super) fn short(arguments: Map<String, Value>) -> Option<(Map<String, Value>, bool)> {
    let whole = Value::Object(arguments);
    if !is_within(&whole, MAX_SAMPLE_DEPTH) {
        return None;
    }
    let is_short = |value: &Value| value.to_string().len() <= MAX_SAMPLE_BYTES;
    let is_cut = !is_short(&whole);
    let mut ways =
        std::iter::once(whole.clone()).chain(CUT_TEXT_CHARS.iter().map(|most| cut(&whole, *most)));
    match ways.find(is_short)? {
        Value::Object(arguments) => Some((arguments, is_cut)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(values) => depth > 0 && values.iter().all(|one| is_within(one, depth - 1)),
        Value::Object(members) => {
            depth > 0 && members.values().all(|one| is_within(one, depth - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn cut(value: &Value, most: usize) -> Value {
    match value {
        Value::String(text) => text.chars().take(most).collect::<String>().into(),
        Value::Array(values) => values.iter().map(|one| cut(one, most)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, one)| (name.clone(), cut(one, most)));
            Value::Object(members.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
