//! One POST and what answers it: JSON, or an event stream, that a legacy server may take up again.

use super::super::Inbound;
use super::{Arriving, ServerEndpoint, Wire};
use crate::failpoint;
use crate::mcp::envelope::answered;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::members::of_server;
use crate::mcp::message::{Message, MessageKind, Oddity};
use crate::mcp::revision::Era;
use crate::mcp::scrub;
use crate::mcp::sse::{Framer, SseBlock};
use crate::model::reply::Fault;
use crate::telemetry::tasks::heavy;
use crate::upstream::departure::Departure;
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body as _;

/// How long a broken-off event stream is waited for, unless the server says (protocol §3.1).
const DEFAULT_RETRY_MS: u64 = 500;
const MAX_RETRY_MS: u64 = 30_000;
/// Longest part of an answer that is copied for being short, in bytes.
const COPIED_PART_BYTES_MAX: usize = 4 << 10;
/// Room that is made for the rest of an answer before it is there, in bytes: a server's word for
/// its length is only a word.
const PREALLOCATED_BYTES_MAX: usize = 1 << 20;
/// How often one exchange is taken up again.
const MAX_RESUMPTIONS: u32 = 20;

/// What is said of bytes that are no JSON, before why.
const UNREADABLE_PREFIX: &str = "the tool server sent unreadable JSON: ";

/// One request on HTTP, until its answer.
#[derive(Debug)]
pub struct HttpExchange {
    id: Text,
    endpoint: ServerEndpoint,
    wire: Wire,
    source: ReplySource,
    /// The status that it was answered with, if that is one of an error.
    status: Option<u16>,
    last_event: Option<String>,
    retry_ms: u64,
    resumptions: u32,
}

#[derive(Debug)]
enum ReplySource {
    /// Nothing of it has left.
    Ready(Message),
    Json(Arriving),
    Events(Arriving, Framer),
    Interrupted,
    Done,
}

impl HttpExchange {
    /// An exchange that has not begun; the id of its request must be ours.
    pub fn ready(endpoint: &ServerEndpoint, wire: Wire, message: Message) -> Self {
        let id = message.id.clone().unwrap_or_else(|| Text::string(""));
        Self {
            id,
            endpoint: endpoint.clone(),
            wire,
            source: ReplySource::Ready(message),
            status: None,
            last_event: None,
            retry_ms: DEFAULT_RETRY_MS,
            resumptions: 0,
        }
    }

    /// The exchange that `response` begins, for `message`.
    pub fn of(
        response: Response<Arriving>,
        endpoint: &ServerEndpoint,
        message: Message,
    ) -> Result<Self, Fault> {
        let mut exchange = Self {
            source: ReplySource::Done,
            ..Self::ready(endpoint, Wire::default(), message)
        };
        exchange.answered(response)?;
        Ok(exchange)
    }

    /// From now on it leaves only if `departure` lets it.
    pub fn departs_by(&mut self, departure: Departure) {
        self.wire.departure = Some(departure);
    }

    /// Sends the request, once, and waits for the head of the answer. If this future is dropped
    /// before it completes, a byte may have left, and nothing more arrives.
    pub async fn begin(&mut self) -> Result<(), Fault> {
        if !matches!(self.source, ReplySource::Ready(_)) {
            return Ok(());
        }
        let response = match std::mem::replace(&mut self.source, ReplySource::Done) {
            ReplySource::Ready(message) => self.endpoint.post(&message, &self.wire),
            ReplySource::Json(_)
            | ReplySource::Events(..)
            | ReplySource::Interrupted
            | ReplySource::Done => return Ok(()),
        };
        let response = response.await?;
        failpoint::reached("first-response-byte");
        self.answered(response)
    }

    fn answered(&mut self, response: Response<Arriving>) -> Result<(), Fault> {
        let status = response.status();
        self.status =
            (status.is_client_error() || status.is_server_error()).then(|| status.as_u16());
        self.source = ReplySource::of(response).map_err(|fault| self.under_status(fault))?;
        Ok(())
    }

    /// Whether the server says that the legacy session is no more: with a JSON-RPC error or without
    /// (protocol §3.1). It says nothing of the request (guarantees §4).
    pub fn session_is_gone(&self) -> bool {
        self.wire.session.is_some() && self.has_status(StatusCode::NOT_FOUND)
    }

