//! A legacy event stream that can be taken up again: what was written stays until newer events push
//! it out, here or on the shelf that all streams share, and every event has an id of ours
//! (protocol §3.1). Progress that was forgotten is skipped; in place of an answer that was
//! forgotten stands an error that says so, so that nobody waits for it.

use super::body::{HttpAnswer, KEEPALIVE_INTERVAL, events};
use super::replay_budget::{EventKeeper, SharedReplayBudget};
use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::sse::{KEEP_ALIVE_COMMENT, SseComment, encode};
use crate::outlet::{Outgoing, UnreadMark};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Events and bytes that one stream keeps.
pub(super) const MAX_EVENTS_KEPT: usize = 256;
const EVENT_BYTES_MAX: usize = 4 << 20;
/// Comments that wait to be read; older ones are dropped. Each is at most as long as
/// `mcp::sse::MAX_SSE_COMMENT_BYTES`.
const MAX_COMMENTS_KEPT: usize = 16;
/// How long an agent whose stream broke is waited for before it counts as one that has hung up: what
/// waits for a person or its turn then does not begin for nobody.
const RETURN_GRACE: Duration = Duration::from_secs(30);
/// What an agent reads in place of an answer that was forgotten.
const ANSWER_FORGOTTEN_MESSAGE: &str = "the answer is no longer kept: the request was carried out, and what it said is lost; do not \
                         repeat what changes something before you know what became of it";

/// One stream.
pub(super) struct EventStream {
    pub(super) number: u64,
    written: Mutex<StreamBuffer>,
    more: Notify,
    /// How many connections read it: one, or none, and two while a newer one takes it over.
    readers: watch::Sender<usize>,
    shelf: SharedReplayBudget,
    this: Weak<Self>,
}

/// A connection that reads a stream; dropped with it.
struct StreamReader(Arc<EventStream>);

impl StreamReader {
    fn of(stream: &Arc<EventStream>) -> Self {
        stream.readers.send_modify(|readers| *readers += 1);
        Self(stream.clone())
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.0.readers.send_modify(|readers| *readers -= 1);
    }
}

/// One event.
struct StreamEvent {
    number: u64,
    bytes: Bytes,
    /// Under which the shelf counts it.
    ticket: u64,
}

#[derive(Default)]
struct StreamBuffer {
    events: VecDeque<StreamEvent>,
    bytes: usize,
    last: u64,
    done: bool,
    /// The number of the answer, and the id of the request.
    answer: Option<(u64, Option<Text>)>,
    /// The reader is to come back later.
    interrupted: bool,
    retry_ms: Option<u64>,
    /// Rises when a newer reader takes the stream over.
    reader: u64,
    /// Comments of the server so far. They have no id and are not read again.
    signs: u64,
    /// The last of them.
    comments: VecDeque<KeptComment>,
}

/// A comment, its number, and the event it came after.
struct KeptComment {
    sign: u64,
    after: u64,
    comment: SseComment,
}

/// How far one reader has come.
struct ReaderPosition {
    after: u64,
    reader: u64,
    signs: u64,
    /// Set when the answer is read, and all before it.
    passed: Option<Arc<AtomicBool>>,
    /// Was something forgotten before it was read here?
    has_hole: bool,
}

impl EventStream {
    pub(super) fn new(number: u64, shelf: &SharedReplayBudget) -> Arc<Self> {
        let (written, more, shelf) = (Mutex::default(), Notify::new(), shelf.clone());
        Arc::new_cyclic(|this| Self {
            number,
            written,
            more,
            readers: watch::Sender::new(0),
            shelf,
            this: this.clone(),
        })
    }

    /// Writes what a request's way back brings.
    pub(super) fn take(&self, outgoing: &Outgoing) {
        match outgoing {
            Outgoing::Comment(comment) => self.sign(comment.clone()),
            Outgoing::Message(message) => self.write(message, false),
            Outgoing::Last(message) => self.write(message, true),
            Outgoing::Interrupted(retry_ms) => {
                let mut written = self.written.lock();
                written.interrupted = true;
                written.retry_ms = Some(*retry_ms);
                drop(written);
                self.more.notify_waiters();
            }
        }
    }

    /// Writes a message; the last one ends the stream.
    pub(super) fn write(&self, message: &Message, last: bool) {
        let mut written = self.written.lock();
        written.last += 1;
        let number = written.last;
        let bytes = self.event(number, message);
        let ticket = self.shelf.put(bytes.len(), self.this.clone());
        written.bytes += bytes.len();
        written.events.push_back(StreamEvent {
            number,
            bytes,
            ticket,
        });
        while written.events.len() > MAX_EVENTS_KEPT
            || (written.bytes > EVENT_BYTES_MAX && written.events.len() > 1)
        {
            if let Some(dropped) = written.events.pop_front() {
                written.bytes -= dropped.bytes.len();
                self.shelf.give_back(dropped.ticket);
            }
        }
        written.done |= last;
        if last {
            written.answer = Some((number, message.id.clone()));
        }
        drop(written);
        self.more.notify_waiters();
        self.shelf.clear();
    }

    fn event(&self, number: u64, message: &Message) -> Bytes {
        encode(
            Some(&format!("{}-{number}", self.number)),
            &message.encode(),
        )
    }

    /// The server said that it still works.
    fn sign(&self, comment: SseComment) {
        let mut written = self.written.lock();
        written.signs += 1;
        let said = KeptComment {
            sign: written.signs,
            after: written.last,
            comment,
        };
        written.comments.push_back(said);
        if written.comments.len() > MAX_COMMENTS_KEPT {
            written.comments.pop_front();
        }
        drop(written);
        self.more.notify_waiters();
    }

