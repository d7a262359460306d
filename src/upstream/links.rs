//! The links that serve one agent: the shared modern ones, or those of its own legacy session.

use super::Inbound;
use super::caller_links::{Asker, ReachedLink};
use super::link::Link;
use super::own_catalogs::KnownCatalogs;
use super::owners::TaskOwners;
use super::questions::Questions;
use super::server::UpstreamServer;
use super::servers::Servers;
use super::shared_children::SessionMarks;
use crate::mcp::bridge::{initialized_for_agents, initialized_of};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::{Era, Revision};
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

mod catalogs;
mod feeds;
mod news;
mod sending;
mod sharing;
mod waiting;

use feeds::SessionFeed;
use news::SessionNews;
use sharing::{OpenedSessionLink, SessionLink};
use waiting::{CrossableAnswers, InFlight};

pub(crate) use sending::{BridgeTerms, Sending, SentRequest};
pub use waiting::{CannotWait, WaitingRequest};

/// What one agent's conversation reaches.
pub struct Links {
    servers: Arc<Servers>,
    session: Option<LegacySession>,
    /// For one request: nobody can name it to cancel it, so nobody looks it up.
    alone: bool,
    /// Open requests of servers to the agent.
    pub questions: Questions,
    /// Told when the agent takes an interrupted stream up again.
    pub returned: Notify,
    /// Whose tasks are whose.
    pub tasks: Arc<TaskOwners>,
    in_flight: Mutex<HashMap<Vec<u8>, InFlight>>,
    crossable: CrossableAnswers,
    /// What servers show this agent only.
    catalogs: KnownCatalogs,
    /// What a legacy session hears of modern servers.
    feeds: Mutex<HashMap<ServerName, SessionFeed>>,
    news: SessionNews,
}

struct LegacySession {
    caller: Arc<Caller>,
    initialize: Text,
    links: tokio::sync::Mutex<HashMap<ServerName, SessionLink>>,
    /// Held while the link to that server is opened.
    opening: Mutex<HashMap<ServerName, Arc<tokio::sync::Mutex<()>>>>,
    /// The agent has said that it is ready.
    is_ready: AtomicBool,
    unsolicited: mpsc::Sender<(ServerName, Arc<Link>, Inbound)>,
    /// The revision agreed on, once it is.
    revision: OnceLock<Revision>,
    marks: Arc<SessionMarks>,
    /// From which level on the agent reads logs of servers that take it with each request.
    log_level: Mutex<Option<Text>>,
    /// Cancelled when the session ends.
    ended: CancellationToken,
}

impl Links {
    /// The shared modern links.
    pub fn shared(servers: Arc<Servers>) -> Self {
        Self::of(servers, Arc::default())
    }

    fn of(servers: Arc<Servers>, tasks: Arc<TaskOwners>) -> Self {
        Self {
            servers,
            session: None,
            alone: false,
            questions: Questions::default(),
            returned: Notify::new(),
            tasks,
            in_flight: Mutex::default(),
            crossable: CrossableAnswers::default(),
            catalogs: KnownCatalogs::default(),
            feeds: Mutex::default(),
            news: SessionNews::default(),
        }
    }

    /// The shared modern links for one request that stands alone: ids of other agents' requests say
    /// nothing about its own.
    #[must_use]
    pub fn alone(&self) -> Self {
        Self {
            alone: true,
            ..Self::of(self.servers.clone(), self.tasks.clone())
        }
    }

    /// What the agent said of its program when it opened its session, if it has one.
    pub(crate) fn program(&self) -> Option<Text> {
        self.session.as_ref()?.initialize.get("clientInfo")
    }

    /// The links of a legacy session that an agent opened with these parameters of `initialize`.
    /// What servers say outside requests goes to `unsolicited`.
    pub fn session(
        servers: Arc<Servers>,
        caller: Arc<Caller>,
        initialize: Text,
        unsolicited: mpsc::Sender<(ServerName, Arc<Link>, Inbound)>,
    ) -> Self {
        for server in servers.all() {
            server.expects_legacy();
        }
        let questions = Questions::to(&initialize);
        let marks = Arc::new(SessionMarks::default());
        marks.presence.touch();
        let tasks = marks.tasks.clone();
        let session = LegacySession {
            caller,
            initialize,
            links: tokio::sync::Mutex::default(),
            opening: Mutex::default(),
            is_ready: AtomicBool::new(false),
            unsolicited,
            revision: OnceLock::new(),
            marks,
            log_level: Mutex::default(),
            ended: CancellationToken::new(),
        };
        Self {
            servers,
            session: Some(session),
            alone: false,
            questions,
            returned: Notify::new(),
            tasks,
            in_flight: Mutex::default(),
            crossable: CrossableAnswers::default(),
            catalogs: KnownCatalogs::default(),
            feeds: Mutex::default(),
            news: SessionNews::default(),
        }
    }