    /// Whether the server takes the token no more that it was shown, and would be shown another now. It
    /// says nothing of the request (guarantees §4).
    pub fn token_is_old(&self) -> bool {
        let shown = self.wire.proof.as_ref();
        self.has_status(StatusCode::UNAUTHORIZED)
            && shown.is_some_and(|shown| self.endpoint.shows_another(shown))
    }

    /// Whether the server has begun to answer as it does in the session: what says an error may be
    /// a proxy's word.
    pub fn is_heard(&self) -> bool {
        self.status.is_none()
            && matches!(self.source, ReplySource::Json(_) | ReplySource::Events(..))
    }

    /// Whether it was answered with this status.
    pub fn has_status(&self, status: StatusCode) -> bool {
        self.status == Some(status.as_u16())
    }

    /// Whether it was answered as where no messages are taken by POST: HTTP+SSE of 2024-11-05 may be
    /// what is spoken there.
    pub(in crate::upstream) fn refuses_post(&self) -> bool {
        self.status.is_some_and(may_be_old)
    }

    /// `fault`, where it was the answer that was wrong, and its status is known.
    pub fn under_status(&self, fault: Fault) -> Fault {
        Fault {
            status: fault.status.or(self.status),
            ..fault
        }
    }

    /// What arrives next; none after the answer.
    pub async fn next(&mut self) -> Result<Option<Inbound>, Fault> {
        if matches!(self.source, ReplySource::Ready(_)) {
            Box::pin(self.begin()).await?;
        }
        self.arrives()
            .await
            .map_err(|fault| self.under_status(fault))
    }

    async fn arrives(&mut self) -> Result<Option<Inbound>, Fault> {
        loop {
            match std::mem::replace(&mut self.source, ReplySource::Done) {
                ReplySource::Done | ReplySource::Ready(_) => return Ok(None),
                ReplySource::Json(body) => return self.whole(body).await.map(Some),
                ReplySource::Interrupted => Box::pin(self.resume()).await?,
                ReplySource::Events(body, framer) => {
                    if let Some(inbound) = self.event(body, framer).await? {
                        return Ok(Some(inbound));
                    }
                }
            }
        }
    }

    async fn whole(&mut self, body: Arriving) -> Result<Inbound, Fault> {
        failpoint::reached("mid-response");
        let bytes = gather(Limited::new(body, SERVER_JSON_LIMITS.bytes)).await;
        let bytes = bytes.map_err(|error| {
            Fault::after_sending(format!("the answer was cut off or too long: {error}"))
        })?;
        self.own(self.understood(bytes)?)
    }

    /// What was sent as one message. One that cannot be read may be known to be the answer all the
    /// same.
    fn understood(&self, bytes: Bytes) -> Result<Message, Fault> {
        let whole = bytes.clone();
        read(bytes).map_err(|fault| match answered(&whole) {
            Some(id) if id == self.id.as_bytes() => {
                let what = fault.what.strip_prefix(UNREADABLE_PREFIX);
                Fault::unreadable(what.unwrap_or(&fault.what))
            }
            _ => fault,
        })
    }

    fn own(&self, message: Message) -> Result<Inbound, Fault> {
        if message.kind == MessageKind::Response
            && message.id.as_ref() != Some(&self.id)
            && !(message.is_error && message.id.is_none())
        {
            return Err(Fault::after_sending(
                "the tool server answered with another request's id",
            ));
        }
        Ok(Inbound::Message(message))
    }

    /// One step on the event stream. None: nothing to hand on yet, look again.
    async fn event(
        &mut self,
        mut body: Arriving,
        mut framer: Framer,
    ) -> Result<Option<Inbound>, Fault> {
        match framer.next_block() {
            Some(SseBlock::Comment(comment)) => {
                self.source = ReplySource::Events(body, framer);
                Ok(Some(Inbound::Comment(comment)))
            }
            Some(SseBlock::Event(event)) => {
                self.retry_ms = event
                    .retry
                    .map_or(self.retry_ms, |retry| retry.min(MAX_RETRY_MS));
                if event.id.is_some() {
                    self.last_event = event.id;
                }
                if event.data.is_empty() || !matches!(event.name.as_str(), "" | "message") {
                    self.source = ReplySource::Events(body, framer);
                    return Ok(None);
                }
                let inbound = self.own(self.understood(event.data)?)?;
                if !matches!(&inbound, Inbound::Message(message) if message.kind == MessageKind::Response)
                {
                    self.source = ReplySource::Events(body, framer);
                }
                Ok(Some(inbound))
            }
            None => {
                match body.frame().await {
                    Some(Ok(frame)) => {
                        failpoint::reached("mid-response");
                        if let Some(bytes) = frame.data_ref() {
                            framer
                                .push(bytes)
                                .map_err(|error| Fault::after_sending(error.to_string()))?;
                        }
                        self.source = ReplySource::Events(body, framer);
                    }
                    Some(Err(_)) | None => return self.interrupted().map(Some),
                }
                Ok(None)
            }
        }
    }

