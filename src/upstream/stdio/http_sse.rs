//! The same conversation over HTTP+SSE of 2024-11-05 (protocol §3.5): what the server says comes on
//! one event stream, which is the session; what it hears goes by POST to the address that the stream
//! names.

use super::reader::StrayOutput;
use super::{Conversation, ConversationShared, Opened, StdinLine};
use crate::mcp::sse::{Framer, SseBlock, SseEvent};
use crate::model::ids::ServerName;
use crate::model::reply::{Fault, Sent};
use crate::telemetry::tasks;
use crate::upstream::UnsolicitedReceiver;
use crate::upstream::http::{Arriving, ServerEndpoint, Wire};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long a server may take to open its stream and to say where messages go.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages that are on their way to the server at once; further ones wait in the queue.
const POSTS_AT_ONCE: usize = 256;
/// How long the server may take to say that it has a message. The answer to a request comes on the
/// stream, however that went.
const REQUEST_POST_TIMEOUT: Duration = Duration::from_mins(10);
const NOTE_POST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the answer to a request is still waited for, after the server has refused to say that it
/// has it: some say so and answer all the same.
const REFUSED_ANSWER_GRACE: Duration = Duration::from_secs(1);

const CLOSED_MESSAGE: &str = "the conversation was closed";

/// The stream of a session.
struct SessionEvents {
    body: Arriving,
    framer: Framer,
}

impl Conversation {
    /// Opens the stream at `endpoint` and waits for the address to POST to. None: no stream is
    /// offered there.
    pub(crate) async fn over_events(
        server: &ServerName,
        endpoint: &ServerEndpoint,
    ) -> Result<Option<(Self, UnsolicitedReceiver)>, Fault> {
        let opening = tokio::time::timeout(ENDPOINT_TIMEOUT, SessionEvents::open(endpoint)).await;
        let opened = opening.map_err(|_| {
            Fault::after_sending("no `endpoint` event came in time on the event stream")
        })??;
        let Some((events, said)) = opened else {
            return Ok(None);
        };
        let posts = endpoint.beside(&said)?;
        let Opened {
            mut conversation,
            lines,
            out,
            unsolicited,
        } = Self::open(server);
        let (shared, dropped) = (&conversation.shared, CancellationToken::new());
        tasks::spawn("sse_post", Arc::clone(shared).post_lines(posts, lines));
        let reads = Arc::clone(shared).read_events(events, out, dropped.clone());
        tasks::spawn("sse_read", reads);
        conversation.over_http = Some(dropped.drop_guard());
        Ok(Some((conversation, unsolicited)))
    }

    /// Whether no process is behind it, but a session over HTTP.
    pub(crate) fn is_over_http(&self) -> bool {
        self.over_http.is_some()
    }
}

impl SessionEvents {
    /// The stream, and what its first event says; none if no stream begins with such an event.
    async fn open(endpoint: &ServerEndpoint) -> Result<Option<(Self, String)>, Fault> {
        let response = endpoint.get(&Wire::default(), None).await?;
        if response.status() != StatusCode::OK || !is_event_stream(response.headers()) {
            return Ok(None);
        }
        let mut events = Self {
            body: response.into_body(),
            framer: Framer::default(),
        };
        while let Some(event) = events.next().await? {
            if event.name == "endpoint" {
                let said = String::from_utf8(event.data.to_vec());
                let odd = |_| Fault::after_sending("the `endpoint` event is not text");
                return Ok(Some((events, said.map_err(odd)?)));
            }
        }
        Ok(None)
    }

    /// The next event; none at the end of the stream. May be given up and begun again.
    async fn next(&mut self) -> Result<Option<SseEvent>, Fault> {
        loop {
            match self.framer.next_block() {
                Some(SseBlock::Event(event)) => return Ok(Some(event)),
                Some(SseBlock::Comment(_)) => continue,
                None => {}
            }
            let Some(Ok(frame)) = self.body.frame().await else {
                return Ok(None);
            };
            if let Some(bytes) = frame.data_ref() {
                let pushed = self.framer.push(bytes);
                pushed.map_err(|error| Fault::after_sending(error.to_string()))?;
            }
        }
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("text/event-stream") && !headers.contains_key(CONTENT_ENCODING)
}

impl ConversationShared {
    /// Reads the stream until it ends, breaks a bound, or nobody needs it.
    async fn read_events(
        self: Arc<Self>,
        mut events: SessionEvents,
        out: StrayOutput,
        dropped: CancellationToken,
    ) {
        let why = tokio::select! {
            biased;
            why = self.hear(&mut events, &out) => why,
            () = dropped.cancelled() => CLOSED_MESSAGE.to_owned(),
        };
        drop(events);
        self.end(why);
    }

