//! Whether an agent has read the answer to a call: what lets an equal call be a new one, and not the
//! same one sent again. Looked at when it is asked for, never watched for.
//!
//! A receipt knows the wire it was written to, and a connection the receipts of its answers; neither
//! a wire nor a receipt knows a connection, so nothing keeps itself alive.

use crate::model::caller::Caller;
use crate::model::ids::{AgentId, TenantId};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Answers of one connection that are written and not known to be read. Of more the oldest are
/// forgotten: they count as not read.
const MAX_UNPROVEN_ANSWERS: usize = 64;
/// How much later than an answer a call behind a front end has to come to show that it was read: calls
/// that are sent side by side come closer together, and what the front end has read, the agent need
/// not have.
const RELAYED_PAUSE: Duration = Duration::from_secs(2);
/// How long after its arrival a call may still ask the kernel what its agent had read then: what is
/// acknowledged later says nothing of the moment at which the call was sent.
const MAX_LOOK_DELAY: Duration = Duration::from_millis(100);

/// What the kernel knows of a connection.
pub trait Acknowledges: Send + Sync {
    /// Whether the peer has acknowledged every byte that was written. False where nobody knows.
    fn is_acknowledged(&self) -> bool;
}

/// Where answers are written to, as far as receipts know it.
pub struct AnswerWire {
    /// None: a pipe. What comes on it after an answer was written was sent by who could read that.
    kernel: Option<Box<dyn Acknowledges>>,
    /// Steady nanoseconds of the last request that came on it.
    heard: AtomicU64,
    /// Several agents share it: what one of them sends says nothing of another.
    is_shared: AtomicBool,
}

/// A connection of an agent.
pub struct AgentConnection {
    wire: Arc<AnswerWire>,
    /// Whose it is.
    holder: OnceLock<(AgentId, Option<TenantId>)>,
    /// Steady nanoseconds at which the head that is being read began.
    head: AtomicU64,
    /// The next head was on its way before the last answer was written.
    is_early: AtomicBool,
    /// Answers whose bodies have ended.
    ended: Mutex<Vec<Arc<Receipt>>>,
    has_ended: AtomicBool,
    /// Answers that are written.
    written: Mutex<Vec<Arc<Receipt>>>,
}

/// What is known of the answer to one request.
pub struct Receipt {
    /// Steady nanoseconds at which all of it was handed to the kernel; 0 before.
    at: AtomicU64,
    wire: OnceLock<Arc<AnswerWire>>,
    /// Steady nanoseconds from which on it is known to have been read; 0 before.
    proven: AtomicU64,
    /// The agent does not want it any more.
    is_void: AtomicBool,
    /// Something stands between agent and toolgate: what that has read, the agent need not have.
    is_relayed: bool,
}

/// A call of which an agent has to have sent it after it had read an answer.
#[derive(Debug, Clone, Copy)]
pub struct LaterCall {
    /// When its first byte was read.
    pub arrived: Duration,
    /// Whether it names the session or the task that the call before it named.
    pub is_named: bool,
    /// When it is asked what it shows.
    pub now: Duration,
}

impl LaterCall {
    /// Whether what the kernel says now is what it would have said when the call came.
    fn is_fresh(self) -> bool {
        self.now.saturating_sub(self.arrived) <= MAX_LOOK_DELAY
    }
}

impl AnswerWire {
    /// A pipe.
    pub fn pipe() -> Arc<Self> {
        Arc::new(Self::new(None))
    }

    fn new(kernel: Option<Box<dyn Acknowledges>>) -> Self {
        Self {
            kernel,
            heard: AtomicU64::new(0),
            is_shared: AtomicBool::new(false),
        }
    }

    /// Since when what came on it shows that what was written at `at` has been read.
    fn heard_since(&self, at: u64, later: LaterCall) -> Option<u64> {
        let heard = self.heard.load(Ordering::Acquire);
        if heard > at {
            return Some(heard);
        }
        self.kernel.is_none().then(|| nanos(later.arrived))
    }

    fn is_acknowledged(&self) -> bool {
        let kernel = self.kernel.as_ref();
        kernel.is_some_and(|kernel| kernel.is_acknowledged())
    }
}

impl AgentConnection {
    /// A connection of which the kernel knows `kernel`.
    pub fn new(kernel: Box<dyn Acknowledges>) -> Self {
        Self {
            wire: Arc::new(AnswerWire::new(Some(kernel))),
            holder: OnceLock::new(),
            head: AtomicU64::new(0),
            is_early: AtomicBool::new(false),
            ended: Mutex::default(),
            has_ended: AtomicBool::new(false),
            written: Mutex::default(),
        }
    }

    /// `caller` speaks on it, for whichever of its users: one program reads all that comes.
    pub fn belongs(&self, caller: &Caller) {
        let own = || (caller.agent.clone(), caller.tenant.clone());
        let (agent, tenant) = self.holder.get_or_init(own);
        if (agent, tenant) != (&caller.agent, &caller.tenant) {
            self.wire.is_shared.store(true, Ordering::Release);
        }
    }

