//! Links to one server that belong to one agent, not to one request or one session of it: an agent
//! of 2026-07-28 has no session, and a legacy server answers in sessions only (protocol §4.3).
//!
//! One for each agent, tenant and set of declared capabilities. It ends when nobody has used it for
//! a while, and is made anew once a server has forgotten it.

use super::link::Link;
use super::own_catalogs::KnownCatalogs;
use super::server::UpstreamServer;
use super::{Inbound, UnsolicitedReceiver};
use crate::mcp::bridge::initialize_of;
use crate::mcp::error_codes::METHOD_NOT_FOUND;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::Era;
use crate::model::caller::Caller;
use crate::model::clock::Clock;
use crate::model::ids::{AgentId, ServerName, TenantId};
use crate::model::reply::Fault;
use crate::telemetry::tasks;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};

/// Links of one server that are open at once: a child is a process, a session over HTTP an entry in
/// the server's memory.
const MAX_CALLER_CHILDREN: usize = 16;
const MAX_CALLER_SESSIONS: usize = 256;
/// A link that no request has used for so long is closed.
const LINK_IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// Notifications that wait for a subscription to read them; it loses older ones.
const NOTES_KEPT: usize = 256;
/// Questions that wait for the request that they belong to.
const QUESTIONS_KEPT: usize = 16;

/// Who asks, where there is no session that says so.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// The agent.
    pub caller: &'a Caller,
    /// `_meta` of its request, as the server may read it.
    pub meta: Option<&'a Text>,
}

/// Whose link it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LinkKey {
    server: ServerName,
    agent: AgentId,
    tenant: Option<TenantId>,
    capabilities: Bytes,
}

/// A link that belongs to one agent.
pub(crate) struct CallerLink {
    key: LinkKey,
    /// The conversation.
    pub link: Arc<Link>,
    /// What the server said of itself.
    pub said: Text,
    /// What it shows this agent.
    pub catalogs: KnownCatalogs,
    notes: broadcast::Sender<Arc<Message>>,
    /// Requests in flight that the server may be asking about, the newest last.
    asking: Mutex<Vec<mpsc::Sender<Message>>>,
    /// The most verbose log level that was asked for.
    level: tokio::sync::Mutex<Option<usize>>,
    /// Resources that the server tells of, and to how many subscriptions.
    subscribed: tokio::sync::Mutex<HashMap<String, usize>>,
    used: Mutex<Duration>,
}

/// A server as one agent reaches it.
#[derive(Clone)]
pub(crate) struct ReachedLink {
    /// The conversation.
    pub link: Arc<Link>,
    /// Where it is the agent's own, though it has no session; kept as long as it is used.
    pub own: Option<Arc<CallerLink>>,
}

impl ReachedLink {
    /// The agent's own link to a legacy server.
    pub(crate) fn legacy(&self) -> Option<&Arc<CallerLink>> {
        let own = self.own.as_ref();
        own.filter(|_| self.link.revision.era() == Era::Legacy)
    }
}

/// A link, what its server said of itself, and what it says outside requests.
type OpenedCallerLink = (Arc<Link>, Text, UnsolicitedReceiver);

/// All of them, of all servers.
#[derive(Default)]
pub(crate) struct CallerLinks {
    open: Mutex<Vec<Arc<CallerLink>>>,
    /// Held while a link of that server is opened.
    opening: Mutex<HashMap<ServerName, Arc<tokio::sync::Mutex<()>>>>,
    /// Whose child of a modern server is the one that toolgate asks, too.
    first: Mutex<HashMap<ServerName, LinkKey>>,
    clock: Clock,
}

/// Log levels, the most verbose first.
pub(crate) const LOG_LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

impl LinkKey {
    fn of(server: &UpstreamServer, caller: &Caller, initialize: Option<&Text>) -> Self {
        let capabilities = initialize.and_then(|params| params.get("capabilities"));
        Self {
            server: server.settings.name.clone(),
            agent: caller.agent.clone(),
            tenant: caller.tenant.clone(),
            capabilities: capabilities
                .map(|declared| declared.bytes())
                .unwrap_or_default(),
        }
    }
}

