//! The agent of verifying: it speaks to the door over a pipe that stays in the process, under one id for each request,
//! and can hang up while it waits.

use crate::downstream::Door;
use crate::downstream::stdio::serve;
use crate::guards::idempotency::KEY_META_NAME;
use crate::guards::identity::behind::USER_META;
use crate::guards::task::{SESSION_META, TASK_META};
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::bridge::{CAPABILITIES_META_KEY, CLIENT_META_KEY, VERSION_META_KEY};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::message::{Message, MessageKind, introduction};
use crate::mcp::own::OWN_META_PREFIX;
use crate::mcp::revision::Revision;
use crate::model::ids::{AgentId, ToolName};
use crate::model::scope::Scope;
use crate::telemetry::tasks;
use crate::upstream::lines::Lines;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// Bytes that wait in the pipe.
const PIPE_BYTES: usize = 64 << 10;
/// Bytes of an answer, at most.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// One connection of an agent.
pub(super) struct TrialAgent {
    answers: Lines<ReadHalf<DuplexStream>>,
    out: WriteHalf<DuplexStream>,
    serving: JoinHandle<()>,
    /// Answers that came before they were asked for, by the ids of their requests.
    early: BTreeMap<u64, TrialAnswer>,
}

/// A call.
#[derive(Debug, Clone)]
pub(super) struct TrialCall {
    pub(super) tool: ToolName,
    pub(super) arguments: Value,
    /// Its idempotency key, where it has one.
    pub(super) key: Option<String>,
    pub(super) task: String,
    pub(super) session: String,
    /// The person behind the agent, where one has to be named.
    pub(super) person: Option<String>,
    /// The fencing token that the agent says it holds.
    pub(super) token: Option<u64>,
}

/// What an agent reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TrialAnswer {
    /// As its decision has it: `answered`, `refused`, `failed` or `unknown`.
    pub(super) outcome: String,
    /// The code of a refusal.
    pub(super) code: Option<String>,
    /// Whether it is the stored answer to an earlier call.
    pub(super) is_replayed: bool,
    /// All that it says in words.
    pub(super) words: String,
}

impl TrialAgent {
    /// The agent that the configuration calls so.
    pub(super) fn new(door: &Arc<Door>, agent: &AgentId) -> Self {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let (input, output) = tokio::io::split(far);
        let (answers, out) = tokio::io::split(near);
        let serving = serve(door.clone(), agent.clone(), Scope::All, input, output);
        Self {
            answers: Lines::of(answers, MAX_ANSWER_BYTES),
            out,
            serving: tasks::spawn("trial agent", serving),
            early: BTreeMap::new(),
        }
    }

    /// Sends a call, under an id that no other request has; the id.
    pub(super) async fn send(&mut self, call: &TrialCall) -> anyhow::Result<u64> {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let asked = Message::request(id, "tools/call", Some(Text::of(&call.params())));
        let line = [&asked.encode()[..], b"\n"].concat();
        let written = async {
            self.out.write_all(&line).await?;
            self.out.flush().await
        };
        written.await.context("a call cannot be sent to the gate")?;
        Ok(id)
    }

    /// What answers the request `id`. Dropping this future loses nothing.
    pub(super) async fn answer_to(&mut self, id: u64) -> TrialAnswer {
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return answer;
            }
            let Ok(Some(line)) = self.answers.next().await else {
                return TrialAnswer::none();
            };
            let read = Text::read(line, &SERVER_JSON_LIMITS).ok();
            let message = read.and_then(|read| Message::parse(&read).ok());
            let message = message.filter(|message| message.kind == MessageKind::Response);
            let of = message
                .as_ref()
                .and_then(|message| message.id.as_ref()?.value().as_u64());
            if let (Some(message), Some(of)) = (message, of) {
                self.early.insert(of, TrialAnswer::of(&message));
            }
        }
    }

    /// Hangs up: nothing is read any more. What is given ends once all that was begun has.
    pub(super) fn hang_up(self) -> JoinHandle<()> {
        self.serving
    }
}

impl TrialCall {
    fn params(&self) -> Value {
        let mut meta = json!({
            VERSION_META_KEY: Revision::NEWEST_MODERN.as_str(), CLIENT_META_KEY: introduction(), CAPABILITIES_META_KEY: {},
            TASK_META: self.task, SESSION_META: self.session,
        });
        if let Some(key) = &self.key {
            meta[KEY_META_NAME] = json!(key);
        }
        if let Some(person) = &self.person {
            meta[USER_META] = json!(person);
        }
        if let Some(token) = self.token {
            meta[format!("{OWN_META_PREFIX}fence")] = json!({ "token": token });
        }
        json!({ "name": self.tool, "arguments": self.arguments, "_meta": meta })
    }
}

impl TrialAnswer {
    /// Nothing answers.
    pub(super) fn none() -> Self {
        Self {
            outcome: "unknown".to_owned(),
            words: "no answer came".to_owned(),
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
        let parts = body["content"].as_array().into_iter().flatten();
        let texts = parts.filter_map(|part| part["text"].as_str());
        let texts: Vec<&str> = texts.chain(body["message"].as_str()).collect();
        Self {
            // An error without a decision is no refusal of the gate's.
            outcome: decision["outcome"].as_str().unwrap_or("failed").to_owned(),
            code: decision["code"].as_str().map(str::to_owned),
            is_replayed: decision["replayed"] == true,
            words: texts.join("\n"),
        }
    }

    /// Whether the gate has refused it with this code.
    pub(super) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// Whether it says that the call has run, now or before.
    pub(super) fn is_answered(&self) -> bool {
        self.outcome == "answered" && self.code.is_none()
    }

    /// In a few words: the code of a refusal, or else the outcome.
    pub(super) fn word(&self) -> String {
        match &self.code {
            Some(code) => format!("`{code}`"),
            None if self.is_replayed => "the stored answer".to_owned(),
            None => format!("`{}`", self.outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value, is_error: bool) -> TrialAnswer {
        TrialAnswer::of(&Message::response(None, Text::of(body), is_error))
    }

    /// The verdicts stand on this: a refusal is no answer, and a first answer is not the stored one.
    #[test]
    fn an_answer_is_read_as_what_it_says() {
        let decided = |more: Value| json!({ "_meta": { DECISION_META_KEY: more }, "content": [{ "text": "one" }, { "text": "two" }] });
        let first = read(&decided(json!({ "outcome": "answered" })), false);
        assert!(first.is_answered() && !first.is_replayed);
        assert_eq!(
            (first.word().as_str(), first.words.as_str()),
            ("`answered`", "one\ntwo")
        );
        let stored = read(
            &decided(json!({ "outcome": "answered", "replayed": true })),
            false,
        );
        assert!(stored.is_answered() && stored.is_replayed);
        let refused = read(
            &decided(json!({ "outcome": "refused", "code": "fenced" })),
            false,
        );
        assert!(refused.is("fenced") && !refused.is("fence") && !refused.is_answered());
        let error = read(&json!({ "code": -1, "message": "too fast" }), true);
        assert!(!error.is_answered());
        assert_eq!((error.code, error.words.as_str()), (None, "too fast"));
    }
}
