//! The one map from what toolgate decides to what an agent reads: JSON-RPC codes, HTTP statuses,
//! `isError` results.

use super::error_codes::{
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY,
    PARSE_ERROR, REQUEST_CANCELLED, UNSUPPORTED_VERSION,
};
use super::json::Text;
use super::message::Message;
use super::revision::Era;
use crate::model::argument_edit::ArgumentEdit;
use crate::model::ids::ActionId;
use crate::model::refusal::{Refusal, Retry};
use serde_json::{Value, json};

/// Our key in `_meta` of answers (design §2).
pub(crate) const DECISION_META_KEY: &str = "dev.toolgate/decision";
/// Where a result says what operators have changed of its call's arguments.
pub(crate) const EDIT_META_KEY: &str = "dev.toolgate/argumentsChangedByApprover";
/// Where an answer names the servers at which the agent's session was opened anew.
pub(crate) const SESSION_REPLACED_META_KEY: &str = "dev.toolgate/sessionReplaced";

/// What a replay says to who meant a second execution (guarantees §3).
const REPLAY_TEXT: &str = "this is the stored answer of the same call; to run it a second time, give a new idempotency key";

/// Whether the result of a call says `isError`.
pub(crate) fn is_tool_error(result: &Text) -> bool {
    result.get("isError").is_some_and(|flag| flag.is_true())
}

/// The HTTP status that carries a response on the modern wire (protocol §1.5).
pub(crate) fn status(message: &Message) -> u16 {
    let code = message
        .is_error
        .then(|| message.body.as_ref()?.get("code")?.value().as_i64())
        .flatten();
    match code {
        Some(
            PARSE_ERROR | INVALID_REQUEST | HEADER_MISMATCH | MISSING_CAPABILITY
            | UNSUPPORTED_VERSION,
        ) => 400,
        Some(METHOD_NOT_FOUND) => 404,
        _ => 200,
    }
}

/// What toolgate says about a call in `_meta` of its answer.
#[derive(Debug, Clone)]
pub(crate) struct DecisionMeta<'a> {
    /// Our id of the call.
    pub action: ActionId,
    /// `answered`, `planned`, `refused`, `failed` or `unknown`.
    pub outcome: &'a str,
    /// The refusal.
    pub refusal: Option<&'a Refusal>,
    /// The step that decided.
    pub stage: &'a str,
    /// The answer is one that was given before; the tool did not run again.
    pub replayed: bool,
    /// The call that holds the key, where that is another one: the id to name to an operator.
    pub claimed_by: Option<ActionId>,
    /// What is left of the task's budget, by dimension, if anything is limited.
    pub budget_remaining: Option<&'a Value>,
    /// The calls with side effects that the task has made, when it summarizes (003-76).
    pub evidence: &'a [ActionId],
    /// How the task begins to repeat itself, before it is stopped for it.
    pub warning: Option<&'a str>,
    /// What its contract says of the error that the tool answered, and whether the same call may
    /// be sent again.
    pub meaning: Option<(&'a str, bool)>,
    /// How it ran, where it was sent.
    pub sent: Option<SentMeta>,
    /// What operators have changed of its arguments.
    pub edit: Option<&'a ArgumentEdit>,
}

/// How a call ran that was sent (004-34).
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentMeta {
    /// What it took from its arrival on, in milliseconds.
    pub latency_ms: f64,
    /// The token that it ran under, if it changes something.
    pub fence: Option<u64>,
    /// The beginning of the hash of its key, if it has one: what agents write is no operator's to read.
    pub key_hash: Option<u64>,
}

impl SentMeta {
    fn members(&self) -> Vec<(&'static str, Text)> {
        let fence = self.fence.map(|fence| ("fence", Text::of(&json!(fence))));
        let digits = self.key_digits();
        let key = digits.map(|digits| ("key_hash", Text::string(&digits)));
        let took = ("latency_ms", Text::of(&json!(self.latency_ms)));
        std::iter::once(took).chain(fence).chain(key).collect()
    }

    /// The hash of its key as people read it: the first digits of the one in the ledger's events.
    pub(crate) fn key_digits(&self) -> Option<String> {
        self.key_hash.map(|hash| format!("{hash:016x}"))
    }
}

impl DecisionMeta<'_> {
    fn text(&self) -> Text {
        let again = self
            .meaning
            .filter(|(_, again)| *again)
            .map(|_| Retry::SameKey);
        let retry = self.refusal.map(Refusal::retry).or(again);
        let mut decision = vec![
            ("action_id", Text::string(&self.action.to_string())),
            ("outcome", Text::string(self.outcome)),
            ("stage", Text::string(self.stage)),
            (
                "retry",
                retry.as_ref().map_or_else(
                    || Text::string("never"),
                    |retry| Text::string(&retry.word()),
                ),
            ),
            (
                "final",
                Text::bool(retry.is_none_or(|retry| retry == Retry::Never)),
            ),
        ];
        if let Some(after_ms) = retry.and_then(Retry::after_ms) {
            decision.push(("retry_after", Text::of(&json!(after_ms.div_ceil(1000)))));
        }
        decision.extend(self.refusal.into_iter().flat_map(refusal_members));
        if let Some((meaning, _)) = self.meaning {
            decision.push(("error", Text::string(meaning)));
        }
        if self.replayed {
            decision.push(("replayed", Text::bool(true)));
            decision.push(("hint", Text::string(REPLAY_TEXT)));
        }
        if let Some(holder) = self.claimed_by {
            decision.push(("claimed_by", Text::string(&holder.to_string())));
        }
        if let Some(left) = self.budget_remaining {
            decision.push(("budget_remaining", Text::of(left)));
        }
        decision.extend(self.sent.iter().flat_map(SentMeta::members));
        if let Some(edit) = self.edit {
            decision.push(("arguments_changed_by_approver", Text::of(&edit.value())));
        }
        if !self.evidence.is_empty() {
            let calls: Vec<String> = self.evidence.iter().map(ToString::to_string).collect();
            decision.push(("evidence", Text::of(&json!(calls))));
        }
        if let Some(warning) = self.warning {
            decision.push(("warning", Text::string(warning)));
        }
        Text::members_of(&decision)
    }
}

