//! 2025-03-26 to 2025-11-25: a handshake, a session, event streams that can be taken up again
//! (protocol §3).

use super::body::{HttpAnswer, empty, error, json, kept_with};
use super::carried_answer::{CarriedAnswer, carrying, carrying_all};
use super::checks::{accepts, header};
use super::handshake::{OpenedSession, arrived};
use super::session::{AgentSession, STANDALONE_STREAM};
use super::stream::parse_event_id;
use super::{Door, Visit};
use crate::mcp::error_codes::{INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::mcp::headers::{PROTOCOL_VERSION_HEADER, SESSION_HEADER};
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::{Era, Revision};
use crate::model::caller::Caller;
use crate::model::scope::Scope;
use crate::outlet::Outgoing;
use crate::telemetry::tasks;
use crate::upstream::shared_children::SessionMarks;
use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, StatusCode};
use std::sync::Arc;

/// The JSON-RPC code that SDKs give for a session they don't know.
const SESSION_NOT_FOUND_CODE: i64 = -32001;
/// Said of a stream that newer ones of its session have pushed out.
const STREAM_GONE_MESSAGE: &str = "the stream of this Last-Event-ID ended long ago and is no longer kept; its request was carried out";

/// Said to who opens an event stream before there is a session, as agents of HTTP+SSE do.
const NO_STREAM_MESSAGE: &str = "there is no event stream without a session. toolgate serves agents by Streamable HTTP (2025-03-26 and later) and by `toolgate stdio`; HTTP+SSE of 2024-11-05 is not served. Set the agent's transport to Streamable HTTP (`http`) at this address: it begins with a POST of `initialize`, or of any request of 2026-07-28";

/// To newer agents 405 says that no stream is offered, and they go on; older ones stop.
fn no_stream() -> HttpAnswer {
    let mut refused = error(
        StatusCode::METHOD_NOT_ALLOWED,
        METHOD_NOT_FOUND,
        NO_STREAM_MESSAGE,
    );
    let allow = HeaderValue::from_static("POST");
    refused.headers_mut().insert(ALLOW, allow);
    refused
}

impl Door {
    /// Answers a legacy POST.
    pub(super) async fn legacy(
        self: &Arc<Self>,
        visit: Visit,
        headers: &HeaderMap,
        message: Message,
    ) -> HttpAnswer {
        let Visit {
            scope,
            known,
            origin,
            connection: _,
            certificate: _,
        } = visit;
        if message.kind == MessageKind::Request && message.method == "initialize" {
            return Box::pin(self.open_session(known.proved, scope, message)).await;
        }
        let session = match self.session(headers, &known.proved, &scope) {
            Ok(session) => session,
            Err(refused) => return refused,
        };
        match message.kind {
            MessageKind::Response | MessageKind::Notification => {
                Box::pin(self.heard(&session, message)).await;
                empty(StatusCode::ACCEPTED)
            }
            MessageKind::Request => {
                let heads = Self::heads(&known.policy, headers);
                let (first, inlet) = self
                    .begin(arrived(&session, known, message, heads, origin))
                    .first()
                    .await;
                match first {
                    Some(Outgoing::Last(answer)) => {
                        carrying(json(StatusCode::OK, &answer), inlet.ticket())
                    }
                    Some(first) => {
                        let carried = CarriedAnswer::once_passed(inlet.ticket());
                        let is_primed = session.revision >= Revision::V2025_11_25;
                        let marks = vec![inlet.unread_mark()];
                        let stream = session.feed(&first, inlet, marks);
                        let answer = stream.read_for(carried.passed(), 0, is_primed);
                        carrying_all(answer, carried)
                    }
                    None => empty(StatusCode::ACCEPTED),
                }
            }
        }
    }

