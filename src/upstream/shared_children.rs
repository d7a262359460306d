//! The processes of one legacy server on stdio, and which sessions share them.
//!
//! A legacy server answers in sessions, and a process holds one. By default the sessions of one agent,
//! tenant and user share a process, if they declare the same and cannot be asked anything: a server
//! names nobody when it asks, and what an agent answers, such as its roots, the server keeps. Other
//! sessions have one each. A process that nobody uses ends; the next session starts another.

use super::link::Link;
use super::server_settings::{ChildSharing, UpstreamServerSettings};
use super::{INBOX_MESSAGES_MAX, Inbound, UnsolicitedReceiver};
use crate::mcp::canonical;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Revision;
use crate::model::caller::{Caller, CallerKey};
use crate::model::clock::Clock;
use crate::model::ids::{AgentId, ServerName};
use crate::model::reply::Fault;
use crate::telemetry::tasks;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

mod seats;
mod telling;
#[cfg(test)]
mod tests;

use seats::TakenSeat;
pub(crate) use seats::{ChildSeat, SeatInbox, SessionMarks, SessionWishes, Sitter};

/// What an agent declares that can be asked something, or whose answers a server keeps.
const ASKABLE_CAPABILITIES: [&str; 4] = ["roots", "sampling", "elicitation", "tasks"];
/// Of four processes of a server one is left to other agents.
const OTHERS_SHARE: usize = 4;

/// Whose process it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ChildUser {
    /// All sessions of this agent, tenant and user.
    Caller(CallerKey),
    /// All sessions.
    All,
    /// One session.
    One(u64),
}

/// For whom a process is, and what it was told of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ChildKey {
    user: ChildUser,
    /// None where it is for all.
    agent: Option<AgentId>,
    declared: Bytes,
    revision: Bytes,
    /// Whether the process that toolgate itself asks will do.
    takes_first: bool,
}

/// One process, and the sessions that use it.
pub(crate) struct SharedChild {
    server: ServerName,
    /// None as long as only toolgate asks it.
    key: Mutex<Option<ChildKey>>,
    /// The conversation.
    pub link: Arc<Link>,
    /// What it answered to `initialize`.
    pub answer: Message,
    seats: Mutex<Vec<TakenSeat>>,
    /// When an agent was there last, in steady time.
    used: Mutex<Duration>,
    /// toolgate, which reads its tools here.
    watcher: Option<mpsc::Sender<Inbound>>,
    /// The log level that it was told.
    level: tokio::sync::Mutex<Option<usize>>,
    /// It was ended because nobody used it.
    rests: AtomicBool,
    /// It was told that who uses it is ready.
    pub is_introduced: bool,
}

/// What `initialize` opened.
pub(super) type OpenedChild = (Arc<Link>, Message, UnsolicitedReceiver);

/// The processes of one server.
#[derive(Default)]
pub(crate) struct SharedChildren {
    open: Mutex<Vec<Arc<SharedChild>>>,
    /// For whom processes are started now.
    coming: Mutex<Vec<ChildKey>>,
    /// Held while a process for that key is started.
    opening: Mutex<HashMap<ChildKey, Arc<tokio::sync::Mutex<()>>>>,
    numbers: AtomicU64,
    /// No more are started. It changes while `open` is held.
    is_closed: AtomicBool,
    clock: Clock,
}

/// How many processes agents use, or are going to.
struct Crowd {
    all: usize,
    /// Those of one agent, of which there may be fewer; none where it is for all agents.
    own: Option<usize>,
}

impl Crowd {
    /// As one for `key` would find them.
    fn around(key: &ChildKey, open: &[Arc<SharedChild>], coming: &[ChildKey]) -> Self {
        let own = || {
            let running = open.iter().filter(|child| child.is_of(key)).count();
            let agent = key.agent.as_ref();
            running + coming.iter().filter(|coming| coming.is_of(agent)).count()
        };
        // The one that only toolgate asks is none of them.
        let taken = open.iter().filter(|child| child.is_taken()).count();
        Self {
            all: taken + coming.len(),
            own: (key.user != ChildUser::All).then(own),
        }
    }

