//! What a message may bring besides what is known of it: no member that only looks like a known one, and no more `_meta`
//! than people could be shown (SECURITY §3A A2, §3C C9).

use super::{Door, Known};
use crate::guards::Mode;
use crate::mcp::answer::{INVALID_PARAMS, INVALID_REQUEST};
use crate::mcp::members::{LookAlikes, Side};
use crate::mcp::message::Message;
use crate::model::tally::LOOK_ALIKES;

/// Bytes of `_meta` of one message at most (SECURITY §8).
const META: usize = 64 << 10;

impl Door {
    /// The message as it may go on. In enforce mode one with look-alikes is refused whole; in observe mode it goes on without
    /// them, and that is counted and said.
    pub(super) fn plain(&self, known: &Known, message: Message) -> Result<Message, Message> {
        let observes = known.policy.mode == Mode::Observe;
        let refuse = |message: &Message, code, words: &str| {
            let id = message.id.clone().filter(|_| !message.method.is_empty());
            Err(Message::error(id, code, words, None))
        };
        let long = message.body.as_ref().filter(|body| body.as_bytes().len() > META);
        let meta = long.and_then(|body| body.get("_meta")).map_or(0, |meta| meta.as_bytes().len());
        if meta > META && !observes {
            self.metrics.refused("meta_too_large");
            let words = format!("`_meta` has {meta} bytes; at most {META} are sent on");
            return refuse(&message, INVALID_PARAMS, &words);
        }
        let Some(found) = LookAlikes::of(&message, Side::Agent) else { return Ok(message) };
        let (first, count) = found.first();
        let words = first.map(ToString::to_string).unwrap_or_default();
        if LOOK_ALIKES.add(count) {
            let (agent, method) = (&known.caller.agent, message.method.escape_debug());
            let so_far = LOOK_ALIKES.so_far();
            tracing::warn!(%agent, %method, so_far, "an agent's message had members that only look like known ones: {words}");
        }
        if observes {
            return Ok(found.taken_out(message));
        }
        self.metrics.refused("look_alike");
        let words =
            format!("{words}, which some servers take it for; nothing was sent on; send it as that, or leave it out");
        refuse(&message, INVALID_REQUEST, &words)
    }
}
