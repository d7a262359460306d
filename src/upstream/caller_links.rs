//! Links to one server that belong to one agent, not to one request or one session of it: an agent
//! of 2026-07-28 has no session, and a legacy server answers in sessions only (protocol §4.3).
//!
//! One for each agent, tenant, user and set of declared capabilities. It ends when nobody has used it for
//! a while, and is made anew once a server has forgotten it.

use super::credentials::classes::CredentialName;
use super::link::Link;
use super::own_catalogs::KnownCatalogs;
use super::server::UpstreamServer;
use super::shared_children::ChildSeat;
use super::{Inbound, UnsolicitedReceiver};
use crate::mcp::bridge::initialize_of;
use crate::mcp::canonical;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::Era;
use crate::model::caller::{Caller, CallerKey};
use crate::model::clock::Clock;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use crate::telemetry::tasks;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

mod asking;
mod legacy;
mod own;
mod pins;
mod reached;
#[cfg(test)]
mod tests;

use asking::AskedRequest;
pub(crate) use asking::{AskedAbout, QuestionInbox};
pub(crate) use reached::ReachedLink;

/// Links of one server that are open at once: a child is a process, a session over HTTP an entry in
/// the server's memory.
const MAX_CALLER_CHILDREN: usize = 16;
const MAX_CALLER_SESSIONS: usize = 256;
/// Of these, of one agent, tenant and user: each set of capabilities that it declares is one.
const MAX_LINKS_PER_CALLER: usize = 4;
/// One in so many of a server's links is left to other agents, however many users are behind one.
const OTHERS_SHARE: usize = 4;
/// A link that no request has used for so long is closed.
const LINK_IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// Links that are remembered when they are gone. An agent whose link was forgotten is not told that
/// its state is.
const MAX_PAST_LINKS: usize = 1_024;
/// Notifications that wait for a subscription to read them; it loses older ones.
const NOTES_KEPT: usize = 256;

/// Who asks, where there is no session that says so.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// The agent.
    pub caller: &'a Caller,
    /// `_meta` of its request, as the server may read it.
    pub meta: Option<&'a Text>,
}

/// Whose link it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LinkKey {
    server: ServerName,
    whose: CallerKey,
    capabilities: Bytes,
    /// In whose name the server is asked.
    name: CredentialName,
}

/// A link that belongs to one agent.
pub(crate) struct CallerLink {
    key: LinkKey,
    /// The conversation.
    pub link: Arc<Link>,
    /// What the server said of itself.
    pub said: Text,
    /// What the agent has declared to it.
    declared: Text,
    /// What it shows this agent.
    pub catalogs: KnownCatalogs,
    notes: broadcast::Sender<Arc<Message>>,
    /// Requests in flight that the server may be asking about, the newest last.
    asking: Mutex<Vec<AskedRequest>>,
    /// Each has a process of its own.
    is_child: bool,
    /// One more for each thing that waits on it for its agent.
    pins: Arc<()>,
    /// The most verbose log level that was asked for.
    level: tokio::sync::Mutex<Option<usize>>,
    /// Resources that the server tells of, and to how many subscriptions.
    subscribed: tokio::sync::Mutex<HashMap<String, usize>>,
    used: Mutex<Duration>,
    /// It stands in for an earlier one, and its agent has not been told.
    is_news: AtomicBool,
    /// Cancelled when its agent gets another.
    given_up: CancellationToken,
    /// Where it is a process of a legacy server: this agent's place in it.
    seat: Option<ChildSeat>,
}

/// A link that was just opened.
struct OpenedCallerLink {
    link: Arc<Link>,
    /// What the server said of itself, and what the agent has declared to it.
    said: Text,
    declared: Text,
    /// What it says outside requests.
    unsolicited: UnsolicitedReceiver,
    seat: Option<ChildSeat>,
}

/// All of them, of all servers.
#[derive(Default)]
pub(crate) struct CallerLinks {
    open: Mutex<Vec<Arc<CallerLink>>>,
    /// Those that are opened now: each has its room already.
    coming: Mutex<Vec<LinkKey>>,
    /// Held while that link is opened.
    opening: Mutex<HashMap<LinkKey, Arc<tokio::sync::Mutex<()>>>>,
    /// Whose child of a modern server is the one that toolgate asks, too.
    first: Mutex<HashMap<ServerName, LinkKey>>,
    /// Whose links there were, the latest last.
    past: Mutex<VecDeque<LinkKey>>,
    clock: Clock,
    /// Simulations have no servers to open links at: they bring them.
    #[cfg(test)]
    is_simulated: AtomicBool,
}

/// The room of a link that is opened, until it is open or has failed.
struct LinkRoom {
    all: Arc<CallerLinks>,
    key: LinkKey,
}

