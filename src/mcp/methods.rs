//! The methods toolgate knows, by era (protocol §1, §3). What is not here is refused in enforce
//! mode.

use super::revision::Era;

/// What becomes of a request from an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// `tools/call`: the gate.
    Call,
    /// `tools/list`: the gate's listing.
    List,
    /// Answered by toolgate.
    Local,
    /// Forwarded as the same JSON value.
    Forward,
    /// Removed from this era; answered −32601.
    Removed,
    /// Not in any revision we know.
    Unknown,
}

/// Requests of both eras that travel.
const FORWARDED_METHODS: &[&str] = &[
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "tasks/get",
    "tasks/cancel",
];
const FORWARDED_LEGACY: &[&str] = &[
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/result",
    "tasks/list",
];
const FORWARDED_MODERN: &[&str] = &["subscriptions/listen", "tasks/update"];
const LOCAL_LEGACY: &[&str] = &["initialize", "ping"];
const REMOVED_METHODS: &[&str] = &[
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/result",
    "tasks/list",
];

/// What becomes of a request with this method.
pub(crate) fn treatment(method: &str, era: Era) -> Treatment {
    match (method, era) {
        ("tools/call", _) => Treatment::Call,
        ("tools/list", _) => Treatment::List,
        ("server/discover", Era::Modern) => Treatment::Local,
        (method, _) if FORWARDED_METHODS.contains(&method) => Treatment::Forward,
        (method, Era::Legacy) if FORWARDED_LEGACY.contains(&method) => Treatment::Forward,
        (method, Era::Legacy) if LOCAL_LEGACY.contains(&method) => Treatment::Local,
        (method, Era::Modern) if FORWARDED_MODERN.contains(&method) => Treatment::Forward,
        (method, Era::Modern) if REMOVED_METHODS.contains(&method) => Treatment::Removed,
        _ => Treatment::Unknown,
    }
}

/// Requests a legacy tool server may send to an agent (protocol §3.3).
pub(crate) fn is_server_request(method: &str) -> bool {
    matches!(
        method,
        "sampling/createMessage"
            | "elicitation/create"
            | "roots/list"
            | "ping"
            | "tasks/get"
            | "tasks/result"
            | "tasks/cancel"
            | "tasks/list"
    )
}

/// Notifications a tool server may send to an agent, in any revision (protocol §1.8, §3.3).
pub(crate) fn is_server_notification(method: &str) -> bool {
    matches!(
        method,
        "notifications/progress"
            | "notifications/message"
            | "notifications/cancelled"
            | "notifications/resources/updated"
            | "notifications/resources/list_changed"
            | "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/subscriptions/acknowledged"
            | "notifications/elicitation/complete"
            | "notifications/tasks"
            | "notifications/tasks/status"
    )
}
