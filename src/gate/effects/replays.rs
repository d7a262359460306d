//! What the same call reads once it has been made: the answer that it was given before.

use crate::gate::call::Call;
use crate::gate::effects::{ASK_AGAIN, Effects, unavailable};
use crate::gate::steps::dispatch::asks_for_task;
use crate::guards::ToolRules;
use crate::guards::idempotency::{self, KEY_META_NAME, Keyed, Regime};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::store::state::claim::{Age, Claim, ClaimPhase, ClaimStatus, Stored};
use crate::store::state::undo::OpenUndo;
use crate::store::state::{Millis, StoreKeys};
use crate::upstream::owners::is_task;
use crate::upstream::parking::ParkedCalls;
use jiff::Timestamp;
use serde_json::json;

impl Effects {
    /// What the same call reads once it has been made. A question or the handle of a task is no
    /// answer for an agent whose revision or capabilities do not know it: it would be read as a
    /// result with nothing in it.
    pub(in crate::gate) async fn replayed(
        &self,
        call: &Call,
        standing: &ClaimStatus,
    ) -> Result<Message, Refusal> {
        let (ClaimStatus::Ended(stored) | ClaimStatus::Asked(stored)) = standing else {
            return Err(Refusal::InternalError);
        };
        let answer = self.answer(stored).await?;
        if is_read(call, &answer) {
            return Ok(answer);
        }
        let servers = call.origin.links.servers();
        let body = answer.body.as_ref();
        let waits = if ParkedCalls::was_parked(body) {
            servers.parked().waits(body)
        } else if matches!(standing, ClaimStatus::Asked(_)) && body.is_some_and(is_task) {
            servers.parked_tasks().waits(&answer)
        } else {
            true
        };
        Err(if waits {
            Refusal::OutcomePending {
                after_ms: ASK_AGAIN,
            }
        } else {
            Refusal::OutcomeUnknown
        })
    }

    /// Until when the call `action` can be taken back whose answer is given again; none where no call does that,
    /// or where that is not known.
    pub(super) async fn undo_until(&self, rules: &ToolRules, action: ActionId) -> Option<Millis> {
        rules.undo.call()?;
        let place = StoreKeys {
            undo: Some(OpenUndo::key_of(action)),
            ..StoreKeys::default()
        };
        // What cannot be read is not promised.
        let undo = self.look(place).await.ok()?.undo?;
        undo.promised(self.store.now())
    }

    /// The answer that was given before, byte for byte.
    async fn answer(&self, stored: &Stored) -> Result<Message, Refusal> {
        let body = self.store.body(stored).await.map_err(unavailable)?;
        // It was judged when it came.
        let read = Text::read_oddly(body, &SERVER_JSON_LIMITS);
        let (body, _) = read.map_err(|_| Refusal::InternalError)?;
        Ok(Message::response(None, body, stored.is_error))
    }

    /// Whether the answer that was given says that the call failed.
    pub(in crate::gate) async fn was_failure(&self, stored: &Stored) -> Result<bool, Refusal> {
        let answer = self.answer(stored).await?;
        let said = answer.body.as_ref().and_then(|body| body.get("isError"));
        Ok(answer.is_error || said.is_some_and(|flag| flag.is_true()))
    }

    /// Whether the call of `claim` was carried out, and has not failed. Of one whose answer is forgotten, it is known
    /// from its claim.
    pub(in crate::gate) async fn has_succeeded(&self, claim: &Claim) -> Result<bool, Refusal> {
        let ClaimPhase::Completed(stored) = &claim.phase else {
            return Ok(false);
        };
        if stored.is_error || claim.may_undo.is_some_and(|undo| undo.is_over) {
            return Ok(false);
        }
        if claim.age(self.store.now()) != Age::Fresh {
            return Ok(true);
        }
        Ok(!self.was_failure(stored).await?)
    }

    /// Whether the round that the call brings answers nothing: toolgate itself put what was `asked`,
    /// and only the state that came with it leads to the call that waits for the answer. Sent on, it
    /// would begin that call anew, should its server speak 2026-07-28 by now.
    pub(in crate::gate) async fn answers_nothing(
        &self,
        call: &Call,
        asked: &Stored,
    ) -> Result<bool, Refusal> {
        if ParkedCalls::was_parked(call.message.body.as_ref()) {
            return Ok(false);
        }
        let asked = self.answer(asked).await?;
        Ok(ParkedCalls::was_parked(asked.body.as_ref()))
    }
}

