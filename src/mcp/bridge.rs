//! One message of one era as the other era says it (protocol §4.3, §4.4): pure, and only what has
//! to differ. What the two have in common stays as it was written.

mod answers;
mod definitions;
mod introductions;
mod pages;
mod questions;
mod requests;
mod tasks;

pub(crate) use answers::{
    notification_to_legacy_agent, notification_to_modern_agent, to_legacy_agent, to_modern_agent,
};
pub(crate) use definitions::definition_for;
pub(crate) use introductions::{
    discovered_of, initialize_of, initialized_for_agents, initialized_of, unknown_server,
};
pub(crate) use pages::{
    has_opened_all, input_requests, input_required, is_after_pages, pages_of, pages_state,
};
pub(crate) use questions::{PAGE_ID_MEMBER, answer_to_legacy_server, question_to_legacy_agent};
pub(crate) use requests::{
    LegacyIntroduction, as_round, own_params, to_legacy_server, to_modern_server,
};
pub(crate) use tasks::{
    TASKS_EXTENSION_KEY, TaskStatus, TaskSupport, as_legacy_task, knows_tasks, legacy_task_of,
    makes_legacy_tasks, makes_tasks, modern_task_of, related_to, status_of, status_to_modern,
    task_named_by, task_to_legacy, task_to_modern, with_ending, without_tasks,
};

use super::json::Text;

/// The reserved names in `_meta` of a modern message.
pub(crate) const VERSION_META_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// What the agent can do.
pub(crate) const CAPABILITIES_META_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who the agent's program is.
pub(crate) const CLIENT_META_KEY: &str = "io.modelcontextprotocol/clientInfo";
/// From which level on the agent wants to read the server's log.
pub(crate) const LOG_LEVEL_META_KEY: &str = "io.modelcontextprotocol/logLevel";
/// Who the server's program is.
pub(crate) const SERVER_META_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// Which subscription a notification belongs to.
pub(crate) const SUBSCRIPTION_META_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// `params` or a result without these members of its `_meta`; none if it has none of them. An empty
/// `_meta` goes, too.
fn without_meta(body: &Text, names: &[&str]) -> Option<Text> {
    let mut meta = body.get("_meta")?.object()?;
    let removed = names
        .iter()
        .filter(|name| meta.remove(name).is_some())
        .count();
    if removed == 0 {
        return None;
    }
    let mut members = body.object()?;
    if meta.is_empty() {
        members.remove("_meta");
    } else {
        members.set("_meta", meta.text());
    }
    Some(members.text())
}

#[cfg(test)]
mod tests;
