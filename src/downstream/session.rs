//! Legacy sessions: opened by `initialize`, bound to the caller that opened them, ended by DELETE,
//! by age, or because their server is gone (protocol §3.1, threat-model §3H H1).

use super::replay_budget;
use super::stream::EventStream;
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::Revision;
use crate::model::caller::Caller;
use crate::model::clock::Clock;
use crate::model::ids::{AgentId, ServerName, unguessable};
use crate::model::scope::Scope;
use crate::outlet::{Inlet, Outgoing, UnreadMark};
use crate::telemetry::tasks;
use crate::upstream::Inbound;
use crate::upstream::keeper::{ServerMessage, Unheard, hears};
use crate::upstream::link::Link;
use crate::upstream::links::Links;
use crate::upstream::questions::refuse;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Sessions at once, and of one agent (threat-model §8).
const MAX_SESSIONS: usize = 1_024;
const MAX_SESSIONS_PER_AGENT: usize = 64;
/// A session that nobody uses ends after this.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_hours(1);
/// Ended streams that can still be read again.
const MAX_ENDED_STREAMS_KEPT: usize = 16;
/// The number of the standalone stream.
pub(super) const STANDALONE_STREAM: u64 = 0;

/// What a server said outside any request: which server, on which link.
pub(crate) type UnsolicitedMessages = mpsc::Receiver<(ServerName, Arc<Link>, Inbound)>;

/// One session.
pub(crate) struct AgentSession {
    /// Its id, unguessable.
    pub id: String,
    /// Who opened it. Nobody else can use it.
    pub caller: Arc<Caller>,
    /// Which servers it reaches.
    pub scope: Scope,
    /// The revision agreed on.
    pub revision: Revision,
    /// Its links.
    pub links: Arc<Links>,
    streams: Mutex<Streams>,
    shelf: replay_budget::SharedReplayBudget,
    used: Mutex<Duration>,
    /// Cancelled when the session ends.
    pub ended: CancellationToken,
}

struct Streams {
    last: u64,
    by_number: BTreeMap<u64, Arc<EventStream>>,
}

impl AgentSession {
    /// The stream of that number.
    pub(super) fn stream(&self, number: u64) -> Option<Arc<EventStream>> {
        self.streams.lock().by_number.get(&number).cloned()
    }

    /// Whether a stream of that number was once opened.
    pub(super) fn had_stream(&self, number: u64) -> bool {
        number <= self.streams.lock().last
    }

    /// A new stream, fed from `first` and `rest` until the request is answered; `marks`: for what is to know
    /// whether anybody reads it.
    pub(super) fn feed(
        self: &Arc<Self>,
        first: &Outgoing,
        mut rest: Inlet,
        marks: Vec<UnreadMark>,
    ) -> Arc<EventStream> {
        let stream = {
            let mut streams = self.streams.lock();
            streams.last += 1;
            let stream = EventStream::new(streams.last, &self.shelf);
            streams.by_number.insert(stream.number, stream.clone());
            if streams.by_number.len() > MAX_ENDED_STREAMS_KEPT {
                let oldest = streams
                    .by_number
                    .values()
                    .find(|old| old.number != STANDALONE_STREAM && old.is_done())
                    .map(|old| old.number);
                oldest.map(|number| streams.by_number.remove(&number));
            }
            stream
        };
        stream.take(first);
        let written = stream.clone();
        tasks::spawn("legacy stream", async move {
            let unread = written.marks_unread(&marks);
            tokio::pin!(unread);
            loop {
                tokio::select! {
                    biased;
                    outgoing = rest.recv() => match outgoing {
                        Some(outgoing) => written.take(&outgoing),
                        None => break,
                    },
                    never = &mut unread => match never {},
                }
            }
            written.end();
        });
        stream
    }

    /// Carries what servers say outside requests, and word of changed tools, to `tell`.
    pub(super) async fn follow(
        self: Arc<Self>,
        mut unsolicited: UnsolicitedMessages,
        mut tools_changed: watch::Receiver<u64>,
        tell: impl Fn(Outgoing) + Send,
    ) {
        let tell_message = |message| tell(Outgoing::Message(Box::new(message)));
        tools_changed.borrow_and_update();
        loop {
            tokio::select! {
                () = self.ended.cancelled() => return,
                changed = tools_changed.changed() => {
                    if changed.is_err() { return; }
                    tell_message(Message::notification("notifications/tools/list_changed", None));
                }
                news = self.links.news() => news.into_iter().for_each(tell_message),
                said = unsolicited.recv() => {
                    let Some((name, link, said)) = said else { return };
                    let message = match said {
                        Inbound::Message(message) => message,
                        Inbound::Comment(comment) => {
                            tell(Outgoing::Comment(comment));
                            continue;
                        }
                        Inbound::Interrupted(_) => continue,
                    };
                    if let Err(unheard) = self.admits(&name, &link, &message) {
                        if message.kind == MessageKind::Request { refuse(&link, &message, unheard).await; }
                        continue;
                    }
                    match (message.kind, message.method.as_str()) {
                        (MessageKind::Notification, "notifications/tools/list_changed") => {
                            if let Some(server) = self.links.servers().get(name.as_str()) { server.tools_changed(); }
                        }
                        (MessageKind::Request, _) => {
                            if let Some(message) = self.links.questions.ask(&link, message).await { tell_message(message); }
                        }
                        (MessageKind::Notification, "notifications/cancelled") => {
                            if let Some(note) = self.links.questions.take_back(&link, message) { tell_message(note); }
                        }
                        (MessageKind::Notification | MessageKind::Response, _) => {
                            let tasks = &self.links.tasks;
                            let caller = tasks.spoken_for(&self.caller, &name, &message);
                            let heard = tasks.heard(&caller, message, |owned| owned.server == name);
                            heard.await.map(tell_message).unwrap_or_default();
                        }
                    }
                }
            }
        }
    }

