//! What an answer, or its absence, proves of a call with side effects (guarantees §4). Never that
//! "an error happened": how far the call got and what the server said decide.

use crate::guards::output::{self, Meaning, UpstreamError};
use crate::guards::{ToolRules, idempotency};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::reply::{Fault, Sent};
use serde_json::Value;
use std::borrow::Cow;

/// How a dispatched call can end without an answer.
#[derive(Debug)]
pub(in crate::gate) enum Broken {
    /// The agent cancelled it or went away: it changes nothing, or nothing of it has left.
    Cancelled(Sent),
    /// Something broke.
    Fault(Fault),
}

/// What is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum Proof {
    /// The server answered with a result.
    Answered,
    /// The server answered with a JSON-RPC error, whatever its code, or with a result that says
    /// `isError`: this is the answer, and says nothing of how much was done.
    Erred,
    /// The server asks for input first.
    Asked,
    /// The same, and its agent answers it as a task of toolgate's own.
    AskedAsTask,
    /// The server did not run it, as the contract or the operator knows; `again`: the same key may
    /// claim again.
    NotRun {
        /// May the same key claim again?
        again: bool,
    },
    /// No byte left, or the server's protocol says that it took nothing.
    NotSent,
    /// Nothing.
    Unknown,
}

impl Proof {
    /// What is proven of a call whose attempts before have proven `before`: that the last one did
    /// not run, has failed, or asks first says nothing of one that may have run.
    pub(in crate::gate) fn after(self, before: Self) -> Self {
        match (before, self) {
            (
                Self::Unknown,
                Self::NotSent | Self::NotRun { .. } | Self::Erred | Self::Asked | Self::AskedAsTask,
            ) => Self::Unknown,
            (_, last) => last,
        }
    }
}

/// What the contract says that the error means which `ended` is or holds, if it is one.
pub(in crate::gate) fn meaning(
    ended: &Result<Message, Broken>,
    output: &output::Rule,
) -> Option<Meaning> {
    if output.is_empty() {
        return None;
    }
    match ended {
        // Nobody can say of it what it means.
        Ok(answer) if answer.odd.is_some() => None,
        Ok(answer) => {
            let body = answer.body.as_ref()?;
            if answer.is_error {
                let text = body
                    .get("message")
                    .and_then(|message| message.as_str().map(Cow::into_owned));
                return output.judge(UpstreamError {
                    code: code(answer),
                    text: text.as_deref(),
                    ..UpstreamError::default()
                });
            }
            if !says_error(body) {
                return None;
            }
            let structured = body
                .get("structuredContent")
                .map(|structured| structured.value());
            let text = body
                .get("content")
                .and_then(|content| first_text(&content.value()));
            output.judge(UpstreamError {
                text: text.as_deref(),
                structured: structured.as_ref(),
                ..UpstreamError::default()
            })
        }
        Err(Broken::Fault(fault)) if fault.sent == Sent::Maybe => output.judge(UpstreamError {
            status: Some(fault.status?),
            ..UpstreamError::default()
        }),
        Err(_) => None,
    }
}

/// Does the result say that the tool has failed?
fn says_error(result: &Text) -> bool {
    result.get("isError").is_some_and(|flag| flag.is_true())
}

fn first_text(content: &Value) -> Option<String> {
    content
        .as_array()?
        .iter()
        .find_map(|part| part["text"].as_str())
        .map(str::to_owned)
}

/// Whose word counts for what an error means.
#[derive(Clone, Copy)]
pub(in crate::gate) struct Named<'a> {
    /// The contract's, on errors.
    pub(in crate::gate) rules: &'a ToolRules,
    /// The contract's, on what was not executed.
    pub(in crate::gate) rule: &'a idempotency::Rule,
    /// The operator's, on the HTTP statuses of the server.
    pub(in crate::gate) not_executed: &'a [u16],
}

impl Named<'_> {
    fn is_not_executed(&self, status: Option<u16>, code: Option<i64>) -> bool {
        self.rule.proves_nothing_done(status, code)
            || status.is_some_and(|status| self.not_executed.contains(&status))
    }
}

/// Whether it is proven that nothing of this sending left.
pub(in crate::gate) fn has_left_nothing(ended: &Result<Message, Broken>) -> bool {
    matches!(
        ended,
        Err(Broken::Fault(Fault {
            sent: Sent::Nothing,
            ..
        }) | Broken::Cancelled(Sent::Nothing))
    )
}

