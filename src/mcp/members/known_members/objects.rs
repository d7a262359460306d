//! What stands within a message: the objects of params and results.

use super::META;
use crate::mcp::json::{Level, MemberContent};
use MemberContent::{Anything, Objects};

/// An object in which no vendor has names of a beginning of its own.
const fn level(place: &'static str, members: &'static [(&'static str, MemberContent)]) -> Level {
    Level {
        place,
        members,
        prefixes: &[],
    }
}

pub(in crate::mcp::members) static ERROR: Level = level(
    "`error`",
    &[
        ("code", Anything),
        ("message", Anything),
        ("data", Objects(&ERROR_DATA)),
    ],
);

/// What an error asks for: pages on the web (2025-11-25).
pub(in crate::mcp::members) static ERROR_DATA: Level = level(
    "the error's `data`",
    &[("elicitations", Objects(&ELICITATION_PARAMS))],
);

pub(in crate::mcp::members) static TASK: Level = Level {
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

pub(in crate::mcp::members) static RELATED_TASK: Level =
    level("the related task", &[("taskId", Anything)]);

pub(in crate::mcp::members) static CONTENT: Level = Level {
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

pub(in crate::mcp::members) static EMBEDDED_RESOURCE: Level = Level {
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

pub(in crate::mcp::members) static ANNOTATIONS: Level = level(
    "`annotations`",
    &[
        ("audience", Anything),
        ("priority", Anything),
        ("lastModified", Anything),
    ],
);

pub(in crate::mcp::members) static TOOL: Level = Level {
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

pub(in crate::mcp::members) static TOOL_HINTS: Level = Level {
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

pub(in crate::mcp::members) static EXECUTION: Level =
    level("`execution`", &[("taskSupport", Anything)]);

pub(in crate::mcp::members) static RESOURCE: Level = Level {
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

pub(in crate::mcp::members) static PROMPT: Level = Level {
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
pub(in crate::mcp::members) static PROMPT_MESSAGE: Level = level(
    "one of `messages`",
    &[
        ("role", Anything),
        ("content", Objects(&CONTENT)),
        ("_meta", Objects(&META)),
    ],
);

/// What a tool server asks with its result.
pub(in crate::mcp::members) static SERVER_REQUEST: Level = level(
    "one of `inputRequests`",
    &[
        ("method", Anything),
        ("params", Objects(&ELICITATION_PARAMS)),
    ],
);

/// What it says of it: the `params` of what servers ask agents.
pub(in crate::mcp::members) static ELICITATION_PARAMS: Level = Level {
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

pub(in crate::mcp::members) static COMPLETION: Level = level(
    "`completion`",
    &[
        ("values", Anything),
        ("total", Anything),
        ("hasMore", Anything),
    ],
);

pub(in crate::mcp::members) static REFERENCE: Level = level(
    "`ref`",
    &[
        ("type", Anything),
        ("name", Anything),
        ("uri", Anything),
        ("title", Anything),
    ],
);

pub(in crate::mcp::members) static COMPLETION_ARGUMENT: Level = Level {
    place: "`argument`",
    members: &[("name", Anything), ("value", Anything)],
    prefixes: &[],
};

pub(in crate::mcp::members) static COMPLETION_CONTEXT: Level = Level {
    place: "`context`",
    members: &[("arguments", Anything)],
    prefixes: &[],
};

pub(in crate::mcp::members) static NOTIFICATIONS: Level = Level {
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

pub(in crate::mcp::members) static IMPLEMENTATION: Level = Level {
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

pub(in crate::mcp::members) static CAPABILITIES: Level = Level {
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

pub(in crate::mcp::members) static PREFERENCES: Level = Level {
    place: "`modelPreferences`",
    members: &[
        ("hints", Anything),
        ("costPriority", Anything),
        ("speedPriority", Anything),
        ("intelligencePriority", Anything),
    ],
    prefixes: &[],
};

pub(in crate::mcp::members) static CHOICE: Level = Level {
    place: "`toolChoice`",
    members: &[("mode", Anything)],
    prefixes: &[],
};

pub(in crate::mcp::members) static ROOT: Level = Level {
    place: "one of `roots`",
    members: &[
        ("uri", Anything),
        ("name", Anything),
        ("_meta", Objects(&META)),
    ],
    prefixes: &[],
};
