//! What a server or an agent says of itself: once in a handshake, or with every request.

use super::tasks::{TASKS_EXTENSION_KEY, legacy_capability, makes_legacy_tasks, makes_tasks};
use super::{CAPABILITIES_META_KEY, CLIENT_META_KEY, SERVER_META_KEY};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::{Message, introduction};
use crate::mcp::revision::Revision;
use serde_json::json;

/// A legacy server's answer to `initialize` as a modern server's to `server/discover`, without what
/// toolgate says of revisions and age itself.
pub(crate) fn discovered_of(initialized: &Text) -> Text {
    let mut said = Object::new();
    let mut capabilities = member(initialized, "capabilities");
    // Tasks of 2025-11-25 are another protocol than the extension. Any call may become one of the
    // latter here: a question in the middle of it is put by a task where the agent knows tasks.
    capabilities.remove("tasks");
    let has_tools = capabilities.get("tools").is_some();
    if has_tools || makes_legacy_tasks(initialized.get("capabilities").as_ref()) {
        let tasks = Text::members_of(&[(TASKS_EXTENSION_KEY, Object::new().text())]);
        capabilities.set("extensions", tasks);
    }
    said.set("capabilities", capabilities.text());
    if let Some(instructions) = initialized.get("instructions") {
        said.set("instructions", instructions);
    }
    if let Some(server) = initialized.get("serverInfo") {
        said.set("_meta", Text::members_of(&[(SERVER_META_KEY, server)]));
    }
    said.text()
}

/// What is said of a server of which nothing is known yet, as a modern server says it: that its lists
/// will come.
pub(crate) fn unknown_server() -> Text {
    let changes = json!({ "listChanged": true });
    let capabilities = json!({ "tools": changes, "prompts": changes, "resources": changes });
    let introduction = json!({ SERVER_META_KEY: introduction() });
    Text::of(&json!({ "capabilities": capabilities, "_meta": introduction }))
}

/// A modern server's answer to `server/discover` as a legacy server's to `initialize`, for an agent
/// that asked for `revision`.
pub(crate) fn initialized_of(discovered: &Text, revision: Revision) -> Text {
    let mut said = Object::new();
    said.set("protocolVersion", Text::string(revision.as_str()));
    let mut capabilities = member(discovered, "capabilities");
    capabilities.remove("extensions");
    if makes_tasks(discovered) && revision >= Revision::V2025_11_25 {
        capabilities.set("tasks", legacy_capability());
    }
    said.set("capabilities", capabilities.text());
    let server = discovered
        .get("_meta")
        .and_then(|meta| meta.get(SERVER_META_KEY));
    said.set(
        "serverInfo",
        server.unwrap_or_else(|| Text::of(&introduction())),
    );
    if let Some(instructions) = discovered.get("instructions") {
        said.set("instructions", instructions);
    }
    said.text()
}

/// A server's answer to `initialize` as agents read it: they are offered nothing as old as 2024-11-05,
/// whose messages 2025-03-26 has as well.
pub(crate) fn initialized_for_agents(answer: Message) -> Message {
    let said = answer.body.as_ref().filter(|_| !answer.is_error);
    let version = said.and_then(|said| said.get("protocolVersion"));
    let version = version.as_ref().and_then(Text::as_str);
    let own = version.and_then(|version| Revision::of_server(&version));
    let is_older = own.is_some_and(|own| own < Revision::OLDEST);
    let Some(mut said) = said.filter(|_| is_older).and_then(Text::object) else {
        return answer;
    };
    said.set("protocolVersion", Text::string(Revision::OLDEST.as_str()));
    Message {
        body: Some(said.text()),
        ..answer
    }
}

/// The parameters of `initialize` for what a modern agent says of itself in `_meta`.
pub(crate) fn initialize_of(meta: Option<&Text>) -> Text {
    let said = |name: &str| meta.and_then(|meta| meta.get(name)).filter(Text::is_object);
    let mut capabilities = said(CAPABILITIES_META_KEY)
        .and_then(|declared| declared.object())
        .unwrap_or_default();
    capabilities.remove("extensions");
    let program = said(CLIENT_META_KEY).unwrap_or_else(|| Text::of(&introduction()));
    let mut params = Object::new();
    params.set(
        "protocolVersion",
        Text::string(Revision::NEWEST_LEGACY.as_str()),
    );
    params.set("capabilities", capabilities.text());
    params.set("clientInfo", program);
    params.text()
}

fn member(of: &Text, name: &str) -> Object {
    of.get(name)
        .and_then(|value| value.object())
        .unwrap_or_else(|| Text::of(&json!({})).object().unwrap_or_default())
}