/// What a decision says of its refusal.
fn refusal_members(refusal: &Refusal) -> impl Iterator<Item = (&'static str, Text)> {
    let said = [
        ("code", Some(refusal.code().to_owned())),
        ("pointer", refusal.pointer().map(str::to_owned)),
        ("approval_id", refusal.hold().map(|hold| hold.to_string())),
        ("approval_url", refusal.page().map(str::to_owned)),
        ("dimension", refusal.dimension().map(str::to_owned)),
    ];
    said.into_iter()
        .filter_map(|(name, said)| Some((name, Text::string(&said?))))
}

/// A refused call whose parameters name what is not there: −32602.
pub(crate) fn invalid(id: Option<Text>, decision: &DecisionMeta<'_>, refusal: &Refusal) -> Message {
    let data =
        Text::of(&json!({ "code": refusal.code(), DECISION_META_KEY: decision.text().value() }));
    Message::error(id, INVALID_PARAMS, &words(decision, refusal), Some(data))
}

/// What the model reads of a refusal: what it says, how the task goes in circles, and what the task
/// has done where that is asked for or its time is over.
fn words(decision: &DecisionMeta<'_>, refusal: &Refusal) -> String {
    let mut words = refusal.words();
    if let Some(warning) = decision.warning {
        words += " The task goes in circles: ";
        words += warning;
        words += ". Do something else, or stop and report.";
    }
    if !decision.evidence.is_empty() {
        let done: Vec<String> = decision.evidence.iter().map(ToString::to_string).collect();
        words += " Calls of this task that ran or may have: ";
        words += &done.join(", ");
        words += ".";
    }
    words
}

/// A refused call as the agent reads it: an `isError` result, or −32602 for a tool that is not
/// there (guarantees §2). `attached`: what the tool answered, when that could not be recorded.
pub(crate) fn refused(
    id: Option<Text>,
    era: Era,
    decision: &DecisionMeta<'_>,
    refusal: &Refusal,
    attached: Option<&Message>,
) -> Message {
    if matches!(refusal, Refusal::ToolNotAllowlisted) {
        return invalid(id, decision, refusal);
    }
    if refusal.is_cancelled() {
        return Message::error(id, REQUEST_CANCELLED, &refusal.words(), None);
    }
    let words = words(decision, refusal);
    let mut result = json!({
        "content": [{ "type": "text", "text": words }],
        "isError": true,
        "_meta": { DECISION_META_KEY: decision.text().value() },
    });
    if matches!(refusal, Refusal::DuplicateInFlight { .. }) {
        // The documents' own form (004-31); `isError` keeps it from being read as done (004-32).
        result["structuredContent"] =
            json!({ "status": "dedup", "message": "duplicate suppressed" });
    }
    if era == Era::Modern {
        result["resultType"] = json!("complete");
    }
    if let Some(answer) = attached.and_then(|answer| answer.body.as_ref()) {
        let text = json!({ "type": "text", "text": String::from_utf8_lossy(answer.as_bytes()) });
        result["content"]
            .as_array_mut()
            .into_iter()
            .for_each(|content| content.push(text.clone()));
    }
    Message::response(id, Text::of(&result), false)
}

/// Says in a result what operators have changed of the call's arguments: to programs, and to models where
/// these read it.
pub(crate) fn with_edit(result: &Text, edit: &ArgumentEdit) -> Text {
    let result = with_meta(result, EDIT_META_KEY, Text::of(&edit.value()));
    let content = result.get("content").and_then(|content| content.elements());
    let (Some(content), Some(mut members)) = (content, result.object()) else {
        return result;
    };
    let words = [
        ("type", Text::string("text")),
        ("text", Text::string(&edit.words())),
    ];
    let told = std::iter::once(Text::members_of(&words)).chain(content);
    members.set("content", Text::array(told));
    members.text()
}

/// Adds our decision to `_meta` of a result; everything else stays as it was written.
pub(crate) fn with_decision(result: &Text, decision: &DecisionMeta<'_>) -> Text {
    with_meta(result, DECISION_META_KEY, decision.text())
}

fn with_meta(result: &Text, key: &str, value: Text) -> Text {
    let Some(meta) = result.get("_meta") else {
        return result.with_new_member("_meta", &Text::members_of(&[(key, value)]));
    };
    let mut ours = meta.object().unwrap_or_default();
    ours.set(key, value);
    let mut members = result.object().unwrap_or_default();
    members.set("_meta", ours.text());
    members.text()
}
