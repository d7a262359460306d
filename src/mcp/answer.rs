//! The one map from what toolgate decides to what an agent reads: JSON-RPC codes, HTTP statuses,
//! `isError` results.

use super::error_codes::{
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY,
    PARSE_ERROR, REQUEST_CANCELLED, UNSUPPORTED_VERSION,
};
use super::json::{ObjectWriter, Text};
use super::message::Message;
use super::revision::Era;
use crate::model::argument_edit::ArgumentEdit;
use crate::model::digest::key_digits;
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
    /// The equal call that was taken back before, so that this one ran.
    pub after_undo: Option<ActionId>,
    /// Until when an operator can have it taken back, RFC 3339 in UTC.
    pub undo_until: Option<&'a str>,
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
    fn write(&self, decision: &mut ObjectWriter<'_>) {
        decision.value("latency_ms", &self.latency_ms);
        if let Some(fence) = self.fence {
            decision.value("fence", &fence);
        }
        if let Some(digits) = self.key_digits() {
            decision.string("key_hash", &digits);
        }
    }

    /// The hash of its key as people read it.
    pub(crate) fn key_digits(&self) -> Option<String> {
        self.key_hash.map(key_digits)
    }
}

impl DecisionMeta<'_> {
    fn value(&self) -> Value {
        Text::written(|out| self.write(out)).value()
    }

    /// Appends it, as one object.
    fn write(&self, out: &mut Vec<u8>) {
        let again = self
            .meaning
            .filter(|(_, again)| *again)
            .map(|_| Retry::SameKey);
        let retry = self.refusal.map(Refusal::retry).or(again);
        let mut decision = ObjectWriter::new(out);
        decision.shown("action_id", &self.action);
        decision.string("outcome", self.outcome);
        decision.string("stage", self.stage);
        match retry {
            Some(retry) => decision.string("retry", &retry.word()),
            None => decision.string("retry", "never"),
        }
        decision.value("final", &retry.is_none_or(|retry| retry == Retry::Never));
        if let Some(after_ms) = retry.and_then(Retry::after_ms) {
            decision.value("retry_after", &after_ms.div_ceil(1000));
        }
        if let Some(refusal) = self.refusal {
            write_refusal(&mut decision, refusal);
        }
        if let Some((meaning, _)) = self.meaning {
            decision.string("error", meaning);
        }
        if self.replayed {
            decision.value("replayed", &true);
            decision.string("hint", REPLAY_TEXT);
        }
        if let Some(holder) = self.claimed_by {
            decision.shown("claimed_by", &holder);
        }
        if let Some(undone) = self.after_undo {
            decision.shown("ran_after_undo_of", &undone);
        }
        if let Some(until) = self.undo_until {
            decision.string("undo_until", until);
        }
        if let Some(left) = self.budget_remaining {
            decision.value("budget_remaining", left);
        }
        if let Some(sent) = &self.sent {
            sent.write(&mut decision);
        }
        if let Some(edit) = self.edit {
            decision.value("arguments_changed_by_approver", &edit.value());
        }
        if !self.evidence.is_empty() {
            let calls: Vec<String> = self.evidence.iter().map(ToString::to_string).collect();
            decision.value("evidence", &calls);
        }
        if let Some(warning) = self.warning {
            decision.string("warning", warning);
        }
        decision.end();
    }
}

/// What a decision says of its refusal.
fn write_refusal(decision: &mut ObjectWriter<'_>, refusal: &Refusal) {
    decision.string("code", refusal.code());
    if let Some(pointer) = refusal.pointer() {
        decision.string("pointer", pointer);
    }
    if let Some(hold) = refusal.hold() {
        decision.shown("approval_id", &hold);
    }
    if let Some(page) = refusal.page() {
        decision.string("approval_url", page);
    }
    if let Some(dimension) = refusal.dimension() {
        decision.string("dimension", dimension);
    }
}

/// A refused call whose parameters name what is not there: −32602.
pub(crate) fn invalid(id: Option<Text>, decision: &DecisionMeta<'_>, refusal: &Refusal) -> Message {
    let data = Text::of(&json!({ "code": refusal.code(), DECISION_META_KEY: decision.value() }));
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
        "_meta": { DECISION_META_KEY: decision.value() },
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
    let value = Text::of(&edit.value());
    let result = with_meta(result, EDIT_META_KEY, |out| {
        out.extend_from_slice(value.as_bytes());
    });
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
    with_meta(result, DECISION_META_KEY, |out| decision.write(out))
}

