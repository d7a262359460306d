//! Tasks of 2025-11-25 and of the extension of 2026-07-28, each as the other era says it
//! (protocol §6.3). A task has the same members in both; some have other names, and what it ended
//! with is inside it only since 2026-07-28.

use super::CAPABILITIES_META_KEY;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use serde_json::json;

/// The extension by which 2026-07-28 has tasks.
pub(crate) const TASKS_EXTENSION_KEY: &str = "io.modelcontextprotocol/tasks";
/// By which an agent of 2025-11-25 asks for a task.
pub(super) const LEGACY_TASK_PARAM: &str = "task";
/// For how long a legacy server is asked to keep a task that an agent of 2026-07-28 has.
const TASK_TTL_MS: u64 = 3_600_000;
/// Which task a message of 2025-11-25 belongs to.
const RELATED_TASK_KEY: &str = "io.modelcontextprotocol/related-task";
/// What a server tells of a task outside any request: up to 2025-11-25, and since.
const LEGACY_STATUS_METHOD: &str = "notifications/tasks/status";
const MODERN_STATUS_METHOD: &str = "notifications/tasks";
/// What both eras call the same.
const TASK_MEMBERS: [&str; 5] = [
    "taskId",
    "status",
    "statusMessage",
    "createdAt",
    "lastUpdatedAt",
];

/// Whether calls of a tool become tasks, as its server says up to 2025-11-25.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TaskSupport {
    /// They do not.
    #[default]
    Forbidden,
    /// They may.
    Optional,
    /// They have to.
    Required,
}

impl TaskSupport {
    /// Of the tool with this definition.
    pub(crate) fn of(definition: &Text) -> Self {
        let support = definition.at(&["execution", "taskSupport"]);
        match support.as_ref().and_then(Text::as_str).as_deref() {
            Some("optional") => Self::Optional,
            Some("required") => Self::Required,
            _ => Self::Forbidden,
        }
    }

