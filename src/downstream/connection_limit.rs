//! Who is connected to a listener, and who gives way when it is full (threat-model §3B B9, §3I I5,
//! §9 "Overload").
//!
//! A connection is a stranger until a request on it has proved who sends it. Strangers have a share
//! of the places, and seconds; when their share is full, the oldest of the peer that has most of
//! them gives way to the next, so that nobody who asks for something waits behind those who do not.
//! The other places belong to callers that are known. When those are taken, the connection gives
//! way that has been idle for longest, of the caller that has most.

use super::acknowledged::SocketLook;
use super::guest_stream::GuestStream;
use super::listening::Newcomer;
use super::neighbour::Neighbours;
use super::peers::Peers;
use crate::model::clock::Clock;
use crate::outlet::receipt::AgentConnection;
use crate::telemetry::tasks::WorkPlace;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Connections of agents at once (threat-model §8) …
const MAX_AGENT_CONNECTIONS: usize = 1_024;
/// … and of operators, who are few and must get in when agents are many.
const MAX_OPERATOR_CONNECTIONS: usize = 256;
/// One place in so many is for strangers.
const STRANGERS_DIVISOR: usize = 4;
/// A caller may have so many of four places of those that are known.
const CALLER_QUARTERS: usize = 3;
/// How long a stranger has at least to send the head of a request.
const STRANGER_GRACE: Duration = Duration::from_millis(100);
/// Idle connections that may be closing at once in favour of others.
const MAX_CLOSING_CONNECTIONS: usize = 64;
/// The log tells of a full house once in this time.
const FULL_LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The places at one listener. A clone is another handle on the same places.
#[derive(Clone)]
pub(crate) struct ConnectionLimit(Arc<ConnectionLimitInner>);

struct ConnectionLimitInner {
    strangers: usize,
    known: usize,
    of_one: usize,
    inside: Mutex<AdmittedConnections>,
    neighbours: Mutex<Neighbours>,
    peers: Peers,
    /// Bytes of all answers that wait for their readers.
    unread: AtomicUsize,
    /// A guest has left, or is no stranger any more.
    moved: Notify,
    clock: Clock,
}

#[derive(Default)]
struct AdmittedConnections {
    last: u64,
    /// By number, so the oldest first.
    strangers: BTreeMap<u64, Arc<Seat>>,
    known: BTreeMap<u64, (String, Arc<Seat>)>,
    /// Strangers that were told to leave and have not yet.
    leaving_strangers: usize,
    /// Known connections that were told to leave and have not yet.
    leaving_known: usize,
    /// When each of these was said last.
    told: HashMap<&'static str, Duration>,
}

struct Seat {
    peer: IpAddr,
    since: Duration,
    is_known: AtomicBool,
    /// Milliseconds on the steady clock since when nothing is asked on it; none while something
    /// is.
    idle: AtomicU64,
    leave: CancellationToken,
    /// Bytes of an answer that wait for their reader.
    unread: AtomicUsize,
}

/// What stands for "something is asked".
const BUSY_MARK: u64 = u64::MAX;

/// One connection that has a place, until this is dropped.
pub(crate) struct Guest {
    number: u64,
    /// Where its requests are worked on.
    pub(super) place: WorkPlace,
    /// What its answers were written to, once it is served.
    connection: OnceLock<ServedConnection>,
    seat: Arc<Seat>,
    shared: Arc<ConnectionLimitInner>,
}

/// A request on a connection, until its answer has been written.
pub(super) struct RequestTurn(Arc<Guest>);

/// There is no place for one more that is known, and none of them is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crowded {
    places: usize,
    of_one: bool,
}

impl fmt::Display for Crowded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { places, of_one } = self;
        let whose = if *of_one {
            "that one caller may have "
        } else {
            ""
        };
        write!(
            f,
            "overloaded: all {places} connections {whose}are taken; nothing was read; try again in a moment, or ask on a \
             connection that is open"
        )
    }
}

// === impl ConnectionLimit ===

impl ConnectionLimit {
    /// Places for agents: 1,024, but at most half of the files that the process may open. The other
    /// half is for tool servers and the ledger.
    pub(crate) fn of_agents() -> Self {
        Self::with(
            MAX_AGENT_CONNECTIONS.min(files() / 2),
            Neighbours::watched(),
        )
    }

    /// Places for operators, each open page of whom listens: 256, but at most an eighth of the files
    /// that the process may open. A stream never gives way, so that they have a bound of their own
    /// (`admin::desk::streams`).
    pub(crate) fn of_operators() -> Self {
        Self::new(MAX_OPERATOR_CONNECTIONS.min(files() / 8))
    }

    fn new(places: usize) -> Self {
        Self::with(places, Neighbours::unwatched())
    }

    /// Places for a few, by a clock whose hands a test moves.
    #[cfg(test)]
    pub(super) fn timed_by(clock: Clock) -> Self {
        let mut limit = Self::new(16);
        if let Some(inner) = Arc::get_mut(&mut limit.0) {
            inner.clock = clock;
        }
        limit
    }

