//! Batches of 2025-03-26, the one revision that has them: an array is cut into its messages, each
//! goes the ordinary way on its own, and the answers are put together again (protocol §3.7).

use super::body::{HttpAnswer, empty, json, json_text};
use super::carried_answer::{BatchTickets, CarriedAnswer, carrying_all};
use super::handshake::arrived;
use super::http::too_fast;
use super::modern::is_modern;
use super::patience::FIRST_WORD_TIMEOUT;
use super::pipe_line::PipeLine;
use super::request_origin::RequestOrigin;
use super::route::CallHeaders;
use super::session::AgentSession;
use super::stream::MAX_EVENTS_KEPT;
use super::unread::{self, MessageReading};
use super::{Authenticated, Door, Visit};
use crate::mcp::error_codes::INVALID_REQUEST;
use crate::mcp::headers::SESSION_HEADER;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::Revision;
use crate::mcp::sse::SseComment;
use crate::model::caller::Caller;
use crate::outlet::{AnswerTicket, Inlet, Outgoing, Outlet, way_back};
use crate::telemetry::tasks;
use crate::upstream::INBOX_MESSAGES_MAX;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Messages of one batch (threat-model §8).
const MAX_BATCH_MESSAGES: usize = 100;
/// Longest array of answers, in bytes; what goes beyond it is said on a stream, or in another array.
const JOINED_ANSWER_BYTES_MAX: usize = 4 << 20;

/// A batch under way.
pub(super) struct MessageBatch {
    /// What is answered at once: elements that were refused unread.
    answers: Vec<Message>,
    /// What its requests bring; it ends when all are answered.
    inlet: mpsc::Receiver<BatchWord>,
    /// How many requests there are, of which each is answered.
    requests: usize,
}

/// Who has sent a batch, and how.
pub(super) struct BatchSent<'a> {
    pub(super) known: &'a Authenticated,
    pub(super) heads: CallHeaders,
    pub(super) origin: &'a RequestOrigin,
}

