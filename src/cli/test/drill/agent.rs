//! The agent of a drill: it speaks to the door as one that has launched toolgate does, over a pipe that stays in
//! the process, so that its calls go through the whole gate.

use crate::downstream::Door;
use crate::downstream::stdio::serve;
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::bridge::{CAPABILITIES_META_KEY, CLIENT_META_KEY, VERSION_META_KEY};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::message::{Message, MessageKind, introduction};
use crate::mcp::own::OWN_META_PREFIX;
use crate::mcp::revision::Revision;
use crate::model::ids::{ActionId, AgentId, ToolName, unguessable};
use crate::model::scope::Scope;
use crate::telemetry::tasks;
use crate::upstream::lines::Lines;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// Bytes that wait in the pipe.
const PIPE_BYTES: usize = 64 << 10;
/// Bytes of an answer, at most.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// What is said where a call has no answer.
const UNANSWERED: &str = "the call has no answer";

/// One agent.
pub(super) struct DrillAgent {
    answers: Lines<ReadHalf<DuplexStream>>,
    out: WriteHalf<DuplexStream>,
    serving: JoinHandle<()>,
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
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let (input, output) = tokio::io::split(far);
        let (answers, out) = tokio::io::split(near);
        let serving = serve(door.clone(), AgentId::new(agent), Scope::All, input, output);
        Self {
            answers: Lines::of(answers, MAX_ANSWER_BYTES),
            out,
            serving: tasks::spawn("drill agent", serving),
            asked: 0,
        }
    }

    /// Makes a call, in a task and a session of its own: a drill starts nothing that another call has used up.
    pub(super) async fn call(&mut self, call: DrillCall<'_>) -> DrillAnswer {
        self.asked += 1;
        let own = unguessable();
        let mut meta = json!({
            VERSION_META_KEY: Revision::NEWEST_MODERN.as_str(), CLIENT_META_KEY: introduction(), CAPABILITIES_META_KEY: {},
        });
        meta[format!("{OWN_META_PREFIX}task")] = json!(own);
        meta[format!("{OWN_META_PREFIX}session")] = json!(own);
        if let Some(key) = call.key {
            meta[format!("{OWN_META_PREFIX}idempotencyKey")] = key.clone();
        }
        let params = json!({ "name": call.tool, "arguments": call.arguments, "_meta": meta });
        let asked = Message::request(self.asked, "tools/call", Some(Text::of(&params)));
        let line = [&asked.encode()[..], b"\n"].concat();
        if self.out.write_all(&line).await.is_err() || self.out.flush().await.is_err() {
            return DrillAnswer::none();
        }
        // One call is made at a time: whatever answers, answers it, also where it could not be read so far that
        // its id is known.
        while let Ok(Some(line)) = self.answers.next().await {
            let read = Text::read(line, &SERVER_JSON_LIMITS).ok();
            match read.and_then(|read| Message::parse(&read).ok()) {
                Some(answer) if answer.kind == MessageKind::Response => {
                    return DrillAnswer::of(&answer);
                }
                Some(_) => {}
                None => break,
            }
        }
        DrillAnswer::none()
    }

    /// Hangs up, and waits until what it has begun has ended.
    pub(super) async fn end(self) {
        let Self {
            answers,
            out,
            serving,
            ..
        } = self;
        drop((answers, out));
        // A panic in it is in the log.
        let _ = serving.await;
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
        let body = answer.body.as_ref().map_or(Value::Null, Text::value);
        let holder = if answer.is_error {
            &body["data"]
        } else {
            &body["_meta"]
        };
        let decision = &holder[DECISION_META_KEY];
        let word = |name: &str| decision[name].as_str();
        let parts = body["content"].as_array().into_iter().flatten();
        let mut texts = parts.filter_map(|part| part["text"].as_str());
        let said = texts.next().or_else(|| body["message"].as_str());
        Self {
            // An error without a decision is the tool server's own.
            outcome: word("outcome").unwrap_or("failed").to_owned(),
            code: word("code").map(str::to_owned),
            action: word("action_id").and_then(|id| id.parse().ok()),
            is_error: answer.is_error || body["isError"] == true,
            structured: body["structuredContent"].clone(),
            words: said.unwrap_or_default().to_owned(),
        }
    }

    /// Whether the tool has done what it was asked for.
    pub(super) fn is_good(&self) -> bool {
        self.outcome == "answered" && !self.is_error
    }
}
