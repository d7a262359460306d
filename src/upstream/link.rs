//! A link: one conversation with a tool server, whatever carries it. A modern link is shared by all
//! callers; a legacy link is one session and belongs to one agent's session. JSON-RPC ids on it are
//! ours.

use super::Inbound;
use super::child::{ChildProcess, DEFAULT_SHUTDOWN_GRACE};
use super::credentials::classes::CredentialName;
use super::http::{HttpExchange, ServerEndpoint, Wire};
use super::stdio::Conversation;
use crate::mcp::bridge::{LOG_LEVEL_META_KEY, own_params};
use crate::mcp::headers::SESSION_HEADER;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::{Message, MessageKind, number};
use crate::mcp::revision::{Era, Revision};
use crate::model::clock::Clock;
use crate::model::reply::Fault;
use crate::model::times::millis;
use crate::telemetry::tasks;
use http::header::HeaderValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

mod exchange;
mod named;
mod standing;
mod telling;
#[cfg(test)]
mod tests;

use exchange::ExchangeSource;
pub(crate) use exchange::{Tolerance, UpstreamExchange};

/// How long a server may take to say good-bye.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a child is asked for a sign of life while something that it does may change something.
const SIGNS_OF_LIFE_ASKED: u32 = 6;
/// How long a child may take to give a sign of life.
const SIGN_OF_LIFE_TIMEOUT: Duration = Duration::from_secs(10);
const MIN_SIGN_OF_LIFE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may take to answer a `ping` before it is believed to be busy.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// One conversation with a tool server.
pub struct Link {
    carrier: Carrier,
    /// In whose name it was begun.
    name: CredentialName,
    /// The revision spoken on it.
    pub revision: Revision,
    next: Arc<AtomicU64>,
    /// When the server was last heard on it, in milliseconds of steady time.
    heard: AtomicU64,
    /// Cancelled when the link is closed or lost.
    ended: CancellationToken,
    /// One more for each exchange that may change something still.
    kept: Arc<()>,
    /// A sign of life is waited for.
    doubted: AtomicBool,
}

enum Carrier {
    Http {
        endpoint: Box<ServerEndpoint>,
        session: Option<HeaderValue>,
    },
    /// A child, or no process but a session over HTTP+SSE.
    Child {
        conversation: Arc<Conversation>,
        process: tokio::sync::Mutex<Option<ChildProcess>>,
    },
}

impl Link {
    /// A modern link over HTTP.
    pub fn http(endpoint: ServerEndpoint, revision: Revision) -> Self {
        Self::new(
            Carrier::Http {
                endpoint: Box::new(endpoint),
                session: None,
            },
            revision,
        )
    }

    /// A link to a child process, or over a conversation that no process is behind.
    pub fn child(
        conversation: Arc<Conversation>,
        process: Option<ChildProcess>,
        revision: Revision,
    ) -> Self {
        let process = tokio::sync::Mutex::new(process);
        Self::new(
            Carrier::Child {
                conversation,
                process,
            },
            revision,
        )
    }

    /// A modern link over a conversation that no process is behind, as simulations have them.
    #[cfg(test)]
    pub(crate) fn over(conversation: Arc<Conversation>) -> Self {
        Self::child(conversation, None, Revision::NEWEST_MODERN)
    }

    fn new(carrier: Carrier, revision: Revision) -> Self {
        let (heard, next) = (AtomicU64::new(now()), Arc::new(AtomicU64::new(1)));
        Self {
            name: carrier.name(),
            carrier,
            revision,
            next,
            heard,
            ended: CancellationToken::new(),
            kept: Arc::default(),
            doubted: AtomicBool::new(false),
        }
    }

