//! What an agent says, as a server of the other era reads it.

use super::tasks::{LEGACY_TASK_PARAM, TASKS_EXTENSION_KEY};
use super::{
    CAPABILITIES_META_KEY, CLIENT_META_KEY, LOG_LEVEL_META_KEY, VERSION_META_KEY, without_meta,
};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::{Message, introduction};
use crate::mcp::revision::{Era, Revision};
use serde_json::json;

/// What only 2026-07-28 has in `_meta` of a request.
const MODERN_META_KEYS: [&str; 4] = [
    VERSION_META_KEY,
    CAPABILITIES_META_KEY,
    CLIENT_META_KEY,
    LOG_LEVEL_META_KEY,
];
/// What a legacy server reads in no request of an agent of 2026-07-28: answers to questions, which
/// only that revision has there, and `task`, which says nothing in it.
const MODERN_PARAMS: [&str; 3] = ["inputResponses", "requestState", LEGACY_TASK_PARAM];
/// By which a request answers what a modern server asked.
const ROUND_PARAMS: [&str; 2] = ["inputResponses", "requestState"];

/// What a legacy agent said of itself when it opened its session, as each modern request says it.
#[derive(Debug, Clone)]
pub(crate) struct LegacyIntroduction {
    program: Option<Text>,
    capabilities: Text,
}

impl LegacyIntroduction {
    /// Of these parameters of `initialize`.
    pub(crate) fn of(initialize: &Text) -> Self {
        let mut capabilities = initialize
            .get("capabilities")
            .and_then(|declared| declared.object())
            .unwrap_or_default();
        // Tasks of 2025-11-25 are another protocol than the extension, and nobody listens for
        // changed roots.
        capabilities.remove("tasks");
        if capabilities.get("roots").is_some() {
            capabilities.set("roots", Object::new().text());
        }
        Self {
            program: initialize.get("clientInfo").filter(Text::is_object),
            capabilities: capabilities.text(),
        }
    }

    /// The same of an agent whose calls may become tasks: where it does not know them, toolgate waits
    /// for them in its place.
    #[must_use]
    pub(crate) fn with_tasks(self) -> Self {
        let mut capabilities = self.capabilities.object().unwrap_or_default();
        let extensions = capabilities.get("extensions").and_then(Text::object);
        let mut extensions = extensions.unwrap_or_default();
        extensions.set(TASKS_EXTENSION_KEY, Object::new().text());
        capabilities.set("extensions", extensions.text());
        Self {
            capabilities: capabilities.text(),
            ..self
        }
    }
}

/// A legacy agent's request as a modern server reads it: with the envelope that every request
/// needs.
pub(crate) fn to_modern_server(
    message: &Message,
    agent: &LegacyIntroduction,
    log_level: Option<&Text>,
) -> Message {
    let mut params = message
        .body
        .as_ref()
        .and_then(Text::object)
        .unwrap_or_default();
    params.remove(LEGACY_TASK_PARAM);
    // Names that mean nothing in a legacy agent's own words.
    for name in ROUND_PARAMS {
        params.remove(name);
    }
    let mut meta = params
        .get("_meta")
        .and_then(Text::object)
        .unwrap_or_default();
    let version = Text::string(Revision::NEWEST_MODERN.as_str());
    meta.set(VERSION_META_KEY, version);
    meta.set(CAPABILITIES_META_KEY, agent.capabilities.clone());
    for (key, value) in [
        (CLIENT_META_KEY, agent.program.as_ref()),
        (LOG_LEVEL_META_KEY, log_level),
    ] {
        match value {
            Some(value) => meta.set(key, value.clone()),
            None => drop(meta.remove(key)),
        }
    }
    params.set("_meta", meta.text());
    Message {
        body: Some(params.text()),
        ..message.clone()
    }
}

/// The same request with what toolgate answers in a legacy agent's place, which these parameters have.
pub(crate) fn as_round(request: Message, answered: Option<&Text>) -> Message {
    let params = request.body.as_ref().and_then(Text::object);
    let mut params = params.unwrap_or_default();
    for name in ROUND_PARAMS {
        if let Some(said) = answered.and_then(|answered| answered.get(name)) {
            params.set(name, said);
        }
    }
    Message {
        body: Some(params.text()),
        ..request
    }
}

/// A modern agent's request as a legacy server reads it: without the envelope.
pub(crate) fn to_legacy_server(message: &Message) -> Message {
    let Some(params) = &message.body else {
        return message.clone();
    };
    let mut plain = without_meta(params, &MODERN_META_KEYS).unwrap_or_else(|| params.clone());
    if MODERN_PARAMS.iter().any(|name| plain.get(name).is_some()) {
        let mut members = plain.object().unwrap_or_default();
        for name in MODERN_PARAMS {
            members.remove(name);
        }
        plain = members.text();
    }
    Message {
        body: Some(plain),
        ..message.clone()
    }
}

/// Parameters of a request of toolgate's own, on a wire of this era.
pub(crate) fn own_params(era: Era, cursor: Option<Text>) -> Text {
    let mut params = Object::new();
    if let Some(cursor) = cursor {
        params.set("cursor", cursor);
    }
    if era == Era::Modern {
        let meta = json!({
            VERSION_META_KEY: Revision::NEWEST_MODERN.as_str(),
            CAPABILITIES_META_KEY: {},
            CLIENT_META_KEY: introduction(),
        });
        params.set("_meta", Text::of(&meta));
    }
    params.text()
}
