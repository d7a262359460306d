//! What stands between those who record and the one who writes: a bounded queue, and who waits for a sync.

use super::Options;
use super::chain::Head;
use super::error::Error;
use crate::model::clock::Clock;
use crate::model::entry::Entry;
use parking_lot::{Condvar, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Someone waits for the head after the next sync.
type Waiter = oneshot::Sender<Result<Head, Error>>;

/// Whether a journal can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It can.
    Writing,
    /// It was closed.
    Closed,
    /// A write or a sync failed, for this reason; a restart is needed.
    Poisoned(String),
}

/// How a journal is doing, in numbers since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether it can be written.
    pub state: State,
    /// Entries that wait to be written.
    pub queued: usize,
    /// Entries refused because the queue was full.
    pub refused: u64,
    /// Entries that were queued and never written, because writing failed.
    pub lost: u64,
    /// Where the journal stands, as far as it is synced.
    pub head: Head,
    /// Bytes written.
    pub bytes: u64,
    /// Batches written.
    pub batches: u64,
    /// Syncs.
    pub syncs: u64,
    /// Time all syncs took.
    pub sync_time: Duration,
    /// Time the longest sync took.
    pub sync_longest: Duration,
}

struct Inside {
    entries: Vec<Entry>,
    waiters: Vec<Waiter>,
    /// The writer waits for work, and must be woken for it.
    idle: bool,
    closing: bool,
    ended: Option<Error>,
    health: Health,
}

/// The queue.
pub(super) struct Queue {
    inside: Mutex<Inside>,
    wake: Condvar,
    limit: usize,
    gather: Duration,
}

/// What the writer is to do next.
pub(super) struct Work {
    pub(super) entries: Vec<Entry>,
    pub(super) waiters: Vec<Waiter>,
    pub(super) closing: bool,
}

impl Queue {
    pub(super) fn new(options: &Options, head: Head) -> Self {
        let health = Health {
            state: State::Writing,
            queued: 0,
            refused: 0,
            lost: 0,
            head,
            bytes: 0,
            batches: 0,
            syncs: 0,
            sync_time: Duration::ZERO,
            sync_longest: Duration::ZERO,
        };
        let (entries, waiters) = (Vec::new(), Vec::new());
        let inside = Inside { entries, waiters, idle: false, closing: false, ended: None, health };
        Self { inside: Mutex::new(inside), wake: Condvar::new(), limit: options.queue, gather: options.gather }
    }

    /// From here on the writer does not wait for more entries to gather.
    fn pressing(&self) -> usize {
        (self.limit / 4).clamp(1, 1024)
    }

    pub(super) fn push(&self, entry: Entry) -> Result<(), Error> {
        let mut inside = self.inside.lock();
        if let Some(error) = &inside.ended {
            return Err(error.clone());
        }
        if inside.closing {
            return Err(Error::Closed);
        }
        if inside.entries.len() >= self.limit {
            inside.health.refused += 1;
            return Err(Error::Full);
        }
        inside.entries.push(entry);
        // Waking costs more than queueing: once per batch, not once per entry.
        let wake = std::mem::take(&mut inside.idle) || inside.entries.len() == self.pressing();
        drop(inside);
        if wake {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Asks the writer to sync, and with `close` to end afterwards.
    pub(super) fn ask(&self, close: bool) -> Result<oneshot::Receiver<Result<Head, Error>>, Error> {
        let (waiter, asked) = oneshot::channel();
        let mut inside = self.inside.lock();
        if let Some(error) = &inside.ended {
            return Err(error.clone());
        }
        inside.closing |= close;
        inside.waiters.push(waiter);
        drop(inside);
        self.wake.notify_one();
        Ok(asked)
    }

    /// Waits for work, at most until `due` on the steady clock: nothing may be there to do then but a sync.
    pub(super) fn take(&self, due: Option<Duration>, spare: Vec<Entry>) -> Work {
        let mut inside = self.inside.lock();
        let mut until = Duration::ZERO;
        while inside.entries.is_empty() && inside.waiters.is_empty() && !inside.closing {
            let left = due.map(|due| due.saturating_sub(Clock.steady()));
            // While it has something to sync, the writer looks by itself: waking it costs the caller ten times what
            // queueing does.
            inside.idle = left.is_none() || self.gather.is_zero();
            match left {
                None => self.wake.wait(&mut inside),
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let left = if inside.idle { left } else { left.min(self.gather) };
                    self.wake.wait_for(&mut inside, left);
                    continue;
                }
            }
            until = Clock.steady() + self.gather;
        }
        inside.idle = false;
        while inside.waiters.is_empty() && !inside.closing && (1..self.pressing()).contains(&inside.entries.len()) {
            let left = until.saturating_sub(Clock.steady());
            if left.is_zero() {
                break;
            }
            self.wake.wait_for(&mut inside, left);
        }
        Work {
            entries: std::mem::replace(&mut inside.entries, spare),
            waiters: std::mem::take(&mut inside.waiters),
            closing: inside.closing,
        }
    }

    /// Notes what the writer did.
    pub(super) fn note(&self, note: impl FnOnce(&mut Health)) {
        note(&mut self.inside.lock().health);
    }

    /// Nothing is written any more; whoever waits is told why.
    pub(super) fn end(&self, reason: &Error, mut waiters: Vec<Waiter>, mut lost: u64) {
        let mut inside = self.inside.lock();
        let head = inside.health.head;
        waiters.append(&mut inside.waiters);
        lost += std::mem::take(&mut inside.entries).len() as u64;
        inside.health.lost += lost;
        let poisoned = if let Error::Poisoned(why) = reason { Some(why) } else { None };
        inside.health.state = poisoned.map_or(State::Closed, |why| State::Poisoned(why.to_string()));
        inside.ended = Some(reason.clone());
        drop(inside);
        if let Some(why) = poisoned {
            tracing::error!(reason = %why, lost, head = %head, "the journal can't be written any more");
        }
        for waiter in waiters {
            // Who no longer waits need not be told.
            let _ = waiter.send(if poisoned.is_some() { Err(reason.clone()) } else { Ok(head) });
        }
    }

    pub(super) fn is_writing(&self) -> bool {
        let inside = self.inside.lock();
        inside.ended.is_none() && inside.health.state == State::Writing
    }

    pub(super) fn health(&self) -> Health {
        let inside = self.inside.lock();
        Health { queued: inside.entries.len(), ..inside.health.clone() }
    }
}