    /// Opens a legacy session over HTTP: sends `initialize` with `params` and keeps the session the
    /// server gives.
    pub async fn initialize_http(
        endpoint: ServerEndpoint,
        params: &Text,
    ) -> Result<(Self, Message), Fault> {
        let message = Message::request(1, "initialize", Some(params.clone()));
        let response = endpoint.post(&message, &Wire::default()).await?;
        let session = response.headers().get(SESSION_HEADER).cloned();
        let mut exchange = HttpExchange::of(response, &endpoint, message)?;
        let answer = loop {
            match exchange.next().await? {
                Some(Inbound::Message(answer)) if answer.kind == MessageKind::Response => {
                    if let Some(odd) = &answer.odd {
                        return Err(Fault::unreadable(odd.what));
                    }
                    // Of an error that names no request only the status says anything.
                    if answer.id.is_none() && exchange.refuses_post() {
                        let words = "the tool server takes no messages at this address";
                        return Err(exchange.under_status(Fault::after_sending(words)));
                    }
                    break answer;
                }
                Some(_) => {}
                None => {
                    return Err(Fault::after_sending(
                        "the tool server did not answer `initialize`",
                    ));
                }
            }
        };
        let revision = negotiated(&answer)?;
        let link = Self::new(
            Carrier::Http {
                endpoint: Box::new(endpoint),
                session,
            },
            revision,
        );
        link.next.store(2, Ordering::Relaxed);
        Ok((link, answer))
    }

    /// Opens a legacy session on a child that has just started, or on an event stream.
    pub async fn initialize_child(
        conversation: Arc<Conversation>,
        process: Option<ChildProcess>,
        params: &Text,
    ) -> Result<(Self, Message), Fault> {
        let link = Self::child(conversation, process, Revision::NEWEST_LEGACY);
        link.initialize(params).await
    }

    /// Opens a legacy session on a child that is in none yet.
    pub(super) async fn initialize(mut self, params: &Text) -> Result<(Self, Message), Fault> {
        let answer = self.ask("initialize", Some(params.clone())).await?;
        self.revision = negotiated(&answer)?;
        Ok((self, answer))
    }

    /// Gives a request an id of ours; nothing of it leaves before the exchange begins. `params` are
    /// the `Mcp-Param-…` headers.
    pub async fn request(
        &self,
        message: Message,
        params: Vec<(String, String)>,
    ) -> Result<UpstreamExchange, Fault> {
        let logs = message.meta(LOG_LEVEL_META_KEY).is_some();
        self.request_of(message, params, logs, 0).await
    }

    /// The same. `logs`: the agent wants to read what the server logs meanwhile; `user`: whose it is,
    /// of those who share the link, 0 for toolgate's own.
    pub(crate) async fn request_of(
        &self,
        message: Message,
        params: Vec<(String, String)>,
        logs: bool,
        user: u64,
    ) -> Result<UpstreamExchange, Fault> {
        match &self.carrier {
            Carrier::Http { endpoint, session } => {
                let id = number(self.next.fetch_add(1, Ordering::Relaxed));
                let message = message.with_id(id.clone());
                let wire = Wire {
                    params,
                    // Before anybody hears that the request is about to leave.
                    proof: endpoint.proof().await?,
                    ..self.wire(session.as_ref())
                };
                let exchange = HttpExchange::ready(endpoint, wire, message);
                Ok(UpstreamExchange {
                    id,
                    source: ExchangeSource::Http(Box::new(exchange)),
                    kept: None,
                    tolerance: Tolerance::None,
                })
            }
            Carrier::Child { conversation, .. } => {
                let (id, inbox, mut ready) = conversation.ready(message, logs, user).await?;
                ready.carries(params);
                let (ready, conversation) = (Some(ready), conversation.clone());
                let source = ExchangeSource::Lines {
                    inbox,
                    ready,
                    conversation,
                    id,
                    open: true,
                };
                Ok(UpstreamExchange {
                    id: number(id),
                    source,
                    kept: None,
                    tolerance: Tolerance::None,
                })
            }
        }
    }

    /// What every request on it carries beside its body.
    fn wire(&self, session: Option<&HeaderValue>) -> Wire {
        Wire {
            revision: Some(self.revision),
            session: session.cloned(),
            ..Wire::default()
        }
    }

