//! Shapes what a tool answered: checks it against the tool's own output schema, takes out what the
//! contract redacts, and withholds what is too long. The call has run by then: nothing here makes
//! it a failure (threat-model §9).
//!
//! Before the answer is kept, so that a replay is byte for byte what the agent read at first.

use super::{Mode, Section};
use crate::mcp::answer::is_tool_error;
use crate::mcp::json::path_edit::PathStep;
use crate::mcp::json::{SERVER_JSON_LIMITS, Scalar, ScalarKind, Text};
use crate::mcp::message::{Message, MessageKind as Of};
use crate::model::diagnostic::Problems;
use crate::model::hex::hex;
use crate::model::regular::Regular;
use crate::model::work;
use crate::schema::{Quarantine, Schema};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;

mod redaction;

use redaction::Redaction;

/// Results are read up to this size anyway (threat-model §8).
const RESULT_BYTES_MAX: usize = 4 << 20;
/// A withheld result says so in so many bytes.
const RESULT_BYTES_MIN: usize = 1 << 10;
/// Where the result of a task names it, and bytes of that name at most.
const RELATED_TASK_META: &str = "io.modelcontextprotocol/related-task";
const TASK_ID_BYTES_MAX: usize = 258;
/// Where a tool says things in a form of its own: in a result, and in a log message or an error.
const STRUCTURED_KEYS: [&str; 2] = ["structuredContent", "data"];
/// Redactions of one contract at most.
const MAX_REDACTIONS: usize = 32;

/// What becomes of results before the agent reads them.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Results")]
pub(crate) struct Settings {
    /// Bytes of a result at most, 1024 to 4194304; a longer one is withheld, and the agent reads
    /// its size and SHA-256.
    pub max_bytes: Option<usize>,
    /// What is taken out, in this order.
    pub redact: Vec<redaction::RedactionSettings>,
    /// Whether `structuredContent` must fit the tool's own `outputSchema`, where it has one; a
    /// result that does not is withheld. A contract without `results` checks it, too, in
    /// enforce mode, where the schema can be judged.
    pub output_schema: Checking,
}

/// Whether something is checked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Checking {
    /// It is.
    #[default]
    Check,
    /// It is not.
    Off,
}

/// As run. The default touches nothing.
#[derive(Debug, Default)]
pub struct Rule {
    max_bytes: Option<usize>,
    redactions: Vec<Redaction>,
    checks: Checks,
}

/// When results are held to the tool's own output schema.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// Never.
    #[default]
    Never,
    /// Where contracts are enforced and the schema can be judged.
    Usually,
    /// Always: the contract asks for it.
    Always,
}

/// A tool's output schema; none where it has none.
pub(crate) type Output<'s> = Option<&'s Result<Schema, Quarantine>>;

/// Why a result is withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WithheldReason {
    TooLong(usize),
    Misfit,
    NotJudged,
    TooCostly,
}

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "results";

    fn compile(self, problems: &mut Problems) -> Rule {
        let Self {
            max_bytes,
            redact,
            output_schema,
        } = self;
        if max_bytes.is_some_and(|most| !(RESULT_BYTES_MIN..=RESULT_BYTES_MAX).contains(&most)) {
            let hint = format!("between {RESULT_BYTES_MIN} and {RESULT_BYTES_MAX}");
            problems.under("max_bytes", |problems| {
                problems.error("is out of bounds", hint);
            });
        }
        let redactions = problems.under("redact", |problems| {
            if redact.len() > MAX_REDACTIONS {
                problems.error(
                    format!("more than {MAX_REDACTIONS}"),
                    "join patterns with `|`, pointers with `*`",
                );
            }
            let written = redact.into_iter().enumerate();
            let compiled = written.map(|(index, one)| {
                problems.under(index.to_string(), |problems| one.compile(problems))
            });
            compiled.flatten().collect()
        });
        let checks = if output_schema == Checking::Check {
            Checks::Always
        } else {
            Checks::Never
        };
        Rule {
            max_bytes,
            redactions,
            checks,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// The places that are taken out, each with its index among the redactions: paths from the
    /// root, in which `*` is every member or element.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, Vec<String>)> {
        let numbered = self.redactions.iter().enumerate();
        numbered.filter_map(|(index, one)| Some((index, one.place()?)))
    }
}