    /// May the agent hear what a server says outside any request?
    fn admits(&self, server: &ServerName, link: &Link, message: &Message) -> Result<(), Unheard> {
        let spoken = ServerMessage {
            caller: &self.caller,
            server,
            revision: link.revision.as_str(),
            message,
        };
        hears(&**self.links.servers().keeper(), &spoken)
    }

    fn touch(&self, clock: Clock) {
        *self.used.lock() = clock.steady();
        if let Some(marks) = self.links.marks() {
            marks.presence.touch();
        }
    }
}

/// All sessions.
#[derive(Default)]
pub(crate) struct AgentSessions {
    open: Mutex<HashMap<String, Arc<AgentSession>>>,
    shelf: replay_budget::SharedReplayBudget,
    clock: Clock,
}

/// There are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "too many sessions are open; end one with DELETE, or wait until one has not been used for an hour"
)]
pub(crate) struct TooManySessions;

impl AgentSessions {
    /// Whether another session may be opened.
    pub(crate) fn room(&self, agent: &AgentId) -> Result<(), TooManySessions> {
        room(&self.open.lock(), agent)
    }

    /// Opens a session, if there still is room: others may have been opened while the servers
    /// answered.
    pub(crate) fn open(
        &self,
        caller: Arc<Caller>,
        scope: Scope,
        revision: Revision,
        links: Arc<Links>,
    ) -> Result<Arc<AgentSession>, TooManySessions> {
        let by_number = BTreeMap::from([(
            STANDALONE_STREAM,
            EventStream::new(STANDALONE_STREAM, &self.shelf),
        )]);
        let session = Arc::new(AgentSession {
            id: unguessable(),
            caller,
            scope,
            revision,
            links,
            streams: Mutex::new(Streams {
                last: STANDALONE_STREAM,
                by_number,
            }),
            shelf: self.shelf.clone(),
            used: Mutex::new(self.clock.steady()),
            ended: CancellationToken::new(),
        });
        let mut open = self.open.lock();
        room(&open, &session.caller.agent)?;
        open.insert(session.id.clone(), session.clone());
        Ok(session)
    }

    /// The session, if it is this caller's at this address; a foreign one is as unknown as none
    /// (threat-model §3B B5).
    pub(crate) fn find(
        &self,
        id: &str,
        caller: &Caller,
        scope: &Scope,
    ) -> Option<Arc<AgentSession>> {
        let session = self.open.lock().get(id).cloned()?;
        let own = session.caller.is_same(caller)
            && session.scope == *scope
            && !session.ended.is_cancelled();
        if own {
            session.touch(self.clock);
        }
        own.then_some(session)
    }

    /// Ends a session and its links.
    pub(crate) async fn end(&self, session: &AgentSession) {
        self.open.lock().remove(&session.id);
        session.ended.cancel();
        for stream in session.streams.lock().by_number.values() {
            stream.end();
        }
        session.links.close().await;
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Ends all sessions, or those that nobody used for an hour.
    pub(crate) async fn sweep(&self, all: bool) {
        let now = self.clock.steady();
        self.end_each(|session| {
            all || now.saturating_sub(*session.used.lock()) > SESSION_IDLE_TIMEOUT
        })
        .await;
    }

    /// Ends the sessions of agents that are none of `callers` any more, whatever streams of theirs
    /// are open.
    pub(crate) async fn keep(&self, callers: &[Arc<Caller>]) {
        let is_known = |session: &AgentSession| {
            let mut known = callers.iter();
            known.any(|caller| caller.is_same_agent(&session.caller))
        };
        self.end_each(|session| !is_known(session)).await;
    }

    async fn end_each(&self, is_over: impl Fn(&AgentSession) -> bool) {
        let over: Vec<_> = self
            .open
            .lock()
            .values()
            .filter(|session| is_over(session))
            .cloned()
            .collect();
        futures_util::future::join_all(over.iter().map(|session| self.end(session))).await;
    }
}

fn room(open: &HashMap<String, Arc<AgentSession>>, agent: &AgentId) -> Result<(), TooManySessions> {
    let own = open
        .values()
        .filter(|session| session.caller.agent == *agent)
        .count();
    if open.len() >= MAX_SESSIONS || own >= MAX_SESSIONS_PER_AGENT {
        Err(TooManySessions)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
