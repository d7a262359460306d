//! The canonical form of a value is its own canonical form, does not depend on the order of
//! members, and is RFC 8785's but for whole numbers beyond 2^53, which keep their digits; the exact
//! form tells apart what anybody could tell apart
//! (threat-model §3E E1, guarantees §4).

use bytes::Bytes;
use serde_json::Value;
use toolgate::mcp::canonical::{exact, form};
use toolgate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, SERVER_JSON_LIMITS, Text};

/// The first byte chooses who sent the value.
pub fn run(data: &[u8]) {
    let (first, text) = super::led(data);
    let limits = if first & 1 == 0 {
        &AGENT_JSON_LIMITS
    } else {
        &SERVER_JSON_LIMITS
    };
    let Some(value) = read(text, limits) else {
        return;
    };
    let turned = turned(&value);
    assert_eq!(
        exact(&value),
        exact(&turned),
        "the order of members does not count"
    );
    let formed = form(&value);
    assert_eq!(formed, form(&turned), "the order of members does not count");
    if is_of_doubles(&value) {
        let library = serde_json_canonicalizer::to_vec(&value).ok();
        assert_eq!(formed, library, "RFC 8785");
    }
    let Some(formed) = formed.filter(|_| limits.differential) else {
        return;
    };
    let again = read(&formed, limits).expect("the form can be read strictly");
    assert_eq!(form(&again).as_ref(), Some(&formed), "it is its own form");
    assert_eq!(form(&again), form(&value));
}

fn read(text: &[u8], limits: &JsonLimits) -> Option<Value> {
    Text::read(Bytes::copy_from_slice(text), limits)
        .ok()
        .map(|text| text.value())
}

/// Whether each whole number in it is one that a double holds.
fn is_of_doubles(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().all(is_of_doubles),
        Value::Array(elements) => elements.iter().all(is_of_doubles),
        Value::Number(number) => {
            let whole = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            whole.is_none_or(|whole| whole <= 1 << 53)
        }
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// The same value with the members of its objects in the other order.
fn turned(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .rev()
            .map(|(key, member)| (key.clone(), turned(member)))
            .collect(),
        Value::Array(elements) => elements.iter().map(turned).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