    /// Whether a call is sent as a task, to a server that makes some, for an agent that knows them.
    pub(crate) fn is_wanted(self, is_known: bool) -> bool {
        match self {
            Self::Forbidden => false,
            Self::Optional => is_known,
            Self::Required => true,
        }
    }
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    /// Its tool works on it; also any word that no revision has.
    Working,
    /// Its tool waits for the agent.
    InputRequired,
    /// There is a result.
    Completed,
    /// There is an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// Of a task of either era.
    pub(crate) fn of(task: &Text) -> Self {
        let status = task.get("status");
        match status.as_ref().and_then(Text::as_str).as_deref() {
            Some("input_required") => Self::InputRequired,
            Some("completed") => Self::Completed,
            Some("failed") => Self::Failed,
            Some("cancelled") => Self::Cancelled,
            _ => Self::Working,
        }
    }

    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The task that a server of 2026-07-28 has made of a call, if its answer is one.
pub(crate) fn modern_task_of(answer: &Message) -> Option<&Text> {
    let result = answer.body.as_ref().filter(|_| !answer.is_error)?;
    let kind = result.get("resultType")?;
    let is_task = kind.as_str().as_deref() == Some("task") && result.get("taskId").is_some();
    is_task.then_some(result)
}

/// A task of 2026-07-28 as an agent of 2025-11-25 reads it.
pub(crate) fn task_to_legacy(task: &Text) -> Text {
    let mut told = same_members(task);
    let ttl = task.get("ttlMs").unwrap_or_else(|| Text::of(&json!(null)));
    told.set("ttl", ttl);
    if let Some(pause) = task.get("pollIntervalMs") {
        told.set("pollInterval", pause);
    }
    told.text()
}

fn same_members(task: &Text) -> Object {
    let mut told = Object::new();
    for name in TASK_MEMBERS {
        if let Some(value) = task.get(name) {
            told.set(name, value);
        }
    }
    told
}

/// A task of 2025-11-25 as an agent of 2026-07-28 reads it, without what it ended with.
pub(crate) fn task_to_modern(task: &Text) -> Object {
    let mut told = same_members(task);
    let ttl = task.get("ttl").unwrap_or_else(|| Text::of(&json!(null)));
    told.set("ttlMs", ttl);
    if let Some(pause) = task.get("pollInterval") {
        told.set("pollIntervalMs", pause);
    }
    told
}

/// Puts what a task of 2025-11-25 ended with into it: `ended` is the answer to `tasks/result`. A
/// result that says `isError` is one all the same.
pub(crate) fn with_ending(task: &mut Object, ended: &Message) {
    let (status, member) = if ended.is_error {
        ("failed", "error")
    } else {
        ("completed", "result")
    };
    task.set("status", Text::string(status));
    let body = ended.body.clone();
    task.set(member, body.unwrap_or_else(|| Object::new().text()));
}

/// The id of the task that a legacy server has made of a call, if its answer is one.
pub(crate) fn legacy_task_of(answer: &Message) -> Option<Text> {
    let result = answer.body.as_ref().filter(|_| !answer.is_error)?;
    let id = result.at(&["task", "taskId"])?;
    result.get("content").is_none().then_some(id)
}

/// What a legacy server answered with a task as an agent of 2026-07-28 reads it; none if it is none.
pub(super) fn answer_to_modern(method: &str, answer: &Message) -> Option<Text> {
    legacy_task_of(answer).filter(|_| method == "tools/call")?;
    let result = answer.body.as_ref()?;
    let mut told = task_to_modern(&result.get("task")?);
    told.set("resultType", Text::string("task"));
    if let Some(meta) = result.get("_meta") {
        told.set("_meta", meta);
    }
    Some(told.text())
}

/// The task of which a legacy server tells outside any request how it stands; none if it tells
/// something else.
pub(crate) fn status_of(said: &Message) -> Option<&Text> {
    let task = said.body.as_ref();
    task.filter(|_| said.method == LEGACY_STATUS_METHOD)
}

/// Word of how a task stands, as an agent of 2026-07-28 reads it.
pub(crate) fn status_to_modern(task: &Object) -> Message {
    Message::notification(MODERN_STATUS_METHOD, Some(task.text()))
}

/// What a server of 2026-07-28 answered about a task, or with one, as an agent of 2025-11-25 reads it;
/// none if it is no task.
pub(super) fn answer_to_legacy(method: &str, result: &Text) -> Option<Text> {
    let is_task = |result: &Text| {
        let kind = result.get("resultType");
        kind.is_some_and(|kind| kind.as_str().as_deref() == Some("task"))
    };
    let mut told = match method {
        "tools/call" if is_task(result) => {
            let mut told = Object::new();
            told.set("task", task_to_legacy(result));
            told
        }
        "tasks/get" | "tasks/cancel" => task_to_legacy(result).object()?,
        _ => return None,
    };
    if let Some(meta) = result.get("_meta") {
        told.set("_meta", meta);
    }
    Some(told.text())
}

/// What a server of 2026-07-28 tells of a task outside any request, as an agent of 2025-11-25 reads
/// it; none if it is something else.
pub(super) fn status_to_legacy(said: &Message) -> Option<Message> {
    let task = said
        .body
        .as_ref()
        .filter(|_| said.method == MODERN_STATUS_METHOD)?;
    let told = Some(task_to_legacy(task));
    Some(Message::notification(LEGACY_STATUS_METHOD, told))
}

/// A result, or a question, with word of the task that it belongs to, as 2025-11-25 has it.
pub(crate) fn related_to(id: &Text, body: &Text) -> Text {
    let Some(mut members) = body.object() else {
        return body.clone();
    };
    let meta = members.get("_meta").and_then(Text::object);
    let mut meta = meta.unwrap_or_default();
    meta.set(
        RELATED_TASK_KEY,
        Text::members_of(&[("taskId", id.clone())]),
    );
    members.set("_meta", meta.text());
    members.text()
}

/// Whether a server of 2026-07-28 says in this introduction that it makes tasks.
pub(crate) fn makes_tasks(discovered: &Text) -> bool {
    let path = ["capabilities", "extensions", TASKS_EXTENSION_KEY];
    discovered.at(&path).is_some()
}

/// Whether an agent has declared on a request with this `_meta` that it knows tasks of 2026-07-28.
pub(crate) fn knows_tasks(meta: &Text) -> bool {
    let path = [CAPABILITIES_META_KEY, "extensions", TASKS_EXTENSION_KEY];
    meta.at(&path).is_some()
}

/// This `_meta` of a request whose sender knows no tasks.
pub(crate) fn without_tasks(mut meta: Object) -> Object {
    let Some(mut declared) = meta.get(CAPABILITIES_META_KEY).and_then(Text::object) else {
        return meta;
    };
    if let Some(mut extensions) = declared.get("extensions").and_then(Text::object) {
        extensions.remove(TASKS_EXTENSION_KEY);
        declared.set("extensions", extensions.text());
        meta.set(CAPABILITIES_META_KEY, declared.text());
    }
    meta
}

/// Whether a legacy server with these capabilities makes tasks of calls.
pub(crate) fn makes_legacy_tasks(capabilities: Option<&Text>) -> bool {
    let path = ["tasks", "requests", "tools", "call"];
    capabilities.is_some_and(|declared| declared.at(&path).is_some())
}

/// A modern agent's call as a legacy server makes a task of it.
pub(crate) fn as_legacy_task(call: Message) -> Message {
    let params = call.body.as_ref().and_then(Text::object);
    let mut params = params.unwrap_or_default();
    params.set(LEGACY_TASK_PARAM, Text::of(&json!({ "ttl": TASK_TTL_MS })));
    Message {
        body: Some(params.text()),
        ..call
    }
}

/// The tasks of a server of 2026-07-28, as one of 2025-11-25 would declare them.
pub(super) fn legacy_capability() -> Text {
    let calls = json!({ "tools": { "call": {} } });
    Text::of(&json!({ "list": {}, "cancel": {}, "requests": calls }))
}

/// The task that a question of a legacy server names as its own.
pub(crate) fn task_named_by(question: &Message) -> Option<Text> {
    let params = question.body.as_ref()?;
    params.at(&["_meta", RELATED_TASK_KEY, "taskId"])
}
