//! What an answer, or its absence, proves of a call with side effects (SEMANTICS §4). Never that "an error happened": how
//! far the call got and what the server said decide.

use super::trail::Broken;
use crate::guards::output::{self, Meaning, Said};
use crate::guards::{ToolRules, idempotency};
use crate::mcp::answer::{HEADER_MISMATCH, INTERNAL, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::reply::{Fault, Sent};
use serde_json::Value;
use std::borrow::Cow;

/// Codes that the revision reserves for refusals before a call runs (PROTOCOL §1.5).
const RESERVED: std::ops::RangeInclusive<i64> = -32029..=HEADER_MISMATCH;

/// What is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The server answered: a result, `isError` or not, or an error of its own.
    Answered,
    /// The server asks for input first.
    Asked,
    /// The server did not run it; `again`: the same key may claim again.
    NotRun {
        /// May the same key claim again?
        again: bool,
    },
    /// No byte left.
    NotSent,
    /// Nothing.
    Unknown,
}

impl Proof {
    /// What is proven of a call whose attempts before have proven `before`: that the last one did not run says nothing of
    /// one that may have.
    pub(super) fn after(self, before: Self) -> Self {
        match (before, self) {
            (Self::Unknown, Self::NotSent | Self::NotRun { .. }) => Self::Unknown,
            (_, last) => last,
        }
    }
}

/// What the contract says that the error means which `ended` is or holds, if it is one.
pub(super) fn meaning(ended: &Result<Message, Broken>, output: &output::Rule) -> Option<Meaning> {
    if output.is_empty() {
        return None;
    }
    match ended {
        Ok(answer) => {
            let body = answer.body.as_ref()?;
            if answer.is_error {
                let text = body.get("message").and_then(|message| message.as_str().map(Cow::into_owned));
                return output.judge(Said { code: code(answer), text: text.as_deref(), ..Said::default() });
            }
            if !body.get("isError").is_some_and(|flag| flag.is_true()) {
                return None;
            }
            let structured = body.get("structuredContent").map(|structured| structured.value());
            let text = body.get("content").and_then(|content| first_text(&content.value()));
            output.judge(Said { text: text.as_deref(), structured: structured.as_ref(), ..Said::default() })
        }
        Err(Broken::Fault(fault)) if fault.sent == Sent::Maybe => {
            output.judge(Said { status: Some(fault.status?), ..Said::default() })
        }
        Err(_) => None,
    }
}

fn first_text(content: &Value) -> Option<String> {
    content.as_array()?.iter().find_map(|part| part["text"].as_str()).map(str::to_owned)
}

/// What `ended` proves; `rules`: what its contract says of errors.
pub(super) fn of(ended: &Result<Message, Broken>, rules: &ToolRules, rule: &idempotency::Rule) -> Proof {
    match meaning(ended, &rules.output) {
        Some(Meaning::Retryable) => return Proof::NotRun { again: true },
        // Without an answer there is none to give again.
        Some(Meaning::NotExecuted) => return Proof::NotRun { again: ended.is_err() },
        Some(Meaning::Unknown) => return Proof::Unknown,
        Some(Meaning::Failed) => return Proof::Answered,
        None => {}
    }
    match ended {
        Ok(answer) if answer.is_error => of_code(code(answer), rule),
        Ok(answer) if answer.body.as_ref().is_some_and(asks) => Proof::Asked,
        Ok(_) => Proof::Answered,
        Err(Broken::Fault(fault)) => of_fault(fault, rule),
        // Nobody gives up a call with side effects that was sent.
        Err(Broken::Cancelled(Sent::Maybe)) => Proof::Unknown,
        Err(Broken::Cancelled(Sent::Nothing)) => Proof::NotSent,
    }
}

fn of_code(code: Option<i64>, rule: &idempotency::Rule) -> Proof {
    match code {
        code if rule.proves_nothing_done(None, code) => Proof::NotRun { again: true },
        Some(PARSE_ERROR | INVALID_REQUEST | METHOD_NOT_FOUND | INVALID_PARAMS) => Proof::NotRun { again: false },
        Some(code) if RESERVED.contains(&code) => Proof::NotRun { again: false },
        Some(INTERNAL) | None => Proof::Unknown,
        Some(_) => Proof::Answered,
    }
}

fn of_fault(fault: &Fault, rule: &idempotency::Rule) -> Proof {
    match (fault.sent, fault.status) {
        (Sent::Nothing, None) => Proof::NotSent,
        (Sent::Nothing, Some(_)) => Proof::NotRun { again: true },
        (Sent::Maybe, status) if rule.proves_nothing_done(status, None) => Proof::NotRun { again: true },
        (Sent::Maybe, _) => Proof::Unknown,
    }
}

fn code(answer: &Message) -> Option<i64> {
    answer.body.as_ref()?.get("code")?.value().as_i64()
}

/// Does the result ask the agent for input (2026-07-28)?
fn asks(result: &Text) -> bool {
    result.get("resultType").is_some_and(|kind| kind.as_str().as_deref() == Some("input_required"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGAIN: Proof = Proof::NotRun { again: true };

    /// SEMANTICS §3: a key is released only on proof that nothing ran, and each attempt proves something of itself only.
    #[test]
    fn an_attempt_that_did_not_run_proves_nothing_of_one_that_may_have() {
        for (before, last, proven) in [
            (Proof::NotSent, AGAIN, AGAIN),
            (AGAIN, Proof::NotSent, Proof::NotSent),
            (AGAIN, Proof::Unknown, Proof::Unknown),
            (Proof::Unknown, Proof::NotSent, Proof::Unknown),
            (Proof::Unknown, AGAIN, Proof::Unknown),
            (Proof::Unknown, Proof::NotRun { again: false }, Proof::Unknown),
            (Proof::Unknown, Proof::Answered, Proof::Answered),
        ] {
            assert_eq!(last.after(before), proven, "{before:?}, then {last:?}");
        }
    }

    /// SEMANTICS §4: an agent that cancels before anything leaves takes its call back; nothing is left open.
    #[test]
    fn a_call_that_was_cancelled_in_time_was_not_sent() {
        let (rules, rule) = (ToolRules::default(), idempotency::Rule::default());
        assert_eq!(of(&Err(Broken::Cancelled(Sent::Nothing)), &rules, &rule), Proof::NotSent);
        assert_eq!(of(&Err(Broken::Cancelled(Sent::Maybe)), &rules, &rule), Proof::Unknown);
    }
}
