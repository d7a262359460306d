//! Batches of 2025-03-26, the one revision that has them: an array is cut into its messages, each
//! goes the ordinary way on its own, and the answers are put together again (protocol §3.7).

use super::batch_answers::{MessageBatch, carried};
use super::body::{HttpAnswer, json};
use super::handshake::arrived;
use super::http::too_fast;
use super::modern::is_modern;
use super::request_origin::RequestOrigin;
use super::route::CallHeaders;
use super::session::AgentSession;
use super::unread::{self, MessageReading};
use super::{Authenticated, Door, Visit};
use crate::mcp::error_codes::INVALID_REQUEST;
use crate::mcp::headers::SESSION_HEADER;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::Revision;
use crate::model::caller::Caller;
use crate::telemetry::tasks;
use crate::upstream::INBOX_MESSAGES_MAX;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Messages of one batch (threat-model §8).
const MAX_BATCH_MESSAGES: usize = 100;
/// Who has sent a batch, and how.
pub(super) struct BatchSent<'a> {
    pub(super) known: &'a Authenticated,
    pub(super) heads: CallHeaders,
    pub(super) origin: &'a RequestOrigin,
}

/// Why a batch is refused as a whole: nothing of it was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BatchRefused {
    /// There is nothing in it.
    #[error("a batch needs at least one message")]
    Empty,
    /// There is too much in it.
    #[error(
        "a batch has at most {MAX_BATCH_MESSAGES} messages; nothing of this one was carried out"
    )]
    TooLong,
}

/// Whether `bytes` begin as a batch does.
pub(super) fn is_array(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    first == Some(&b'[')
}

/// The messages of a batch, if `bytes` are one in a session that may have them.
pub(super) fn parts(
    session: &AgentSession,
    bytes: &Bytes,
    reading: MessageReading,
) -> Option<Result<Vec<Text>, BatchRefused>> {
    if session.revision != Revision::V2025_03_26 || !is_array(bytes) {
        return None;
    }
    let parts = unread::elements(bytes, reading)?;
    Some(match parts.len() {
        0 => Err(BatchRefused::Empty),
        1..=MAX_BATCH_MESSAGES => Ok(parts),
        _ => Err(BatchRefused::TooLong),
    })
}

impl From<BatchRefused> for Message {
    fn from(refused: BatchRefused) -> Self {
        Self::error(None, INVALID_REQUEST, &refused.to_string(), None)
    }
}

impl Door {
    /// The answer to a batch; none if it is none, or in no session that may have them.
    pub(super) async fn batch(
        self: &Arc<Self>,
        visit: &Visit,
        headers: &HeaderMap,
        bytes: &Bytes,
    ) -> Option<HttpAnswer> {
        // Most requests are none: what the work on one keeps is taken for it alone.
        if !headers.contains_key(SESSION_HEADER) || !is_array(bytes) {
            return None;
        }
        Box::pin(self.batch_of_session(visit, headers, bytes)).await
    }

    async fn batch_of_session(
        self: &Arc<Self>,
        visit: &Visit,
        headers: &HeaderMap,
        bytes: &Bytes,
    ) -> Option<HttpAnswer> {
        let Visit {
            scope,
            known,
            origin,
            ..
        } = visit;
        let session = self.session(headers, &known.proved, scope).ok()?;
        let (mode, limits) = (known.policy.mode, self.limits(scope));
        let reading = MessageReading { mode, limits };
        let messages = match parts(&session, bytes, reading)? {
            Ok(messages) => messages,
            Err(refused) => return Some(json(StatusCode::BAD_REQUEST, &refused.into())),
        };
        let heads = Self::heads(&known.policy, headers);
        let sent = BatchSent {
            known,
            heads,
            origin,
        };
        let begun = Box::pin(self.begin_batch(&session, sent, messages)).await;
        Some(Box::pin(begun.over_http(&session)).await)
    }

    /// Begins every message of a batch, in their order. One that is refused refuses no other.
    pub(super) async fn begin_batch(
        self: &Arc<Self>,
        session: &Arc<AgentSession>,
        sent: BatchSent<'_>,
        parts: Vec<Text>,
    ) -> MessageBatch {
        let BatchSent {
            known,
            heads,
            origin,
        } = sent;
        // They come together, and each is worked on in a task of its own.
        let origin = RequestOrigin {
            place: None,
            ..origin.clone()
        };
        let (outlet, inlet) = mpsc::channel(INBOX_MESSAGES_MAX);
        let (mut answers, mut requests, mut marks) = (Vec::new(), 0, Vec::new());
        for (index, part) in parts.into_iter().enumerate() {
            let (caller, message) = match self.batched(session, known, part, index).await {
                Ok(Some(asked)) => asked,
                Ok(None) => continue,
                Err(refused) => {
                    answers.push(refused);
                    continue;
                }
            };
            requests += 1;
            let known = Authenticated {
                caller,
                ..known.clone()
            };
            let (heads, origin) = (heads.clone(), origin.clone());
            let begun = self.start(arrived(session, known, message, heads, origin));
            marks.push(begun.unread_mark());
            tasks::spawn("message of a batch", carried(begun, outlet.clone()));
        }
        MessageBatch {
            answers,
            inlet,
            requests,
            marks,
        }
    }

    /// A request of a batch, and who asks; none for what is done already. The error is what its agent reads.
    async fn batched(
        &self,
        session: &AgentSession,
        known: &Authenticated,
        part: Text,
        index: usize,
    ) -> Result<Option<(Arc<Caller>, Message)>, Message> {
        let (mode, limits) = (known.policy.mode, self.limits(&session.scope));
        let message = unread::read(part.bytes(), MessageReading { mode, limits })?;
        let (kind, id) = (message.kind, message.id.clone());
        let refused = |words: &str| Message::error(id.clone(), INVALID_REQUEST, words, None);
        // The first of them was counted with the batch.
        let pace = known.caller.pace.as_ref().filter(|_| index > 0);
        let paced = pace.filter(|pace| pace.take(self.clock.steady()).is_err());
        let judged = if let Some(pace) = paced {
            self.metrics.refused("overloaded");
            Err(refused(&too_fast(pace.rate())))
        } else {
            self.judged(known, message)
        };
        let (caller, message) = match (judged, kind) {
            (Ok(asked), _) => asked,
            (Err(refused), MessageKind::Request) => return Err(refused),
            (Err(_), MessageKind::Response) => {
                self.leaves_unanswered(session, id).await;
                return Ok(None);
            }
            (Err(_), MessageKind::Notification) => return Ok(None),
        };
        match kind {
            MessageKind::Request if is_modern(&message) || message.method == "initialize" => {
                Err(refused("this message cannot be part of a batch"))
            }
            MessageKind::Request => Ok(Some((caller, message))),
            MessageKind::Notification if message.method == "tools/call" => Err(refused(
                "a tools/call needs an `id`; without one nothing is called",
            )),
            MessageKind::Notification | MessageKind::Response => {
                Box::pin(self.heard(session, message)).await;
                Ok(None)
            }
        }
    }
}