impl Drop for LinkRoom {
    fn drop(&mut self) {
        let mut coming = self.all.coming.lock();
        if let Some(index) = coming.iter().position(|key| *key == self.key) {
            coming.swap_remove(index);
        }
    }
}

impl CallerLink {
    /// The number by which its requests are told from those of others.
    pub(super) fn user_number(&self) -> u64 {
        self.seat.as_ref().map_or(0, |seat| seat.number)
    }
}

impl LinkKey {
    fn is_of_same_caller(&self, other: &Self) -> bool {
        (&self.server, &self.whose) == (&other.server, &other.whose)
    }

    fn is_of_same_agent(&self, other: &Self) -> bool {
        let whose = |key: &Self| (key.whose.agent.clone(), key.whose.tenant.clone());
        self.server == other.server && whose(self) == whose(other)
    }

    fn of(server: &UpstreamServer, caller: &Caller, initialize: Option<&Text>) -> Self {
        let capabilities = initialize.and_then(|params| params.get("capabilities"));
        Self {
            server: server.settings.name.clone(),
            whose: caller.key(),
            capabilities: capabilities
                .map(|declared| Bytes::from(canonical::exact(&declared.value())))
                .unwrap_or_default(),
            name: CredentialName::default(),
        }
    }

    fn named(self, name: Option<CredentialName>) -> Self {
        let name = name.unwrap_or_default();
        Self { name, ..self }
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

    /// Takes room for one more: of its own links, if the caller or its agent has many, else of all, the
    /// one that was not used for longest goes, if nobody uses it.
    fn make_room(&self, key: &LinkKey, is_child: bool) -> Result<Option<Arc<CallerLink>>, Fault> {
        let most = if is_child {
            MAX_CALLER_CHILDREN
        } else {
            MAX_CALLER_SESSIONS
        };
        let (mut open, mut coming) = (self.open.lock(), self.coming.lock());
        let is_here = |known: &LinkKey| known.server == key.server;
        let is_own = |known: &LinkKey| known.is_of_same_caller(key);
        let count = |fits: &dyn Fn(&LinkKey) -> bool| {
            let open = open.iter().filter(|known| fits(&known.key)).count();
            open + coming.iter().filter(|known| fits(known)).count()
        };
        // Users are names that one agent says: all of them together leave room for other agents.
        let is_agents = |known: &LinkKey| known.is_of_same_agent(key);
        let own_many = count(&is_own) >= MAX_LINKS_PER_CALLER;
        let has_many = own_many || count(&is_agents) >= most - most / OTHERS_SHARE;
        if !has_many && count(&is_here) < most {
            coming.push(key.clone());
            return Ok(None);
        }
        let oldest = open
            .iter()
            .enumerate()
            .filter(|(_, known)| {
                if own_many {
                    is_own(&known.key)
                } else if has_many {
                    is_agents(&known.key)
                } else {
                    is_here(&known.key)
                }
            })
            .filter(|(_, known)| Arc::strong_count(known) == 1)
            .min_by_key(|(_, known)| *known.used.lock())
            .map(|(index, _)| index);
        let Some(index) = oldest else {
            let words = "too many conversations with the tool server are in use at once";
            return Err(Fault::unsent(words));
        };
        coming.push(key.clone());
        Ok(Some(open.remove(index)))
    }

    /// From now on its agent gets another.
    pub(crate) fn give_up(&self, link: &Arc<Link>) {
        self.open.lock().retain(|known| {
            let is_it = Arc::ptr_eq(&known.link, link);
            if is_it {
                known.given_up.cancel();
            }
            !is_it
        });
    }

    /// Whether there was a link of this key before; from now on there was.
    fn had(&self, key: &LinkKey) -> bool {
        let mut past = self.past.lock();
        if past.contains(key) {
            return true;
        }
        if past.len() >= MAX_PAST_LINKS {
            past.pop_front();
        }
        past.push_back(key.clone());
        false
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
        let name = server.settings.name_of(asker.caller)?;
        let key = LinkKey::of(server, asker.caller, Some(&params)).named(name);
        #[cfg(test)]
        if self.is_simulated.load(std::sync::atomic::Ordering::Relaxed) {
            let known = self.find(&key);
            return known.ok_or_else(|| Fault::unsent("the link is lost"));
        }
        let (at, caller) = (server.clone(), asker.caller.clone());
        let opens = async move { legacy::opened(&at, &caller, &params).await };
        self.opened(server, key, opens).await
    }

    /// The same, if it is open.
    pub(crate) fn known(
        &self,
        server: &UpstreamServer,
        asker: Asker<'_>,
    ) -> Option<Arc<CallerLink>> {
        let params = initialize_of(asker.meta);
        let name = server.settings.name_of(asker.caller).ok()?;
        self.find(&LinkKey::of(server, asker.caller, Some(&params)).named(name))
    }

    /// The link of this agent to a modern server: over HTTP one for all, since nothing waits for
    /// another's request there. A child is one agent's, so that a call which never ends stops
    /// nobody else.
    pub(crate) async fn modern(
        self: &Arc<Self>,
        server: &Arc<UpstreamServer>,
        caller: &Caller,
    ) -> Result<ReachedLink, Fault> {
        if let Some(open) = self.open_modern_link(server, caller)? {
            return Ok(open);
        }
        let (at, key) = (
            server.clone(),
            LinkKey::of(server, &caller.as_agent(), None),
        );
        let opens = async move {
            let opened = at.open_modern().await.map_err(Fault::before_sending);
            opened.map(|(link, said, unsolicited)| OpenedCallerLink {
                link,
                said,
                declared: Text::of(&json!({})),
                unsolicited,
                seat: None,
            })
        };
        let own = self.opened(server, key, opens).await?;
        Ok(ReachedLink::owned(own))
    }

    /// The same, if it is open.
    pub(crate) fn open_modern_link(
        &self,
        server: &UpstreamServer,
        caller: &Caller,
    ) -> Result<Option<ReachedLink>, Fault> {
        let shared = ReachedLink::shared(server.shared_for(caller)?);
        if !server.settings.is_child() {
            return Ok(Some(shared));
        }
        let key = LinkKey::of(server, &caller.as_agent(), None);
        let is_first = {
            let mut first = self.first.lock();
            let first = first.entry(key.server.clone());
            *first.or_insert_with(|| key.clone()) == key
        };
        if is_first {
            return Ok(Some(shared));
        }
        Ok(self.find(&key).map(ReachedLink::owned))
    }

    /// The link of that key; `opens` opens it, once for all who want it now, and also when those who
    /// want it leave.
    async fn opened(
        self: &Arc<Self>,
        server: &Arc<UpstreamServer>,
        key: LinkKey,
        opens: impl Future<Output = Result<OpenedCallerLink, Fault>> + Send + 'static,
    ) -> Result<Arc<CallerLink>, Fault> {
        if let Some(known) = self.find(&key) {
            return Ok(known);
        }
        let opening = self.opening.lock().entry(key.clone()).or_default().clone();
        let (all, server) = (self.clone(), server.clone());
        let opened = tasks::spawn("opening of a link", async move {
            let opened = {
                let _opening = opening.lock().await;
                match all.find(&key) {
                    Some(known) => Ok(known),
                    None => all.open(&server, key.clone(), opens).await,
                }
            };
            all.opening.lock().remove(&key);
            opened
        });
        opened
            .await
            .unwrap_or_else(|_| Err(Fault::unsent("a link could not be opened")))
    }

    async fn open(
        self: &Arc<Self>,
        server: &Arc<UpstreamServer>,
        key: LinkKey,
        opens: impl Future<Output = Result<OpenedCallerLink, Fault>> + Send,
    ) -> Result<Arc<CallerLink>, Fault> {
        let old = self.make_room(&key, server.settings.is_child())?;
        let room = LinkRoom {
            all: self.clone(),
            key: key.clone(),
        };
        if let Some(old) = old {
            tasks::spawn("closing of a link", async move { old.link.close().await });
        }
        let OpenedCallerLink {
            link,
            said,
            declared,
            unsolicited,
            seat,
        } = opens.await?;
        let is_legacy = link.revision.era() == Era::Legacy;
        let own = Arc::new(CallerLink {
            is_news: AtomicBool::new(is_legacy && self.had(&key)),
            given_up: CancellationToken::new(),
            key,
            link,
            said,
            declared,
            catalogs: KnownCatalogs::default(),
            notes: broadcast::channel(NOTES_KEPT).0,
            asking: Mutex::default(),
            is_child: server.settings.is_child(),
            pins: Arc::default(),
            level: tokio::sync::Mutex::default(),
            subscribed: tokio::sync::Mutex::default(),
            used: Mutex::new(self.clock.steady()),
            seat,
        });
        {
            let mut open = self.open.lock();
            open.push(own.clone());
            drop(room);
        }
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
        let (mut sweep, mut talks) = (tokio::time::interval(LINK_IDLE_TIMEOUT / 4), true);
        loop {
            let inbound = tokio::select! {
                inbound = said.recv(), if talks => inbound,
                _ = sweep.tick() => {
                    self.sweep(false).await;
                    let is_over = own.upgrade().is_none_or(|own| own.link.is_over());
                    if is_over { return; }
                    continue;
                }
            };
            let Some(own) = own.upgrade() else { return };
            // A server without a standalone stream says nothing more here.
            let Some(inbound) = inbound else {
                talks = false;
                continue;
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