    /// The standalone stream, or the rest of a stream that broke off.
    pub(super) fn legacy_get(
        &self,
        caller: &Caller,
        scope: &Scope,
        headers: &HeaderMap,
    ) -> HttpAnswer {
        if let Err(refused) = accepts(headers, &["text/event-stream"]) {
            return refused;
        }
        if !headers.contains_key(SESSION_HEADER) {
            return no_stream();
        }
        let session = match self.session(headers, caller, scope) {
            Ok(session) => session,
            Err(refused) => return refused,
        };
        let (number, after) = match header(headers, "last-event-id").map(parse_event_id) {
            None => (STANDALONE_STREAM, 0),
            Some(Some(place)) => place,
            Some(None) => {
                return error(
                    StatusCode::BAD_REQUEST,
                    INVALID_REQUEST,
                    "Last-Event-ID is not of this session",
                );
            }
        };
        if number != STANDALONE_STREAM {
            session.links.returned.notify_waiters();
        }
        match session.stream(number) {
            Some(stream) if number == STANDALONE_STREAM => {
                let is_primed = session.revision >= Revision::V2025_11_25;
                let reads = session.links.marks().map(SessionMarks::reads);
                kept_with(stream.read(after, is_primed), reads)
            }
            Some(stream) => stream.read(after, false),
            None if session.had_stream(number) => error(
                StatusCode::BAD_REQUEST,
                INVALID_REQUEST,
                STREAM_GONE_MESSAGE,
            ),
            None => error(
                StatusCode::BAD_REQUEST,
                INVALID_REQUEST,
                "Last-Event-ID is not of this session",
            ),
        }
    }

    /// Ends a session.
    pub(super) async fn legacy_delete(
        &self,
        caller: &Caller,
        scope: &Scope,
        headers: &HeaderMap,
    ) -> HttpAnswer {
        match self.session(headers, caller, scope) {
            Ok(session) => {
                self.sessions.end(&session).await;
                self.metrics.sessions(self.sessions.count());
                empty(StatusCode::OK)
            }
            Err(refused) => refused,
        }
    }

    pub(super) fn session(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        scope: &Scope,
    ) -> Result<Arc<AgentSession>, HttpAnswer> {
        let Some(id) = header(headers, SESSION_HEADER) else {
            let words = "send Mcp-Session-Id, or begin with `initialize`; for 2026-07-28 send `_meta` and its headers";
            return Err(error(StatusCode::BAD_REQUEST, INVALID_REQUEST, words));
        };
        let session = self.sessions.find(id, caller, scope).ok_or_else(|| {
            error(
                StatusCode::NOT_FOUND,
                SESSION_NOT_FOUND_CODE,
                "there is no such session; begin with `initialize`",
            )
        })?;
        let named = header(headers, PROTOCOL_VERSION_HEADER).map(Revision::parse);
        if named.is_some_and(|named| named.is_none_or(|revision| revision.era() == Era::Modern)) {
            return Err(error(
                StatusCode::BAD_REQUEST,
                INVALID_REQUEST,
                "MCP-Protocol-Version is not one of this session",
            ));
        }
        Ok(session)
    }

    async fn open_session(
        self: &Arc<Self>,
        caller: Arc<Caller>,
        scope: Scope,
        message: Message,
    ) -> HttpAnswer {
        let OpenedSession {
            session,
            answer,
            unsolicited,
        } = match self.initialize(caller, scope, &message).await {
            Ok(opened) => opened,
            Err(answer) => {
                return json(
                    StatusCode::OK,
                    &Message {
                        id: message.id,
                        ..answer
                    },
                );
            }
        };
        let (standalone, changed) = (
            session.stream(STANDALONE_STREAM),
            self.relay.tools_changed(),
        );
        let tell = move |outgoing: Outgoing| {
            if let Some(stream) = &standalone {
                stream.take(&outgoing);
            }
        };
        tasks::spawn(
            "session",
            session.clone().follow(unsolicited, changed, tell),
        );
        let mut response = json(
            StatusCode::OK,
            &Message {
                id: message.id,
                ..answer
            },
        );
        if let Ok(value) = HeaderValue::from_str(&session.id) {
            response.headers_mut().insert(SESSION_HEADER, value);
        }
        response
    }
}