impl CallerLinks {
    fn find(&self, key: &LinkKey) -> Option<Arc<CallerLink>> {
        let mut open = self.open.lock();
        open.retain(|known| !known.link.is_over());
        let found = open.iter().find(|known| known.key == *key)?;
        *found.used.lock() = self.clock.steady();
        Some(found.clone())
    }

    /// Makes room for one more: the one that was not used for longest goes, if nobody uses it.
    fn make_room(&self, server: &UpstreamServer) -> Result<Option<Arc<CallerLink>>, Fault> {
        let most = if server.settings.is_child() {
            MAX_CALLER_CHILDREN
        } else {
            MAX_CALLER_SESSIONS
        };
        let mut open = self.open.lock();
        let is_here = |known: &CallerLink| known.key.server == server.settings.name;
        if open.iter().filter(|known| is_here(known)).count() < most {
            return Ok(None);
        }
        let oldest = open
            .iter()
            .enumerate()
            .filter(|(_, known)| is_here(known) && Arc::strong_count(known) == 1)
            .min_by_key(|(_, known)| *known.used.lock())
            .map(|(index, _)| index);
        let words = format!(
            "{most} agents use the tool server at once already, each with a conversation of its own"
        );
        oldest
            .map(|index| Some(open.remove(index)))
            .ok_or_else(|| Fault::unsent(words))
    }

    /// From now on its agent gets another.
    pub(crate) fn give_up(&self, link: &Arc<Link>) {
        self.open
            .lock()
            .retain(|known| !Arc::ptr_eq(&known.link, link));
    }

    /// Ends those that nobody uses, or all.
    async fn sweep(&self, all: bool) {
        let over: Vec<_> = {
            let mut open = self.open.lock();
            let is_over = |known: &mut Arc<CallerLink>| {
                let idle = self.clock.steady().saturating_sub(*known.used.lock());
                all || (Arc::strong_count(known) == 1 && idle >= LINK_IDLE_TIMEOUT)
            };
            open.extract_if(.., is_over).collect()
        };
        futures_util::future::join_all(over.iter().map(|known| known.link.close())).await;
    }

    /// Ends all.
    pub(crate) async fn close(&self) {
        self.sweep(true).await;
    }

    /// The link of this agent to a legacy server, opened on first use.
    pub(crate) async fn link(
        self: &Arc<Self>,
        server: &Arc<UpstreamServer>,
        asker: Asker<'_>,
    ) -> Result<Arc<CallerLink>, Fault> {
        server.want()?;
        let params = initialize_of(asker.meta);
        let key = LinkKey::of(server, asker.caller, Some(&params));
        self.opened(server, key, async || {
            let (link, answer, unsolicited) =
                server.open(&params).await.map_err(Fault::before_sending)?;
            if answer.is_error {
                link.close().await;
                return Err(Fault::unsent("the tool server refused `initialize`"));
            }
            link.notify(Message::notification("notifications/initialized", None))
                .await
                .map_err(Fault::before_sending)?;
            let said = answer.body.unwrap_or_else(|| Text::of(&json!({})));
            Ok((link, said, unsolicited))
        })
        .await
    }

    /// The same, if it is open.
    pub(crate) fn known(
        &self,
        server: &UpstreamServer,
        asker: Asker<'_>,
    ) -> Option<Arc<CallerLink>> {
        let params = initialize_of(asker.meta);
        self.find(&LinkKey::of(server, asker.caller, Some(&params)))
    }

