//! Watches the bytes of a connection before the HTTP library reads them, for two things it does not
//! refuse itself: a line of a head that ends without a carriage return (threat-model §3B B1: two
//! readers would cut it differently), and a head that takes its time (B9). Between requests a
//! connection may be silent for longer once it is known whose it is, by one timer for all of them;
//! until then it has the time of one head in all. An answer that its agent does not read ends its
//! connection, too: after a minute, or after a moment when too much waits to be read. So do its last
//! bytes, which TLS keeps until the connection takes them.

use super::connection_limit::Guest;
use super::guest_stream::GuestStream;
use super::poll_bytes::poll_bytes;
use crate::telemetry::tasks;
use rustix::net::sockopt::set_socket_linger;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{Interval, Sleep};

/// From the first byte of a head to its last (threat-model §8).
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection of a known caller may be silent between requests (threat-model §8).
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long an answer may wait until its reader takes more of it, while too much waits in all. An
/// agent that reads at all takes something in this time …
const STALL_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// … and so many of them in any case.
const MAX_STALL_CHECKS: u32 = 60;
/// Ended connections whose last answers are looked after at once; those of others count as not read.
const MAX_LATER_LOOKS: usize = 256;
static LATER_LOOKS: Semaphore = Semaphore::const_new(MAX_LATER_LOOKS);
/// When they are looked at, each after the one before.
const LATER_LOOK_PAUSES: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];
/// Longest line that can be a `Content-Length`; longer ones are read only for their end.
const HEADER_LINE_BYTES_MAX: usize = 64;

/// A connection whose heads are watched.
pub(super) struct HeadGuard {
    connection: GuestStream,
    guest: Arc<Guest>,
    place: HeadParseState,
    in_head: bool,
    /// When the head that has begun, or the stranger, has had its time.
    head_ends: Option<Pin<Box<Sleep>>>,
    /// When it is worth a look whether a known caller has been silent for too long. It goes on through
    /// requests: each of them would need another one else.
    silence_ends: Option<Pin<Box<Sleep>>>,
    /// While the reader of an answer takes nothing.
    stalled: Option<Stalled>,
    is_closing: bool,
    /// Bytes that nobody has read had come before the answers that have ended were written.
    is_early: bool,
    /// When the last bytes of these were about to be written: a quick agent reads them before the write
    /// is over.
    writes_at: Option<Duration>,
}

struct Stalled {
    /// The first comes at once.
    looks: Pin<Box<Interval>>,
    looked: u32,
    /// What TLS had handed to the kernel when it began.
    handed_over: u64,
}

impl Stalled {
    fn new(handed_over: u64) -> Self {
        Self {
            looks: Box::pin(tokio::time::interval(STALL_CHECK_INTERVAL)),
            looked: 0,
            handed_over,
        }
    }
}

/// Where in the stream of requests the next byte is.
enum HeadParseState {
    Head {
        line: HeaderLine,
        length: u64,
        begun: bool,
    },
    Body {
        left: u64,
    },
}

const START_STATE: HeadParseState = HeadParseState::Head {
    line: HeaderLine {
        kept: [0; HEADER_LINE_BYTES_MAX],
        len: 0,
    },
    length: 0,
    begun: false,
};

/// The line that is being read, as far as it fits, and always its last byte.
struct HeaderLine {
    kept: [u8; HEADER_LINE_BYTES_MAX],
    len: usize,
}

