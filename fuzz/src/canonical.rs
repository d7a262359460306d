//! The canonical form of a value is its own canonical form, does not depend on the order of
//! members, and is RFC 8785's; the exact form tells apart what anybody could tell apart
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
    assert_eq!(
        formed,
        serde_json_canonicalizer::to_vec(&value).ok(),
        "RFC 8785"
    );
    // Whole numbers beyond 2^53, which servers may send, have the form of the nearest double.
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
