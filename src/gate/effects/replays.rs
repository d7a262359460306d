//! What the same call reads once it has been made: the answer that it was given before.

use crate::gate::call::Call;
use crate::gate::effects::{Effects, unavailable};
use crate::gate::steps::dispatch::asks_for_task;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::refusal::Refusal;
use crate::store::state::claim::{ClaimStatus, Stored};
use crate::upstream::owners::is_task;
use crate::upstream::parking::ParkedCalls;

/// When a call whose answer cannot be read here may ask again, in milliseconds.
const ASK_AGAIN: u64 = 5000;

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

    /// The answer that was given before, byte for byte.
    async fn answer(&self, stored: &Stored) -> Result<Message, Refusal> {
        let body = self.store.body(stored).await.map_err(unavailable)?;
        // It was judged when it came.
        let read = Text::read_oddly(body, &SERVER_JSON_LIMITS);
        let (body, _) = read.map_err(|_| Refusal::InternalError)?;
        Ok(Message::response(None, body, stored.is_error))
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