    fn with(places: usize, neighbours: Neighbours) -> Self {
        let strangers = (places / STRANGERS_DIVISOR).max(1);
        let known = places.saturating_sub(strangers).max(1);
        let of_one = (known / 4 * CALLER_QUARTERS).max(1);
        Self(Arc::new(ConnectionLimitInner {
            strangers,
            known,
            of_one,
            inside: Mutex::default(),
            neighbours: Mutex::new(neighbours),
            peers: Peers::default(),
            unread: AtomicUsize::new(0),
            moved: Notify::new(),
            clock: Clock,
        }))
    }

    /// How many connections it lets in at once.
    pub(crate) fn places(&self) -> usize {
        self.0.strangers + self.0.known
    }

    /// Takes note of who connects.
    pub(super) fn met(&self, newcomer: &Newcomer) {
        let tcp = newcomer.stream.tcp();
        self.0.neighbours.lock().met(tcp, newcomer.from);
    }

    /// A place for a connection from `peer`, who is a stranger; waits until one that has had its
    /// time is gone. The guest is told to leave when `stop` is, or to make room.
    pub(super) async fn let_in(&self, peer: IpAddr, stop: &CancellationToken) -> Guest {
        loop {
            let mut moved = std::pin::pin!(self.0.moved.notified());
            moved.as_mut().enable();
            match self.0.seat(peer, stop) {
                Ok(guest) => return guest,
                Err(wait) => drop(tokio::time::timeout(wait, moved).await),
            }
        }
    }
}

impl ConnectionLimitInner {
    /// A place; or how long it takes at most until there is one.
    fn seat(self: &Arc<Self>, peer: IpAddr, stop: &CancellationToken) -> Result<Guest, Duration> {
        let now = self.clock.steady();
        let mut inside = self.inside.lock();
        if inside.strangers.len() + inside.leaving_strangers >= self.strangers {
            if inside.leaving_strangers == 0 {
                let number = longest(&inside.strangers, |seat| seat.peer, |_| Some(0));
                let Some((number, seat)) =
                    number.and_then(|number| inside.strangers.get_key_value(&number))
                else {
                    return Err(STRANGER_GRACE);
                };
                let had = now.saturating_sub(seat.since);
                if had < STRANGER_GRACE {
                    return Err(STRANGER_GRACE.saturating_sub(had));
                }
                seat.leave.cancel();
                let number = *number;
                inside.strangers.remove(&number);
                inside.leaving_strangers += 1;
                let words = "more connections than there are places for send nothing; the oldest of them are closed";
                self.tell(&mut inside, self.strangers, words);
            }
            return Err(STRANGER_GRACE);
        }
        inside.last += 1;
        let (is_known, idle, leave) = (
            AtomicBool::new(false),
            AtomicU64::new(0),
            stop.child_token(),
        );
        let seat = Arc::new(Seat {
            peer,
            since: now,
            is_known,
            idle,
            leave,
            unread: AtomicUsize::new(0),
        });
        let number = inside.last;
        inside.strangers.insert(number, Arc::clone(&seat));
        Ok(Guest {
            number,
            place: WorkPlace::default(),
            connection: OnceLock::new(),
            seat,
            shared: Arc::clone(self),
        })
    }

    /// Gives the stranger `number` a place among those of `holder`.
    fn admit(&self, number: u64, holder: &str) -> Result<(), Crowded> {
        let mut inside = self.inside.lock();
        // Who has just been told to leave keeps what he had.
        if !inside.strangers.contains_key(&number) {
            return Ok(());
        }
        let own = inside
            .known
            .values()
            .filter(|(other, _)| other == holder)
            .count();
        let of_one = own >= self.of_one;
        if of_one || inside.known.len() >= self.known {
            let rest = |(other, seat): &(String, Arc<Seat>)| {
                let idle = seat.idle.load(Ordering::Relaxed);
                (idle != BUSY_MARK && (!of_one || other == holder)).then_some(idle)
            };
            let gone = longest(&inside.known, |(other, _)| other.clone(), rest)
                .filter(|_| inside.leaving_known < MAX_CLOSING_CONNECTIONS);
            let Some((_, gone)) = gone.and_then(|number| inside.known.remove(&number)) else {
                let places = if of_one { self.of_one } else { self.known };
                self.tell(
                    &mut inside,
                    places,
                    "all connections are taken; more are answered 503 until one closes",
                );
                return Err(Crowded { places, of_one });
            };
            gone.leave.cancel();
            inside.leaving_known += 1;
        }
        if let Some(seat) = inside.strangers.remove(&number) {
            seat.is_known.store(true, Ordering::Relaxed);
            inside.known.insert(number, (holder.to_owned(), seat));
        }
        drop(inside);
        self.moved.notify_waiters();
        Ok(())
    }

    fn tell(&self, inside: &mut AdmittedConnections, places: usize, words: &'static str) {
        let now = self.clock.steady();
        if inside
            .told
            .get(words)
            .is_none_or(|told| now.saturating_sub(*told) >= FULL_LOG_INTERVAL)
        {
            inside.told.insert(words, now);
            tracing::warn!(places, "{words}");
        }
    }
}

