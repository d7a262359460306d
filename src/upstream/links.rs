//! The links that serve one agent: the shared modern ones, or those of its own legacy session.

use super::Inbound;
use super::departure::Departure;
use super::link::{Link, UpstreamExchange};
use super::owners::TaskOwners;
use super::questions::Questions;
use super::server::UpstreamServer;
use super::servers::Servers;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// Requests of one agent's conversation that wait for an answer (threat-model §8).
const MAX_REQUESTS_IN_FLIGHT: usize = 256;

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
}

struct LegacySession {
    caller: Arc<Caller>,
    initialize: Text,
    links: tokio::sync::Mutex<HashMap<ServerName, Arc<Link>>>,
    opening: tokio::sync::Mutex<()>,
    unsolicited: mpsc::Sender<(ServerName, Arc<Link>, Inbound)>,
}

struct InFlight {
    link: Option<(Arc<Link>, Text)>,
    cancelled: CancellationToken,
}

/// A request that waits for its answer; dropping it says that it no longer does.
pub struct WaitingRequest {
    links: Arc<Links>,
    id: Vec<u8>,
    /// Cancelled when the agent cancels the request.
    pub cancelled: CancellationToken,
    /// The agent has its answer; read and set under the lock of those in flight.
    answered: AtomicBool,
}

/// A request for a server.
#[derive(Clone, Copy)]
pub struct Sending<'a> {
    /// What travels, under any id.
    pub message: &'a Message,
    /// Headers besides the usual ones.
    pub params: &'a [(String, String)],
    /// It may change something: it is sent once, whatever the server says.
    pub changes: bool,
    /// By which the gate, which waits for it, may take it back before it has left.
    pub departure: Option<&'a Departure>,
}

/// Why a request of an agent cannot wait for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotWait {
    /// The agent used an id twice.
    #[error("another request of this id waits for its answer; use ids only once")]
    SameId,
    /// The agent sent more than it lets us answer.
    #[error(
        "{MAX_REQUESTS_IN_FLIGHT} requests wait for their answers already; send more once some are answered"
    )]
    TooMany,
}

impl Links {
    /// The shared modern links.
    pub fn shared(servers: Arc<Servers>) -> Self {
        Self {
            servers,
            session: None,
            alone: false,
            questions: Questions::default(),
            returned: Notify::new(),
            tasks: Arc::default(),
            in_flight: Mutex::default(),
        }
    }

    /// The shared modern links for one request that stands alone: ids of other agents' requests say
    /// nothing about its own.
    #[must_use]
    pub fn alone(&self) -> Self {
        Self {
            tasks: self.tasks.clone(),
            alone: true,
            ..Self::shared(self.servers.clone())
        }
    }

    /// The links of a legacy session that an agent opened with these parameters of `initialize`.
    /// What servers say outside requests goes to `unsolicited`.
    pub fn session(
        servers: Arc<Servers>,
        caller: Arc<Caller>,
        initialize: Text,
        unsolicited: mpsc::Sender<(ServerName, Arc<Link>, Inbound)>,
    ) -> Self {
        let questions = Questions::to(&initialize);
        let session = LegacySession {
            caller,
            initialize,
            links: tokio::sync::Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            unsolicited,
        };
        Self {
            servers,
            session: Some(session),
            alone: false,
            questions,
            returned: Notify::new(),
            tasks: Arc::default(),
            in_flight: Mutex::default(),
        }
    }

    /// The servers behind the links.
    pub fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    /// The questions table, on the legacy wire only.
    pub fn legacy_questions(&self) -> Option<&Questions> {
        self.session.as_ref().map(|_| &self.questions)
    }

    /// The link to a server; a legacy session opens its own on first use.
    pub async fn link(&self, name: &ServerName) -> Result<Arc<Link>, Fault> {
        let server = self
            .servers
            .get(name.as_str())
            .ok_or_else(|| Fault::unsent("there is no such tool server"))?;
        let Some(session) = &self.session else {
            return server.shared();
        };
        // Two first uses at once share what the first of them opens.
        let _opening = session.opening.lock().await;
        if let Some(link) = session
            .links
            .lock()
            .await
            .get(name)
            .filter(|link| !link.is_over())
        {
            return Ok(link.clone());
        }
        let (link, answer) = Box::pin(self.open(server)).await?;
        if answer.is_error {
            return Err(Fault::unsent("the tool server refused `initialize`"));
        }
        Box::pin(link.notify(Message::notification("notifications/initialized", None))).await?;
        Ok(link)
    }