    /// The servers behind the links.
    pub fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    /// Whether the agent speaks 2026-07-28.
    pub(crate) fn is_modern(&self) -> bool {
        self.session.is_none()
    }

    /// The questions table, on the legacy wire only.
    pub fn legacy_questions(&self) -> Option<&Questions> {
        self.session.as_ref().map(|_| &self.questions)
    }

    /// Which wire a server is reached on; of one that is down, was reached on.
    pub(crate) fn wire(&self, server: &UpstreamServer) -> Era {
        let own = match &self.session {
            Some(_) => Era::Legacy,
            None => Era::Modern,
        };
        let up = server.up().map(|up| up.verdict.clone());
        let known = up.or_else(|| server.known());
        if known.is_none_or(|known| known.speaks_era(own)) {
            return own;
        }
        match own {
            Era::Legacy => Era::Modern,
            Era::Modern => Era::Legacy,
        }
    }

    /// Whether the server of that name is reached on the legacy wire.
    pub(crate) fn is_legacy_at(&self, name: &ServerName) -> bool {
        self.server(name)
            .is_ok_and(|server| self.wire(server) == Era::Legacy)
    }

    /// The revision that a legacy agent speaks.
    pub(crate) fn legacy_revision(&self) -> Option<Revision> {
        let session = self.session.as_ref()?;
        Some(
            session
                .revision
                .get()
                .copied()
                .unwrap_or(Revision::NEWEST_LEGACY),
        )
    }

    /// The agent and toolgate have agreed on this revision.
    pub(crate) fn agree_on(&self, revision: Revision) {
        if let Some(session) = &self.session {
            let _ = session.revision.set(revision);
        }
    }

    /// Whether the agent of a legacy session has said that it can do this.
    pub(crate) fn has_declared(&self, capability: &[&str]) -> bool {
        let said = self
            .session
            .as_ref()
            .and_then(|session| session.initialize.get("capabilities"));
        said.is_some_and(|said| said.at(capability).is_some())
    }

    /// From now on servers that take it with each request log for the agent from this level on.
    pub(crate) fn log_from(&self, level: Text) {
        if let Some(session) = &self.session {
            *session.log_level.lock() = Some(level);
        }
    }

    /// The link to a server. A legacy session opens its own on first use; an agent without one gets
    /// its own where the server answers in sessions only.
    pub(crate) async fn link(
        &self,
        name: &ServerName,
        asker: Asker<'_>,
    ) -> Result<ReachedLink, Fault> {
        let server = self.server(name)?;
        let Some(session) = &self.session else {
            if self.wire(server) == Era::Legacy {
                let own = self.servers.callers().link(server, asker).await?;
                return Ok(ReachedLink::owned(own));
            }
            return self.servers.callers().modern(server, asker.caller).await;
        };
        if self.wire(server) == Era::Modern {
            return server.shared_for(asker.caller).map(ReachedLink::shared);
        }
        // Two first uses at once share what the first of them opens.
        let opening = session.opening(name);
        let _opening = opening.lock().await;
        if let Some(open) = session
            .links
            .lock()
            .await
            .get(name)
            .filter(|open| !open.link.is_over())
        {
            server.may_carry(&open.link, asker.caller)?;
            return Ok(ReachedLink::seated(open.link.clone(), open.user_number()));
        }
        let opened = Box::pin(self.open(server, asker.caller)).await?;
        let Some(link) = opened.link else {
            return Err(Fault::unsent("the tool server refused `initialize`"));
        };
        if !opened.is_introduced {
            Box::pin(link.notify(Message::notification("notifications/initialized", None))).await?;
        }
        self.opened_again(name, &link, opened.shared);
        Ok(ReachedLink::seated(link, opened.user))
    }

    /// The same, if it is open and nobody is opening it: nothing has to be waited for.
    fn open_link(
        &self,
        server: &Arc<UpstreamServer>,
        asker: Asker<'_>,
    ) -> Result<Option<ReachedLink>, Fault> {
        let (callers, wire) = (self.servers.callers(), self.wire(server));
        let Some(session) = &self.session else {
            return match wire {
                Era::Modern => callers.open_modern_link(server, asker.caller),
                Era::Legacy => {
                    server.want()?;
                    let own = callers.known(server, asker);
                    Ok(own.map(ReachedLink::owned))
                }
            };
        };
        if wire == Era::Modern {
            let link = server.shared_for(asker.caller)?;
            return Ok(Some(ReachedLink::shared(link)));
        }
        let opening = session.opening(&server.settings.name);
        let (Ok(_opening), Ok(links)) = (opening.try_lock(), session.links.try_lock()) else {
            return Ok(None);
        };
        let open = links.get(&server.settings.name);
        let open = open.filter(|open| !open.link.is_over());
        if let Some(open) = open {
            server.may_carry(&open.link, asker.caller)?;
        }
        Ok(open.map(|open| ReachedLink::seated(open.link.clone(), open.user_number())))
    }

