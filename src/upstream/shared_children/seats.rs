//! Who uses a child: each session of an agent has a seat in it, until the session ends.

use super::SharedChild;
use crate::model::clock::Clock;
use crate::model::ids::ServerName;
use crate::telemetry::tasks;
use crate::upstream::Inbound;
use crate::upstream::link::Link;
use crate::upstream::log_levels::rank;
use crate::upstream::owners::TaskOwners;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// An agent that never opened an event stream may be there still, however long it says nothing. After
/// this its session keeps no child.
const STREAMLESS_PATIENCE: Duration = Duration::from_mins(10);

/// Whether the agent of a session is there, as far as its streams and requests tell: most programs
/// of agents leave without a word, but their standing stream ends.
#[derive(Default)]
pub(crate) struct SessionPresence {
    clock: Clock,
    streams: AtomicUsize,
    had_stream: AtomicBool,
    used: Mutex<Duration>,
}

/// A stream on which the agent reads, until it is dropped.
pub(crate) struct PresentStream(Arc<SessionMarks>);

/// What a session leaves that outlasts its requests.
#[derive(Default)]
pub(crate) struct SessionMarks {
    /// Whether its agent is there.
    pub presence: SessionPresence,
    /// What legacy servers granted, each of those at which a session was opened.
    pub wishes: Mutex<HashMap<ServerName, SessionWishes>>,
    /// Its tasks.
    pub tasks: Arc<TaskOwners>,
}

/// What an agent asked a legacy session for that outlasts the request.
#[derive(Default)]
pub(crate) struct SessionWishes {
    /// Resources that it wants to hear of.
    pub resources: BTreeSet<String>,
    /// From which level on it reads logs.
    pub level: Option<String>,
}

/// Where what a server says outside requests goes.
#[derive(Clone)]
pub(crate) enum SeatInbox {
    /// To a session of a legacy agent.
    Session(mpsc::Sender<(ServerName, Arc<Link>, Inbound)>),
    /// To the link of an agent without a session.
    Link(mpsc::Sender<Inbound>),
}

/// Who takes a seat.
#[derive(Clone)]
pub(crate) struct Sitter {
    /// Where it hears of what belongs to no request.
    pub inbox: SeatInbox,
    /// What is known of its session; none for an agent without one, which is there until it leaves.
    pub marks: Option<Arc<SessionMarks>>,
}

#[derive(Clone)]
pub(super) struct TakenSeat {
    pub(super) number: u64,
    pub(super) sitter: Sitter,
}

/// A session's place in a child, until it is dropped.
pub(crate) struct ChildSeat {
    child: Arc<SharedChild>,
    /// Its number, by which the child's requests name it; never 0.
    pub number: u64,
    is_left: bool,
}

impl SessionPresence {
    /// The agent has asked for something.
    pub(crate) fn touch(&self) {
        *self.used.lock() = self.clock.steady();
    }

    /// The agent is there until its session ends.
    pub(crate) fn stays(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// When it was there last, in steady time.
    fn seen(&self, now: Duration) -> Duration {
        let used = *self.used.lock();
        let is_reading = self.streams.load(Ordering::Relaxed) > 0;
        let may_be_there = !self.had_stream.load(Ordering::Relaxed)
            && now.saturating_sub(used) < STREAMLESS_PATIENCE;
        if is_reading || may_be_there {
            now
        } else {
            used
        }
    }
}

impl SessionMarks {
    /// The agent begins to read its standing stream.
    pub(crate) fn reads(self: &Arc<Self>) -> PresentStream {
        self.presence.had_stream.store(true, Ordering::Relaxed);
        self.presence.stays();
        PresentStream(self.clone())
    }
}

impl Drop for PresentStream {
    fn drop(&mut self) {
        self.0.presence.touch();
        self.0.presence.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TakenSeat {
    /// When who sits here was there last; one whose task the server may work on is.
    pub(super) fn seen(&self, server: &ServerName, now: Duration) -> Duration {
        match &self.sitter.marks {
            Some(marks) if !marks.tasks.has_any(server) => marks.presence.seen(now),
            Some(_) | None => now,
        }
    }

    /// From which level on it reads logs, if it said so: 0 is the most verbose.
    pub(super) fn level(&self, server: &ServerName) -> Option<usize> {
        let wishes = self.sitter.marks.as_ref()?.wishes.lock();
        rank(wishes.get(server)?.level.as_deref()?)
    }

    /// Whether it wants to hear of a resource, or of one that this is a part of.
    pub(super) fn wants(&self, server: &ServerName, uri: &str) -> bool {
        self.wishes_any(server, |wanted| is_part_of(uri, wanted))
    }

    /// Whether it is subscribed to that very resource.
    pub(super) fn asked_for(&self, server: &ServerName, uri: &str) -> bool {
        self.wishes_any(server, |wanted| uri == wanted)
    }

    fn wishes_any(&self, server: &ServerName, fits: impl Fn(&str) -> bool) -> bool {
        let Some(marks) = &self.sitter.marks else {
            return false;
        };
        let wishes = marks.wishes.lock();
        let wanted = wishes.get(server).map(|wishes| &wishes.resources);
        wanted.is_some_and(|wanted| wanted.iter().any(|wanted| fits(wanted)))
    }

    /// Hands it what was said, without waiting; false where there is no room, or nobody.
    pub(super) fn hears(&self, server: &ServerName, link: &Arc<Link>, said: Inbound) -> bool {
        match &self.sitter.inbox {
            SeatInbox::Session(inbox) => {
                inbox.try_send((server.clone(), link.clone(), said)).is_ok()
            }
            SeatInbox::Link(inbox) => inbox.try_send(said).is_ok(),
        }
    }
}

/// Whether `uri` is `whole`, or names a part of it: where one ends, the name of another may go on.
fn is_part_of(uri: &str, whole: &str) -> bool {
    uri.strip_prefix(whole).is_some_and(|rest| {
        rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '?', '#'])
    })
}

impl ChildSeat {
    pub(super) fn new(child: Arc<SharedChild>, number: u64) -> Self {
        Self {
            child,
            number,
            is_left: false,
        }
    }

    /// The child.
    pub(crate) fn child(&self) -> &Arc<SharedChild> {
        &self.child
    }

    /// Leaves; a child that was this session's alone ends, and that is waited for.
    pub(crate) async fn close(mut self) {
        self.is_left = true;
        if self.child.leaves(self.number) {
            self.child.link.close().await;
        }
    }
}

impl Drop for ChildSeat {
    fn drop(&mut self) {
        if self.is_left || !self.child.leaves(self.number) || self.child.link.is_over() {
            return;
        }
        let link = self.child.link.clone();
        tasks::spawn("closing of a child", async move { link.close().await });
    }
}