    /// The link of this agent to a modern server: over HTTP one for all, since nothing waits for
    /// another's request there. A child is one agent's, so that a call which never ends stops
    /// nobody else.
    pub(crate) async fn modern(
        self: &Arc<Self>,
        server: &Arc<UpstreamServer>,
        caller: &Caller,
    ) -> Result<ReachedLink, Fault> {
        let link = server.shared()?;
        let shared = ReachedLink { link, own: None };
        if !server.settings.is_child() {
            return Ok(shared);
        }
        let key = LinkKey::of(server, caller, None);
        let is_first = {
            let mut first = self.first.lock();
            let first = first.entry(key.server.clone());
            *first.or_insert_with(|| key.clone()) == key
        };
        if is_first {
            return Ok(shared);
        }
        let own = self
            .opened(server, key, async || {
                server.open_modern().await.map_err(Fault::before_sending)
            })
            .await?;
        Ok(ReachedLink {
            link: own.link.clone(),
            own: Some(own),
        })
    }

    async fn opened(
        self: &Arc<Self>,
        server: &Arc<UpstreamServer>,
        key: LinkKey,
        open: impl AsyncFnOnce() -> Result<OpenedCallerLink, Fault>,
    ) -> Result<Arc<CallerLink>, Fault> {
        if let Some(known) = self.find(&key) {
            return Ok(known);
        }
        // Two first uses at once share what the first of them opens.
        let opening = self
            .opening
            .lock()
            .entry(key.server.clone())
            .or_default()
            .clone();
        let _opening = opening.lock().await;
        if let Some(known) = self.find(&key) {
            return Ok(known);
        }
        if let Some(old) = self.make_room(server)? {
            old.link.close().await;
        }
        let (link, said, unsolicited) = open().await?;
        let own = Arc::new(CallerLink {
            key,
            link,
            said,
            catalogs: KnownCatalogs::default(),
            notes: broadcast::channel(NOTES_KEPT).0,
            asking: Mutex::default(),
            level: tokio::sync::Mutex::default(),
            subscribed: tokio::sync::Mutex::default(),
            used: Mutex::new(self.clock.steady()),
        });
        self.open.lock().push(own.clone());
        let follows = self
            .clone()
            .follow(Arc::downgrade(&own), server.clone(), unsolicited);
        tasks::spawn("link of an agent", follows);
        Ok(own)
    }

    /// Gives what the server says outside requests to whom it is for, and ends what nobody uses.
    async fn follow(
        self: Arc<Self>,
        own: Weak<CallerLink>,
        server: Arc<UpstreamServer>,
        mut said: UnsolicitedReceiver,
    ) {
        let mut sweep = tokio::time::interval(LINK_IDLE_TIMEOUT / 4);
        loop {
            let inbound = tokio::select! {
                inbound = said.recv() => inbound,
                _ = sweep.tick() => {
                    self.sweep(false).await;
                    if own.strong_count() == 0 { return; }
                    continue;
                }
            };
            let (Some(inbound), Some(own)) = (inbound, own.upgrade()) else {
                return;
            };
            match inbound {
                Inbound::Message(message) if message.kind == MessageKind::Request => {
                    own.asked(message).await;
                }
                Inbound::Message(message) => {
                    if message.method == "notifications/tools/list_changed" {
                        server.tools_changed();
                    }
                    drop(own.notes.send(Arc::new(message)));
                }
                Inbound::Comment(_) | Inbound::Interrupted(_) => {}
            }
        }
    }
}

impl CallerLink {
    /// What the server says outside requests, from now on.
    pub(crate) fn notes(&self) -> broadcast::Receiver<Arc<Message>> {
        self.notes.subscribe()
    }

    /// Where questions of the server arrive that belong to a request which is sent now.
    pub(crate) fn questions(&self) -> mpsc::Receiver<Message> {
        let (asks, questions) = mpsc::channel(QUESTIONS_KEPT);
        let mut asking = self.asking.lock();
        asking.retain(|asks| !asks.is_closed());
        asking.push(asks);
        questions
    }

    /// A request of the server names no request of the agent's. It belongs to the only one in
    /// flight; else, nobody can tell which one it belongs to.
    async fn asked(&self, question: Message) {
        if question.method != "ping" {
            let only = {
                let mut asking = self.asking.lock();
                asking.retain(|asks| !asks.is_closed());
                match asking.as_slice() {
                    [only] => Some(only.clone()),
                    _ => None,
                }
            };
            if only.is_some_and(|asks| asks.try_send(question.clone()).is_ok()) {
                return;
            }
        }
        self.decline(&question).await;
    }