impl Rule {
    /// Of a contract that says nothing of results.
    pub fn usual() -> Self {
        Self {
            checks: Checks::Usually,
            ..Self::default()
        }
    }

    /// Whether a result can come out otherwise than it went in, with a tool of that output schema.
    fn acts(&self, mode: Mode, output: Output<'_>) -> bool {
        self.may_reshape() || self.judges(mode, output)
    }

    fn judges(&self, mode: Mode, output: Output<'_>) -> bool {
        match self.checks {
            Checks::Never => false,
            Checks::Usually => mode == Mode::Enforce && matches!(output, Some(Ok(_))),
            Checks::Always => output.is_some(),
        }
    }

    /// Whether an answer that two readers could read differently has to be withheld: something of it
    /// would be checked or taken out, or, where contracts are enforced, it is more than a result
    /// whose members are beyond doubt.
    pub fn withholds_odd(&self, answer: &Message, mode: Mode, output: Output<'_>) -> bool {
        let is_plain = |body: &Text| {
            !answer.is_error && body.is_object() && !body.has_twins() && !is_pending(body)
        };
        let is_judged = !self.redactions.is_empty() || self.judges(mode, output);
        is_judged || (mode == Mode::Enforce && !answer.body.as_ref().is_some_and(is_plain))
    }

    /// Whether a result that fits the tool's output schema may come out without fitting it.
    pub fn may_reshape(&self) -> bool {
        self.max_bytes.is_some() || !self.redactions.is_empty()
    }

    /// The answer as the agent may read it. An error stays an error, under its code; a question to
    /// the agent stays one.
    pub fn shape(&self, answer: Message, mode: Mode, output: Output<'_>) -> Message {
        let Some(body) = answer.body.clone().filter(|_| self.acts(mode, output)) else {
            return answer;
        };
        work::spend(body.as_bytes().len() as u64);
        let is_result = !answer.is_error && !is_pending(&body);
        let misfit = if is_result && self.judges(mode, output) {
            misfit(&body, output)
        } else {
            None
        };
        let body = self.redacted(body, is_result);
        let length = body.as_bytes().len();
        let too_long = self
            .max_bytes
            .filter(|most| length > *most)
            .map(WithheldReason::TooLong);
        let body = match misfit.or(too_long) {
            Some(why) if is_result => withheld(&body, why, !self.may_reshape()),
            Some(why) if answer.is_error => withheld_error(&body, why),
            // What asks for input, and the handle of a task, are no results yet, and must come
            // through.
            Some(_) | None => body,
        };
        Message {
            body: Some(body),
            ..answer
        }
    }

    /// What says how a task stands. The result or error that it ended with is shaped like any
    /// other.
    pub fn shape_task(&self, said: Message, mode: Mode, output: Output<'_>) -> Message {
        if said.is_error || !self.acts(mode, output) {
            return self.shape(said, mode, output);
        }
        let Some(mut members) = said.body.as_ref().and_then(Text::object) else {
            return said;
        };
        let endings = [("result", false), ("error", true)];
        let endings = endings.map(|(key, is_error)| (key, members.get(key).cloned(), is_error));
        for (key, ending, _) in &endings {
            if ending.is_some() {
                members.set(key, Text::of(&serde_json::Value::Null));
            }
        }
        let mut members = self
            .redacted(members.text(), false)
            .object()
            .unwrap_or_default();
        for (key, ending, is_error) in endings {
            let Some(ending) = ending else { continue };
            if let Some(shaped) = self
                .shape(Message::response(None, ending, is_error), mode, output)
                .body
            {
                members.set(key, shaped);
            }
        }
        Message {
            body: Some(members.text()),
            ..said
        }
    }

    /// What a tool says before it answers. Patterns are taken out of it; a notification that is
    /// longer than a result may be is withheld, a question must come through.
    pub fn remark(&self, said: Message) -> Option<Message> {
        let Some(body) = said.body.clone().filter(|_| self.may_reshape()) else {
            return Some(said);
        };
        if said.odd.is_some() && !self.redactions.is_empty() {
            return None;
        }
        let body = self.redacted(body, false);
        let too_long = self
            .max_bytes
            .is_some_and(|most| body.as_bytes().len() > most);
        let is_withheld = too_long && said.kind == Of::Notification;
        (!is_withheld).then(|| Message {
            body: Some(body),
            ..said
        })
    }

