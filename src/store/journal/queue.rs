//! What stands between those who record and the one who writes: batches being gathered, bounded,
//! and who waits for what.
//!
//! A record gets its number when it is queued, so that the order in which a caller decides, under a
//! lock of its own, is the order in which it is written.

use super::JournalOptions;
use super::chain::Head;
use super::error::JournalError;
use super::extent::Extent;
use super::frame::{Frame, MAX_PAYLOAD_BYTES};
use super::health::{JournalHealth, JournalState};
use super::item::{MAX_GROUP_BYTES, RecordGroup};
use crate::model::clock::Clock;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

mod space;
mod waiter;

pub(super) use space::Space;
use waiter::SyncWaiters;
pub(super) use waiter::{WaitGoal, WaiterPlace};

/// A batch that has reached this size is closed and the next one begun.
const BATCH_CLOSE_BYTES: usize = 1 << 20;
/// From this many records on the writer does not wait for more to gather.
const WRITE_AT_RECORDS: usize = 1024;

const _: () = assert!(
    BATCH_CLOSE_BYTES + MAX_GROUP_BYTES <= MAX_PAYLOAD_BYTES,
    "a group always fits into a batch that is open"
);

pub(super) struct QueueInner {
    /// Batches being gathered; the last one takes more.
    frames: Vec<Frame>,
    /// Memory for the next one.
    spare: Option<Frame>,
    /// Records in them.
    gathered: usize,
    /// Batches without numbers yet: what nobody waits for leaves the last space to the others.
    held: Vec<Frame>,
    /// Bytes of both.
    bytes: usize,
    /// Records and bytes that the writer is at; without space they come back.
    at_work: (usize, usize),
    pub(super) space: Space,
    /// The last record that was queued.
    last: u64,
    /// A caller waits for the sync of this record.
    wanted: u64,
    waiters: SyncWaiters,
    /// The writer sleeps. Only then is it woken, and once.
    asleep: bool,
    /// It has nothing to look for by itself, and must be woken for whatever is queued.
    idle: bool,
    closing: bool,
    pub(super) ended: Option<JournalError>,
    pub(super) health: JournalHealth,
}

/// The queue.
pub(super) struct WriteQueue {
    inside: Mutex<QueueInner>,
    wake: Condvar,
    /// The last record that is synced.
    durable: AtomicU64,
    writing: AtomicBool,
    extent: AtomicU8,
    /// Bytes that may still be queued before the journal is lean, by when it was last measured.
    until_lean: AtomicU64,
    limit: usize,
    limit_bytes: usize,
    gather: Duration,
}

/// What the writer is to do next.
pub(super) struct WriteJob {
    pub(super) frames: Vec<Frame>,
    /// A caller waits for the sync of this record.
    pub(super) wanted: u64,
    pub(super) closing: bool,
}

impl WriteQueue {
    pub(super) fn new(options: &JournalOptions, head: Head) -> Self {
        let inside = QueueInner {
            frames: Vec::new(),
            spare: None,
            gathered: 0,
            bytes: 0,
            at_work: (0, 0),
            last: head.seq,
            wanted: 0,
            waiters: SyncWaiters::default(),
            asleep: false,
            idle: false,
            closing: false,
            ended: None,
            held: Vec::new(),
            space: Space::Ample,
            health: JournalHealth::new(head),
        };
        Self {
            inside: Mutex::new(inside),
            wake: Condvar::new(),
            durable: AtomicU64::new(head.seq),
            writing: AtomicBool::new(true),
            extent: AtomicU8::new(0),
            until_lean: AtomicU64::new(u64::MAX),
            limit: options.queue,
            limit_bytes: options.queue_bytes,
            gather: options.gather,
        }
    }

    /// From here on the writer does not wait for more records to gather.
    fn pressing(&self) -> usize {
        (self.limit / 4).clamp(1, WRITE_AT_RECORDS)
    }

    /// How much may be queued; all but a quarter, which is left to others, for what is not
    /// `urgent`.
    fn limits(&self, urgent: bool) -> (usize, usize) {
        let part = |limit: usize| if urgent { limit } else { limit - limit / 4 };
        (part(self.limit), part(self.limit_bytes))
    }

