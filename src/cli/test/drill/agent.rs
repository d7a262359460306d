//! The agent of a drill: it makes one call at a time, through the whole gate.

use crate::cli::agent_pipe::{AgentPipe, PipeReading, ToldOfCall, call_meta};
use crate::downstream::Door;
use crate::guards::idempotency::KEY_META_NAME;
use crate::mcp::message::{Message, MessageKind};
use crate::model::ids::{ActionId, AgentId, ToolName, unguessable};
use serde_json::{Value, json};
use std::sync::Arc;

/// What is said where a call has no answer.
const UNANSWERED: &str = "the call has no answer";

/// One agent.
pub(super) struct DrillAgent {
    pipe: AgentPipe,
    asked: u64,
}

/// A call.
pub(super) struct DrillCall<'a> {
    pub(super) tool: &'a ToolName,
    pub(super) arguments: &'a Value,
    /// Its idempotency key.
    pub(super) key: Option<&'a Value>,
}

/// What its agent reads.
#[derive(Debug, Default)]
pub(super) struct DrillAnswer {
    /// As its decision has it: `answered`, `refused`, `failed` or `unknown`.
    pub(super) outcome: String,
    /// The code of a refusal.
    pub(super) code: Option<String>,
    /// The call.
    pub(super) action: Option<ActionId>,
    /// Whether the tool says that it failed.
    pub(super) is_error: bool,
    /// The structured result.
    pub(super) structured: Value,
    /// What it says, in words.
    pub(super) words: String,
}

impl DrillAgent {
    /// The agent that the configuration calls so.
    pub(super) fn new(door: &Arc<Door>, agent: &str) -> Self {
        Self {
            pipe: AgentPipe::open(door, AgentId::new(agent), "drill agent"),
            asked: 0,
        }
    }

    /// Makes a call, in a task and a session of its own: a drill starts nothing that another call has used up.
    pub(super) async fn call(&mut self, call: DrillCall<'_>) -> DrillAnswer {
        self.asked += 1;
        let own = unguessable();
        let mut meta = call_meta(&own, &own);
        if let Some(key) = call.key {
            meta[KEY_META_NAME] = key.clone();
        }
        let params = json!({ "name": call.tool, "arguments": call.arguments, "_meta": meta });
        if self.pipe.call(self.asked, &params).await.is_err() {
            return DrillAnswer::none();
        }
        // One call is made at a time: whatever answers, answers it, also where it could not be read so far that
        // its id is known.
        while let PipeReading::Message(answer) = self.pipe.next().await {
            if answer.kind == MessageKind::Response {
                return DrillAnswer::of(&answer);
            }
        }
        DrillAnswer::none()
    }

    /// Hangs up, and waits until what it has begun has ended.
    pub(super) async fn end(self) {
        // A panic in it is in the log.
        let _ = self.pipe.hang_up().await;
    }
}

impl DrillAnswer {
    /// Nobody knows what became of the call.
    fn none() -> Self {
        Self {
            outcome: "unknown".to_owned(),
            words: UNANSWERED.to_owned(),
            ..Self::default()
        }
    }

    fn of(answer: &Message) -> Self {
        let told = ToldOfCall::of(answer);
        Self {
            outcome: told.outcome(),
            code: told.code(),
            action: told.word("action_id").and_then(|id| id.parse().ok()),
            is_error: answer.is_error || told.body["isError"] == true,
            structured: told.body["structuredContent"].clone(),
            words: told.texts().next().unwrap_or_default().to_owned(),
        }
    }

    /// Whether the tool has done what it was asked for.
    pub(super) fn is_good(&self) -> bool {
        self.outcome == "answered" && !self.is_error
    }
}
