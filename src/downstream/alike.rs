//! What a message may bring besides what is known of it: no member that only looks like a known
//! one, and no more `_meta` than people could be shown (threat-model §3A A2, §3C C9).

use super::session::AgentSession;
use super::{Authenticated, Door};
use crate::guards::Mode;
use crate::guards::identity::behind;
use crate::mcp::error_codes::{INVALID_PARAMS, INVALID_REQUEST};
use crate::mcp::json::Text;
use crate::mcp::members::{LookAlikes, MessageSender};
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::own::message_without_ours;
use crate::model::caller::Caller;
use crate::model::tally::{LONG_META, LOOK_ALIKE_MEMBERS};
use crate::upstream::questions::{Answered, refused_answer};
use std::sync::Arc;

impl Door {
    /// Who asks: the caller, acting for the user whom the message names where it may (guarantees
    /// §3). Nothing is done for a request of which that is not certain, in observe mode, too.
    fn asking(&self, known: &Authenticated, message: &Message) -> Result<Arc<Caller>, Message> {
        if message.kind == MessageKind::Response {
            return Ok(known.caller.clone());
        }
        let said = message.meta(behind::USER_META);
        let is_opening = message.method == "initialize";
        let asking = behind::of_message(&known.proved, said.as_ref(), is_opening);
        let judged = asking.and_then(|caller| {
            if message.kind == MessageKind::Request {
                behind::judge_request(&caller, &message.method)?;
            }
            Ok(caller)
        });
        judged.map_err(|refused| {
            self.metrics.refused("no_user");
            Message::error(
                message.id.clone(),
                INVALID_PARAMS,
                &refused.to_string(),
                None,
            )
        })
    }

    /// Who asks, and the message as it may go on.
    pub(super) fn judged(
        &self,
        known: &Authenticated,
        message: Message,
    ) -> Result<(Arc<Caller>, Message), Message> {
        let caller = self.asking(known, &message)?;
        Ok((caller, self.plain(known, message)?))
    }

    /// The message as it may go on: but for calls, which the gate reads, without what is toolgate's
    /// own. In enforce mode one with look-alikes, or with too long a `_meta`, is refused whole;
    /// in observe mode it goes on without the look-alikes, and either is counted and said.
    fn plain(&self, known: &Authenticated, message: Message) -> Result<Message, Message> {
        let observes = known.policy.mode == Mode::Observe;
        let refuse = |message: &Message, code, words: &str| {
            let id = message.id.clone().filter(|_| !message.method.is_empty());
            Err(Message::error(id, code, words, None))
        };
        let most = known.policy.meta_max_bytes;
        let long = message
            .body
            .as_ref()
            .filter(|body| body.as_bytes().len() > most);
        let meta = long
            .and_then(|body| body.get("_meta"))
            .map_or(0, |meta| meta.as_bytes().len());
        if meta > most {
            if LONG_META.add(1) {
                let (agent, method) = (&known.caller.agent, message.method.escape_debug());
                let so_far = LONG_META.so_far();
                tracing::warn!(%agent, %method, so_far, "an agent's message had a `_meta` of {meta} bytes; `meta_max_bytes` is {most}");
            }
            if !observes {
                self.metrics.refused("meta_too_large");
                let words = format!(
                    "`_meta` has {meta} bytes; at most {most} are sent on; an operator can allow more: `meta_max_bytes`"
                );
                return refuse(&message, INVALID_PARAMS, &words);
            }
        }
        let travelling = |mut message: Message| {
            if message.method == "tools/call" {
                return message;
            }
            message.unknown = None;
            message_without_ours(message)
        };
        if let Some(odd) = &message.odd {
            let (agent, method) = (&known.caller.agent, message.method.escape_debug());
            tracing::debug!(%agent, %method, "enforce mode would refuse an agent's message: {}", odd.what);
        }
        let Some(found) = LookAlikes::of(&message, MessageSender::Agent) else {
            return Ok(travelling(message));
        };
        let (first, count) = found.first();
        let words = first.map(ToString::to_string).unwrap_or_default();
        if LOOK_ALIKE_MEMBERS.add(count) {
            let (agent, method) = (&known.caller.agent, message.method.escape_debug());
            let so_far = LOOK_ALIKE_MEMBERS.so_far();
            tracing::warn!(%agent, %method, so_far, "an agent's message had members that only look like known ones: {words}");
        }
        if observes {
            return Ok(travelling(found.taken_out(message)));
        }
        self.metrics.refused("look_alike");
        let words = format!(
            "{words}, which some servers take it for; nothing was sent on; send it as that, or leave it out"
        );
        refuse(&message, INVALID_REQUEST, &words)
    }

    /// An agent's answer to a tool server that is not handed on: the server reads an error in its
    /// place.
    pub(super) async fn leaves_unanswered(&self, session: &AgentSession, question: Option<Text>) {
        let answered = question.map(|id| session.links.questions.answer(refused_answer(id)));
        if let Some(Answered::Server(link, answer)) = answered
            && let Err(fault) = link.notify(answer).await
        {
            tracing::debug!(%fault, "a refusal did not reach the tool server");
        }
    }
}
