//! An agent that is a part of this process: it speaks to the door as one that has launched toolgate does, over a pipe
//! that stays in the process, so that its calls go through the whole gate.

use crate::downstream::Door;
use crate::downstream::stdio::serve;
use crate::guards::task::{SESSION_META, TASK_META};
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::bridge::{CAPABILITIES_META_KEY, CLIENT_META_KEY, VERSION_META_KEY};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::message::{Message, introduction};
use crate::mcp::revision::Revision;
use crate::model::ids::AgentId;
use crate::model::scope::Scope;
use crate::telemetry::tasks;
use crate::upstream::lines::Lines;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// Bytes that wait in the pipe.
const PIPE_BYTES: usize = 64 << 10;
/// Bytes of an answer, at most.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// The agent's end.
pub(super) struct AgentPipe {
    answers: Lines<ReadHalf<DuplexStream>>,
    out: WriteHalf<DuplexStream>,
    serving: JoinHandle<()>,
}

/// What the door has sent.
pub(super) enum PipeReading {
    /// A message.
    Message(Message),
    /// A line that is none.
    Unreadable,
    /// Nothing any more.
    End,
}

/// What the agent is told of a call.
pub(super) struct ToldOfCall {
    /// The result, or the error.
    pub(super) body: Value,
    /// What the gate has decided; null where it says nothing of it.
    decision: Value,
}

impl AgentPipe {
    /// Opens it for `agent`, which the door serves in a task of this name.
    pub(super) fn open(door: &Arc<Door>, agent: AgentId, task: &'static str) -> Self {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let (input, output) = tokio::io::split(far);
        let (answers, out) = tokio::io::split(near);
        let serving = serve(door.clone(), agent, Scope::All, input, output);
        Self {
            answers: Lines::of(answers, MAX_ANSWER_BYTES),
            out,
            serving: tasks::spawn(task, serving),
        }
    }

    /// Sends a call under this id; an error where the door no longer reads.
    pub(super) async fn call(&mut self, id: u64, params: &Value) -> io::Result<()> {
        let asked = Message::request(id, "tools/call", Some(Text::of(params)));
        let line = [&asked.encode()[..], b"\n"].concat();
        self.out.write_all(&line).await?;
        self.out.flush().await
    }

    /// What comes next. Dropping this future loses nothing.
    pub(super) async fn next(&mut self) -> PipeReading {
        let Ok(Some(line)) = self.answers.next().await else {
            return PipeReading::End;
        };
        let read = Text::read(line, &SERVER_JSON_LIMITS).ok();
        let message = read.and_then(|read| Message::parse(&read).ok());
        message.map_or(PipeReading::Unreadable, PipeReading::Message)
    }

    /// Hangs up: nothing is read any more. What is given ends once all that was begun has.
    pub(super) fn hang_up(self) -> JoinHandle<()> {
        self.serving
    }
}

/// `_meta` of a call of this task and session, with what a modern agent says of itself.
pub(super) fn call_meta(task: &str, session: &str) -> Value {
    json!({
        VERSION_META_KEY: Revision::NEWEST_MODERN.as_str(), CLIENT_META_KEY: introduction(), CAPABILITIES_META_KEY: {},
        TASK_META: task, SESSION_META: session,
    })
}

impl ToldOfCall {
    /// Read off the answer.
    pub(super) fn of(answer: &Message) -> Self {
        let body = answer.body.as_ref().map_or(Value::Null, Text::value);
        let holder = if answer.is_error {
            &body["data"]
        } else {
            &body["_meta"]
        };
        let decision = holder[DECISION_META_KEY].clone();
        Self { body, decision }
    }

    /// As its decision has it: `answered`, `refused`, `failed` or `unknown`.
    pub(super) fn outcome(&self) -> String {
        // An error without a decision is the tool server's own, and no refusal of the gate's.
        self.word("outcome").unwrap_or("failed").to_owned()
    }

    /// The code of a refusal.
    pub(super) fn code(&self) -> Option<String> {
        self.word("code").map(str::to_owned)
    }

    /// What the decision says under `name`, if that is a text.
    pub(super) fn word(&self, name: &str) -> Option<&str> {
        self.decision[name].as_str()
    }

    /// Whether it is the stored answer to an earlier call.
    pub(super) fn is_replayed(&self) -> bool {
        self.decision["replayed"] == true
    }

    /// All that it says in words.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let parts = self.body["content"].as_array().into_iter().flatten();
        let texts = parts.filter_map(|part| part["text"].as_str());
        texts.chain(self.body["message"].as_str())
    }
}
