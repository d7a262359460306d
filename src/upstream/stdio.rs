//! The conversation with a tool server on its standard input and output: one message, one line, ids
//! of ours.
//!
//! Two tasks: one writes lines in the order they were queued, one reads and gives every message to
//! whom it belongs (`routes.rs`). Neither waits for an agent: an inbox that is full loses
//! notifications, never its answer.

use super::departure::Departure;
use super::{Inbox, UnsolicitedReceiver};
use crate::failpoint;
use crate::mcp::bridge::LOG_LEVEL_META_KEY;
use crate::mcp::message::Message;
use crate::model::ids::{ActionId, ServerName};
use crate::model::reply::{Fault, Sent};
use crate::telemetry::tasks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

mod http_sse;
mod reader;
mod routes;

use reader::StrayOutput;
use routes::Routes;

pub use routes::DropCounts;

/// How long answers may still arrive once the process ended or its input broke, and how long the
/// process may take to end once its output did.
const AFTERMATH_TIMEOUT: Duration = Duration::from_secs(1);

/// Actions in flight that are named in the log when a server ends.
const MAX_LOST_CALLS_TOLD: usize = 16;

/// Said of a server whose input broke.
const INPUT_BROKEN_MESSAGE: &str = "it does not read its input any more";

/// A conversation. Dropping it closes the server's input; what is in flight is still answered until
/// its output ends.
#[derive(Debug)]
pub struct Conversation {
    queue: mpsc::Sender<StdinLine>,
    shared: Arc<ConversationShared>,
    /// Over HTTP+SSE: ends the stream with the conversation.
    over_http: Option<DropGuard>,
}

/// A conversation whose two tasks have not begun.
struct Opened {
    conversation: Conversation,
    lines: mpsc::Receiver<StdinLine>,
    out: StrayOutput,
    unsolicited: UnsolicitedReceiver,
}

/// What both tasks and the conversation know.
#[derive(Debug)]
struct ConversationShared {
    server: ServerName,
    routes: Routes,
    /// Nothing more is written: closed by us, or writing failed.
    silent: CancellationToken,
    /// Writing failed.
    deaf: CancellationToken,
    /// Lines that came.
    heard: AtomicU64,
    /// Why it is over, once it is.
    over: watch::Sender<Option<String>>,
    /// toolgate has ended it.
    is_closed: AtomicBool,
}

/// One line to write.
#[derive(Debug)]
struct StdinLine {
    /// The request it is; none for notifications and responses.
    id: Option<u64>,
    bytes: Vec<u8>,
    /// Whether it may leave still; none when nobody takes it back.
    departure: Option<Departure>,
    /// Headers besides, over HTTP.
    headers: Vec<(String, String)>,
}

/// A request that has its id and its inbox, and a place in the queue that nobody else can take.
/// Dropping it sends nothing.
#[derive(Debug)]
pub struct Ready {
    place: mpsc::OwnedPermit<StdinLine>,
    line: StdinLine,
}

impl Conversation {
    /// Starts a conversation over `input` (what the server says) and `output` (what it hears),
    /// inside the runtime.
    ///
    /// `ending` is done when the process has ended, and says how in words such as "it exited with
    /// status 1"; a caller without a process gives `std::future::pending()`.
    /// What belongs to no request of ours arrives at the receiver: other notifications, and
    /// requests of the server, which must be answered by [`Self::notify`].
    pub fn start<R, W, E>(
        server: &ServerName,
        input: R,
        output: W,
        ending: E,
    ) -> (Self, UnsolicitedReceiver)
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
        E: Future<Output = String> + Send + 'static,
    {
        let Opened {
            conversation,
            lines,
            out,
            unsolicited,
        } = Self::open(server);
        let shared = &conversation.shared;
        tasks::spawn("stdio_write", Arc::clone(shared).write(output, lines));
        tasks::spawn("stdio_read", Arc::clone(shared).read(input, out, ending));
        (conversation, unsolicited)
    }

