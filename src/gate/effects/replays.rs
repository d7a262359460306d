//! What the same call reads once it has been made: the answer that it was given before.

use crate::gate::call::Call;
use crate::gate::effects::{Effects, unavailable};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::message::Message;
use crate::model::refusal::Refusal;
use crate::store::state::claim::Stored;
use crate::upstream::parking::ParkedCalls;

impl Effects {
    /// The answer that was given before, byte for byte.
    pub(in crate::gate) async fn answer(&self, stored: &Stored) -> Result<Message, Refusal> {
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