    /// Sends a request to a server. `begins` hears on which link and under which id before anything
    /// leaves; if it says no, nothing is sent, and there is no exchange. A server that no
    /// longer knows the session, as after a restart, gets a new one; the request is sent once
    /// more only if it changes nothing, for what the server says is no proof that it did
    /// nothing (guarantees §4).
    pub async fn request(
        &self,
        name: &ServerName,
        sending: Sending<'_>,
        mut begins: impl FnMut(&Arc<Link>, &Text) -> bool,
    ) -> Result<Option<(Arc<Link>, UpstreamExchange)>, Fault> {
        let changes = sending.changes;
        let link = if changes {
            Box::pin(self.known(name)).await
        } else {
            self.link(name).await
        };
        let link = link.map_err(Fault::before_sending)?;
        let mut exchange = link
            .request(sending.message.clone(), sending.params.to_vec())
            .await?;
        if !begins(&link, &exchange.id) {
            return Ok(None);
        }
        if let Some(departure) = sending.departure {
            exchange.departs_by(departure.clone());
        }
        if changes {
            exchange.keeps(&link);
        }
        let begun = exchange.begin().await;
        if exchange.is_heard() {
            link.heard();
        }
        if !exchange.session_is_gone() {
            return begun.map(|()| Some((link, exchange)));
        }
        tracing::info!(server = %name, "the tool server no longer knows the session; a new one is opened");
        self.give_up(&link).await;
        if changes {
            return begun.map(|()| Some((link, exchange)));
        }
        Box::pin(self.again(name, sending, begins)).await
    }

    /// Sends a request once more, in a new session.
    async fn again(
        &self,
        name: &ServerName,
        sending: Sending<'_>,
        mut begins: impl FnMut(&Arc<Link>, &Text) -> bool,
    ) -> Result<Option<(Arc<Link>, UpstreamExchange)>, Fault> {
        let link = self.link(name).await?;
        let mut exchange = link
            .request(sending.message.clone(), sending.params.to_vec())
            .await?;
        if !begins(&link, &exchange.id) {
            return Ok(None);
        }
        exchange.begin().await?;
        Ok(Some((link, exchange)))
    }

    /// The link to a server for what is sent once only: where nothing was heard for long, the
    /// server is asked first whether it knows the session. One that it does not know is left
    /// alone, not ended: who says so may be wrong, and other calls may be in flight in it.
    async fn known(&self, name: &ServerName) -> Result<Arc<Link>, Fault> {
        let link = self.link(name).await?;
        let after = self
            .servers
            .get(name.as_str())
            .map(|server| server.settings.ping_after);
        if !after.is_some_and(|after| link.is_idle(after)) {
            return Ok(link);
        }
        if Box::pin(link.is_known()).await? {
            link.heard();
            return Ok(link);
        }
        tracing::info!(server = %name, "the tool server no longer knows the session; a new one is opened");
        self.give_up(&link).await;
        self.link(name).await
    }

    /// From now on the agent's session has another link to that server.
    async fn give_up(&self, link: &Arc<Link>) {
        if let Some(session) = &self.session {
            session
                .links
                .lock()
                .await
                .retain(|_, known| !Arc::ptr_eq(known, link));
        }
    }

    /// Opens the session's link to a server; returns the server's answer to `initialize`.
    pub async fn open(&self, server: &UpstreamServer) -> Result<(Arc<Link>, Message), Fault> {
        let Some(session) = &self.session else {
            return Err(Fault::unsent("modern links are not opened"));
        };
        let name = server.settings.name.clone();
        let told = self
            .servers
            .keeper()
            .introduce(&session.caller, &name, &session.initialize);
        let (link, answer, mut unsolicited) = server.open(&told).await?;
        if answer.is_error {
            link.close().await;
            return Ok((link, answer));
        }
        session
            .links
            .lock()
            .await
            .insert(name.clone(), link.clone());
        let (inbox, weak) = (session.unsolicited.clone(), Arc::downgrade(&link));
        crate::telemetry::tasks::spawn("unsolicited messages", async move {
            while let Some(said) = unsolicited.recv().await {
                let Some(link) = weak.upgrade() else { return };
                if inbox.send((name.clone(), link, said)).await.is_err() {
                    return;
                }
            }
        });
        Ok((link, answer))
    }

    /// The legacy links that are open.
    pub async fn open_links(&self) -> Vec<(ServerName, Arc<Link>)> {
        match &self.session {
            Some(session) => session
                .links
                .lock()
                .await
                .iter()
                .map(|(name, link)| (name.clone(), link.clone()))
                .collect(),
            None => Vec::new(),
        }
    }