/// An ended call whose answer is given again.
pub(in crate::gate) struct ReplayedCall<'a> {
    /// When its end was recorded.
    pub(in crate::gate) at: Millis,
    pub(in crate::gate) keyed: &'a Keyed,
    pub(in crate::gate) rules: &'a ToolRules,
}

impl ReplayedCall<'_> {
    /// `answer` as its agent reads it: first that nothing ran now, and how to run it again; then all
    /// of it, byte for byte. An agent that gave its own key knows it.
    pub(in crate::gate) fn told(&self, answer: &Message) -> Message {
        let is_told = self.keyed.regime() != Regime::Keyed;
        let body = answer.body.as_ref().filter(|_| is_told);
        let Some((body, mut members)) = body.and_then(|body| Some((body, body.object()?))) else {
            return answer.clone();
        };
        if answer.is_error {
            let message = body
                .get("message")
                .and_then(|text| Some(text.as_str()?.into_owned()));
            let words = format!("{} {}", self.words(), message.unwrap_or_default());
            members.set("message", Text::string(&words));
            return Message {
                body: Some(members.text()),
                ..answer.clone()
            };
        }
        let content = body.get("content");
        // The handle of a task is read by programs alone.
        if content.is_none() && body.get("structuredContent").is_none() {
            return answer.clone();
        }
        let content = content.and_then(|content| content.elements());
        let content = content.into_iter().flatten();
        let note = Text::members_of(&[
            ("type", Text::string("text")),
            ("text", Text::string(&self.words())),
        ]);
        members.set("content", Text::array(std::iter::once(note).chain(content)));
        Message {
            body: Some(members.text()),
            ..answer.clone()
        }
    }

    fn shows_key(&self) -> bool {
        let rule = self.rules.idempotency.as_ref();
        rule.is_some_and(idempotency::Rule::is_exposed)
    }

    fn words(&self) -> String {
        let place = if self.shows_key() {
            "the argument `idempotency_key`".to_owned()
        } else {
            format!("`_meta` member `{KEY_META_NAME}`")
        };
        format!(
            "toolgate: Nothing ran now. This call was carried out once, at {}, and this is the answer it was given then. \
             To run it a second time, send it with a new value in {place}.",
            shown(self.at)
        )
    }
}

/// What an agent reads whose call was held for an equal one of another session, which has been
/// carried out since, at `at`.
pub(in crate::gate) fn done_elsewhere(call: &Call, at: Millis) -> Message {
    if call.takes_back().is_some() {
        return undone_elsewhere(call, at);
    }
    let words = format!(
        "toolgate: Nothing ran now. A call that equals this one was made under another key or in another session of yours, \
         and its outcome was unknown when this call came first. It has been carried out: that was known at {}. Its answer \
         belongs to that call. To run this call as well, send it with a new idempotency key.",
        shown(at)
    );
    said(call, &words)
}

/// The same of a call that was to take another one back, which that one has done.
fn undone_elsewhere(call: &Call, at: Millis) -> Message {
    let words = format!(
        "toolgate: Nothing was sent now. The agent has made a call itself since that equals this one, and its outcome was \
         unknown. It has been carried out, and has taken the call back: that was known at {}.",
        shown(at)
    );
    said(call, &words)
}

fn said(call: &Call, words: &str) -> Message {
    let mut result = json!({ "content": [{ "type": "text", "text": words }], "isError": false });
    if call.origin.era == Era::Modern {
        result["resultType"] = json!("complete");
    }
    Message::response(None, Text::of(&result), false)
}

fn shown(at: Millis) -> String {
    let at = i64::try_from(at).ok();
    let at = at.and_then(|at| Timestamp::from_millisecond(at).ok());
    at.map_or_else(
        || "a time that is not known".to_owned(),
        |at| at.to_string(),
    )
}

/// Whether the agent that makes this call reads such an answer.
fn is_read(call: &Call, answer: &Message) -> bool {
    let body = answer.body.as_ref().filter(|_| !answer.is_error);
    let Some(body) = body.filter(|body| body.get("content").is_none()) else {
        return true;
    };
    let kind = body.get("resultType");
    let kind = kind.as_ref().and_then(Text::as_str);
    match (kind.as_deref(), call.origin.era) {
        (Some("input_required"), era) => era == Era::Modern,
        (Some("task"), Era::Modern) => asks_for_task(call),
        (Some("task"), Era::Legacy) => false,
        (_, era) if is_task(body) => era == Era::Legacy && asks_for_task(call),
        _ => true,
    }
}