    /// Whether the agent has its share of the `most` that may run.
    fn has_many(&self, most: usize) -> bool {
        let share = (most - most / OTHERS_SHARE).max(1);
        self.own.is_some_and(|own| own >= share)
    }

    /// Whether there is no room for one more.
    fn fills(&self, most: usize) -> bool {
        self.has_many(most) || self.all >= most
    }
}

/// Room for a process that is started, until it runs or has failed.
struct ComingChild<'c> {
    all: &'c SharedChildren,
    key: ChildKey,
}

impl Drop for ComingChild<'_> {
    fn drop(&mut self) {
        let mut coming = self.all.coming.lock();
        if let Some(index) = coming.iter().position(|key| *key == self.key) {
            coming.swap_remove(index);
        }
    }
}

impl SharedChild {
    fn whose(&self) -> Option<ChildUser> {
        self.key.lock().as_ref().map(|key| key.user.clone())
    }

    fn is_of_one(&self) -> bool {
        matches!(self.whose(), Some(ChildUser::One(_)))
    }

    /// Whether several sessions may use it, so that none says of itself what holds for all.
    pub(crate) fn is_shared(&self) -> bool {
        !self.is_of_one()
    }

    /// Whether all agents may use it.
    pub(crate) fn is_everyones(&self) -> bool {
        matches!(self.whose(), Some(ChildUser::All))
    }

    /// Whether it is the agent's for whom one for `key` would be.
    fn is_of(&self, key: &ChildKey) -> bool {
        let whose = self.key.lock();
        whose
            .as_ref()
            .is_some_and(|whose| whose.is_of(key.agent.as_ref()))
    }

    fn is_open(&self) -> bool {
        !self.rests.load(Ordering::Relaxed) && !self.link.is_over()
    }

    /// That seat is free; true where nobody will come after who had it.
    fn leaves(&self, number: u64) -> bool {
        self.seats.lock().retain(|seat| seat.number != number);
        *self.used.lock() = Clock.steady();
        self.is_of_one() && self.seats.lock().is_empty()
    }

    /// How long nobody has been there; zero while something is in flight.
    fn idle(&self, now: Duration) -> Duration {
        if self.link.is_busy() {
            *self.used.lock() = now;
            return Duration::ZERO;
        }
        let seats = self.seats.lock();
        let seen = seats.iter().map(|seat| seat.seen(&self.server, now)).max();
        let used = *self.used.lock();
        now.saturating_sub(seen.map_or(used, |seen| seen.max(used)))
    }

    /// Whether agents have used it.
    fn is_taken(&self) -> bool {
        self.key.lock().is_some()
    }

    /// Whether toolgate can do without its own process now that it has ended: because nobody used it,
    /// or in the hands of an agent, whose doing it may have been. It starts when an agent wants it.
    pub(super) fn may_rest(&self) -> bool {
        self.rests.load(Ordering::Relaxed) || self.is_taken()
    }
}

impl ChildKey {
    /// Whether several sessions may use it.
    pub(super) fn is_shared(&self) -> bool {
        !matches!(self.user, ChildUser::One(_))
    }

    fn is_of(&self, agent: Option<&AgentId>) -> bool {
        agent.is_some() && self.agent.as_ref() == agent
    }
}

impl SharedChildren {
    /// For whom a process would be that is told this in `initialize`. `is_session`: a legacy agent's
    /// session asks; an agent without one has links of its own, which are kept elsewhere.
    pub(crate) fn key(
        &self,
        sharing: ChildSharing,
        caller: &Caller,
        told: &Text,
        is_session: bool,
    ) -> ChildKey {
        let declared = told
            .get("capabilities")
            .unwrap_or_else(|| Text::of(&json!({})));
        let is_asked = ASKABLE_CAPABILITIES
            .iter()
            .any(|name| declared.get(name).is_some());
        let one = || ChildUser::One(self.numbers.fetch_add(1, Ordering::Relaxed));
        // Such an agent names its user with each request.
        let is_several = caller.names_users && caller.user.is_none();
        let whose = match sharing {
            _ if !is_session => one(),
            ChildSharing::None => one(),
            ChildSharing::All => ChildUser::All,
            ChildSharing::Caller if is_asked || is_several => one(),
            ChildSharing::Caller => ChildUser::Caller(caller.key()),
        };
        let revision = told.get("protocolVersion");
        let revision = revision.map(|revision| Bytes::copy_from_slice(revision.as_bytes()));
        ChildKey {
            agent: (whose != ChildUser::All).then(|| caller.agent.clone()),
            user: whose,
            declared: Bytes::from(canonical::exact(&declared.value())),
            revision: revision.unwrap_or_default(),
            takes_first: sharing != ChildSharing::None,
        }
    }