    fn server(&self, name: &ServerName) -> Result<&Arc<UpstreamServer>, Fault> {
        self.servers
            .get(name.as_str())
            .ok_or_else(|| Fault::unsent("there is no such tool server"))
    }

    /// A server's answer to the agent's `initialize`: its own, in the session that is opened there,
    /// or what it said of itself without one.
    pub async fn introduction(
        &self,
        server: &UpstreamServer,
        revision: Revision,
    ) -> Result<Message, Fault> {
        if self.wire(server) == Era::Modern {
            let up = server.want()?;
            let said = up.verdict.discovered.as_ref();
            let said = said.map(|said| initialized_of(said, revision));
            let said =
                said.ok_or_else(|| Fault::unsent("the tool server said nothing of itself"))?;
            return Ok(Message::response(None, said, false));
        }
        let Some(session) = &self.session else {
            return Err(Fault::unsent("modern links are not opened"));
        };
        let opening = session.opening(&server.settings.name);
        let _opening = opening.lock().await;
        let OpenedSessionLink {
            link,
            answer,
            is_introduced,
            ..
        } = self.open(server, &session.caller).await?;
        let Some(link) = link else {
            return Ok(initialized_for_agents(answer));
        };
        let name = &server.settings.name;
        self.had_session(name);
        if session.unsolicited.is_closed() {
            // The session ended meanwhile.
            let open = session.links.lock().await.remove(name);
            if let Some(open) = open {
                open.close().await;
            }
        } else if !is_introduced && session.is_ready.load(Ordering::Relaxed) {
            link.notify(Message::notification("notifications/initialized", None))
                .await?;
        }
        Ok(initialized_for_agents(answer))
    }

    /// The agent has said that it is ready: links that open later are told at once.
    pub(crate) fn is_ready(&self) {
        if let Some(session) = &self.session {
            session.is_ready.store(true, Ordering::Relaxed);
        }
        self.listens();
    }

    /// Opens the session's link to a server, for `caller`, whose the session is.
    async fn open(
        &self,
        server: &UpstreamServer,
        caller: &Caller,
    ) -> Result<OpenedSessionLink, Fault> {
        let Some(session) = &self.session else {
            return Err(Fault::unsent("modern links are not opened"));
        };
        let name = server.settings.name.clone();
        let told = self
            .servers
            .keeper()
            .introduce(&session.caller, &name, &session.initialize);
        if server.settings.is_child() {
            return session.joins(server, &told).await;
        }
        let (link, answer, mut unsolicited) = server.open(&told, caller).await?;
        if answer.is_error {
            link.close().await;
            return Ok(OpenedSessionLink::refused(answer));
        }
        let open = SessionLink {
            link: link.clone(),
            seat: None,
        };
        session.links.lock().await.insert(name.clone(), open);
        let (inbox, weak) = (session.unsolicited.clone(), Arc::downgrade(&link));
        crate::telemetry::tasks::spawn("unsolicited messages", async move {
            while let Some(said) = unsolicited.recv().await {
                let Some(link) = weak.upgrade() else { return };
                if inbox.send((name.clone(), link, said)).await.is_err() {
                    return;
                }
            }
        });
        Ok(OpenedSessionLink {
            link: Some(link),
            ..OpenedSessionLink::refused(answer)
        })
    }

    /// The legacy links that are open.
    pub async fn open_links(&self) -> Vec<(ServerName, Arc<Link>)> {
        match &self.session {
            Some(session) => session
                .links
                .lock()
                .await
                .iter()
                .map(|(name, open)| (name.clone(), open.link.clone()))
                .collect(),
            None => Vec::new(),
        }
    }

    /// Resolves when the agent's session has ended; never for an agent without one.
    pub(crate) async fn ended(&self) {
        match &self.session {
            Some(session) => session.ended.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Ends all links of a legacy session, side by side: there are no more than servers configured.
    pub async fn close(&self) {
        let Some(session) = &self.session else { return };
        session.ended.cancel();
        let links: Vec<_> = session.links.lock().await.drain().collect();
        let closes = links.into_iter().map(|(_, open)| open.close());
        futures_util::future::join_all(closes).await;
    }
}

impl LegacySession {
    fn opening(&self, name: &ServerName) -> Arc<tokio::sync::Mutex<()>> {
        self.opening.lock().entry(name.clone()).or_default().clone()
    }
}