    /// The first byte of a head was read.
    pub fn head_begins(&self, now: Duration) {
        let is_early = self.is_early.swap(false, Ordering::AcqRel);
        let at = if is_early { 0 } else { nanos(now) };
        self.head.store(at, Ordering::Release);
    }

    /// When the request that is read now began; [`Duration::ZERO`] where it was on its way before the
    /// answer to the last.
    pub fn arrived(&self) -> Duration {
        Duration::from_nanos(self.head.load(Ordering::Acquire))
    }

    /// The request that arrived then is one, and no notification.
    pub fn hears(&self, arrived: Duration) {
        self.wire.heard.fetch_max(nanos(arrived), Ordering::AcqRel);
    }

    /// The body of an answer has ended; all of it is in the hands of who writes it.
    pub fn ends(&self, receipt: Arc<Receipt>) {
        self.ended.lock().push(receipt);
        self.has_ended.store(true, Ordering::Release);
    }

    /// Whether an answer ended that was not written when it was asked last.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// All that has ended is in the kernel's hands at `now`. `unread`: bytes have come before that
    /// which nobody has read.
    pub fn flushed(&self, now: Duration, unread: bool) {
        self.has_ended.store(false, Ordering::Release);
        if unread {
            self.is_early.store(true, Ordering::Release);
        }
        let ended = std::mem::take(&mut *self.ended.lock());
        let mut written = self.written.lock();
        written.retain(|receipt| receipt.proven.load(Ordering::Acquire) == 0);
        for receipt in ended {
            receipt.written(now, &self.wire);
            written.push(receipt);
        }
        let surplus = written.len().saturating_sub(MAX_UNPROVEN_ANSWERS);
        written.drain(..surplus);
    }

    /// It ends at `now`: what was read is noted. True while something written may still be read.
    pub fn closes(&self, now: Duration) -> bool {
        let mut written = self.written.lock();
        if written.is_empty() {
            return false;
        }
        let is_acknowledged =
            (self.wire.kernel.as_ref()).is_some_and(|kernel| kernel.is_acknowledged());
        if is_acknowledged {
            for receipt in written.drain(..) {
                receipt.proves(nanos(now));
            }
        }
        !is_acknowledged
    }
}

impl Receipt {
    /// Of an answer that is not written yet.
    pub fn new(is_relayed: bool) -> Arc<Self> {
        Arc::new(Self {
            at: AtomicU64::new(0),
            wire: OnceLock::new(),
            proven: AtomicU64::new(0),
            is_void: AtomicBool::new(false),
            is_relayed,
        })
    }

    /// All of it was handed to the kernel, on `wire`. The first time counts.
    pub fn written(&self, now: Duration, wire: &Arc<AnswerWire>) {
        if self.wire.set(wire.clone()).is_ok() {
            self.at.store(nanos(now), Ordering::Release);
        }
    }

    /// Its agent has said that it does not wait for it.
    pub fn void(&self) {
        self.is_void.store(true, Ordering::Release);
    }

    /// Whether it was handed over whole to an agent that still wanted it.
    pub fn is_delivered(&self) -> bool {
        self.is_written() && !self.is_void.load(Ordering::Acquire)
    }

    /// Whether it is written.
    pub fn is_written(&self) -> bool {
        self.at.load(Ordering::Acquire) > 0
    }

    /// Whether the agent had read it when it sent `later`; none where only the kernel can say.
    pub fn was_known_before(&self, later: LaterCall) -> Option<bool> {
        let (at, arrived) = (self.at.load(Ordering::Acquire), nanos(later.arrived));
        let wire = self
            .wire
            .get()
            .filter(|_| self.is_delivered() && arrived > at);
        let Some(wire) = wire else {
            return Some(false);
        };
        if self.is_relayed || wire.is_shared.load(Ordering::Acquire) {
            let pause = later.arrived.saturating_sub(Duration::from_nanos(at));
            return Some(later.is_named && pause >= RELAYED_PAUSE);
        }
        if let Some(since) = wire.heard_since(at, later) {
            self.proves(since);
        }
        let is_known = self.is_known_at(nanos(later.arrived + MAX_LOOK_DELAY));
        (is_known || !later.is_fresh()).then_some(is_known)
    }

    /// The same, and asks the kernel where only that can say; none where it has not acknowledged it
    /// yet.
    pub fn asked_before(&self, later: LaterCall) -> Option<bool> {
        let known = self.was_known_before(later);
        if known.is_some() {
            return known;
        }
        let is_acknowledged = self.wire.get().is_some_and(|wire| wire.is_acknowledged());
        is_acknowledged.then(|| {
            self.proves(nanos(later.arrived));
            true
        })
    }

    /// It is known to have been read at `since`.
    fn proves(&self, since: u64) {
        let earlier = |known: u64| (known == 0 || since < known).then_some(since);
        let _ = self
            .proven
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, earlier);
    }

    fn is_known_at(&self, arrived: u64) -> bool {
        let proven = self.proven.load(Ordering::Acquire);
        proven > 0 && proven <= arrived
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