    fn open(server: &ServerName) -> Opened {
        let (queue, lines) = mpsc::channel(super::INBOX_MESSAGES_MAX);
        let (says, unsolicited) = mpsc::channel(super::INBOX_MESSAGES_MAX);
        let shared = Arc::new(ConversationShared {
            server: server.clone(),
            routes: Routes::new(server),
            silent: CancellationToken::new(),
            deaf: CancellationToken::new(),
            heard: AtomicU64::new(0),
            over: watch::channel(None).0,
            is_closed: AtomicBool::new(false),
        });
        let out = StrayOutput {
            unsolicited: says,
            queue: queue.downgrade(),
        };
        let conversation = Self {
            queue,
            shared,
            over_http: None,
        };
        Opened {
            conversation,
            lines,
            out,
            unsolicited,
        }
    }

    /// Queues a request under an id of ours, which it returns with the inbox that its answer ends.
    /// A progress token is replaced by one of ours, and comes back as it was. What breaks later
    /// arrives in the inbox as a fault that says whether a byte may have left. If this future
    /// is dropped before it completes, nothing was sent.
    pub async fn request(&self, message: Message) -> Result<(u64, Inbox), Fault> {
        let logs = message.meta(LOG_LEVEL_META_KEY).is_some();
        let (id, inbox, ready) = self.ready(message, logs, 0).await?;
        ready.queue();
        Ok((id, inbox))
    }

    /// As [`Self::request`], but the request is not queued yet. `logs`: log messages of the server
    /// are for it, where it is the only one. `user`: whose request it is, of those who share the
    /// conversation; 0 for toolgate's own.
    pub async fn ready(
        &self,
        message: Message,
        logs: bool,
        user: u64,
    ) -> Result<(u64, Inbox, Ready), Fault> {
        let Ok(place) = self.queue.clone().reserve_owned().await else {
            return Err(self.shared.routes.refusal());
        };
        let (id, message, inbox) = self.shared.routes.register(message, logs, user)?;
        Ok((
            id,
            inbox,
            Ready {
                place,
                line: StdinLine::of(Some(id), &message),
            },
        ))
    }

    /// Queues a notification, or a response to a request of the server, as it stands.
    pub async fn notify(&self, message: Message) -> Result<(), Fault> {
        match self.queue.send(StdinLine::of(None, &message)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.shared.routes.refusal()),
        }
    }

    /// Gives a request up: a late answer is dropped and counted. Says whether a byte of it may have
    /// left; a request that still waited in the queue is never written. Telling the server is
    /// the caller's part (`notifications/cancelled`).
    pub fn forget(&self, id: u64) -> Sent {
        self.shared.routes.forget(id)
    }

    /// Whose requests the server may be at, if they are all of one of those who share the
    /// conversation.
    pub(crate) fn only_user(&self) -> Option<u64> {
        self.shared.routes.only_user()
    }

    /// Whether an answer is waited for.
    pub(crate) fn is_busy(&self) -> bool {
        !self.shared.routes.is_idle()
    }

    /// Closes the server's input. What is in flight may still be answered; what was not written yet
    /// fails as unsent.
    pub fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.hush("the conversation was closed");
    }

    /// Waits until the conversation is over, and says why. Everything in flight has its fault by
    /// then.
    pub async fn closed(&self) -> String {
        let mut over = self.shared.over.subscribe();
        over.wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|over| over.clone())
            .unwrap_or_default()
    }

    /// Whether the conversation is over, or nothing more can be sent in it.
    pub fn is_over(&self) -> bool {
        self.shared.silent.is_cancelled() || self.shared.over.borrow().is_some()
    }

    /// Whose conversation it is.
    pub fn server(&self) -> &ServerName {
        &self.shared.server
    }

    /// How many lines the server has said so far.
    pub fn lines_heard(&self) -> u64 {
        self.shared.heard.load(Ordering::Relaxed)
    }

    /// What was dropped so far.
    pub fn counts(&self) -> DropCounts {
        self.shared.routes.counts()
    }
}