/// The number of the one that has rested for longest, of those for which `rest` says since when,
/// and of the owner of most of `seats`. What has rested for the same time is as old as its number.
fn longest<S, O: Eq + Hash>(
    seats: &BTreeMap<u64, S>,
    owner: impl Fn(&S) -> O,
    rest: impl Fn(&S) -> Option<u64>,
) -> Option<u64> {
    let mut owners: HashMap<O, (usize, Option<(u64, u64)>)> = HashMap::new();
    for (number, seat) in seats {
        let (count, first) = owners.entry(owner(seat)).or_default();
        *count += 1;
        if let Some(since) = rest(seat) {
            *first = Some(first.map_or((since, *number), |first| first.min((since, *number))));
        }
    }
    let most = owners
        .into_values()
        .filter_map(|(count, first)| Some((count, first?)));
    most.max_by_key(|(count, first)| (*count, std::cmp::Reverse(*first)))
        .map(|(_, (_, number))| number)
}

/// How many files this process may open. What is not limited is more than anybody needs.
fn files() -> usize {
    getrlimit(Resource::Nofile)
        .current
        .and_then(|files| files.try_into().ok())
        .unwrap_or(usize::MAX)
}

// === impl Guest ===

/// A connection that is served.
struct ServedConnection {
    connection: Arc<AgentConnection>,
    /// Only this machine can reach its listener.
    is_local: bool,
    /// The names by which a certificate knows its peer, where one was shown.
    certificate: Option<Arc<[String]>>,
}

impl Guest {
    /// It is served on `stream`.
    pub(super) fn serves(&self, stream: &GuestStream) {
        let look = stream.tcp().map_or_else(SocketLook::none, SocketLook::of);
        let served = ServedConnection {
            connection: Arc::new(AgentConnection::new(Box::new(look))),
            is_local: stream.is_local(),
            certificate: stream.certificate().map(Arc::from),
        };
        drop(self.connection.set(served));
    }

    /// What is known of its answers.
    pub(super) fn connection(&self) -> Option<&Arc<AgentConnection>> {
        self.connection.get().map(|served| &served.connection)
    }

    /// The names by which a certificate knows who is connected, where one was shown.
    pub(super) fn certificate(&self) -> Option<&Arc<[String]>> {
        let served = self.connection.get();
        served.and_then(|served| served.certificate.as_ref())
    }

    /// Whether only this machine can reach its listener.
    pub(super) fn is_local(&self) -> bool {
        self.connection.get().is_some_and(|served| served.is_local)
    }

    /// The time.
    pub(super) fn now(&self) -> Duration {
        self.shared.clock.steady()
    }

    /// For how long nothing has been asked on the connection; zero while something is.
    pub(super) fn silent_for(&self) -> Duration {
        match self.seat.idle.load(Ordering::Relaxed) {
            BUSY_MARK => Duration::ZERO,
            since => self.now().saturating_sub(Duration::from_millis(since)),
        }
    }

    /// Whether a request on the connection has proved who sends it. Costs nothing.
    pub(super) fn is_known(&self) -> bool {
        self.seat.is_known.load(Ordering::Relaxed)
    }

    /// A request has proved that it comes from `holder`. Refused when no place is left for one
    /// more.
    pub(crate) fn prove(&self, holder: &str) -> Result<(), Crowded> {
        if self.is_known() {
            Ok(())
        } else {
            self.shared.admit(self.number, holder)
        }
    }

    /// A request has proved nothing. Refused, with the time until one more is answered in words of
    /// its own, when too many of this address have.
    pub(crate) fn fail(&self) -> Result<(), Duration> {
        self.shared
            .peers
            .count(self.seat.peer, self.shared.clock.steady())
    }

    /// Done when the connection has to end: at once if it is a stranger's, else when what was asked
    /// on it is answered.
    pub(super) async fn leaves(&self) {
        self.seat.leave.cancelled().await;
    }

    /// A request has come.
    pub(super) fn turn(self: &Arc<Self>) -> RequestTurn {
        self.seat.idle.store(BUSY_MARK, Ordering::Relaxed);
        RequestTurn(Arc::clone(self))
    }
}

impl Drop for RequestTurn {
    fn drop(&mut self) {
        let now = self.0.shared.clock.steady().as_millis();
        self.0.seat.idle.store(
            u64::try_from(now).unwrap_or(BUSY_MARK - 1),
            Ordering::Relaxed,
        );
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.awaits(0);
        let mut inside = self.shared.inside.lock();
        let was_there = inside.strangers.remove(&self.number).is_some()
            || inside.known.remove(&self.number).is_some();
        if !was_there {
            let leaving = if self.is_known() {
                &mut inside.leaving_known
            } else {
                &mut inside.leaving_strangers
            };
            *leaving = leaving.saturating_sub(1);
        }
        drop(inside);
        self.shared.moved.notify_waiters();
    }
}

mod unread;

#[cfg(test)]
mod tests;