    /// What stands for an answer that cannot be shaped in time.
    pub fn too_costly(said: Message) -> Message {
        let body = said.body.as_ref().map(|body| {
            if said.is_error {
                withheld_error(body, WithheldReason::TooCostly)
            } else {
                withheld(body, WithheldReason::TooCostly, true)
            }
        });
        Message { body, ..said }
    }

    fn redacted(&self, body: Text, is_result: bool) -> Text {
        work::spend(body.as_bytes().len() as u64 * self.redactions.len() as u64);
        self.redactions
            .iter()
            .fold(body, |body, redaction| match redaction {
                Redaction::Place { path, with } if is_result => at_place(&body, path, with),
                Redaction::Place { .. } => body,
                Redaction::Pattern { pattern, with } => wherever(&body, pattern, with),
            })
    }
}

/// Does the result break its schema? One that says `isError` need not have what the schema
/// describes.
fn misfit(body: &Text, output: Output<'_>) -> Option<WithheldReason> {
    let schema = output.filter(|_| !is_tool_error(body))?;
    let Ok(schema) = schema else {
        return Some(WithheldReason::NotJudged);
    };
    let structured = body.get("structuredContent");
    let fits = structured.is_some_and(|structured| schema.accepts(&structured.value()).is_ok());
    (!fits).then_some(WithheldReason::Misfit)
}

/// Takes out what stands at the place in `structuredContent`, and in every text of `content` that
/// is JSON itself. Other texts that say what was taken out say it no more.
fn at_place(body: &Text, path: &[PathStep], with: &Text) -> Text {
    let mut taken = Vec::new();
    let mut members = body.object().unwrap_or_default();
    let mut take = |old: &Text| {
        taken.extend(redaction::plain_text(old));
        with.clone()
    };
    if let Some(new) = members
        .get("structuredContent")
        .and_then(|structured| structured.with_at(path, &mut take))
    {
        members.set("structuredContent", new);
    }
    let Some(content) = members.get("content").cloned() else {
        return members.text();
    };
    let texts = || {
        content
            .scalars()
            .filter(|one| one.kind == ScalarKind::String && one.under == b"text")
    };
    let mut edits = Vec::new();
    let mut plain = Vec::new();
    for one in texts() {
        let json = Text::read(Bytes::from(one.value().into_owned()), &SERVER_JSON_LIMITS).ok();
        match json.filter(|json| json.is_object() || json.is_array()) {
            Some(json) => edits.extend(
                json.with_at(path, &mut take)
                    .map(|new| (one.range, in_string(&new))),
            ),
            None => plain.push(one),
        }
    }
    let with = with.as_str().unwrap_or_default();
    for one in plain {
        let value = one.value();
        work::spend((value.len() as u64 / 8 + 8).saturating_mul(taken.len() as u64));
        let new = taken
            .iter()
            .fold(value.to_string(), |text, taken| text.replace(taken, &with));
        if new != value {
            edits.push((one.range, Text::string(&new)));
        }
    }
    edits.sort_unstable_by_key(|(range, _)| range.start);
    members.set("content", content.replaced(&edits));
    members.text()
}

/// Takes out what matches in every string that is a value, except where the protocol's own words
/// stand; in what a tool says in a form of its own, also in names and numbers.
fn wherever(body: &Text, pattern: &Regular, with: &str) -> Text {
    let mut members = body.object().unwrap_or_default();
    let own = STRUCTURED_KEYS
        .into_iter()
        .filter_map(|key| Some((key, in_data(members.get(key)?, pattern, with)?)));
    for (key, new) in own.collect::<Vec<_>>() {
        members.set(key, new);
    }
    let body = if members.is_empty() {
        body.clone()
    } else {
        members.text()
    };
    let strings = body
        .scalars()
        .filter(|one| one.kind == ScalarKind::String && !redaction::is_protocol(one));
    let edits = strings.filter_map(|one| {
        let value = one.value();
        let new = pattern.replaced(&value, with);
        (new != value).then(|| (one.range.clone(), Text::string(&new)))
    });
    body.replaced(&edits.collect::<Vec<_>>())
}

