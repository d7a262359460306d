//! What a person sees of a call is the call: it reads back as exactly that value, and nothing in it
//! hides, moves the cursor or turns the direction of writing (threat-model §3D D6, §3E E5).

use bytes::Bytes;
use serde_json::{Value, json};
use toolgate::mcp::json::{AGENT_JSON_LIMITS, SERVER_JSON_LIMITS, Text};
use toolgate::mcp::pretty::{plain, pretty, readable};
use toolgate::mcp::readable::{self as definitions, is_misleading};

/// The first byte chooses who sent the value; what is no JSON is a text.
pub fn run(data: &[u8]) {
    let (first, text) = super::led(data);
    let limits = if first & 1 == 0 {
        &AGENT_JSON_LIMITS
    } else {
        &SERVER_JSON_LIMITS
    };
    let read = Text::read(Bytes::copy_from_slice(text), limits)
        .ok()
        .map(|text| text.value());
    let said = String::from_utf8_lossy(text).into_owned();
    let value = read.unwrap_or_else(|| json!({ said.as_str(): [said.as_str()] }));
    let shown = pretty(&value);
    prints(&shown, "\n");
    assert_eq!(
        serde_json::from_str::<Value>(&shown).expect("it is JSON"),
        value,
        "it reads back as the value"
    );
    prints(&readable(&value), "\n");
    prints(&plain(&said), "");
    let definition =
        json!({ "name": "tool", "description": said, "title": said, "inputSchema": value });
    described(&Text::of(&definition));
}

fn prints(shown: &str, besides: &str) {
    let odd = shown.chars().find(|letter| {
        (letter.is_control() || is_misleading(*letter)) && !besides.contains(*letter)
    });
    assert_eq!(odd, None, "{shown:?}");
}

/// A definition that is shown has no such characters either, and stays as it is when it is cleaned
/// again.
fn described(definition: &Text) {
    let Ok((clean, _)) = definitions::readable(definition) else {
        return;
    };
    let (again, changes) = definitions::readable(&clean).expect("what is clean is clean");
    assert!(changes.is_none() && again == clean, "{changes:?}");
    let value = clean.value();
    for key in ["description", "title"] {
        let text = value[key].as_str().expect("a text");
        assert!(
            text.len() <= definitions::MAX_READABLE_BYTES && !text.chars().any(is_misleading),
            "{text:?}"
        );
    }
    assert_eq!(value["name"], "tool");
}