    /// toolgate's own process of the server: what it says is read by the receiver, as long as no agent
    /// takes it.
    pub(super) fn first(
        &self,
        server: &ServerName,
        link: &Arc<Link>,
        answer: Message,
        unsolicited: UnsolicitedReceiver,
    ) -> (Arc<SharedChild>, UnsolicitedReceiver) {
        let (watcher, heard) = mpsc::channel(INBOX_MESSAGES_MAX);
        let opened = (link.clone(), answer, unsolicited);
        let child = self.child(server, None, opened, Some(watcher));
        self.open.lock().push(child.clone());
        (child, heard)
    }

    fn child(
        &self,
        server: &ServerName,
        key: Option<ChildKey>,
        (link, answer, unsolicited): OpenedChild,
        watcher: Option<mpsc::Sender<Inbound>>,
    ) -> Arc<SharedChild> {
        let is_introduced = key.as_ref().is_none_or(ChildKey::is_shared);
        let child = Arc::new(SharedChild {
            server: server.clone(),
            key: Mutex::new(key),
            link,
            answer,
            seats: Mutex::default(),
            used: Mutex::new(self.clock.steady()),
            watcher,
            level: tokio::sync::Mutex::default(),
            rests: AtomicBool::new(false),
            is_introduced,
        });
        let follows = SharedChild::follow(Arc::downgrade(&child), unsolicited);
        tasks::spawn("child of a server", follows);
        child
    }

    /// A seat in a process for `key` that runs, or in toolgate's own if that will do.
    pub(super) fn seat(&self, key: &ChildKey, most: usize, sitter: &Sitter) -> Option<ChildSeat> {
        let mut open = self.open.lock();
        open.retain(|child| !child.link.is_over());
        let is_its = |child: &&Arc<SharedChild>| child.key.lock().as_ref() == Some(key);
        let fits = open
            .iter()
            .filter(|child| child.is_open())
            .find(is_its)
            .cloned();
        let child = fits.or_else(|| {
            let is_free = |child: &&Arc<SharedChild>| {
                child.is_open() && child.watcher.is_some() && !child.is_taken()
            };
            let fits =
                key.fits_first() && !Crowd::around(key, &open, &self.coming.lock()).fills(most);
            let first = open.iter().find(is_free).filter(|_| fits)?;
            *first.key.lock() = Some(key.clone());
            Some(first.clone())
        })?;
        Some(self.sits(&child, sitter))
    }

    fn sits(&self, child: &Arc<SharedChild>, sitter: &Sitter) -> ChildSeat {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let sitter = sitter.clone();
        child.seats.lock().push(TakenSeat { number, sitter });
        ChildSeat::new(child.clone(), number)
    }

    /// Held while a process for that key is started, so that there is one.
    pub(super) fn opening(&self, key: &ChildKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut opening = self.opening.lock();
        opening.retain(|_, held| Arc::strong_count(held) > 1);
        opening.entry(key.clone()).or_default().clone()
    }