    /// Sends a request of our own and waits for its answer; whatever else arrives is passed over.
    pub async fn ask(&self, method: &str, params: Option<Text>) -> Result<Message, Fault> {
        let exchange = self
            .request(Message::request(0, method, params), Vec::new())
            .await?;
        exchange.answer().await
    }

    /// Notes that the server knows the session still.
    pub fn heard(&self) {
        if self.has_session() {
            self.heard.store(now(), Ordering::Relaxed);
        }
    }

    fn has_session(&self) -> bool {
        match &self.carrier {
            Carrier::Http { session, .. } => session.is_some(),
            Carrier::Child { .. } => self.is_over_events(),
        }
    }

    /// Whether it is a session over HTTP+SSE of 2024-11-05.
    pub(super) fn is_over_events(&self) -> bool {
        matches!(&self.carrier, Carrier::Child { conversation, .. } if conversation.is_over_http())
    }

    /// Whether it is a session over HTTP, which the server may have forgotten, of which nothing was
    /// heard for so long.
    pub fn is_idle(&self, long: Duration) -> bool {
        let silent = || now().saturating_sub(self.heard.load(Ordering::Relaxed));
        self.has_session() && silent() >= millis(long)
    }

    /// Whether the server still knows the session, as far as a `ping` tells: one that is slow is
    /// believed to. A fault says nothing of the session: it may be a proxy's or a rate
    /// limiter's, while other calls go on in it.
    pub async fn is_known(&self) -> Result<bool, Fault> {
        tokio::time::timeout(PING_TIMEOUT, self.ping())
            .await
            .unwrap_or(Ok(true))
    }