/// None where nothing matches in a name or a number; what a number says of a match is a text then.
fn in_data(data: &Text, pattern: &Regular, with: &str) -> Option<Text> {
    let of = |kind| data.scalars().filter(move |one| one.kind == kind);
    let matching = |one: &Scalar<'_>| pattern.is_match(&one.value());
    let mut edits: Vec<_> = of(ScalarKind::Number)
        .filter(matching)
        .map(|one| (one.range, Text::string(with)))
        .collect();
    let (mut names, mut number) = (HashSet::new(), 0_usize);
    for one in of(ScalarKind::Key).filter(matching) {
        if names.is_empty() {
            names = of(ScalarKind::Key)
                .map(|one| one.value().into_owned())
                .collect();
        }
        let new = pattern.replaced(&one.value(), with).into_owned();
        // No two names may become equal, and a server with many does not cost many times more.
        let free = loop {
            number += 1;
            let free = format!("{new}#{number}");
            if names.insert(free.clone()) {
                break free;
            }
        };
        edits.push((one.range, Text::string(&free)));
    }
    edits.sort_unstable_by_key(|(range, _)| range.start);
    (!edits.is_empty()).then(|| data.replaced(&edits))
}

/// Whether a call has no result yet: its tool asks for input, or has made a task of it. What has
/// `content` is a result.
fn is_pending(body: &Text) -> bool {
    let kind = body.get("resultType");
    let waits =
        kind.is_some_and(|kind| matches!(kind.as_bytes(), b"\"input_required\"" | b"\"task\""));
    let has_result = ["content", "structuredContent"]
        .iter()
        .any(|key| body.get(key).is_some());
    !has_result && (waits || body.get("task").is_some_and(|task| task.is_object()))
}

/// A JSON string that holds a JSON text.
fn in_string(json: &Text) -> Text {
    Text::string(&String::from_utf8_lossy(json.as_bytes()))
}

fn withheld_message(body: &Text, why: WithheldReason) -> String {
    let (length, digest) = (body.as_bytes().len(), Sha256::digest(body.as_bytes()));
    let digest = hex(&digest);
    let why = match why {
        WithheldReason::TooLong(most) => format!("its contract allows {most} bytes"),
        WithheldReason::Misfit => "it does not fit the tool's own output schema".to_owned(),
        WithheldReason::NotJudged => "the tool's own output schema cannot be judged".to_owned(),
        WithheldReason::TooCostly => {
            "to check and to redact it takes more computing than one result may".to_owned()
        }
    };
    format!(
        "The tool has run. Its result ({length} bytes, SHA-256 {digest}) is withheld: {why}. \
         Don't call again to get it; ask for less, or ask an operator, naming the action id."
    )
}

/// `is_listed`: agents know the tool's output schema. What does not fit it is no result then that
/// their SDKs hand on, unless it says that it is an error (protocol §5.1).
fn withheld(body: &Text, why: WithheldReason, is_listed: bool) -> Text {
    let mut result = json!({ "content": [{ "type": "text", "text": withheld_message(body, why) }], "isError": is_listed });
    if let Some(kind) = body.get("resultType") {
        result["resultType"] = kind.value();
    }
    // Whose result it is (2025-11-25); no longer than an id is.
    if let Some(task) = body
        .at(&["_meta", RELATED_TASK_META, "taskId"])
        .filter(|task| task.as_bytes().len() <= TASK_ID_BYTES_MAX)
    {
        result["_meta"] = json!({ RELATED_TASK_META: { "taskId": task.value() } });
    }
    if is_tool_error(body) {
        result["isError"] = json!(true);
    }
    Text::of(&result)
}

/// The code says what the error proves.
fn withheld_error(body: &Text, why: WithheldReason) -> Text {
    let code = body
        .get("code")
        .map_or(serde_json::Value::Null, |code| code.value());
    let words = withheld_message(body, why).replacen(
        "The tool has run. Its result",
        "The tool server refused. Its error",
        1,
    );
    Text::of(&json!({ "code": code, "message": words }))
}

#[cfg(test)]
mod tests;
