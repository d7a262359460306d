//! A legacy event stream that can be taken up again: what was written stays until newer events push it out, and every
//! event has an id of ours (PROTOCOL §3.1).

use super::body::{Answer, BETWEEN_SIGNS, events};
use crate::mcp::message::Message;
use crate::mcp::sse::{Comment, KEEP_ALIVE, encode};
use crate::outlet::Outgoing;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// Events and bytes that one stream keeps.
const KEPT: usize = 256;
const KEPT_BYTES: usize = 4 << 20;
/// Comments that wait to be read; older ones are dropped. Each is at most as long as `mcp::sse::LONGEST_COMMENT`.
const COMMENTS: usize = 16;

/// One stream.
pub(super) struct Stream {
    pub(super) number: u64,
    written: Mutex<Written>,
    more: Notify,
}

#[derive(Default)]
struct Written {
    events: VecDeque<(u64, Bytes)>,
    bytes: usize,
    last: u64,
    done: bool,
    /// The reader is to come back later.
    interrupted: bool,
    retry_ms: Option<u64>,
    /// Rises when a newer reader takes the stream over.
    reader: u64,
    /// Comments of the server so far. They have no id and are not read again.
    signs: u64,
    /// The last of them.
    comments: VecDeque<Said>,
}

/// A comment, its number, and the event it came after.
struct Said {
    sign: u64,
    after: u64,
    comment: Comment,
}

/// How far one reader has come.
struct Place {
    after: u64,
    reader: u64,
    signs: u64,
}

impl Stream {
    pub(super) fn new(number: u64) -> Arc<Self> {
        Arc::new(Self { number, written: Mutex::default(), more: Notify::new() })
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
        let id = format!("{}-{}", self.number, written.last);
        let event = encode(Some(&id), &message.encode());
        let number = written.last;
        written.bytes += event.len();
        written.events.push_back((number, event));
        while written.events.len() > KEPT || (written.bytes > KEPT_BYTES && written.events.len() > 1) {
            if let Some((_, dropped)) = written.events.pop_front() {
                written.bytes -= dropped.len();
            }
        }
        written.done |= last;
        drop(written);
        self.more.notify_waiters();
    }

    /// The server said that it still works.
    fn sign(&self, comment: Comment) {
        let mut written = self.written.lock();
        written.signs += 1;
        let said = Said { sign: written.signs, after: written.last, comment };
        written.comments.push_back(said);
        if written.comments.len() > COMMENTS {
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

    /// Reads from after event `after`; a newer reader ends an older one, so each message goes to one.
    pub(super) fn read(self: &Arc<Self>, after: u64, prime: bool) -> Answer {
        let (reader, signs, retry_ms) = {
            let mut written = self.written.lock();
            written.reader += 1;
            written.interrupted &= prime;
            // The first reader also gets a sign that came before it could read.
            (written.reader, if written.reader == 1 { 0 } else { written.signs }, written.retry_ms)
        };
        self.more.notify_waiters();
        let retry = retry_ms.map(|retry_ms| format!("retry: {retry_ms}\n")).unwrap_or_default();
        let first = prime.then(|| Bytes::from(format!("id: {}-{after}\n{retry}data:\n\n", self.number)));
        let state = (self.clone(), Place { after, reader, signs }, first);
        events(futures_util::stream::unfold(state, |(stream, mut place, first)| async move {
            let bytes = match first {
                Some(first) => first,
                None => stream.next(&mut place).await?,
            };
            Some((bytes, (stream, place, None)))
        }))
    }

    async fn next(&self, place: &mut Place) -> Option<Bytes> {
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            {
                let written = self.written.lock();
                if written.reader != place.reader {
                    return None;
                }
                let event = written.events.iter().find(|(number, _)| *number > place.after);
                let said = written.comments.iter().find(|said| said.sign > place.signs);
                if let Some(said) = said.filter(|said| event.is_none_or(|(number, _)| said.after < *number)) {
                    place.signs = said.sign;
                    return Some(said.comment.encode());
                }
                if let Some((number, event)) = event {
                    place.after = *number;
                    return Some(event.clone());
                }
                if written.done || written.interrupted {
                    return None;
                }
            }
            if tokio::time::timeout(BETWEEN_SIGNS, more).await.is_err() {
                return Some(Bytes::from_static(KEEP_ALIVE));
            }
        }
    }
}

/// Stream and event of an event id of ours.
pub(super) fn place(id: &str) -> Option<(u64, u64)> {
    let (stream, event) = id.split_once('-')?;
    Some((stream.parse().ok()?, event.parse().ok()?))
}
