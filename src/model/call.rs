//! One tools/call as it arrived.

use super::argument_edit::ArgumentEdit;
use super::ids::{ActionId, ServerName, ToolName};
use serde_json::Value;
use std::time::Duration;

/// A call before anybody judged it. What is forwarded is built from it, field by field.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Our id.
    pub action: ActionId,
    /// The tool as policies name it. `None` of the parts need exist.
    pub tool: ToolName,
    /// The server the name leads to, if there is one.
    pub server: Option<ServerName>,
    /// The tool's name at its server.
    pub own_name: String,
    /// The arguments as a tree, for guards; `{}` when absent.
    pub arguments: Value,
    /// The agent's JSON-RPC id as written.
    pub request_id: String,
    /// W3C trace id.
    pub trace_id: String,
    /// The session, if the wire has one.
    pub session: Option<String>,
    /// The idempotency key that stands among the arguments.
    pub key_argument: Option<Value>,
    /// Was it taken off them, because it is ours?
    pub key_taken: bool,
    /// What the arguments were before they were rewritten; none if they are as the agent sent
    /// them.
    pub rewritten: Option<Box<Rewritten>>,
    /// The agent's protocol revision.
    pub revision: &'static str,
    /// Steady time of arrival.
    pub arrived: Duration,
    /// What the agent says about the call beside it.
    pub said: CallMeta,
}

/// What became of arguments before their call was sent (001-28).
#[derive(Debug, Clone, PartialEq)]
pub struct Rewritten {
    /// The arguments as the agent sent them.
    pub original: Value,
    /// The steps and hooks that changed something, in their order.
    pub by: Vec<String>,
    /// What operators changed of them before the call was allowed.
    pub edit: Option<ArgumentEdit>,
}

/// What an agent says about a call, as it arrived: judged by guards, never forwarded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallMeta {
    /// `_meta["dev.toolgate/idempotencyKey"]`.
    pub key: Option<Value>,
    /// The `Idempotency-Key` header; empty when it is no text.
    pub key_header: Option<String>,
    /// `_meta["dev.toolgate/task"]`.
    pub task: Option<Value>,
    /// `_meta["dev.toolgate/state"]`.
    pub state: Option<Value>,
    /// `_meta["dev.toolgate/session"]`.
    pub session: Option<Value>,
    /// The header that the configuration names for the session; empty when it is no text.
    pub session_header: Option<String>,
    /// The trace id, if the agent sent one.
    pub trace: Option<String>,
    /// How many toolgates it has come through, as the last of them says; the most if that is no
    /// number.
    pub hops: u64,
    /// HTTP headers that travel as they came, unless ours or the server's own say the same.
    pub headers: Vec<(String, String)>,
}
