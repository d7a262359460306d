//! How a batch of 2025-03-26 is answered: all answers in one array, as they come on a stream, or in a
//! line of a pipe (protocol §3.7).

use super::body::{HttpAnswer, empty, json_text};
use super::carried_answer::{BatchTickets, CarriedAnswer, carrying_all};
use super::patience::FIRST_WORD_TIMEOUT;
use super::pipe_line::PipeLine;
use super::session::AgentSession;
use super::stream::MAX_EVENTS_KEPT;
use crate::mcp::message::Message;
use crate::mcp::sse::SseComment;
use crate::outlet::{AnswerTicket, Inlet, Outgoing, Outlet, UnreadMark, way_back};
use crate::telemetry::tasks;
use bytes::Bytes;
use http::StatusCode;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Longest array of answers, in bytes; what goes beyond it is said on a stream, or in another array.
const JOINED_ANSWER_BYTES_MAX: usize = 4 << 20;

/// A batch under way.
pub(super) struct MessageBatch {
    /// What is answered at once: elements that were refused unread.
    pub(super) answers: Vec<Message>,
    /// What its requests bring; it ends when all are answered.
    pub(super) inlet: mpsc::Receiver<BatchWord>,
    /// How many requests there are, of which each is answered.
    pub(super) requests: usize,
    /// For each of them, whether anybody reads.
    pub(super) marks: Vec<UnreadMark>,
}

/// What one request of a batch brings, and whose answer it is if it is one.
pub(super) struct BatchWord {
    outgoing: Outgoing,
    ticket: AnswerTicket,
}

/// Hands on what one request of a batch brings. The stream is the whole batch's, so it does not
/// pause for one of them. Where nobody is left who reads the batch, the request is told so.
pub(super) async fn carried(mut inlet: Inlet, outlet: mpsc::Sender<BatchWord>) {
    loop {
        let outgoing = tokio::select! {
            biased;
            outgoing = inlet.recv() => outgoing,
            () = outlet.closed() => return,
        };
        let Some(outgoing) = outgoing else { return };
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
        let marks = std::mem::take(&mut self.marks);
        tasks::spawn("stream of a batch", self.streamed(length, tickets, written));
        let stream = session.feed(&first, rest, marks);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// An agent that hangs up on a batch before its stream has begun has hung up on each of its requests, though nothing is
    /// said of them.
    #[tokio::test(start_paused = true)]
    async fn who_hangs_up_on_a_batch_hangs_up_on_each_request() {
        let ((outlet, inlet), (words, batch)) = (way_back(), mpsc::channel(1));
        let hands_on = tasks::spawn("message of a batch", carried(inlet, words));
        let waits = tokio::time::timeout(Duration::from_hours(1), outlet.closed());
        assert!(waits.await.is_err(), "it waits");
        drop(batch);
        let waits = tokio::time::timeout(Duration::from_secs(1), outlet.closed());
        assert!(waits.await.is_ok(), "it has gone");
        hands_on.await.unwrap();
    }
}
