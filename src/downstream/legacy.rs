//! 2025-03-26 to 2025-11-25: a handshake, a session, event streams that can be taken up again
//! (PROTOCOL §3).

use super::body::{Answer, empty, error, json};
use super::checks::{accepts, header};
use super::handshake::{Opened, arrived};
use super::session::{STANDALONE, Session};
use super::stream::place;
use super::{Door, Known};
use crate::mcp::answer::INVALID_REQUEST;
use crate::mcp::headers::{PROTOCOL_VERSION, SESSION};
use crate::mcp::message::{Kind, Message};
use crate::mcp::revision::{Era, Revision};
use crate::model::caller::Caller;
use crate::model::scope::Scope;
use crate::outlet::Outgoing;
use crate::telemetry::tasks;
use http::{HeaderMap, HeaderValue, StatusCode};
use std::sync::Arc;

/// The JSON-RPC code that SDKs give for a session they don't know.
const SESSION_NOT_FOUND: i64 = -32001;
/// Said of a stream that newer ones of its session have pushed out.
const LONG_GONE: &str = "the stream of this Last-Event-ID ended long ago and is no longer kept; its request was carried out";

impl Door {
    /// Answers a legacy POST.
    pub(super) async fn legacy(
        self: &Arc<Self>,
        known: Known,
        scope: Scope,
        headers: &HeaderMap,
        message: Message,
    ) -> Answer {
        if message.kind == Kind::Request && message.method == "initialize" {
            return self.open_session(known.caller, scope, message).await;
        }
        let session = match self.session(headers, &known.caller, &scope) {
            Ok(session) => session,
            Err(refused) => return refused,
        };
        match message.kind {
            Kind::Response | Kind::Notification => {
                self.heard(&session, message).await;
                empty(StatusCode::ACCEPTED)
            }
            Kind::Request => {
                let heads = Self::heads(&known.policy, headers);
                let (first, inlet) = self
                    .begin(arrived(&session, known, (message, heads)))
                    .first()
                    .await;
                match first {
                    Some(Outgoing::Last(answer)) => json(StatusCode::OK, &answer),
                    Some(first) => session
                        .feed(&first, inlet)
                        .read(0, session.revision >= Revision::V2025_11_25),
                    None => empty(StatusCode::ACCEPTED),
                }
            }
        }
    }

    /// The standalone stream, or the rest of a stream that broke off.
    pub(super) fn legacy_get(&self, caller: &Caller, scope: &Scope, headers: &HeaderMap) -> Answer {
        if let Err(refused) = accepts(headers, &["text/event-stream"]) {
            return refused;
        }
        let session = match self.session(headers, caller, scope) {
            Ok(session) => session,
            Err(refused) => return refused,
        };
        let (number, after) = match header(headers, "last-event-id").map(place) {
            None => (STANDALONE, 0),
            Some(Some(place)) => place,
            Some(None) => {
                return error(
                    StatusCode::BAD_REQUEST,
                    INVALID_REQUEST,
                    "Last-Event-ID is not of this session",
                );
            }
        };
        if number != STANDALONE {
            session.links.returned.notify_waiters();
        }
        match session.stream(number) {
            Some(stream) => stream.read(
                after,
                number == STANDALONE && session.revision >= Revision::V2025_11_25,
            ),
            None if session.had_stream(number) => {
                error(StatusCode::BAD_REQUEST, INVALID_REQUEST, LONG_GONE)
            }
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
    ) -> Answer {
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
    ) -> Result<Arc<Session>, Answer> {
        let Some(id) = header(headers, SESSION) else {
            let words = "send Mcp-Session-Id, or begin with `initialize`; for 2026-07-28 send `_meta` and its headers";
            return Err(error(StatusCode::BAD_REQUEST, INVALID_REQUEST, words));
        };
        let session = self.sessions.find(id, caller, scope).ok_or_else(|| {
            error(
                StatusCode::NOT_FOUND,
                SESSION_NOT_FOUND,
                "there is no such session; begin with `initialize`",
            )
        })?;
        let named = header(headers, PROTOCOL_VERSION).map(Revision::parse);
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
    ) -> Answer {
        let Opened {
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
        let (standalone, changed) = (session.stream(STANDALONE), self.relay.tools_changed());
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
            response.headers_mut().insert(SESSION, value);
        }
        response
    }
}