impl HeaderLine {
    fn push(&mut self, part: &[u8]) {
        let Some(last) = part.last() else { return };
        let fits = part.len().min(HEADER_LINE_BYTES_MAX - self.len);
        self.kept[self.len..self.len + fits].copy_from_slice(&part[..fits]);
        self.len += fits;
        if fits < part.len() {
            self.kept[HEADER_LINE_BYTES_MAX - 1] = *last;
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.kept[..self.len]
    }
}

/// A line feed without a carriage return before it, or what cannot be told from one.
#[derive(Debug, PartialEq, Eq)]
struct BareLineFeed;

impl HeadParseState {
    /// Follows `bytes`; true while a head has begun and not ended. Notes when one has `ended`.
    fn follow(&mut self, mut bytes: &[u8], ended: &mut bool) -> Result<bool, BareLineFeed> {
        while !bytes.is_empty() {
            match self {
                Self::Body { left } => {
                    let skipped = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(bytes.len());
                    bytes = &bytes[skipped..];
                    *left -= skipped as u64;
                    if *left == 0 {
                        *self = START_STATE;
                    }
                }
                Self::Head {
                    line,
                    length,
                    begun,
                } => {
                    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                        line.push(bytes);
                        break;
                    };
                    line.push(&bytes[..end]);
                    bytes = &bytes[end + 1..];
                    // A length that is not kept whole cannot be followed, so it is no better than a
                    // bare line feed.
                    let cut = line.len == HEADER_LINE_BYTES_MAX
                        && line.kept[..14].eq_ignore_ascii_case(b"content-length");
                    let Some(text) = line.bytes().strip_suffix(b"\r").filter(|_| !cut) else {
                        return Err(BareLineFeed);
                    };
                    *length = length_of(text).unwrap_or(*length);
                    if text.is_empty() {
                        *ended |= *begun;
                        *self = if *length > 0 {
                            Self::Body { left: *length }
                        } else {
                            START_STATE
                        };
                    } else {
                        *begun = true;
                        line.len = 0;
                    }
                }
            }
        }
        Ok(matches!(self, Self::Head { line, begun, .. } if *begun || line.len > 0))
    }
}

fn length_of(line: &[u8]) -> Option<u64> {
    // Most lines are told by their first letter.
    line.first()
        .filter(|first| first.eq_ignore_ascii_case(&b'c'))?;
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    name.eq_ignore_ascii_case("content-length")
        .then(|| value.trim().parse().ok())?
}

impl HeadGuard {
    pub(super) fn new(connection: GuestStream, guest: Arc<Guest>) -> Self {
        let head_ends = Some(Box::pin(tokio::time::sleep(HEAD_TIMEOUT)));
        Self {
            connection,
            guest,
            place: START_STATE,
            in_head: false,
            head_ends,
            silence_ends: None,
            stalled: None,
            is_closing: false,
            is_early: false,
            writes_at: None,
        }
    }

