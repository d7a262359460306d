//! The closed list of what members a message is known to have, by the object that they are in, in
//! any revision served (protocol §1, §3).
//!
//! Arguments, schemas, structured content and the values of members that nobody here knows have
//! names of anybody's choice.

use crate::mcp::json::{Level, MemberContent};
use MemberContent::{Anything, Each, Objects};
use objects::{
    CAPABILITIES, CHOICE, COMPLETION, COMPLETION_ARGUMENT, COMPLETION_CONTEXT, CONTENT,
    IMPLEMENTATION, NOTIFICATIONS, PREFERENCES, PROMPT, PROMPT_MESSAGE, REFERENCE, RELATED_TASK,
    RESOURCE, ROOT, SERVER_REQUEST, TASK, TOOL,
};

mod objects;

pub(in crate::mcp::members) use objects::ERROR;

/// The message itself.
pub(super) static ENVELOPE: Level = Level {
    place: "the message",
    members: &[
        ("jsonrpc", Anything),
        ("id", Anything),
        ("method", Anything),
        ("params", Anything),
        ("result", Anything),
        ("error", Anything),
    ],
    prefixes: &[],
};

/// `_meta`, wherever it stands.
pub(in crate::mcp::members) static META: Level = Level {
    place: "`_meta`",
    members: &[
        ("io.modelcontextprotocol/protocolVersion", Anything),
        (
            "io.modelcontextprotocol/clientCapabilities",
            Objects(&CAPABILITIES),
        ),
        (
            "io.modelcontextprotocol/clientInfo",
            Objects(&IMPLEMENTATION),
        ),
        ("progressToken", Anything),
        ("traceparent", Anything),
        ("tracestate", Anything),
        ("baggage", Anything),
        ("io.modelcontextprotocol/logLevel", Anything),
        ("io.modelcontextprotocol/subscriptionId", Anything),
        (
            "io.modelcontextprotocol/related-task",
            Objects(&RELATED_TASK),
        ),
        ("io.modelcontextprotocol/model-immediate-response", Anything),
        (
            "io.modelcontextprotocol/serverInfo",
            Objects(&IMPLEMENTATION),
        ),
        ("dev.toolgate/idempotencyKey", Anything),
        ("dev.toolgate/session", Anything),
        ("dev.toolgate/user", Anything),
        ("dev.toolgate/task", Anything),
        ("dev.toolgate/state", Anything),
        ("dev.toolgate/hops", Anything),
        ("dev.toolgate/fence", Anything),
        ("dev.toolgate/decision", Anything),
    ],
    prefixes: &["dev.toolgate/", "io.modelcontextprotocol/"],
};

/// `params` of any request or notification.
pub(super) static PARAMS: Level = Level {
    place: "`params`",
    members: &[
        ("name", Anything),
        ("arguments", Anything),
        ("_meta", Objects(&META)),
        ("task", Objects(&TASK)),
        ("inputResponses", Each(&AGENT_RESULT)),
        ("requestState", Anything),
        ("cursor", Anything),
        ("uri", Anything),
        ("taskId", Anything),
        ("requestId", Anything),
        ("reason", Anything),
        ("progressToken", Anything),
        ("progress", Anything),
        ("total", Anything),
        ("message", Anything),
        ("level", Anything),
        ("logger", Anything),
        ("data", Anything),
        ("ref", Objects(&REFERENCE)),
        ("argument", Objects(&COMPLETION_ARGUMENT)),
        ("context", Objects(&COMPLETION_CONTEXT)),
        ("notifications", Objects(&NOTIFICATIONS)),
        ("protocolVersion", Anything),
        ("capabilities", Objects(&CAPABILITIES)),
        ("clientInfo", Objects(&IMPLEMENTATION)),
        ("messages", Objects(&PROMPT_MESSAGE)),
        ("modelPreferences", Objects(&PREFERENCES)),
        ("systemPrompt", Anything),
        ("includeContext", Anything),
        ("temperature", Anything),
        ("maxTokens", Anything),
        ("stopSequences", Anything),
        ("metadata", Anything),
        ("tools", Objects(&TOOL)),
        ("toolChoice", Objects(&CHOICE)),
        ("mode", Anything),
        ("requestedSchema", Anything),
        ("url", Anything),
        ("elicitationId", Anything),
        ("status", Anything),
        ("statusMessage", Anything),
        ("createdAt", Anything),
        ("lastUpdatedAt", Anything),
        ("ttl", Anything),
        ("ttlMs", Anything),
        ("pollInterval", Anything),
        ("pollIntervalMs", Anything),
        ("inputRequests", Each(&SERVER_REQUEST)),
        ("result", Objects(&ENDED_TASK_RESULT)),
        ("error", Objects(&ERROR)),
    ],
    prefixes: &[],
};

/// `result` of a tool server.
pub(super) static SERVER_RESULT: Level = Level {
    place: "`result`",
    members: &[
        ("content", Objects(&CONTENT)),
        ("resultType", Anything),
        ("structuredContent", Anything),
        ("isError", Anything),
        ("_meta", Objects(&META)),
        ("task", Objects(&TASK)),
        ("inputRequests", Each(&SERVER_REQUEST)),
        ("requestState", Anything),
        ("tools", Objects(&TOOL)),
        ("resources", Objects(&RESOURCE)),
        ("resourceTemplates", Objects(&RESOURCE)),
        ("prompts", Objects(&PROMPT)),
        ("tasks", Objects(&TASK)),
        ("nextCursor", Anything),
        ("contents", Objects(&CONTENT)),
        ("messages", Objects(&PROMPT_MESSAGE)),
        ("description", Anything),
        ("completion", Objects(&COMPLETION)),
        ("protocolVersion", Anything),
        ("supportedVersions", Anything),
        ("capabilities", Objects(&CAPABILITIES)),
        ("serverInfo", Objects(&IMPLEMENTATION)),
        ("instructions", Anything),
        ("ttlMs", Anything),
        ("cacheScope", Anything),
        ("taskId", Anything),
        ("status", Anything),
        ("statusMessage", Anything),
        ("createdAt", Anything),
        ("lastUpdatedAt", Anything),
        ("ttl", Anything),
        ("pollInterval", Anything),
        ("pollIntervalMs", Anything),
        ("result", Objects(&ENDED_TASK_RESULT)),
        ("error", Objects(&ERROR)),
    ],
    prefixes: &[],
};

/// The result that a task ended with, inside what says so.
pub(in crate::mcp::members) static ENDED_TASK_RESULT: Level = Level {
    place: "the task's `result`",
    members: &[
        ("content", Objects(&CONTENT)),
        ("resultType", Anything),
        ("structuredContent", Anything),
        ("isError", Anything),
        ("_meta", Objects(&META)),
        ("inputRequests", Anything),
        ("requestState", Anything),
    ],
    prefixes: &[],
};

/// What an agent answers a tool server's request with.
pub(super) static AGENT_RESULT: Level = Level {
    place: "the answer",
    members: &[
        ("action", Anything),
        ("content", Anything),
        ("role", Anything),
        ("model", Anything),
        ("stopReason", Anything),
        ("roots", Objects(&ROOT)),
        ("_meta", Objects(&META)),
        ("resultType", Anything),
        ("task", Objects(&TASK)),
        ("tasks", Objects(&TASK)),
        ("nextCursor", Anything),
        ("taskId", Anything),
        ("status", Anything),
        ("statusMessage", Anything),
        ("createdAt", Anything),
        ("lastUpdatedAt", Anything),
        ("ttl", Anything),
        ("pollInterval", Anything),
    ],
    prefixes: &[],
};