    /// A legacy server may close the stream and be asked again; a modern stream that breaks is lost
    /// (protocol §3.1).
    fn interrupted(&mut self) -> Result<Inbound, Fault> {
        let legacy = self
            .wire
            .revision
            .is_some_and(|revision| revision.era() == Era::Legacy);
        if !legacy
            || self.status.is_some()
            || self.last_event.is_none()
            || self.resumptions >= MAX_RESUMPTIONS
        {
            return Err(Fault::after_sending(
                "the event stream ended without an answer",
            ));
        }
        self.source = ReplySource::Interrupted;
        Ok(Inbound::Interrupted(self.retry_ms))
    }

    /// The caller has waited as long as the server asked for. The request was sent long ago, so
    /// whatever the server says to being asked again proves nothing of it (guarantees §4).
    async fn resume(&mut self) -> Result<(), Fault> {
        let after = self.last_event.clone().unwrap_or_default();
        self.resumptions += 1;
        // What was shown may be over.
        self.wire.proof = None;
        let response = self.endpoint.get(&self.wire, Some(&after)).await;
        let found =
            response.and_then(|response| Ok((response.status(), ReplySource::of(response)?)));
        match found {
            Ok((StatusCode::OK, source @ ReplySource::Events(..))) => self.source = source,
            Ok(_) => {
                return Err(Fault::after_sending(
                    "the tool server did not take its event stream up again",
                ));
            }
            Err(fault) => return Err(Fault::after_sending(fault.what)),
        }
        Ok(())
    }
}

/// Whether a server may speak HTTP+SSE of 2024-11-05 that answers a POST with this status.
pub(in crate::upstream) fn may_be_old(status: u16) -> bool {
    matches!(status, 400 | 404 | 405)
}

impl ReplySource {
    fn of(response: Response<Arriving>) -> Result<Self, Fault> {
        let status = response.status();
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let is_kind = |other: &str| kind.eq_ignore_ascii_case(other);
        let (is_events, is_json) = (is_kind("text/event-stream"), is_kind("application/json"));
        if response
            .headers()
            .contains_key(http::header::CONTENT_ENCODING)
        {
            return Err(Fault::after_sending(
                "the tool server sent a compressed answer, which was not asked for",
            ));
        }
        // Under whatever status: what answers the request is an answer (guarantees §4).
        let may_answer =
            status == StatusCode::OK || status.is_client_error() || status.is_server_error();
        if may_answer && is_events {
            Ok(Self::Events(response.into_body(), Framer::default()))
        } else if may_answer && is_json {
            Ok(Self::Json(response.into_body()))
        } else {
            Err(Fault::after_sending(format!(
                "the tool server answered with HTTP {status}"
            )))
        }
    }
}

/// A whole body. What is short is copied, so that the connection can read its next answer into the
/// same buffer.
async fn gather(
    mut body: Limited<Arriving>,
) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(part) = frame?.into_data() else {
            continue;
        };
        if first.is_empty() && rest.is_empty() && part.len() > COPIED_PART_BYTES_MAX {
            first = part;
            continue;
        }
        if rest.is_empty() {
            let more = usize::try_from(body.size_hint().lower())
                .unwrap_or(0)
                .min(PREALLOCATED_BYTES_MAX);
            rest.reserve(first.len() + part.len() + more);
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&part);
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}

/// Reads what a server sent as one message, without the secrets that it repeats, and without
/// look-alikes. What the strict reader refuses in it is named beside it.
pub fn read(bytes: Bytes) -> Result<Message, Fault> {
    let (text, odd) = heavy::aside(bytes.len(), || scrub::read_oddly(bytes))
        .map_err(|malformed| Fault::after_sending(format!("{UNREADABLE_PREFIX}{malformed}")))?;
    let message = Message::parse(&text).map_err(|reason| {
        Fault::after_sending(format!(
            "the tool server sent no JSON-RPC message: {reason}"
        ))
    })?;
    Ok(Message {
        odd: odd.map(|odd| Box::new(Oddity::of_server(odd.what))),
        unknown: None,
        ..of_server(message)
    })
}