    /// Any answer to it says that the session is known, also that there is no such method.
    async fn ping(&self) -> Result<bool, Fault> {
        let mut exchange = self
            .request(Message::request(0, "ping", None), Vec::new())
            .await?;
        loop {
            match exchange.next().await {
                _ if exchange.session_is_gone() => return Ok(false),
                Err(_) if self.is_over() => return Ok(false),
                Ok(Some(Inbound::Message(message))) if message.kind == MessageKind::Response => {
                    let is_own = message.id.as_ref() == Some(&exchange.id);
                    // So do servers that look the session up before they read the request.
                    if is_own || exchange.is_bad_request() {
                        return Ok(is_own);
                    }
                    return Err(exchange.unanswered(
                        "the tool server answered `ping` with an error that names no request",
                    ));
                }
                Ok(Some(Inbound::Interrupted(retry_ms))) => {
                    tokio::time::sleep(Duration::from_millis(retry_ms)).await;
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    return Err(Fault::after_sending(
                        "the tool server did not answer `ping`",
                    ));
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Whether closing an exchange cancels it, and no notification does: on modern HTTP
    /// (protocol §1.7).
    pub fn cancels_by_closing(&self) -> bool {
        matches!(self.carrier, Carrier::Http { .. }) && self.revision.era() == Era::Modern
    }

    /// Tells the server that the request of this id of ours is no longer waited for.
    pub fn cancel(self: &Arc<Self>, id: &Text, reason: &str) {
        let mut params = Object::new();
        params.set("requestId", id.clone());
        params.set("reason", Text::string(reason));
        self.pass_cancellation(Message::notification(
            "notifications/cancelled",
            Some(params.text()),
        ));
    }

    /// Sends a cancellation, unless closing does the same. Nobody waits for it: a server that
    /// leaves a request unanswered may leave this unanswered too.
    pub fn pass_cancellation(self: &Arc<Self>, note: Message) {
        if self.cancels_by_closing() {
            return;
        }
        let link = self.clone();
        tasks::spawn("cancellation", async move {
            let told = tokio::time::timeout(CLOSE_TIMEOUT, link.notify(note)).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::debug!(?told, "a cancellation did not reach the tool server");
            }
        });
    }

    /// Reads the standalone stream of a legacy HTTP session into `inbox` until the link ends.
    pub fn listen(self: &Arc<Self>, inbox: mpsc::Sender<Inbound>) {
        let Carrier::Http { endpoint, session } = &self.carrier else {
            return;
        };
        let wire = self.wire(session.as_ref());
        let (endpoint, ended) = (endpoint.clone(), self.ended.clone());
        tasks::spawn("standalone stream", async move {
            tokio::select! {
                () = super::standalone::read(&endpoint, &wire, &inbox) => {}
                () = ended.cancelled() => {}
            }
        });
    }

    /// Asks a child that has not answered in time for a sign of life. One that gives none, and has
    /// nothing to do that may change something, is ended: it is started again when it is wanted.
    pub fn doubt(self: &Arc<Self>, patience: Duration) {
        let Carrier::Child { conversation, .. } = &self.carrier else {
            return;
        };
        if self.doubted.swap(true, Ordering::Relaxed) {
            return;
        }
        let (link, conversation) = (self.clone(), conversation.clone());
        // A short deadline of one call says nothing of how busy a child may be.
        let patience = patience.clamp(MIN_SIGN_OF_LIFE_TIMEOUT, SIGN_OF_LIFE_TIMEOUT);
        tasks::spawn("sign of life", async move {
            let legacy = link.revision.era() == Era::Legacy;
            let method = if legacy { "ping" } else { "server/discover" };
            for silent in 1..=SIGNS_OF_LIFE_ASKED {
                let before = conversation.lines_heard();
                let params = Some(own_params(link.revision.era(), None));
                let asked = tokio::time::timeout(patience, link.ask(method, params)).await;
                let is_alive = asked.is_ok() || conversation.lines_heard() > before;
                if is_alive || link.is_over() {
                    break;
                }
                if silent > 1 && Arc::strong_count(&link.kept) == 1 {
                    tracing::warn!(server = %conversation.server(), silent_for = ?patience, "the tool server answers nothing any more; it is started again");
                    link.close().await;
                    break;
                }
            }
            link.doubted.store(false, Ordering::Relaxed);
        });
    }

    /// Resolves when the link can no longer be used.
    pub async fn ended(&self) {
        match &self.carrier {
            Carrier::Http { .. } => self.ended.cancelled().await,
            Carrier::Child { conversation, .. } => tokio::select! {
                _ = conversation.closed() => {}
                () = self.ended.cancelled() => {}
            },
        }
    }

    /// Whether it can no longer be used.
    pub fn is_over(&self) -> bool {
        let gone =
            matches!(&self.carrier, Carrier::Child { conversation, .. } if conversation.is_over());
        gone || self.ended.is_cancelled()
    }

    /// Ends the conversation: the session is deleted, unless something in it may change something
    /// still, which its end could cut in two; the child is stopped.
    pub async fn close(&self) {
        self.ended.cancel();
        match &self.carrier {
            Carrier::Http {
                endpoint,
                session: Some(session),
            } if Arc::strong_count(&self.kept) == 1 => {
                let wire = self.wire(Some(session));
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, endpoint.delete(&wire)).await;
            }
            Carrier::Http { .. } => {}
            Carrier::Child {
                process,
                conversation,
            } => {
                conversation.close();
                let process = process.lock().await.take();
                if let Some(process) = process {
                    process.shutdown(DEFAULT_SHUTDOWN_GRACE).await;
                }
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

fn now() -> u64 {
    millis(Clock.steady())
}

/// The revision that the server chose; for a refusal the newest, since nothing more will be said.
fn negotiated(answer: &Message) -> Result<Revision, Fault> {
    if answer.is_error {
        return Ok(Revision::NEWEST_LEGACY);
    }
    let version = answer
        .body
        .as_ref()
        .and_then(|result| result.get("protocolVersion"));
    let version = version.as_ref().and_then(Text::as_str);
    let revision = version
        .as_deref()
        .and_then(Revision::of_server)
        .filter(|revision| revision.era() == Era::Legacy);
    revision.ok_or_else(|| match version {
        Some(version) => {
            let shown: String = version.chars().take(64).collect();
            Fault::unsent(format!(
                "the tool server wants revision {}, which is not served",
                shown.escape_debug()
            ))
        }
        None => Fault::unsent("the tool server answered `initialize` without a revision"),
    })
}
