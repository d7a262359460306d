//! Reads what the server says, line by line, until it ends, breaks a bound, or says too much that
//! is no message.

use super::{AFTERMATH_TIMEOUT, ConversationShared, StdinLine};
use crate::failpoint;
use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::message::{Message, MessageKind};
use crate::upstream::Inbound;
use crate::upstream::http::read as read_message;
use crate::upstream::lines::{LineError, Lines};
use bytes::Bytes;
use futures_util::FutureExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

/// Lines in a row that are no message before the conversation ends.
const MAX_GARBAGE_LINES: u32 = 100;
/// Framing with headers is another protocol's; it would leave the reader waiting for a line end
/// (threat-model §3A A14).
const CONTENT_LENGTH_HEADER: &[u8] = b"content-length:";

/// Where messages go that belong to no request.
pub(super) struct StrayOutput {
    pub(super) unsolicited: mpsc::Sender<Inbound>,
    /// Weak, so that the server's input closes when the conversation is dropped.
    pub(super) queue: mpsc::WeakSender<StdinLine>,
}

/// Why reading stopped.
enum ReadEnd {
    /// The output ended.
    Output,
    /// Something worth saying.
    Because(String),
}

impl ConversationShared {
    pub(super) async fn read<R, E>(self: Arc<Self>, input: R, out: StrayOutput, ending: E)
    where
        R: AsyncRead + Unpin,
        E: Future<Output = String>,
    {
        let ending = ending.shared();
        let over = tokio::select! {
            biased;
            over = self.converse(input, &out) => over,
            over = self.aftermath(ending.clone()) => over,
        };
        let why = match over {
            ReadEnd::Because(why) => why,
            ReadEnd::Output => {
                let ended = tokio::time::timeout(AFTERMATH_TIMEOUT, ending).await;
                ended.unwrap_or_else(|_| "it closed its output".to_owned())
            }
        };
        self.end(why);
    }

    /// The process ended or its input broke: what it already said is still read, but not for ever.
    async fn aftermath(&self, ending: impl Future<Output = String>) -> ReadEnd {
        let why = tokio::select! {
            biased;
            why = ending => why,
            () = self.deaf.cancelled() => super::INPUT_BROKEN_MESSAGE.to_owned(),
        };
        tokio::time::sleep(AFTERMATH_TIMEOUT).await;
        ReadEnd::Because(why)
    }

    async fn converse(&self, input: impl AsyncRead + Unpin, out: &StrayOutput) -> ReadEnd {
        let (mut lines, mut garbage) = (Lines::new(input), 0);
        loop {
            let line = match lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => return ReadEnd::Output,
                Err(LineError::TooLong(_)) => {
                    return ReadEnd::Because("it sent a line longer than 4 MiB".to_owned());
                }
                Err(LineError::Read(error)) => {
                    return ReadEnd::Because(format!("reading from it failed: {error}"));
                }
            };
            let framed = line
                .get(..CONTENT_LENGTH_HEADER.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(CONTENT_LENGTH_HEADER));
            if framed {
                return ReadEnd::Because(
                    "it frames its messages with headers, which is not MCP's one message per line"
                        .to_owned(),
                );
            }
            if line.trim_ascii().is_empty() {
                self.heard.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if let Some(why) = self.take(&line, &mut garbage, out) {
                return ReadEnd::Because(why);
            }
        }
    }

    /// Gives one line or event to whom it belongs. `garbage` counts those in a row that are no
    /// message; too many are why the conversation ends.
    pub(super) fn take(
        &self,
        line: &Bytes,
        garbage: &mut u32,
        out: &StrayOutput,
    ) -> Option<String> {
        failpoint::reached("first-response-byte");
        self.heard.fetch_add(1, Ordering::Relaxed);
        if let Ok(message) = read_message(line.clone()) {
            *garbage = 0;
            self.deliver(message, out);
            return None;
        }
        *garbage += 1;
        self.routes.unreadable(line);
        let in_a_row = *garbage;
        self.too_much(in_a_row)
            .then(|| format!("it sent {in_a_row} lines in a row that are not JSON-RPC messages"))
    }

    /// Never quotes the line: it may hold anything.
    fn too_much(&self, in_a_row: u32) -> bool {
        let all = self.routes.note_garbage();
        if all.is_power_of_two() {
            tracing::warn!(server = %self.server, so_far = all, "skipped a line that is not a JSON-RPC message");
        }
        in_a_row >= MAX_GARBAGE_LINES
    }

    fn deliver(&self, message: Message, out: &StrayOutput) {
        let Some(message) = self.routes.route(message) else {
            return;
        };
        if message.odd.is_some() {
            self.routes.note_dropped();
            tracing::warn!(server = %self.server, "what it said outside its answers cannot be read alike by all");
            return turn_away(message, out, "the request cannot be read alike by all");
        }
        let Err(full) = out.unsolicited.try_send(Inbound::Message(message)) else {
            return;
        };
        self.routes.note_dropped();
        let Inbound::Message(message) = full.into_inner() else {
            return;
        };
        let busy = "too many requests wait for an answer; try again later";
        turn_away(message, out, busy);
    }
}

/// A server that waits for an answer must get one.
fn turn_away(message: Message, out: &StrayOutput, words: &str) {
    if message.kind == MessageKind::Request
        && let Some(queue) = out.queue.upgrade()
    {
        let refused = Message::error(message.id, INTERNAL_ERROR, words, None);
        let _ = queue.try_send(StdinLine::of(None, &refused));
    }
}