    /// Whether the time for what is being read is over: that of a head, of a stranger, or of silence
    /// between the requests of a known caller.
    fn poll_late(&mut self, task: &mut Task<'_>) -> Poll<&'static str> {
        if !self.in_head && self.guest.is_known() {
            self.head_ends = None;
            ready!(self.poll_silent(task));
            return Poll::Ready("nothing was asked for too long");
        }
        let ends = self.head_ends.as_mut();
        ready!(ends.map_or(Poll::Pending, |ends| ends.as_mut().poll(task)));
        Poll::Ready("the head of a request took too long")
    }

    /// Whether a known caller has been silent for too long.
    fn poll_silent(&mut self, task: &mut Task<'_>) -> Poll<()> {
        let guest = &self.guest;
        let left = || IDLE_TIMEOUT.saturating_sub(guest.silent_for());
        let after = |time| Box::pin(tokio::time::sleep(time));
        let ends = self.silence_ends.get_or_insert_with(|| after(left()));
        loop {
            ready!(ends.as_mut().poll(task));
            let left = left();
            if left.is_zero() {
                return Poll::Ready(());
            }
            *ends = after(left);
        }
    }

    /// Follows what was read.
    fn follow(&mut self, bytes: &[u8]) -> Result<(), BareLineFeed> {
        let (mut ended, was_in_head) = (false, self.in_head);
        self.in_head = self.place.follow(bytes, &mut ended)?;
        if let (true, false, Some(connection)) =
            (self.in_head || ended, was_in_head, self.guest.connection())
        {
            connection.head_begins(self.guest.now());
        }
        // The next head has its own time, where the caller is known.
        if self.in_head && (self.head_ends.is_none() || ended && self.guest.is_known()) {
            self.head_ends = Some(Box::pin(tokio::time::sleep(HEAD_TIMEOUT)));
        } else if !self.in_head && self.guest.is_known() {
            self.head_ends = None;
        }
        Ok(())
    }

    /// Notes what was read of the answers, now or within a moment: what is on its way to another
    /// machine is acknowledged when it has arrived there.
    fn closes(&mut self) {
        if std::mem::replace(&mut self.is_closing, true) {
            return;
        }
        let Some(connection) = self.guest.connection() else {
            return;
        };
        if !connection.closes(self.guest.now()) {
            return;
        }
        let Ok(place) = LATER_LOOKS.try_acquire() else {
            return;
        };
        let (connection, guest) = (connection.clone(), self.guest.clone());
        tasks::spawn("last answer of a connection", async move {
            for pause in LATER_LOOK_PAUSES {
                tokio::time::sleep(pause).await;
                if !connection.closes(guest.now()) {
                    break;
                }
            }
            drop(place);
        });
    }

    /// Notes, before the end of an answer goes to the kernel, whether a request is on its way already:
    /// a quick agent may send its next one between the write and the flush.
    fn writes(&mut self) {
        let ends = self.guest.connection();
        if ends.is_some_and(|connection| connection.has_ended()) {
            self.is_early |= self.connection.has_unread();
            self.writes_at = Some(self.guest.now());
        }
    }

    /// Gives on how much of `bytes` was `written`, or that the reader has had its time.
    fn poll_written(
        &mut self,
        task: &mut Task<'_>,
        bytes: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let (held, handed) = (self.connection.held_back(), self.connection.handed_over());
        if written.is_ready() {
            // What TLS has taken, nobody need have read.
            if held == 0 && self.stalled.take().is_some() {
                self.guest.awaits(0);
            }
            return written;
        }
        self.guest.awaits(bytes + held);
        self.stalled
            .take_if(|stalled| stalled.handed_over != handed);
        let stalled = self.stalled.get_or_insert_with(|| Stalled::new(handed));
        while !self.guest.overflows() {
            ready!(stalled.looks.poll_tick(task));
            let moments = stalled.looked;
            stalled.looked += 1;
            if moments >= MAX_STALL_CHECKS || moments > 0 && self.guest.gives_way() {
                break;
            }
        }
        // What the kernel still has of the answer goes with the connection; else it would try for
        // minutes.
        let _ = set_socket_linger(&self.connection, Some(Duration::ZERO));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "nobody reads the answer",
        )))
    }
}

impl AsyncRead for HeadGuard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match poll_bytes(&mut self.connection, task, buffer) {
            Poll::Pending => {
                let late = ready!(self.poll_late(task));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, late)))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(bytes)) => Poll::Ready(self.follow(bytes).map_err(|BareLineFeed| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a line of a request's head ends without a carriage return",
                )
            })),
        }
    }
}

impl AsyncWrite for HeadGuard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes();
        let written = Pin::new(&mut self.connection).poll_write(task, bytes);
        self.poll_written(task, bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writes();
        let written = Pin::new(&mut self.connection).poll_write_vectored(task, bytes);
        self.poll_written(task, bytes.iter().map(|part| part.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        // Behind TLS what counts as written may wait still, and goes to the kernel now only.
        if self.connection.held_back() > 0 {
            self.writes();
        }
        let is_early = self.is_early;
        let flushed = Pin::new(&mut self.connection).poll_flush(task);
        if let (Poll::Ready(Ok(())), Some(connection)) = (&flushed, self.guest.connection())
            && connection.has_ended()
        {
            let at = self.writes_at.unwrap_or_else(|| self.guest.now());
            connection.flushed(at, is_early);
            (self.is_early, self.writes_at) = (false, None);
        }
        self.poll_written(task, 0, flushed.map_ok(|()| 0))
            .map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        // Before the end of the stream leaves, which counts as a byte that is not acknowledged.
        self.closes();
        let shut = Pin::new(&mut self.connection).poll_shutdown(task);
        self.poll_written(task, 0, shut.map_ok(|()| 0)).map_ok(drop)
    }
}

impl Drop for HeadGuard {
    fn drop(&mut self) {
        self.closes();
    }
}

#[cfg(test)]
mod tests;