    /// A seat in a process that `opens` starts, if the server may have one more.
    ///
    /// # Errors
    ///
    /// When the server has as many processes as it may and all are in use, or it cannot be started.
    pub(super) async fn start(
        &self,
        settings: &UpstreamServerSettings,
        key: ChildKey,
        sitter: &Sitter,
        opens: impl Future<Output = Result<OpenedChild, Fault>> + Send,
    ) -> Result<(Option<ChildSeat>, Message), Fault> {
        let coming = self.room(settings, &key)?;
        let opened = opens.await?;
        let answer = opened.1.clone();
        if answer.is_error {
            opened.0.close().await;
            return Ok((None, answer));
        }
        let link = opened.0.clone();
        let child = self.child(&settings.name, Some(key), opened, None);
        let seat = self.sits(&child, sitter);
        if !self.adds(child) {
            link.close().await;
            return Err(Fault::unsent(format!(
                "tool server `{}` is not started: toolgate stops",
                settings.name
            )));
        }
        drop(coming);
        Ok((Some(seat), answer))
    }

    /// Adds one that runs; false where all have been ended, and this one is to be, too.
    fn adds(&self, child: Arc<SharedChild>) -> bool {
        let mut open = self.open.lock();
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        if !is_closed {
            open.push(child);
        }
        !is_closed
    }

    /// Room for one more; where there is none, the process goes that was not used for longest, if
    /// nobody is there that uses it.
    fn room(
        &self,
        settings: &UpstreamServerSettings,
        key: &ChildKey,
    ) -> Result<ComingChild<'_>, Fault> {
        let most = settings.max_children;
        let now = self.clock.steady();
        let (mut open, mut coming) = (self.open.lock(), self.coming.lock());
        open.retain(|child| !child.link.is_over());
        let crowd = Crowd::around(key, &open, &coming);
        let has_many = crowd.has_many(most);
        if crowd.fills(most) {
            let oldest = open
                .iter()
                .enumerate()
                .filter(|(_, child)| child.is_taken() && (!has_many || child.is_of(key)))
                .map(|(index, child)| (child.idle(now), index))
                .filter(|(idle, _)| !idle.is_zero())
                .max();
            let Some((_, index)) = oldest else {
                return Err(Fault::unsent(format!(
                    "tool server `{}` has as many processes as it may, and all are in use; raise its `max_children`, or `share` them",
                    settings.name
                )));
            };
            let child = open.remove(index);
            child.rests.store(true, Ordering::Relaxed);
            tasks::spawn(
                "closing of a child",
                async move { child.link.close().await },
            );
        }
        coming.push(key.clone());
        Ok(ComingChild {
            all: self,
            key: key.clone(),
        })
    }

    /// Whether agents use toolgate's own process at the end of `link`: what it lists from then on may be
    /// for them alone.
    pub(super) fn is_taken(&self, link: &Link) -> bool {
        let open = self.open.lock();
        let mut its = open
            .iter()
            .filter(|child| std::ptr::eq(&raw const *child.link, link));
        its.any(|child| child.is_taken())
    }

    /// Ends those that nobody has used for `idle`.
    pub(super) async fn sweep(&self, idle: Duration) {
        let now = self.clock.steady();
        let over: Vec<_> = {
            let mut open = self.open.lock();
            let is_over =
                |child: &mut Arc<SharedChild>| child.link.is_over() || child.idle(now) >= idle;
            let over: Vec<_> = open.extract_if(.., is_over).collect();
            for child in &over {
                child.rests.store(true, Ordering::Relaxed);
            }
            over
        };
        let closes = over.iter().map(|child| child.link.close());
        futures_util::future::join_all(closes).await;
    }

    /// Ends all, also those that are being started.
    pub(super) async fn close(&self) {
        let all = {
            let mut open = self.open.lock();
            self.is_closed.store(true, Ordering::Relaxed);
            std::mem::take(&mut *open)
        };
        futures_util::future::join_all(all.iter().map(|child| child.link.close())).await;
    }

    /// How many processes run.
    #[cfg(test)]
    fn count(&self) -> usize {
        let open = self.open.lock();
        open.iter().filter(|child| !child.link.is_over()).count()
    }
}

impl ChildKey {
    /// Whether toolgate has told its own process the same of itself.
    pub(super) fn fits_first(&self) -> bool {
        let newest = Text::string(Revision::NEWEST_LEGACY.as_str());
        self.takes_first
            && self.declared == canonical::exact(&json!({}))
            && self.revision == newest.as_bytes()
    }
}