impl Ready {
    /// From now on it leaves only if `departure` lets it.
    pub fn departs_by(&mut self, departure: Departure) {
        self.line.departure = Some(departure);
    }

    /// It carries these headers, where it travels over HTTP.
    pub fn carries(&mut self, headers: Vec<(String, String)>) {
        self.line.headers = headers;
    }

    /// Queues the request.
    pub fn queue(self) {
        self.place.send(self.line);
    }
}

impl StdinLine {
    fn of(id: Option<u64>, message: &Message) -> Self {
        let mut bytes = Vec::from(message.encode());
        bytes.push(b'\n');
        Self {
            id,
            bytes,
            departure: None,
            headers: Vec::new(),
        }
    }
}

impl ConversationShared {
    /// Nothing is written any more. What was not written is told that nothing left.
    fn hush(&self, why: &str) {
        self.routes.hush(why);
        self.silent.cancel();
    }

    /// It is over: everything in flight gets its fault.
    fn end(&self, why: String) {
        self.tell_lost_calls(&why);
        self.hush(&why);
        self.routes.end(&why);
        tracing::debug!(server = %self.server, why, "the conversation is over");
        self.over.send_replace(Some(why));
    }

    /// Says in the log which calls are lost with the server.
    fn tell_lost_calls(&self, why: &str) {
        let (in_flight, actions) = self.routes.in_flight();
        if in_flight == 0 || self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let shown = actions
            .iter()
            .take(MAX_LOST_CALLS_TOLD)
            .map(ActionId::to_string);
        let unknown = shown.collect::<Vec<_>>().join(", ");
        let server = &self.server;
        if actions.is_empty() {
            tracing::warn!(%server, why, in_flight, "a tool server ended with requests in flight; what they asked for may have been done");
        } else {
            tracing::warn!(%server, why, in_flight, unknown_actions = actions.len(), actions = unknown, "a tool server ended with calls in flight: outcome unknown");
        }
    }

    async fn write<W: AsyncWrite + Unpin>(
        self: Arc<Self>,
        mut output: W,
        mut lines: mpsc::Receiver<StdinLine>,
    ) {
        loop {
            let line = tokio::select! {
                biased;
                () = self.silent.cancelled() => return,
                line = lines.recv() => line,
            };
            let Some(line) = line else { return };
            // Given up while it waited: it never leaves. What begins to leave does so in whole,
            // also when the agent no longer waits for it: half a line would be read as
            // one with the next.
            let is_taken_back = || {
                line.departure
                    .as_ref()
                    .is_some_and(|departure| departure.leaves().is_err())
            };
            let action = line.departure.as_ref().and_then(Departure::action);
            if line.id.is_some_and(|id| !self.routes.begin(id, action)) || is_taken_back() {
                continue;
            }
            let mut written = 0;
            let outcome = tokio::select! {
                biased;
                outcome = put(&mut output, &line.bytes, &mut written) => outcome,
                () = self.silent.cancelled() => return,
            };
            if let Err(error) = outcome {
                if let Some(id) = line.id {
                    let sent = if written == 0 {
                        Sent::Nothing
                    } else {
                        Sent::Maybe
                    };
                    self.routes
                        .fail(id, &format!("writing to it failed: {error}"), sent);
                }
                self.hush(INPUT_BROKEN_MESSAGE);
                return self.deaf.cancel();
            }
            failpoint::reached("after-send");
        }
    }
}

/// Writes all of `bytes`, and counts what left.
async fn put<W: AsyncWrite + Unpin>(
    output: &mut W,
    bytes: &[u8],
    written: &mut usize,
) -> std::io::Result<()> {
    while *written < bytes.len() {
        let end = failpoint::half(*written, bytes.len());
        match output.write(&bytes[*written..end]).await? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            count => *written += count,
        }
        if *written < bytes.len() {
            failpoint::reached("mid-send");
        }
    }
    output.flush().await
}

#[cfg(test)]
mod tests;
