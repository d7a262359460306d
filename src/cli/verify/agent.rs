//! The agent of verifying: it makes calls through the whole gate, under one id for each request, and can hang up while
//! it waits.

use crate::cli::agent_pipe::{AgentPipe, PipeReading, ToldOfCall, call_meta};
use crate::downstream::Door;
use crate::guards::idempotency::KEY_META_NAME;
use crate::guards::identity::behind::USER_META;
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::own::FENCE_META_KEY;
use crate::model::ids::{AgentId, ToolName};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinHandle;

/// One connection of an agent.
pub(super) struct TrialAgent {
    pipe: AgentPipe,
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
        Self {
            pipe: AgentPipe::open(door, agent.clone(), "trial agent"),
            early: BTreeMap::new(),
        }
    }

    /// Sends a call, under an id that no other request has; the id.
    pub(super) async fn send(&mut self, call: &TrialCall) -> anyhow::Result<u64> {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let sent = self.pipe.call(id, &call.params()).await;
        sent.context("a call cannot be sent to the gate")?;
        Ok(id)
    }

    /// What answers the request `id`. Dropping this future loses nothing.
    pub(super) async fn answer_to(&mut self, id: u64) -> TrialAnswer {
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return answer;
            }
            let message = match self.pipe.next().await {
                PipeReading::Message(message) => Some(message),
                PipeReading::Unreadable => None,
                PipeReading::End => return TrialAnswer::none(),
            };
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
        self.pipe.hang_up()
    }
}

impl TrialCall {
    fn params(&self) -> Value {
        let mut meta = call_meta(&self.task, &self.session);
        if let Some(key) = &self.key {
            meta[KEY_META_NAME] = json!(key);
        }
        if let Some(person) = &self.person {
            meta[USER_META] = json!(person);
        }
        if let Some(token) = self.token {
            meta[FENCE_META_KEY] = json!({ "token": token });
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
        let told = ToldOfCall::of(answer);
        Self {
            outcome: told.outcome(),
            code: told.code(),
            is_replayed: told.is_replayed(),
            words: told.texts().collect::<Vec<_>>().join("\n"),
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
    use crate::mcp::answer::DECISION_META_KEY;
    use crate::mcp::json::Text;

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