    /// Queues `group`, and gives the number of its last record. The writer is not told; the caller
    /// says so later, through `poll` or `nudge`. What is `urgent` may fill the queue.
    pub(super) fn push(&self, group: &RecordGroup, urgent: bool) -> Result<u64, JournalError> {
        let mut inside = self.inside.lock();
        let pressing = self.pressing();
        let (records, bytes) = self.limits(urgent);
        inside.admit(group, records, bytes)?;
        let before = inside.gathered;
        inside.gather(group);
        let last = inside.last;
        if before < pressing && before + group.count as usize >= pressing {
            self.rouse(inside);
        } else {
            drop(inside);
        }
        self.grows(group.bytes.len());
        Ok(last)
    }

    /// Queues `group`, whose writing nobody waits for, and tells the writer where that is needed. A
    /// quarter of the queue is left to others.
    pub(super) fn push_behind(&self, group: &RecordGroup) -> Result<(), JournalError> {
        let mut inside = self.inside.lock();
        let pressing = self.pressing();
        let (records, bytes) = self.limits(false);
        inside.admit(group, records, bytes)?;
        if inside.space != Space::Ample {
            inside.hold(group);
            return Ok(());
        }
        inside.gather(group);
        // Waking costs more than queueing: once per batch, not once per record.
        if std::mem::take(&mut inside.idle) || inside.gathered == pressing {
            self.rouse(inside);
        } else {
            drop(inside);
        }
        self.grows(group.bytes.len());
        Ok(())
    }

    /// The journal will have `bytes` more. That it becomes lean is known at once: on a busy
    /// machine, much is queued before it is measured again.
    fn grows(&self, bytes: usize) {
        let less = |left: u64| Some(left.saturating_sub(bytes as u64));
        let before = self
            .until_lean
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .unwrap_or(u64::MAX);
        if before <= bytes as u64 && self.extent() == Extent::Within {
            self.set_extent(Extent::Lean);
        }
    }

    /// The journal was measured: it is lean in `until_lean` bytes, of which what is queued takes
    /// its part.
    pub(super) fn measured(&self, extent: Extent, until_lean: u64) {
        let left = until_lean.saturating_sub(self.inside.lock().bytes as u64);
        self.until_lean.store(left, Ordering::Release);
        self.set_extent(if left == 0 {
            extent.max(Extent::Lean)
        } else {
            extent
        });
    }

    /// Wakes the writer when it waits and there is something to write; nobody waits for that.
    pub(super) fn nudge(&self) {
        let mut inside = self.inside.lock();
        if inside.gathered > 0 && std::mem::take(&mut inside.idle) {
            self.rouse(inside);
        }
    }

    /// Wakes the writer if it sleeps: one that is at work looks for more before it sleeps.
    fn rouse(&self, mut inside: MutexGuard<'_, QueueInner>) {
        let asleep = std::mem::take(&mut inside.asleep);
        drop(inside);
        if asleep {
            self.wake.notify_one();
        }
    }

    /// Asks the writer to sync everything queued so far, and with `close` to end afterwards. Gives
    /// the last record.
    pub(super) fn press(&self, close: bool) -> Result<u64, JournalError> {
        let mut inside = self.inside.lock();
        if let Some(error) = &inside.ended {
            return Err(error.clone());
        }
        if close {
            inside.closing = true;
            inside.release();
        } else if let (Space::Low(why) | Space::Gone(why), false) =
            (&inside.space, inside.held.is_empty())
        {
            return Err(JournalError::NoSpace(why.clone()));
        }
        let last = inside.last;
        if inside.want(last) || close {
            self.rouse(inside);
        }
        Ok(last)
    }

    /// What a caller waits for, when it is there; else notes that the caller waits, in its `place`.
    ///
    /// A writer that sleeps is not woken by the first poll but by the second, for which the caller is
    /// woken at once: it comes after all that can run now, and their records go into the same batch.
    /// Waking costs more than queueing, and a sync more than both.
    pub(super) fn poll(
        &self,
        until: WaitGoal,
        place: &mut WaiterPlace,
        waker: &Waker,
    ) -> Option<Result<Head, JournalError>> {
        let mut inside = self.inside.lock();
        let answer = until.answer(&inside);
        if answer.is_some() {
            return answer;
        }
        inside.waiters.note(until, &mut place.id, waker);
        let hurries = matches!(until, WaitGoal::Durable(seq) if inside.want(seq));
        if hurries && inside.asleep && place.let_others {
            self.rouse(inside);
        } else if hurries && inside.asleep {
            place.let_others = true;
            drop(inside);
            waker.wake_by_ref();
        }
        None
    }