    /// Nothing more will be written.
    pub(super) fn end(&self) {
        self.written.lock().done = true;
        self.more.notify_waiters();
    }

    pub(super) fn is_done(&self) -> bool {
        self.written.lock().done
    }

    /// Says, from now on, once nobody has read for `RETURN_GRACE`, and when the agent does again.
    pub(super) async fn marks_unread(&self, marks: &[UnreadMark]) -> Infallible {
        let say = |unread| marks.iter().for_each(|mark| mark.set(unread));
        let mut readers = self.readers.subscribe();
        loop {
            // It cannot be closed: this is the stream that has it.
            let _ = readers.wait_for(|readers| *readers == 0).await;
            let returned = readers.wait_for(|readers| *readers > 0);
            if tokio::time::timeout(RETURN_GRACE, returned).await.is_err() {
                say(Some(RETURN_GRACE));
                let _ = readers.wait_for(|readers| *readers > 0).await;
                say(None);
            }
        }
    }

    /// Reads from after event `after`; a newer reader ends an older one, so each message goes to
    /// one.
    pub(super) fn read(self: &Arc<Self>, after: u64, prime: bool) -> HttpAnswer {
        self.read_as(None, after, prime)
    }

    /// The same; sets `passed` when the answer is read here.
    pub(super) fn read_for(
        self: &Arc<Self>,
        passed: Arc<AtomicBool>,
        after: u64,
        prime: bool,
    ) -> HttpAnswer {
        self.read_as(Some(passed), after, prime)
    }

    fn read_as(
        self: &Arc<Self>,
        passed: Option<Arc<AtomicBool>>,
        after: u64,
        prime: bool,
    ) -> HttpAnswer {
        let (reader, signs, retry_ms) = {
            let mut written = self.written.lock();
            written.reader += 1;
            written.interrupted &= prime;
            // The first reader also gets a sign that came before it could read.
            (
                written.reader,
                if written.reader == 1 {
                    0
                } else {
                    written.signs
                },
                written.retry_ms,
            )
        };
        self.more.notify_waiters();
        let retry = retry_ms
            .map(|retry_ms| format!("retry: {retry_ms}\n"))
            .unwrap_or_default();
        let first =
            prime.then(|| Bytes::from(format!("id: {}-{after}\n{retry}data:\n\n", self.number)));
        let state = (
            StreamReader::of(self),
            ReaderPosition {
                after,
                reader,
                signs,
                passed,
                has_hole: false,
            },
            first,
        );
        events(futures_util::stream::unfold(
            state,
            |(reader, mut place, first)| async move {
                let bytes = match first {
                    Some(first) => first,
                    None => reader.0.next(&mut place).await?,
                };
                Some((bytes, (reader, place, None)))
            },
        ))
    }

    async fn next(&self, place: &mut ReaderPosition) -> Option<Bytes> {
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            {
                let written = self.written.lock();
                if written.reader != place.reader {
                    return None;
                }
                let event = written
                    .events
                    .iter()
                    .find(|event| event.number > place.after);
                let said = written.comments.iter().find(|said| said.sign > place.signs);
                if let Some(said) =
                    said.filter(|said| event.is_none_or(|event| said.after < event.number))
                {
                    place.signs = said.sign;
                    return Some(said.comment.encode());
                }
                if let Some(event) = event {
                    // What was forgotten before it was read makes a hole: then not all has been read.
                    place.has_hole |= event.number != place.after + 1;
                    place.after = event.number;
                    let answer = written.answer.as_ref().map(|(number, _)| *number);
                    // What stands in place of an answer that was forgotten is none.
                    let is_answer = answer == Some(event.number) && event.ticket > 0;
                    if let (Some(passed), true) = (&place.passed, is_answer && !place.has_hole) {
                        passed.store(true, Ordering::Release);
                    }
                    return Some(event.bytes.clone());
                }
                if written.done || written.interrupted {
                    return None;
                }
            }
            if tokio::time::timeout(KEEPALIVE_INTERVAL, more)
                .await
                .is_err()
            {
                return Some(Bytes::from_static(KEEP_ALIVE_COMMENT));
            }
        }
    }
}

impl EventKeeper for EventStream {
    fn forget(&self, ticket: u64) {
        let mut written = self.written.lock();
        // The oldest of all is the oldest here, unless newer events have pushed it out meanwhile.
        let Some(forgotten) = written.events.pop_front_if(|event| event.ticket == ticket) else {
            return;
        };
        written.bytes -= forgotten.bytes.len();
        let Some((number, id)) = written
            .answer
            .clone()
            .filter(|(number, _)| *number == forgotten.number)
        else {
            return;
        };
        // Small, and at most one a stream: it needs no place on the shelf.
        let bytes = self.event(
            number,
            &Message::error(id, INTERNAL_ERROR, ANSWER_FORGOTTEN_MESSAGE, None),
        );
        written.bytes += bytes.len();
        written.events.push_back(StreamEvent {
            number,
            bytes,
            ticket: 0,
        });
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        for event in &self.written.get_mut().events {
            self.shelf.give_back(event.ticket);
        }
    }
}

/// Stream and event of an event id of ours.
pub(super) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, event) = id.split_once('-')?;
    Some((stream.parse().ok()?, event.parse().ok()?))
}

#[cfg(test)]
mod tests;
