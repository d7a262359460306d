//! Compares what a sandbox answered with what was recorded.

use super::difference::{Difference, Differences};
use super::kept::KeptCall;
use crate::cli::ledger::text::plain;
use crate::gate::record::hashes::params_hash;
use crate::mcp::answer::is_tool_error;
use crate::mcp::message::Message;
use crate::model::digest::sha256;
use crate::model::entry::Entry;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What servers may say anew with each answer: set aside where answers are compared.
const SET_ASIDE: &str = "_meta";

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerKind {
    Result,
    ToolError,
    ProtocolError,
    /// One of the errors; which is not recorded.
    Error,
}

/// One answer of a sandbox, as an agent would read it.
pub(super) struct ReplayedAnswer {
    kind: AnswerKind,
    bytes: u64,
    hash: String,
    value: Value,
}

/// What was recorded, and what the sandbox answered.
pub(super) struct ReplayComparison<'a> {
    entry: &'a Entry,
    recorded: Result<&'a Value, &'a str>,
    answers: &'a [ReplayedAnswer],
}

impl AnswerKind {
    fn of_value(value: &Value, is_error: bool) -> Self {
        let is_coded = value["code"].is_i64() && value["message"].is_string();
        match is_error {
            false => Self::Result,
            true if is_coded && value.get("content").is_none() => Self::ProtocolError,
            true => Self::ToolError,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::ToolError => "tool_error",
            Self::ProtocolError => "protocol_error",
            Self::Error => "error",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Result => "a result",
            Self::ToolError => "a result with isError",
            Self::ProtocolError => "a JSON-RPC error",
            Self::Error => "an error",
        }
    }
}

impl ReplayedAnswer {
    /// That of a message.
    pub(super) fn of(answer: &Message) -> anyhow::Result<Self> {
        let body = answer.body.as_ref();
        let body = body.context("the sandbox answered without a result")?;
        let value: Value = body
            .parse()
            .context("what the sandbox answered cannot be read")?;
        let kind = match (answer.is_error, is_tool_error(body)) {
            (true, _) => AnswerKind::ProtocolError,
            (false, true) => AnswerKind::ToolError,
            (false, false) => AnswerKind::Result,
        };
        Ok(Self {
            kind,
            bytes: body.as_bytes().len() as u64,
            hash: sha256(body.as_bytes()),
            value: without_meta(value),
        })
    }

    fn is_as(&self, other: &Self) -> bool {
        self.hash == other.hash
            || (self.kind == other.kind && stable_hash(&self.value) == stable_hash(&other.value))
    }

    fn fields(&self) -> Value {
        json!({
            "kind": self.kind.word(), "bytes": self.bytes, "sha256": self.hash,
            "stable_sha256": stable_hash(&self.value),
        })
    }

    fn words(&self) -> String {
        let Self {
            kind, bytes, hash, ..
        } = self;
        format!("{}, {bytes} bytes, sha256 {hash}", kind.words())
    }
}

/// An answer without what is set aside: its own `_meta`, and those of its content.
fn without_meta(mut value: Value) -> Value {
    let Some(members) = value.as_object_mut() else {
        return value;
    };
    members.shift_remove(SET_ASIDE);
    let content = members.get_mut("content").and_then(Value::as_array_mut);
    for block in content.into_iter().flatten() {
        for place in ["", "/resource"] {
            let part = block.pointer_mut(place).and_then(Value::as_object_mut);
            part.and_then(|part| part.shift_remove(SET_ASIDE));
        }
    }
    value
}

/// The hash of its canonical form, which does not depend on how it is spelt.
fn stable_hash(value: &Value) -> String {
    params_hash(value)
}

impl<'a> ReplayComparison<'a> {
    /// Of the call, and what came back at least once.
    pub(super) fn of(call: &'a KeptCall, answers: &'a [ReplayedAnswer]) -> Self {
        Self {
            entry: &call.entry,
            recorded: call.result.as_ref().map_err(String::as_str),
            answers,
        }
    }

    /// Whether each answer is the recorded one.
    pub(super) fn is_stable(&self) -> bool {
        self.answers.iter().all(|answer| self.agrees(answer))
    }