    /// The caller at `place` no longer waits for `until`. What it queued is written all the same.
    pub(super) fn leave(&self, until: WaitGoal, place: &WaiterPlace) {
        let mut inside = self.inside.lock();
        place
            .id
            .into_iter()
            .for_each(|id| inside.waiters.remove(until, id));
        if place.let_others && inside.wanted > inside.health.head.seq {
            self.rouse(inside);
        }
    }

    /// Waits for work, at most until `due` on the steady clock: nothing may be there to do then but
    /// a sync. `spare` is memory to gather in.
    pub(super) fn take(&self, due: Option<Duration>, spare: Option<Frame>) -> WriteJob {
        let mut inside = self.inside.lock();
        (inside.spare, inside.at_work) = (spare, (0, 0));
        let mut until = None;
        loop {
            let stuck = matches!(inside.space, Space::Gone(_));
            let hurried = inside.wanted > inside.health.head.seq;
            if inside.closing || !stuck && (hurried || inside.gathered >= self.pressing()) {
                break;
            }
            let now = Clock.steady();
            if inside.gathered > 0 && !stuck {
                let until = *until.get_or_insert(now + self.gather);
                if until <= now || due.is_some_and(|due| due <= now) {
                    break;
                }
                self.park(&mut inside, Some(until.saturating_sub(now)));
                continue;
            }
            let left = due.map(|due| due.saturating_sub(now));
            if left == Some(Duration::ZERO) {
                break;
            }
            // While it has something to sync, the writer looks by itself: waking it costs the
            // caller ten times what queueing does.
            inside.idle = left.is_none() || self.gather.is_zero();
            let left = if inside.idle {
                left
            } else {
                left.map(|left| left.min(self.gather))
            };
            self.park(&mut inside, left);
            inside.idle = false;
        }
        let held = inside.held.iter().map(Frame::payload).sum();
        inside.at_work = (inside.gathered, inside.bytes - held);
        (inside.gathered, inside.bytes) = (0, held);
        WriteJob {
            frames: std::mem::take(&mut inside.frames),
            wanted: inside.wanted,
            closing: inside.closing,
        }
    }

    fn park(&self, inside: &mut MutexGuard<'_, QueueInner>, left: Option<Duration>) {
        inside.asleep = true;
        match left {
            None => self.wake.wait(inside),
            Some(left) => {
                self.wake.wait_for(inside, left);
            }
        }
        inside.asleep = false;
    }

    /// Whether the writer sleeps.
    #[cfg(test)]
    pub(super) fn sleeps(&self) -> bool {
        self.inside.lock().asleep
    }

    /// A batch of so many `bytes` is written.
    pub(super) fn wrote(&self, bytes: u64) {
        let mut inside = self.inside.lock();
        inside.health.bytes += bytes;
        inside.health.batches += 1;
    }

    /// Everything up to `head` is synced; `took` is how long that took. Callers that waited for it
    /// are told, after the lock is given up.
    pub(super) fn synced(&self, head: Head, took: Duration) {
        let mut inside = self.inside.lock();
        inside.health.head = head;
        inside.health.synced(took);
        self.durable.store(head.seq, Ordering::Release);
        let answered = inside.answered();
        drop(inside);
        answered.into_iter().for_each(Waker::wake);
    }

