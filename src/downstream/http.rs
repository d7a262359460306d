//! Streamable HTTP of every revision on one address: `/mcp` for all servers, `/mcp/{server}` for
//! one.
//!
//! The ladder, top to bottom: connection, path, caller, body, era. What stands below never runs
//! when a rung above refuses.

use super::arriving::{length, read};
use super::body::{HttpAnswer, RefusalReason, empty, error, json, overloaded};
use super::checks;
use super::connection_limit::Guest;
use super::modern::is_modern;
use super::request_origin::RequestOrigin;
use super::unread::{self, MessageReading};
use super::{Authenticated, Door, Visit};
use crate::guards::identity::Identified;
use crate::guards::identity::behind::{self, UserRefused};
use crate::guards::identity::certificates::ShownProof;
use crate::mcp::error_codes::{HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST};
use crate::mcp::headers::{PROTOCOL_VERSION_HEADER, SESSION_HEADER};
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::{Era, Revision};
use crate::model::caller::Caller;
use crate::model::rate::Rate;
use crate::model::scope::Scope;
use bytes::Bytes;
use http::header::{ALLOW, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;

/// When an agent may come again that found no room.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// What who goes on guessing reads.
const TOO_MANY_PROVE_NOTHING: &str = "overloaded: too many requests from this address prove nothing; send a token of the \
                                      configuration, to a path and Host that are served";

/// What the head of a request has proved, before its user is believed: an agent that names none that
/// can be is no stranger.
struct ProvedHead {
    known: Authenticated,
    user: Result<Arc<Caller>, UserRefused>,
    /// A front end says whose it is.
    is_spoken_for: bool,
}

impl ProvedHead {
    fn admitted(self) -> Result<Authenticated, HttpAnswer> {
        let proved = self.user.map_err(|refused| {
            let words = refused.to_string();
            error(StatusCode::BAD_REQUEST, INVALID_REQUEST, &words)
        })?;
        Ok(Authenticated {
            caller: proved.clone(),
            proved,
            ..self.known
        })
    }
}

impl Door {
    /// Answers one HTTP request of `guest`.
    pub(crate) async fn http(
        self: Arc<Self>,
        request: Request<Incoming>,
        guest: Arc<Guest>,
    ) -> HttpAnswer {
        if let Some(metadata) = self.metadata(&request) {
            return metadata;
        }
        if let Some(lacking) = self.lacking_key(&request) {
            Box::pin(self.keys.clone().supply(lacking)).await;
        }
        let mut answer = match self.admitted(&request, &guest) {
            Ok(visit) => self.method(visit, request).await,
            Err(refused) => refused,
        };
        let told = answer.extensions_mut().remove::<RefusalReason>();
        let status = answer.status();
        if status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE {
            let reason = told.map_or_else(|| reason(status), |RefusalReason(told)| told);
            self.metrics.refused(reason);
        }
        answer
    }

    fn admitted(&self, request: &Request<Incoming>, guest: &Guest) -> Result<Visit, HttpAnswer> {
        let connection = guest.connection();
        let certificate = guest.certificate();
        let proved = self.proved(request, certificate);
        let (scope, head) = proved.map_err(|refused| match guest.fail() {
            Ok(()) => refused,
            Err(wait) => overloaded(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_PROVE_NOTHING, wait),
        })?;
        let known = &head.known;
        let proved = guest.prove(known.caller.agent.as_str());
        proved.map_err(|crowded| {
            overloaded(
                StatusCode::SERVICE_UNAVAILABLE,
                &crowded.to_string(),
                RETRY_AFTER,
            )
        })?;
        if let Some(pace) = &known.caller.pace
            && let Err(wait) = pace.take(self.clock.steady())
        {
            return Err(overloaded(
                StatusCode::TOO_MANY_REQUESTS,
                &too_fast(pace.rate()),
                wait,
            ));
        }
        if let Some(connection) = connection {
            connection.belongs(&known.caller);
        }
        let is_local = guest.is_local();
        let origin = RequestOrigin {
            place: Some(guest.place.clone()),
            arrived: connection.map_or(Duration::ZERO, |connection| connection.arrived()),
            is_relayed: head.is_spoken_for || checks::is_relayed(request.headers(), is_local),
        };
        Ok(Visit {
            scope,
            known: head.admitted()?,
            origin,
            connection: connection.cloned(),
            certificate: certificate.cloned(),
        })
    }

    /// What the head of a request has to prove.
    fn proved(
        &self,
        request: &Request<Incoming>,
        certificate: Option<&Arc<[String]>>,
    ) -> Result<(Scope, ProvedHead), HttpAnswer> {
        checks::connection(self, request)?;
        let scope = self.scope(request.uri().path())?;
        let head = self.authenticate(request.headers(), &scope, certificate)?;
        Ok((scope, head))
    }

    /// `certificate`: the names by which the one that was shown knows the sender.
    fn authenticate(
        &self,
        headers: &HeaderMap,
        scope: &Scope,
        certificate: Option<&Arc<[String]>>,
    ) -> Result<ProvedHead, HttpAnswer> {
        let policy = self.policy.current();
        let mut is_spoken_for = false;
        let shown = ShownProof {
            certificate: certificate.map(|names| &**names),
            bearer: checks::bearer(headers),
        };
        let identified = policy.identity.identify_by(shown, |name| {
            is_spoken_for = true;
            checks::single(headers, name)
        });
        let Identified {
            caller,
            user_header,
        } = identified.map_err(|why| self.refused(&policy, scope, why))?;
        let asking = user_header.map_or_else(
            || Ok(caller.clone()),
            |name| {
                let values = headers.get_all(name).iter();
                behind::of_header(caller.clone(), values.map(HeaderValue::as_bytes))
            },
        );
        Ok(ProvedHead {
            known: Authenticated {
                proved: caller.clone(),
                caller,
                policy: policy.clone(),
            },
            user: asking,
            is_spoken_for,
        })
    }

    pub(super) fn scope(&self, path: &str) -> Result<Scope, HttpAnswer> {
        let unknown = || {
            error(
                StatusCode::NOT_FOUND,
                INVALID_REQUEST,
                "agents are served at /mcp and /mcp/{server}, by Streamable HTTP; HTTP+SSE of 2024-11-05 is not served",
            )
        };
        match path.strip_prefix("/mcp").ok_or_else(unknown)? {
            "" => Ok(Scope::All),
            rest => {
                let name = rest.strip_prefix('/').ok_or_else(unknown)?;
                let server = self.servers.get(name).ok_or_else(unknown)?;
                Ok(Scope::One(server.settings.name.clone()))
            }
        }
    }

    async fn method(self: &Arc<Self>, visit: Visit, request: Request<Incoming>) -> HttpAnswer {
        if request.method() == Method::POST {
            return self.post(visit, request).await;
        }
        let Visit { scope, known, .. } = visit;
        let modern_header = checks::header(request.headers(), PROTOCOL_VERSION_HEADER)
            .and_then(Revision::parse)
            .is_some_and(|revision| revision.era() == Era::Modern);
        match *request.method() {
            Method::GET if !modern_header => {
                self.legacy_get(&known.caller, &scope, request.headers())
            }
            Method::DELETE if !modern_header => {
                self.legacy_delete(&known.caller, &scope, request.headers())
                    .await
            }
            _ => {
                let mut refused = empty(StatusCode::METHOD_NOT_ALLOWED);
                refused
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static("POST"));
                refused
            }
        }
    }

    async fn post(self: &Arc<Self>, mut visit: Visit, request: Request<Incoming>) -> HttpAnswer {
        let (head, body) = request.into_parts();
        let limits = self.limits(&visit.scope);
        if let Err(refused) = checks::body(&head.headers, limits.bytes).and_then(|()| {
            checks::accepts(&head.headers, &["application/json", "text/event-stream"])
        }) {
            return refused;
        }
        let bytes = match self.roomy(&visit.known, body, limits.bytes).await {
            Ok(bytes) => bytes,
            Err(refused) => return refused,
        };
        // A body may take its time; what counts is what holds when all of it is there.
        if !Arc::ptr_eq(&visit.known.policy, &self.policy.current()) {
            let certificate = visit.certificate.as_ref();
            let known = self.authenticate(&head.headers, &visit.scope, certificate);
            visit.known = match known.and_then(ProvedHead::admitted) {
                Ok(known) => known,
                Err(refused) => return refused,
            };
        }
        let (scope, known) = (&visit.scope, &visit.known);
        let mode = known.policy.mode;
        if let Some(answered) = self.batch(&visit, &head.headers, &bytes).await {
            return answered;
        }
        let message = match unread::read(bytes, MessageReading { mode, limits }) {
            Ok(message) => message,
            Err(refused) => {
                // As below: the session of an agent that reads its answer goes on.
                let goes_on = refused.id.is_some() && head.headers.contains_key(SESSION_HEADER);
                let status = if goes_on {
                    StatusCode::OK
                } else {
                    StatusCode::BAD_REQUEST
                };
                return json(status, &refused);
            }
        };
        visit.hears(&message);
        let in_session = message.kind == MessageKind::Request && !is_modern(&message);
        let answered = if message.kind == MessageKind::Response {
            message.id.clone()
        } else {
            None
        };
        match self.judged(known, message) {
            Ok((caller, message)) => {
                visit.speaks(caller);
                self.classified(visit, head.headers, message).await
            }
            // To SDKs of old an HTTP error is the end of their session.
            Err(refused) if in_session => json(StatusCode::OK, &refused),
            Err(refused) => {
                if let (Some(_), Ok(session)) =
                    (&answered, self.session(&head.headers, &known.proved, scope))
                {
                    self.leaves_unanswered(&session, answered).await;
                }
                json(StatusCode::BAD_REQUEST, &refused)
            }
        }
    }

    /// The whole body, while there is room for it.
    async fn roomy(
        &self,
        known: &Authenticated,
        body: Incoming,
        longest: usize,
    ) -> Result<Bytes, HttpAnswer> {
        let share = self.room.take(&known.caller.agent, length(&body));
        let _share = share.map_err(|none| {
            let status = if none.of_one {
                StatusCode::TOO_MANY_REQUESTS
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            overloaded(status, &none.to_string(), RETRY_AFTER)
        })?;
        read(body, longest).await
    }

    /// The era is read from the body; a header can only contradict it (protocol §4.2).
    async fn classified(
        self: &Arc<Self>,
        visit: Visit,
        headers: HeaderMap,
        message: Message,
    ) -> HttpAnswer {
        if message.kind == MessageKind::Request && is_modern(&message) {
            return self.modern(visit, headers, message).await;
        }
        let headers = &headers;
        let named = checks::header(headers, PROTOCOL_VERSION_HEADER);
        let says_modern = named
            .and_then(Revision::parse)
            .is_some_and(|revision| revision.era() == Era::Modern);
        match message.kind {
            MessageKind::Request if message.method == "initialize" => {
                self.legacy(visit, headers, message).await
            }
            MessageKind::Request if says_modern || message.method == "server/discover" => {
                let words = "a request of 2026-07-28 needs `params._meta` with its protocol version and capabilities";
                let refused = Message::error(message.id, INVALID_PARAMS, words, None);
                json(StatusCode::BAD_REQUEST, &refused)
            }
            MessageKind::Notification if message.method == "tools/call" => error(
                StatusCode::BAD_REQUEST,
                INVALID_REQUEST,
                "a tools/call needs an `id`; without one nothing is called",
            ),
            // This revision defines no notification from agents over HTTP; one that comes is taken
            // and goes nowhere.
            MessageKind::Notification if says_modern => empty(StatusCode::ACCEPTED),
            MessageKind::Response if says_modern => error(
                StatusCode::BAD_REQUEST,
                HEADER_MISMATCH,
                "agents send no responses in 2026-07-28",
            ),
            MessageKind::Request
                if headers.get(SESSION_HEADER).is_none()
                    && named.is_some_and(|named| Revision::parse(named).is_none()) =>
            {
                error(
                    StatusCode::BAD_REQUEST,
                    INVALID_REQUEST,
                    "MCP-Protocol-Version names no revision that is served",
                )
            }
            MessageKind::Request | MessageKind::Notification | MessageKind::Response => {
                self.legacy(visit, headers, message).await
            }
        }
    }
}

/// What a caller reads that sends more than its rate.
pub(super) fn too_fast(rate: Rate) -> String {
    format!(
        "overloaded: this caller may send {}; nothing was read; send fewer, or ask for more at `callers[].rate`",
        rate.words("message")
    )
}

fn reason(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "unauthorized",
        403 => "foreign",
        404 => "not_found",
        405 => "method",
        406 | 415 => "content_type",
        408 => "slow",
        411 => "framing",
        413 => "too_large",
        429 | 503 => "overloaded",
        _ => "malformed",
    }
}