/// The result with what `write` appends under `key` of its `_meta`.
fn with_meta(result: &Text, key: &str, write: impl Fn(&mut Vec<u8>)) -> Text {
    if let Some(result) = result.with_inner_member("_meta", key, &write) {
        return result;
    }
    let Some(mut members) = result.object() else {
        return result.clone();
    };
    // What a server says in our name, or in the place of `_meta`, gives way.
    let meta = result.get("_meta").as_ref().and_then(Text::object);
    let mut ours = meta.unwrap_or_default();
    ours.set(key, Text::written(write));
    members.set("_meta", ours.text());
    members.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::SERVER_JSON_LIMITS;

    /// Of a call that was answered with nothing to say beside it.
    fn plain(action: ActionId) -> DecisionMeta<'static> {
        DecisionMeta {
            action,
            outcome: "answered",
            refusal: None,
            stage: "dispatch",
            replayed: false,
            claimed_by: None,
            budget_remaining: None,
            evidence: &[],
            warning: None,
            meaning: None,
            sent: None,
            edit: None,
            after_undo: None,
            undo_until: None,
        }
    }

    #[test]
    fn a_decision_says_all_that_is_known_of_the_call() {
        let (action, left) = (ActionId::generate(), json!({ "calls": 3 }));
        let evidence = [action];
        let decision = DecisionMeta {
            replayed: true,
            claimed_by: Some(action),
            budget_remaining: Some(&left),
            evidence: &evidence,
            warning: Some("it \"repeats\" itself"),
            meaning: Some(("busy", true)),
            sent: Some(SentMeta {
                latency_ms: 1.5,
                fence: Some(7),
                key_hash: Some(1),
            }),
            ..plain(action)
        };
        let said = json!({
            "action_id": action.to_string(), "outcome": "answered", "stage": "dispatch",
            "retry": "same_key", "final": false, "error": "busy", "replayed": true,
            "hint": REPLAY_TEXT, "claimed_by": action.to_string(),
            "budget_remaining": { "calls": 3 }, "latency_ms": 1.5, "fence": 7,
            "key_hash": "0000000000000001", "evidence": [action.to_string()],
            "warning": "it \"repeats\" itself",
        });
        assert_eq!(decision.value().to_string(), said.to_string());
        let refusal = Refusal::SchemaInvalid {
            pointer: "/a\"b".to_owned(),
            expected: "a number".to_owned(),
        };
        let refused = DecisionMeta {
            refusal: Some(&refusal),
            ..plain(action)
        };
        let said = refused.value();
        assert_eq!(
            (&said["code"], &said["pointer"]),
            (&json!("schema_invalid"), &json!("/a\"b"))
        );
    }

    /// guarantees §4: what the server said stays as it wrote it, but for what it says in our name.
    #[test]
    fn a_decision_stands_beside_what_the_server_said() {
        let decision = plain(ActionId::generate());
        let said = decision.value();
        for (result, before, after) in [
            (
                r#"{ "content":[ 1.50 ] }"#,
                r#"{ "content":[ 1.50 ] ,"_meta":{"#,
                "}}",
            ),
            (
                r#"{"_meta":{"x":1e0},"isError":false}"#,
                r#"{"_meta":{"x":1e0,"#,
                r#"},"isError":false}"#,
            ),
            (
                r#"{"_meta":{"dev.toolgate/decision":"forged","x":1},"isError":false}"#,
                r#"{"_meta":{"#,
                r#","x":1},"isError":false}"#,
            ),
            (r#"{"_meta":[],"a":1}"#, r#"{"_meta":{"#, r#"},"a":1}"#),
        ] {
            let result = Text::read(result.into(), &SERVER_JSON_LIMITS).unwrap();
            let told = with_decision(&result, &decision);
            let expected = format!("{before}\"{DECISION_META_KEY}\":{said}{after}");
            assert_eq!(String::from_utf8_lossy(told.as_bytes()), expected);
        }
        let no_result = Text::of(&json!([1]));
        assert_eq!(with_decision(&no_result, &decision), no_result);
    }
}