/// What `ended` proves.
pub(in crate::gate) fn of(ended: &Result<Message, Broken>, named: Named<'_>) -> Proof {
    match meaning(ended, &named.rules.output) {
        Some(Meaning::Retryable) => return Proof::NotRun { again: true },
        // Without an answer there is none to give again.
        Some(Meaning::NotExecuted) => {
            return Proof::NotRun {
                again: ended.is_err(),
            };
        }
        Some(Meaning::Unknown) => return Proof::Unknown,
        Some(Meaning::Failed) => return Proof::Erred,
        None => {}
    }
    match ended {
        Ok(answer) if answer.is_error && named.is_not_executed(None, code(answer)) => {
            Proof::NotRun { again: true }
        }
        Ok(answer) if answer.is_error || answer.body.as_ref().is_some_and(says_error) => {
            Proof::Erred
        }
        Ok(answer) if answer.body.as_ref().is_some_and(asks) => Proof::Asked,
        Ok(_) => Proof::Answered,
        Err(_) if has_left_nothing(ended) => Proof::NotSent,
        // A result, whatever its status, of which nobody can say that it is a good one.
        Err(
            Broken::Fault(Fault {
                sent: Sent::Answered,
                ..
            })
            | Broken::Cancelled(Sent::Answered),
        ) => Proof::Erred,
        Err(Broken::Fault(fault)) if named.is_not_executed(fault.status, None) => {
            Proof::NotRun { again: true }
        }
        // Nobody gives up a call with side effects that was sent.
        Err(Broken::Fault(_) | Broken::Cancelled(_)) => Proof::Unknown,
    }
}

fn code(answer: &Message) -> Option<i64> {
    answer.body.as_ref()?.get("code")?.value().as_i64()
}

/// Does the result ask the agent for input (2026-07-28)?
fn asks(result: &Text) -> bool {
    result
        .get("resultType")
        .is_some_and(|kind| kind.as_str().as_deref() == Some("input_required"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGAIN: Proof = Proof::NotRun { again: true };

    /// guarantees §3: a key is released only on proof that nothing ran, and each attempt proves
    /// something of itself only.
    #[test]
    fn an_attempt_that_did_not_run_proves_nothing_of_one_that_may_have() {
        for (before, last, proven) in [
            (Proof::NotSent, AGAIN, AGAIN),
            (AGAIN, Proof::NotSent, Proof::NotSent),
            (AGAIN, Proof::Unknown, Proof::Unknown),
            (Proof::Unknown, Proof::NotSent, Proof::Unknown),
            (Proof::Unknown, AGAIN, Proof::Unknown),
            (
                Proof::Unknown,
                Proof::NotRun { again: false },
                Proof::Unknown,
            ),
            (Proof::Unknown, Proof::Erred, Proof::Unknown),
            (Proof::Unknown, Proof::Asked, Proof::Unknown),
            (Proof::Unknown, Proof::AskedAsTask, Proof::Unknown),
            (AGAIN, Proof::Erred, Proof::Erred),
            (Proof::NotSent, Proof::Asked, Proof::Asked),
            (Proof::Unknown, Proof::Answered, Proof::Answered),
        ] {
            assert_eq!(last.after(before), proven, "{before:?}, then {last:?}");
        }
    }

    /// guarantees §4: an agent that cancels before anything leaves takes its call back; nothing is
    /// left open.
    #[test]
    fn a_call_that_was_cancelled_in_time_was_not_sent() {
        let (rules, rule) = (ToolRules::default(), idempotency::Rule::default());
        let named = Named {
            rules: &rules,
            rule: &rule,
            not_executed: &[],
        };
        assert_eq!(
            of(&Err(Broken::Cancelled(Sent::Nothing)), named),
            Proof::NotSent
        );
        assert_eq!(
            of(&Err(Broken::Cancelled(Sent::Maybe)), named),
            Proof::Unknown
        );
    }

    /// guarantees §4, threat-model §13 F1: no status and no code proves that a call did not run,
    /// unless the contract or the operator names it.
    #[test]
    fn only_what_is_named_did_not_run() {
        let (rules, rule) = (ToolRules::default(), idempotency::Rule::default());
        let (none, operator) = ([].as_slice(), [429].as_slice());
        let of = |ended: &Result<Message, Broken>, not_executed| {
            of(
                ended,
                Named {
                    rules: &rules,
                    rule: &rule,
                    not_executed,
                },
            )
        };
        for status in 400..=599 {
            let bare = || Fault {
                status: Some(status),
                ..Fault::after_sending("it said so")
            };
            let proven = if status == 429 { AGAIN } else { Proof::Unknown };
            assert_eq!(
                of(&Err(Broken::Fault(bare())), none),
                Proof::Unknown,
                "{status}"
            );
            assert_eq!(
                of(&Err(Broken::Fault(bare())), operator),
                proven,
                "{status}"
            );
        }
        for code in (-32800..=-31999).chain([-1, 0, 1, 429]) {
            let error = Message::error(None, code, "no", None);
            assert_eq!(of(&Ok(error), operator), Proof::Erred, "{code}");
        }
        assert_eq!(
            of(&Err(Broken::Fault(Fault::unsent("it is down"))), none),
            Proof::NotSent
        );
    }
}
