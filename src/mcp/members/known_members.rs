//! The closed list of what members a message is known to have, by the object that they are in, in
//! any revision served (PROTOCOL §1, §3).
//!
//! Arguments, schemas, structured content and the values of members that nobody here knows have
//! names of anybody's choice.

use crate::mcp::json::{Level, MemberContent};
use MemberContent::{Anything, Each, Objects};

/// An object in which no vendor has names of a beginning of its own.
const fn level(place: &'static str, members: &'static [(&'static str, MemberContent)]) -> Level {
    Level {
        place,
        members,
        prefixes: &[],
    }
}

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
static META: Level = Level {
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
static ENDED_TASK_RESULT: Level = Level {
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

pub(super) static ERROR: Level = level(
    "`error`",
    &[
        ("code", Anything),
        ("message", Anything),
        ("data", Objects(&ERROR_DATA)),
    ],
);

/// What an error asks for: pages on the web (2025-11-25).
static ERROR_DATA: Level = level(
    "the error's `data`",
    &[("elicitations", Objects(&ELICITATION_PARAMS))],
);

static TASK: Level = Level {
    place: "the task",
    members: &[
        ("taskId", Anything),
        ("ttl", Anything),
        ("ttlMs", Anything),
        ("status", Anything),
        ("statusMessage", Anything),
        ("createdAt", Anything),
        ("lastUpdatedAt", Anything),
        ("pollInterval", Anything),
        ("pollIntervalMs", Anything),
        ("_meta", Objects(&META)),
    ],
    prefixes: &[],
};

static RELATED_TASK: Level = level("the related task", &[("taskId", Anything)]);

static CONTENT: Level = Level {
    place: "the content",
    members: &[
        ("type", Anything),
        ("text", Anything),
        ("data", Anything),
        ("mimeType", Anything),
        ("annotations", Objects(&ANNOTATIONS)),
        ("_meta", Objects(&META)),
        ("resource", Objects(&EMBEDDED_RESOURCE)),
        ("uri", Anything),
        ("blob", Anything),
        ("name", Anything),
        ("title", Anything),
        ("description", Anything),
        ("size", Anything),
        ("icons", Anything),
        ("id", Anything),
        ("input", Anything),
        ("toolUseId", Anything),
        ("content", Anything),
        ("structuredContent", Anything),
        ("isError", Anything),
    ],
    prefixes: &[],
};

static EMBEDDED_RESOURCE: Level = Level {
    place: "the resource",
    members: &[
        ("uri", Anything),
        ("mimeType", Anything),
        ("text", Anything),
        ("blob", Anything),
        ("_meta", Objects(&META)),
        ("name", Anything),
        ("title", Anything),
        ("description", Anything),
        ("size", Anything),
        ("icons", Anything),
        ("annotations", Objects(&ANNOTATIONS)),
    ],
    prefixes: &[],
};

static ANNOTATIONS: Level = level(
    "`annotations`",
    &[
        ("audience", Anything),
        ("priority", Anything),
        ("lastModified", Anything),
    ],
);

static TOOL: Level = Level {
    place: "the tool",
    members: &[
        ("name", Anything),
        ("title", Anything),
        ("description", Anything),
        ("inputSchema", Anything),
        ("outputSchema", Anything),
        ("annotations", Objects(&TOOL_HINTS)),
        ("execution", Objects(&EXECUTION)),
        ("icons", Anything),
        ("_meta", Objects(&META)),
    ],
    prefixes: &[],
};

static TOOL_HINTS: Level = Level {
    place: "`annotations`",
    members: &[
        ("title", Anything),
        ("readOnlyHint", Anything),
        ("destructiveHint", Anything),
        ("idempotentHint", Anything),
        ("openWorldHint", Anything),
    ],
    prefixes: &[],
};

static EXECUTION: Level = level("`execution`", &[("taskSupport", Anything)]);

static RESOURCE: Level = Level {
    place: "the resource",
    members: &[
        ("uri", Anything),
        ("uriTemplate", Anything),
        ("name", Anything),
        ("title", Anything),
        ("description", Anything),
        ("mimeType", Anything),
        ("size", Anything),
        ("icons", Anything),
        ("annotations", Objects(&ANNOTATIONS)),
        ("_meta", Objects(&META)),
    ],
    prefixes: &[],
};

static PROMPT: Level = Level {
    place: "the prompt",
    members: &[
        ("name", Anything),
        ("title", Anything),
        ("description", Anything),
        ("arguments", Anything),
        ("icons", Anything),
        ("_meta", Objects(&META)),
    ],
    prefixes: &[],
};

/// One message of a prompt, or of what a model is asked.
static PROMPT_MESSAGE: Level = level(
    "one of `messages`",
    &[
        ("role", Anything),
        ("content", Objects(&CONTENT)),
        ("_meta", Objects(&META)),
    ],
);

/// What a tool server asks with its result.
static SERVER_REQUEST: Level = level(
    "one of `inputRequests`",
    &[
        ("method", Anything),
        ("params", Objects(&ELICITATION_PARAMS)),
    ],
);

/// What it says of it: the `params` of what servers ask agents.
static ELICITATION_PARAMS: Level = Level {
    place: "`params`",
    members: &[
        ("_meta", Objects(&META)),
        ("message", Anything),
        ("mode", Anything),
        ("requestedSchema", Anything),
        ("url", Anything),
        ("elicitationId", Anything),
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
        ("task", Objects(&TASK)),
    ],
    prefixes: &[],
};

static COMPLETION: Level = level(
    "`completion`",
    &[
        ("values", Anything),
        ("total", Anything),
        ("hasMore", Anything),
    ],
);

static REFERENCE: Level = level(
    "`ref`",
    &[
        ("type", Anything),
        ("name", Anything),
        ("uri", Anything),
        ("title", Anything),
    ],
);

static COMPLETION_ARGUMENT: Level = Level {
    place: "`argument`",
    members: &[("name", Anything), ("value", Anything)],
    prefixes: &[],
};

static COMPLETION_CONTEXT: Level = Level {
    place: "`context`",
    members: &[("arguments", Anything)],
    prefixes: &[],
};

static NOTIFICATIONS: Level = Level {
    place: "`notifications`",
    members: &[
        ("toolsListChanged", Anything),
        ("promptsListChanged", Anything),
        ("resourcesListChanged", Anything),
        ("resourceSubscriptions", Anything),
        ("taskIds", Anything),
    ],
    prefixes: &[],
};

static IMPLEMENTATION: Level = Level {
    place: "what introduces a program",
    members: &[
        ("name", Anything),
        ("version", Anything),
        ("title", Anything),
        ("description", Anything),
        ("websiteUrl", Anything),
        ("icons", Anything),
    ],
    prefixes: &[],
};

static CAPABILITIES: Level = Level {
    place: "the capabilities",
    members: &[
        ("roots", Anything),
        ("sampling", Anything),
        ("elicitation", Anything),
        ("tasks", Anything),
        ("extensions", Anything),
        ("experimental", Anything),
        ("tools", Anything),
        ("resources", Anything),
        ("prompts", Anything),
        ("completions", Anything),
        ("logging", Anything),
    ],
    prefixes: &[],
};

static PREFERENCES: Level = Level {
    place: "`modelPreferences`",
    members: &[
        ("hints", Anything),
        ("costPriority", Anything),
        ("speedPriority", Anything),
        ("intelligencePriority", Anything),
    ],
    prefixes: &[],
};

static CHOICE: Level = Level {
    place: "`toolChoice`",
    members: &[("mode", Anything)],
    prefixes: &[],
};

static ROOT: Level = Level {
    place: "one of `roots`",
    members: &[
        ("uri", Anything),
        ("name", Anything),
        ("_meta", Objects(&META)),
    ],
    prefixes: &[],
};