    fn has_same_bytes(&self, answer: &ReplayedAnswer) -> bool {
        let is_result = |kind: AnswerKind| kind == AnswerKind::Result;
        self.entry.result_hash.as_deref() == Some(&*answer.hash)
            && is_result(self.kind()) == is_result(answer.kind)
    }

    fn agrees(&self, answer: &ReplayedAnswer) -> bool {
        let recorded = self.recorded_value();
        let is_same = |recorded| {
            self.kind() == answer.kind && stable_hash(&recorded) == stable_hash(&answer.value)
        };
        self.has_same_bytes(answer) || recorded.is_some_and(is_same)
    }

    fn recorded_value(&self) -> Option<Value> {
        self.recorded.ok().cloned().map(without_meta)
    }

    fn kind(&self) -> AnswerKind {
        let is_error = self.entry.is_error == Some(true);
        match self.recorded {
            Ok(value) => AnswerKind::of_value(value, is_error),
            Err(_) if is_error => AnswerKind::Error,
            Err(_) => AnswerKind::Result,
        }
    }

    /// The first answer that is another one than the recorded.
    fn other(&self) -> Option<&'a ReplayedAnswer> {
        self.answers.iter().find(|answer| !self.agrees(answer))
    }

    /// Where it is another one; none where only a hash was kept.
    fn differences(&self) -> Option<Differences> {
        let (recorded, now) = (self.recorded_value()?, self.other()?);
        Some(Differences::between(&recorded, &now.value))
    }

    fn is_alike(&self) -> bool {
        self.answers.iter().all(|one| one.is_as(&self.answers[0]))
    }

    /// For programs.
    pub(super) fn fields(&self) -> Value {
        let recorded = self.recorded_value();
        let mut said = json!({
            "outcome": if self.is_stable() { "stable" } else { "differs" },
            "recorded": {
                "kind": self.kind().word(), "bytes": self.entry.result_bytes, "sha256": self.entry.result_hash,
                "stable_sha256": recorded.as_ref().map(stable_hash),
            },
            "now": self.answers.iter().map(ReplayedAnswer::fields).collect::<Vec<_>>(),
            "set_aside": [SET_ASIDE],
        });
        if self.answers.len() > 1 {
            said["sandbox_is_stable"] = json!(self.is_alike());
        }
        if let Err(why) = self.recorded {
            said["recorded"]["missing"] = json!(why);
        }
        if let Some(differences) = self.differences() {
            let shown = differences.shown.iter().map(Difference::fields);
            said["differences"] = shown.collect();
            said["differences_left_out"] = json!(differences.left_out);
        }
        said
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        let mut text = format!(
            "recorded: {}, {} bytes, sha256 {}\n",
            self.kind().words(),
            self.entry.result_bytes.unwrap_or_default(),
            plain(self.entry.result_hash.as_deref().unwrap_or_default())
        );
        for answer in self.answers {
            let _ = writeln!(text, "now:      {}", answer.words());
        }
        if self.answers.len() > 1 {
            let times = self.answers.len();
            let words = if self.is_alike() {
                "alike"
            } else {
                "differently"
            };
            let _ = writeln!(text, "the sandbox itself answered {words}, {times} times");
        }
        match (self.other(), self.recorded) {
            (None, _)
                if self
                    .answers
                    .iter()
                    .all(|answer| self.has_same_bytes(answer)) =>
            {
                let _ = writeln!(text, "=> stable: sha256 {}", self.answers[0].hash);
            }
            (None, _) => {
                let hash = stable_hash(&self.answers[0].value);
                let _ = writeln!(
                    text,
                    "=> stable but for `{SET_ASIDE}` and spelling: sha256 of the rest {hash}"
                );
            }
            (Some(_), Err(why)) => {
                let _ = writeln!(
                    text,
                    "=> differs; where is not known, nor whether in more than `{SET_ASIDE}`, for the ledger has no \
                     more than the hash of the answer: {}",
                    plain(why)
                );
            }
            (Some(_), Ok(_)) => {
                let _ = writeln!(text, "=> differs");
                text.extend(self.differences().map(|found| found.lines()));
            }
        }
        text
    }
}