    /// Whether the agent can be asked this: it has declared so.
    pub(crate) fn may_ask(&self, question: &Message) -> bool {
        let params = question.body.as_ref();
        let mode = params.and_then(|params| params.get("mode"));
        let is_url = mode.is_some_and(|mode| mode.as_str().as_deref() == Some("url"));
        let capability: &[&str] = match question.method.as_str() {
            "elicitation/create" if is_url => &["elicitation", "url"],
            "elicitation/create" => &["elicitation"],
            "sampling/createMessage" => &["sampling"],
            "roots/list" => &["roots"],
            _ => return false,
        };
        let declared = Text::read(self.key.capabilities.clone(), &SERVER_JSON_LIMITS);
        declared.is_ok_and(|declared| declared.at(capability).is_some())
    }

    /// Answers a question that no agent reads.
    pub(crate) async fn decline(&self, question: &Message) {
        let id = question.id.clone();
        let answer = match question.method.as_str() {
            "ping" => Message::response(id, Text::of(&json!({})), false),
            "roots/list" => Message::response(id, Text::of(&json!({ "roots": [] })), false),
            _ => {
                tracing::warn!(method = %question.method.escape_debug(), "a tool server asked something outside any request of the agent");
                let words = "no request of the agent's is open that this belongs to";
                Message::error(id, METHOD_NOT_FOUND, words, None)
            }
        };
        if let Err(fault) = self.link.notify(answer).await {
            tracing::debug!(%fault, "an answer did not reach the tool server");
        }
    }

    /// Whether the server says that it tells when this list changes.
    pub(crate) fn tells(&self, list: &str) -> bool {
        self.said
            .at(&["capabilities", list, "listChanged"])
            .is_some_and(|flag| flag.is_true())
    }

    /// Has the server tell of a resource, if it does not yet; whether it does.
    pub(crate) async fn subscribe(&self, uri: &str) -> bool {
        let can = self.said.at(&["capabilities", "resources", "subscribe"]);
        if !can.is_some_and(|flag| flag.is_true()) {
            return false;
        }
        let mut subscribed = self.subscribed.lock().await;
        if let Some(count) = subscribed.get_mut(uri) {
            *count += 1;
            return true;
        }
        let params = Text::of(&json!({ "uri": uri }));
        let answer = self.link.ask("resources/subscribe", Some(params)).await;
        let taken = answer.is_ok_and(|answer| !answer.is_error);
        if taken {
            subscribed.insert(uri.to_owned(), 1);
        }
        taken
    }

    /// Nobody who subscribed once wants to hear of the resource any more.
    pub(crate) async fn unsubscribe(&self, uri: &str) {
        let mut subscribed = self.subscribed.lock().await;
        match subscribed.get_mut(uri) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                subscribed.remove(uri);
                let params = Text::of(&json!({ "uri": uri }));
                drop(self.link.ask("resources/unsubscribe", Some(params)).await);
            }
            None => {}
        }
    }

    /// Has the server log from `level` on, if it does not yet.
    pub(crate) async fn logs_from(&self, level: &str) {
        let Some(rank) = rank(level) else { return };
        let mut known = self.level.lock().await;
        let has_log = self.said.at(&["capabilities", "logging"]).is_some();
        if !has_log || known.is_some_and(|known| known <= rank) {
            return;
        }
        let params = Text::of(&json!({ "level": level }));
        if let Ok(answer) = self.link.ask("logging/setLevel", Some(params)).await
            && !answer.is_error
        {
            *known = Some(rank);
        }
    }
}

/// How verbose a log level is: 0 the most.
pub(crate) fn rank(level: &str) -> Option<usize> {
    LOG_LEVELS.iter().position(|known| *known == level)
}
