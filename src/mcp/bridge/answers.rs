//! What a server answers, as an agent of the other era reads it.

use super::tasks::{answer_to_legacy, answer_to_modern, status_to_legacy};
use super::{SERVER_META_KEY, SUBSCRIPTION_META_KEY, without_meta};
use crate::mcp::error_codes::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY, UNSUPPORTED_VERSION,
};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Revision;
use serde_json::json;

/// There is no such resource, up to 2025-11-25.
const RESOURCE_NOT_FOUND_CODE: i64 = -32002;
/// What only 2026-07-28 has in a result.
const MODERN_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
/// What only 2026-07-28 has in `_meta` of what a server says.
const MODERN_META_KEYS: [&str; 2] = [SERVER_META_KEY, SUBSCRIPTION_META_KEY];
/// By which only a modern server asks.
const ROUND_MEMBERS: [&str; 2] = ["inputRequests", "requestState"];
/// Results that say for how long they count.
const AGEING_METHODS: [&str; 4] = [
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// A modern server's notification as a legacy agent reads it.
pub(crate) fn notification_to_legacy_agent(said: Message) -> Message {
    if let Some(told) = status_to_legacy(&said) {
        return told;
    }
    without_modern_meta(said)
}

/// A legacy server's notification as a modern agent reads it: names that mean nothing in its era say
/// nothing to the agent, such as which subscription it belongs to.
pub(crate) fn notification_to_modern_agent(said: Message) -> Message {
    without_modern_meta(said)
}

fn without_modern_meta(said: Message) -> Message {
    let plain = said
        .body
        .as_ref()
        .and_then(|params| without_meta(params, &MODERN_META_KEYS));
    match plain {
        Some(params) => Message {
            body: Some(params),
            ..said
        },
        None => said,
    }
}

/// A modern server's answer to `method` as a legacy agent of this revision reads it.
pub(crate) fn to_legacy_agent(method: &str, said: Message, revision: Revision) -> Message {
    let Some(body) = &said.body else { return said };
    if said.is_error {
        return legacy_error(method, said);
    }
    let plain = without_meta(body, &MODERN_META_KEYS).unwrap_or_else(|| body.clone());
    if let Some(told) = answer_to_legacy(method, &plain) {
        return Message {
            body: Some(told),
            ..said
        };
    }
    let Some(mut result) = plain.object() else {
        return said;
    };
    for name in MODERN_MEMBERS {
        result.remove(name);
    }
    if method == "tools/call" {
        let has_structured = revision >= Revision::V2025_06_18;
        if !result
            .get("structuredContent")
            .is_some_and(|content| has_structured && content.is_object())
        {
            result.remove("structuredContent");
        }
        if let Some(content) = result.get("content").and_then(Text::elements)
            && revision < Revision::V2025_06_18
        {
            result.set("content", Text::array(content.iter().map(without_link)));
        }
    }
    if method == "prompts/get"
        && let Some(messages) = result.get("messages").and_then(Text::elements)
        && revision < Revision::V2025_06_18
    {
        let plain = messages.iter().map(without_linked_content);
        result.set("messages", Text::array(plain));
    }
    Message {
        body: Some(result.text()),
        ..said
    }
}

/// A legacy server's answer to `method` as a modern agent reads it.
pub(crate) fn to_modern_agent(method: &str, said: Message) -> Message {
    let Some(body) = &said.body else { return said };
    if said.is_error {
        return match code(body) {
            Some(RESOURCE_NOT_FOUND_CODE) if method == "resources/read" => {
                with_code(&said, INVALID_PARAMS)
            }
            _ => said,
        };
    }
    if let Some(told) = answer_to_modern(method, &said) {
        return Message {
            body: Some(told),
            ..said
        };
    }
    // In its era these names mean nothing.
    let plain = without_meta(body, &MODERN_META_KEYS).unwrap_or_else(|| body.clone());
    let Some(mut result) = plain.object() else {
        return said;
    };
    // A legacy server's answer is its last word, whatever it says of itself.
    result.set("resultType", Text::string("complete"));
    for name in ROUND_MEMBERS {
        result.remove(name);
    }
    if AGEING_METHODS.contains(&method) {
        // In its era the names mean nothing, so nobody may keep the answer for what they say.
        result.set("ttlMs", Text::of(&0.into()));
        result.set("cacheScope", Text::string("private"));
    }
    Message {
        body: Some(result.text()),
        ..said
    }
}

/// Errors that speak of the envelope are toolgate's to mind: a legacy agent sent none.
fn legacy_error(method: &str, said: Message) -> Message {
    let Some(error) = &said.body else { return said };
    match code(error) {
        Some(INVALID_PARAMS) if method == "resources/read" => {
            with_code(&said, RESOURCE_NOT_FOUND_CODE)
        }
        Some(MISSING_CAPABILITY) => {
            let words =
                "the tool server needs something of the agent's program that it has not declared";
            let needed = error
                .at(&["data", "requiredCapabilities"])
                .and_then(|needed| needed.object())
                .map(|needed| {
                    let names: Vec<&str> = needed.iter().map(|(name, _)| name).collect();
                    format!("{words}: {}", names.join(", "))
                });
            let words = needed.unwrap_or_else(|| words.to_owned());
            if method == "tools/call" {
                let result =
                    json!({ "content": [{ "type": "text", "text": words }], "isError": true });
                return Message::response(said.id, Text::of(&result), false);
            }
            Message::error(said.id, INTERNAL_ERROR, &words, None)
        }
        Some(HEADER_MISMATCH | UNSUPPORTED_VERSION) => {
            let words = "toolgate and the tool server do not agree on how requests are written";
            Message::error(said.id, INTERNAL_ERROR, words, None)
        }
        _ => said,
    }
}

fn code(error: &Text) -> Option<i64> {
    error.get("code")?.value().as_i64()
}

fn with_code(said: &Message, code: i64) -> Message {
    let mut error = said
        .body
        .as_ref()
        .and_then(Text::object)
        .unwrap_or_default();
    error.set("code", Text::of(&code.into()));
    Message {
        body: Some(error.text()),
        ..said.clone()
    }
}

/// A link to a resource as text, for agents that know no links.
fn without_link(block: &Text) -> Text {
    let text = |name: &str| {
        block
            .get(name)
            .and_then(|value| value.as_str().map(std::borrow::Cow::into_owned))
    };
    if text("type").as_deref() != Some("resource_link") {
        return block.clone();
    }
    let uri = text("uri").unwrap_or_default();
    let words = match text("name") {
        Some(name) => format!("{name}: {uri}"),
        None => uri,
    };
    Text::of(&json!({ "type": "text", "text": words }))
}

/// A message of a prompt, for agents that know no links.
fn without_linked_content(message: &Text) -> Text {
    match (message.object(), message.get("content")) {
        (Some(mut members), Some(content)) => {
            members.set("content", without_link(&content));
            members.text()
        }
        _ => message.clone(),
    }
}