    /// Says why it stopped.
    async fn hear(&self, events: &mut SessionEvents, out: &StrayOutput) -> String {
        let mut garbage = 0;
        loop {
            // Nothing more is sent: what is in flight is still answered.
            if self.silent.is_cancelled() && self.routes.is_idle() {
                return CLOSED_MESSAGE.to_owned();
            }
            let next = tokio::select! {
                biased;
                next = events.next() => next,
                () = self.silent.cancelled(), if !self.silent.is_cancelled() => continue,
            };
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => return "its event stream ended".to_owned(),
                Err(fault) => return fault.what,
            };
            let is_message = matches!(event.name.as_str(), "" | "message");
            if !is_message || event.data.is_empty() {
                continue;
            }
            if let Some(why) = self.take(&event.data, &mut garbage, out) {
                return why;
            }
        }
    }

    /// POSTs what is queued. Requests go side by side; a notification or an answer has arrived
    /// before the next message leaves.
    async fn post_lines(
        self: Arc<Self>,
        endpoint: ServerEndpoint,
        mut lines: mpsc::Receiver<StdinLine>,
    ) {
        let mut under_way = FuturesUnordered::<BoxFuture<'_, bool>>::new();
        // Whether others wait behind one that is under way.
        let mut in_order = false;
        loop {
            let takes = !in_order && under_way.len() < POSTS_AT_ONCE;
            let line = tokio::select! {
                biased;
                () = self.silent.cancelled() => break,
                Some(is_note) = under_way.next() => {
                    in_order &= !is_note;
                    continue;
                }
                line = lines.recv(), if takes => line,
            };
            let Some(line) = line else { break };
            if line.id.is_some_and(|id| !self.routes.begin(id, None)) {
                continue;
            }
            in_order = line.id.is_none();
            under_way.push(self.post(&endpoint, line).boxed());
        }
        while under_way.next().await.is_some() {}
    }

    /// POSTs one message, once; true for one that others wait behind. That it was accepted says
    /// nothing, and that no answer came to the POST neither: its answer comes on the stream.
    async fn post(&self, endpoint: &ServerEndpoint, line: StdinLine) -> bool {
        let is_note = line.id.is_none();
        let wire = Wire {
            params: line.headers,
            departure: line.departure,
            ..Wire::default()
        };
        let patience = if is_note {
            NOTE_POST_TIMEOUT
        } else {
            REQUEST_POST_TIMEOUT
        };
        let posting = endpoint.post_bytes(line.bytes.into(), &wire);
        match tokio::time::timeout(patience, posting).await {
            Ok(Ok(response)) if response.status().is_success() => {}
            Ok(Ok(response)) => {
                let status = response.status();
                drop(response);
                self.refused(line.id, status).await;
            }
            Ok(Err(fault)) if fault.sent == Sent::Nothing => self.failed(line.id, &fault),
            Ok(Err(fault)) => {
                tracing::debug!(server = %self.server, %fault, "a message may have reached the tool server");
            }
            Err(_) => {
                tracing::debug!(server = %self.server, ?patience, "the tool server did not say that it has a message");
            }
        }
        is_note
    }

    /// A status is no proof (guarantees §4): an answer that comes on the stream all the same is one.
    /// Where it says that the session is gone, nothing more is sent in it, and nothing will come.
    async fn refused(&self, id: Option<u64>, status: StatusCode) {
        let words = format!("the tool server answered with HTTP {status}");
        let fault = Fault {
            status: Some(status.as_u16()),
            ..Fault::after_sending(words)
        };
        let is_gone = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
        if id.is_some() && !is_gone {
            tokio::time::sleep(REFUSED_ANSWER_GRACE).await;
        }
        self.failed(id, &fault);
        if is_gone {
            self.hush("the tool server no longer knows the session");
        }
    }

    fn failed(&self, id: Option<u64>, fault: &Fault) {
        match id {
            Some(id) => self.routes.break_off(id, fault),
            None => {
                tracing::debug!(server = %self.server, %fault, "a message did not reach the tool server");
            }
        }
    }
}
