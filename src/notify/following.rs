//! What there is to tell: what the journal says, and what only time tells.

use super::journal_tail::{JournalTail, ToldRecord};
use super::notice::{Notice, NoticeKind, NoticeSubject};
use super::running::Notifier;
use crate::model::clock::Clock;
use crate::model::ids::ActionId;
use crate::store::state::Millis;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::event::StoreEvent;
use crate::store::state::hold::{Hold, HoldPhase};
use crate::telemetry::tasks;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often it is looked for something to tell.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long nothing is looked for after the journal could not be read.
const READ_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How soon what has changed is kept.
const KEEP_DELAY: Duration = Duration::from_millis(300);
/// How often it is kept how far the journal was read, where there was nothing to tell.
const KEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Held calls that are looked at when toolgate starts.
const MAX_HOLDS_AT_START: usize = 1000;
/// How long what ended a held call may take to be read.
const SETTLING_MILLIS: u64 = 5_000;

/// How far the outbox is kept.
struct KeptOutbox {
    at: Duration,
    after: u64,
}

impl Notifier {
    /// Begins to tell, until `stop`.
    pub(crate) fn start(self: &Arc<Self>, stop: &CancellationToken) {
        tasks::spawn("notices", self.clone().follow(stop.clone()));
        for index in 0..self.parts.receivers.len() {
            tasks::spawn("notice receiver", self.clone().deliver(index, stop.clone()));
        }
    }

    async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut tail = JournalTail::new(self.parts.data.clone());
        let mut kept = KeptOutbox {
            at: Clock.steady(),
            after: self.outbox.lock().after,
        };
        let mut is_begun = false;
        loop {
            let is_last = stop.is_cancelled();
            let pause = match self.take_in(&mut tail).await {
                Ok(()) => LOOK_INTERVAL,
                Err(error) => {
                    tracing::error!(%error, "what is to be told cannot be read; it is read again");
                    READ_RETRY_DELAY
                }
            };
            if pause == LOOK_INTERVAL && !is_begun {
                is_begun = self.begin().await;
            }
            self.look().await;
            self.keep(&mut kept, is_last).await;
            if is_last {
                return;
            }
            // Either way it is looked once more.
            let _ = tokio::time::timeout(pause, stop.cancelled()).await;
        }
    }

    /// Takes in what the journal has more, up to what cannot be told of yet.
    pub(super) async fn take_in(&self, tail: &mut JournalTail) -> Result<(), String> {
        loop {
            let (after, durable) = (self.outbox.lock().after, self.parts.journal.durable_seq());
            if durable <= after {
                return Ok(());
            }
            let unread = JournalTail::new(self.parts.data.clone());
            let mut reader = std::mem::replace(tail, unread);
            let read = tokio::task::spawn_blocking(move || {
                let read = reader.read(after, durable);
                (reader, read)
            });
            let (reader, read) = read.await.map_err(|error| error.to_string())?;
            let (records, last) = read.map_err(|error| error.to_string())?;
            // Until all of it is taken, the next look begins anew where this one came to.
            for ToldRecord { seq, event } in &records {
                self.take(event).await?;
                self.outbox.lock().after = *seq;
            }
            *tail = reader;
            if last <= after {
                return Ok(());
            }
            self.outbox.lock().after = last;
        }
    }

    /// Queues what `event` says, unless the store cannot say yet whose call it is about.
    async fn take(&self, event: &StoreEvent) -> Result<(), String> {
        let unknown = match self.unheld(event) {
            Some(action) => self.unknown(action, event.at()).await?,
            None => None,
        };
        let notice = self.outbox.lock().take(event).or(unknown);
        if let Some(notice) = notice {
            self.tell(&notice);
        }
        Ok(())
    }

    /// The call that `event` says is unknown, where it was not held.
    fn unheld(&self, event: &StoreEvent) -> Option<ActionId> {
        let StoreEvent::Settled(settled) = event else {
            return None;
        };
        let is_unknown = matches!(settled.phase, ClaimPhase::Unknown { .. });
        let is_held = self.outbox.lock().is_running(settled.action);
        (is_unknown && !is_held).then_some(settled.action)
    }

    async fn unknown(&self, action: ActionId, at: Millis) -> Result<Option<Notice>, String> {
        let found = self.parts.store.find(action).await;
        let found = found.map_err(|error| format!("whose call {action} is: {error}"))?;
        Ok(found
            .map(|(_, claim)| NoticeSubject::of(&claim).notice(NoticeKind::Unknown, at, "unknown")))
    }

    /// Tells of the calls that wait and of which the journal had nothing to say any more; whether they
    /// could be looked at.
    async fn begin(&self) -> bool {
        let Ok(holds) = self.parts.store.holds(MAX_HOLDS_AT_START).await else {
            return false;
        };
        let now = self.parts.store.now();
        for (key, hold) in holds.iter().filter(|(_, hold)| hold.is_waiting(now)) {
            let notice = self.outbox.lock().asked(*key, hold);
            if let Some(notice) = notice {
                self.tell(&notice);
            }
        }
        true
    }

    /// Tells what only time tells.
    async fn look(&self) {
        let now = self.parts.store.now();
        let overdue = self.outbox.lock().overdue(now);
        for id in overdue {
            let Ok(found) = self.parts.store.find_hold(id).await else {
                continue;
            };
            let due = found.and_then(|(_, hold)| still_due(&hold, now));
            let notice = {
                let mut outbox = self.outbox.lock();
                match due {
                    Some(due) => {
                        outbox.goes_on(id, due);
                        None
                    }
                    None => outbox.over(id),
                }
            };
            if let Some(notice) = notice {
                self.tell(&notice);
            }
        }
        let escalated = self.outbox.lock().escalate(&self.parts.receivers, now);
        if let Some(told) = escalated {
            self.changed(&told);
        }
    }

    /// Keeps the outbox, if it is time to.
    async fn keep(self: &Arc<Self>, kept: &mut KeptOutbox, is_last: bool) {
        let since = Clock.steady().saturating_sub(kept.at);
        let after = self.outbox.lock().after;
        let is_due = since >= KEEP_DELAY && self.is_ahead.load(Ordering::Acquire)
            || since >= KEEP_INTERVAL && after > kept.after;
        if !is_due && !is_last {
            return;
        }
        self.is_ahead.store(false, Ordering::Release);
        let notifier = self.clone();
        let written = tokio::task::spawn_blocking(move || notifier.write());
        let written = written.await.map_err(|error| error.to_string()).flatten();
        if let Err(error) = written {
            tracing::error!(%error,
                "what is still to be told cannot be kept: after a restart it may be told twice"
            );
            self.is_ahead.store(true, Ordering::Release);
        }
        *kept = KeptOutbox {
            at: Clock.steady(),
            after,
        };
    }
}

/// Until when more can happen to `hold`; none where its time is over.
fn still_due(hold: &Hold, now: Millis) -> Option<Millis> {
    match hold.phase {
        HoldPhase::Pending => Some(hold.approve_by).filter(|due| *due > now),
        HoldPhase::Allowed => Some(hold.ends()).filter(|due| *due > now),
        // The journal says so, too, as soon as that is read.
        HoldPhase::Denied | HoldPhase::Withdrawn | HoldPhase::Used { .. } => {
            Some(now.saturating_add(SETTLING_MILLIS))
        }
    }
}