/// What one request of a batch brings, and whose answer it is if it is one.
struct BatchWord {
    outgoing: Outgoing,
    ticket: AnswerTicket,
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
        let Visit {
            scope,
            known,
            origin,
            ..
        } = visit;
        if !headers.contains_key(SESSION_HEADER) || !is_array(bytes) {
            return None;
        }
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
        let (mut answers, mut requests) = (Vec::new(), 0);
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
            tasks::spawn("message of a batch", carried(begun, outlet.clone()));
        }
        MessageBatch {
            answers,
            inlet,
            requests,
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

/// Hands on what one request of a batch brings. The stream is the whole batch's, so it does not
/// pause for one of them.
async fn carried(mut inlet: Inlet, outlet: mpsc::Sender<BatchWord>) {
    while let Some(outgoing) = inlet.recv().await {
        let is_last = matches!(outgoing, Outgoing::Last(_));
        let pauses = matches!(outgoing, Outgoing::Interrupted(_));
        let ticket = inlet.ticket();
        let word = BatchWord { outgoing, ticket };
        if (!pauses && outlet.send(word).await.is_err()) || is_last {
            return;
        }
    }
}

impl MessageBatch {
    /// The answer over HTTP: an array, if all answers come at once, else a stream with each of them.
    pub(super) async fn over_http(mut self, session: &Arc<AgentSession>) -> HttpAnswer {
        if self.requests == 0 && self.answers.is_empty() {
            return empty(StatusCode::ACCEPTED);
        }
        let mut length: usize = self.answers.iter().map(|one| one.encode().len()).sum();
        let tickets = BatchTickets::default();
        let patience = tokio::time::sleep(FIRST_WORD_TIMEOUT);
        tokio::pin!(patience);
        let first = loop {
            let word = tokio::select! {
                biased;
                word = self.inlet.recv() => word,
                () = &mut patience => break Outgoing::Comment(SseComment::default()),
            };
            let Some(BatchWord { outgoing, ticket }) = word else {
                let answer = json_text(StatusCode::OK, joined(&self.answers));
                return carrying_all(answer, CarriedAnswer::of_batch(tickets));
            };
            let Outgoing::Last(answer) = outgoing else {
                break outgoing;
            };
            length += answer.encode().len();
            self.answers.push(*answer);
            tickets.lock().push(ticket);
            if length > JOINED_ANSWER_BYTES_MAX {
                break Outgoing::Comment(SseComment::default());
            }
        };
        let carried = CarriedAnswer::once_batch_passed(tickets.clone());
        let (written, rest) = way_back();
        tasks::spawn("stream of a batch", self.streamed(length, tickets, written));
        let stream = session.feed(&first, rest);
        carrying_all(stream.read_for(carried.passed(), 0, false), carried)
    }

    /// Writes each answer as it comes, those that came before first, of so many bytes. The last of all is
    /// the stream's, unless that cannot have kept them all.
    async fn streamed(mut self, mut length: usize, tickets: BatchTickets, written: Outlet) {
        let mut messages = self.answers.len();
        for answer in std::mem::take(&mut self.answers) {
            let said = Outgoing::Message(Box::new(answer));
            if written.say(said).await.is_err() {
                return;
            }
        }
        while let Some(BatchWord { outgoing, ticket }) = self.inlet.recv().await {
            let outgoing = match outgoing {
                Outgoing::Last(answer) => {
                    length += answer.encode().len();
                    messages += 1;
                    let is_last = {
                        let mut tickets = tickets.lock();
                        tickets.push(ticket);
                        tickets.len() == self.requests
                    };
                    if is_last && length <= JOINED_ANSWER_BYTES_MAX && messages <= MAX_EVENTS_KEPT {
                        return written.answer(*answer);
                    }
                    Outgoing::Message(answer)
                }
                Outgoing::Message(said) => {
                    length += said.encode().len();
                    messages += 1;
                    Outgoing::Message(said)
                }
                said @ (Outgoing::Comment(_) | Outgoing::Interrupted(_)) => said,
            };
            if written.say(outgoing).await.is_err() {
                return;
            }
        }
    }

    /// The answer over stdio: what comes before the answers at once, they themselves as an array.
    pub(super) async fn over_stdio(self, out: mpsc::Sender<PipeLine>) {
        let Self {
            mut answers,
            mut inlet,
            ..
        } = self;
        let (mut length, mut tickets) = (0, Vec::new());
        while let Some(word) = inlet.recv().await {
            match word.outgoing {
                Outgoing::Last(answer) => {
                    length += answer.encode().len();
                    answers.push(*answer);
                    tickets.push(word.ticket);
                }
                Outgoing::Message(message) if out.send(message.encode().into()).await.is_err() => {
                    return;
                }
                Outgoing::Message(_) | Outgoing::Comment(_) | Outgoing::Interrupted(_) => {}
            }
            if length > JOINED_ANSWER_BYTES_MAX {
                length = 0;
                let line = line(&std::mem::take(&mut answers), &std::mem::take(&mut tickets));
                if out.send(line).await.is_err() {
                    return;
                }
            }
        }
        if !answers.is_empty() {
            drop(out.send(line(&answers, &tickets)).await);
        }
    }
}

/// `answers` as the line that is written, with what tells that they were.
fn line(answers: &[Message], tickets: &[AnswerTicket]) -> PipeLine {
    PipeLine {
        bytes: joined(answers),
        receipts: tickets.iter().filter_map(AnswerTicket::receipt).collect(),
    }
}

/// The answers as an array.
fn joined(answers: &[Message]) -> Bytes {
    let mut text = b"[".to_vec();
    for answer in answers {
        if text.len() > 1 {
            text.push(b',');
        }
        text.extend_from_slice(&answer.encode());
    }
    text.push(b']');
    text.into()
}