    /// Nothing is written any more; callers that wait are told why. `lost` records were taken and
    /// not written.
    pub(super) fn fail_waiters(&self, reason: &JournalError, lost: u64) {
        let mut inside = self.inside.lock();
        let lost = lost + inside.queued() as u64;
        (inside.gathered, inside.frames, inside.held) = (0, Vec::new(), Vec::new());
        inside.health.lost += lost;
        let poisoned = if let JournalError::Poisoned(why) = reason {
            Some(why)
        } else {
            None
        };
        inside.health.state = poisoned.map_or(JournalState::Closed, |why| {
            JournalState::Poisoned(why.to_string())
        });
        inside.ended = Some(reason.clone());
        self.writing.store(false, Ordering::Release);
        let head = inside.health.head;
        let answered = inside.answered();
        drop(inside);
        if let Some(why) = poisoned {
            tracing::error!(reason = %why, lost, head = %head, "the journal can't be written any more");
        }
        answered.into_iter().for_each(Waker::wake);
    }

    fn set_extent(&self, extent: Extent) {
        let before = Extent::from_number(self.extent.swap(extent as u8, Ordering::AcqRel));
        let words = extent.words();
        if extent > before.max(Extent::Lean) {
            tracing::error!("{words}");
        } else if extent > before {
            tracing::warn!("{words}");
        } else if extent < before {
            tracing::info!("{words}");
        }
    }

    /// So many more records are gone before their age.
    pub(super) fn dropped_early(&self, records: u64) {
        self.inside.lock().health.dropped_early += records;
    }

    pub(super) fn extent(&self) -> Extent {
        Extent::from_number(self.extent.load(Ordering::Acquire))
    }

    pub(super) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Acquire)
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn health(&self) -> JournalHealth {
        let inside = self.inside.lock();
        JournalHealth {
            queued: inside.queued(),
            unsynced: inside.last.saturating_sub(inside.health.head.seq),
            ..inside.health.clone()
        }
    }
}

impl QueueInner {
    /// Whether `group` may be queued, with at most so many records and bytes in all.
    fn admit(
        &mut self,
        group: &RecordGroup,
        records: usize,
        bytes: usize,
    ) -> Result<(), JournalError> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        if self.closing {
            return Err(JournalError::Closed);
        }
        // Where the disk is full and the writer does not know it yet, what it is at comes back.
        let (coming, coming_bytes) = self.at_work;
        let queued = self.queued() + coming + group.count as usize;
        if queued > records || self.bytes + coming_bytes + group.bytes.len() > bytes {
            self.health.refused += u64::from(group.count);
            return Err(JournalError::Full);
        }
        Ok(())
    }

    /// Records that wait to be written.
    fn queued(&self) -> usize {
        self.gathered
            + self
                .held
                .iter()
                .map(|frame| frame.count() as usize)
                .sum::<usize>()
    }

    /// Puts `group` into the batch that is gathered, and counts on.
    fn gather(&mut self, group: &RecordGroup) {
        let Self { frames, spare, .. } = self;
        put(frames, group, || spare.take());
        self.gathered += group.count as usize;
        self.bytes += group.bytes.len();
        self.last += u64::from(group.count);
    }

    /// A caller waits for the sync of record `seq`. Gives whether the writer has to know: telling
    /// it costs nothing while it is not waiting.
    fn want(&mut self, seq: u64) -> bool {
        self.wanted = self.wanted.max(seq.min(self.last));
        self.wanted > self.health.head.seq
    }

    /// Those whose wait is over.
    fn answered(&mut self) -> Vec<Waker> {
        let mut waiters = std::mem::take(&mut self.waiters);
        let is_reached = |goal: WaitGoal| goal.answer(self).is_some();
        // When nothing is written any more, those have their answer, too, who wait for the last record.
        let last = if is_reached(WaitGoal::Durable(u64::MAX)) {
            u64::MAX
        } else {
            self.health.head.seq
        };
        let answered = waiters.take(last, is_reached);
        self.waiters = waiters;
        answered
    }
}

/// Adds `group` to the last of `frames`, or to a new one, perhaps made of `spare` memory.
fn put(frames: &mut Vec<Frame>, group: &RecordGroup, spare: impl FnOnce() -> Option<Frame>) {
    match frames.last_mut() {
        Some(frame) if frame.payload() < BATCH_CLOSE_BYTES => frame.add(&group.bytes, group.count),
        _ => {
            let mut frame = spare().unwrap_or_else(Frame::new);
            frame.add(&group.bytes, group.count);
            frames.push(frame);
        }
    }
}