    /// Notes that the agent's request waits.
    pub fn wait(self: &Arc<Self>, id: &Text) -> Result<WaitingRequest, CannotWait> {
        let cancelled = CancellationToken::new();
        if self.alone {
            return Ok(WaitingRequest {
                links: self.clone(),
                id: Vec::new(),
                cancelled,
                answered: AtomicBool::new(false),
            });
        }
        let mut in_flight = self.in_flight.lock();
        if in_flight.contains_key(id.as_bytes()) {
            return Err(CannotWait::SameId);
        }
        if in_flight.len() >= MAX_REQUESTS_IN_FLIGHT {
            return Err(CannotWait::TooMany);
        }
        in_flight.insert(
            id.as_bytes().to_vec(),
            InFlight {
                link: None,
                cancelled: cancelled.clone(),
            },
        );
        Ok(WaitingRequest {
            links: self.clone(),
            id: id.as_bytes().to_vec(),
            cancelled,
            answered: AtomicBool::new(false),
        })
    }

    /// Hands the agent's cancellation to the server that works on the request, under the server's
    /// id of it.
    pub fn cancel(&self, note: &Message) {
        let Some(mut params) = note.body.as_ref().and_then(Text::object) else {
            return;
        };
        let Some(id) = params.get("requestId").cloned() else {
            return;
        };
        let found = {
            // From here on the agent may use the id again.
            let mut in_flight = self.in_flight.lock();
            let Some(waiting) = in_flight.remove(id.as_bytes()) else {
                return;
            };
            // Under the lock, so that a place of this id is either its own or known to be
            // cancelled.
            waiting.cancelled.cancel();
            waiting.link
        };
        if let Some((link, upstream_id)) = found {
            params.set("requestId", upstream_id);
            link.pass_cancellation(Message {
                body: Some(Object::text(&params)),
                ..note.clone()
            });
        }
    }

    /// Ends all links of a legacy session, side by side: there are no more than servers configured.
    pub async fn close(&self) {
        let Some(session) = &self.session else { return };
        let links: Vec<_> = session.links.lock().await.drain().collect();
        futures_util::future::join_all(links.iter().map(|(_, link)| link.close())).await;
    }
}

impl WaitingRequest {
    /// Says which server works on the request from now on, under which id. False: the agent has
    /// cancelled it already.
    #[must_use]
    pub fn on(&self, link: &Arc<Link>, id: &Text) -> bool {
        if self.links.alone {
            return true;
        }
        let mut in_flight = self.links.in_flight.lock();
        if self.cancelled.is_cancelled() {
            return false;
        }
        if let (Some(waiting), false) = (
            in_flight.get_mut(&self.id),
            self.answered.load(Ordering::Relaxed),
        ) {
            waiting.link = Some((link.clone(), id.clone()));
        }
        true
    }

    /// The agent has its answer: from here on it may use the id again, also while the server is
    /// still listened for.
    pub fn answered(&self) {
        if self.links.alone {
            return;
        }
        let mut in_flight = self.links.in_flight.lock();
        if !self.cancelled.is_cancelled() && !self.answered.swap(true, Ordering::Relaxed) {
            in_flight.remove(&self.id);
        }
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.answered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::http::connections;
    use crate::upstream::server_settings::Surroundings;
    use std::path::PathBuf;

    /// threat-model §8: an agent's open requests have a bound, and it is told what it ran into.
    #[test]
    fn an_agent_is_told_why_a_request_cannot_wait() {
        let around = Surroundings {
            connections: connections().unwrap(),
            guard: PathBuf::new(),
            leftovers: Arc::default(),
        };
        let links = Arc::new(Links::shared(Arc::new(Servers::new(Vec::new(), &around))));
        let id = |number: usize| Text::string(&number.to_string());
        let mut waiting: Vec<_> = (0..MAX_REQUESTS_IN_FLIGHT)
            .map(|number| links.wait(&id(number)).unwrap())
            .collect();
        let cannot = |number| links.wait(&id(number)).map(drop);
        assert_eq!(cannot(7), Err(CannotWait::SameId));
        assert_eq!(cannot(MAX_REQUESTS_IN_FLIGHT), Err(CannotWait::TooMany));
        waiting.truncate(7);
        assert_eq!(
            (cannot(7), cannot(MAX_REQUESTS_IN_FLIGHT)),
            (Ok(()), Ok(()))
        );
    }
}
