//! The one thread that writes: everything queued becomes one batch and one write; one sync answers
//! all who wait.

use super::JournalOptions;
use super::ahead::SpaceAhead;
use super::chain::{Hash, Head};
use super::compressor::Compressor;
use super::data_dir::DataDir;
use super::error::{JournalError, WriteFailure};
use super::frame::{Frame, REKEYED_RECORD};
use super::item::RecordGroup;
use super::medium::{Medium, Wrap};
use super::queue::{Space, WriteJob, WriteQueue};
use super::recovery::{Recovered, Tail};
use super::seal::{KeyId, Rekeyed, SealingKey, SealingKeys};
use super::segment;
use crate::failpoint;
use crate::model::clock::Clock;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The writer.
pub(super) struct Writer {
    /// Stands first, so that it has ended before the lock is given up; none where nothing is compressed.
    compressor: Option<Compressor>,
    place: DataDir,
    options: JournalOptions,
    wrap: Wrap,
    epoch: u64,
    keys: SealingKeys,
    medium: Box<dyn Medium>,
    number: u64,
    offset: u64,
    ahead: SpaceAhead,
    head: Head,
    /// The last record that is synced.
    synced: u64,
    /// Bytes that are not.
    unsynced: u64,
    /// When they have to be, on the steady clock.
    due: Option<Duration>,
    space: Space,
    /// When to look for space again; none while there is enough.
    again: Option<Duration>,
}

/// How the writer's journal is written.
pub(super) struct WriterSetup {
    pub(super) options: JournalOptions,
    pub(super) wrap: Wrap,
    pub(super) keys: SealingKeys,
    pub(super) epoch: u64,
}

impl Writer {
    /// A writer that goes on where `recovered` says, or begins the first segment.
    pub(super) fn new(
        place: DataDir,
        setting: WriterSetup,
        recovered: Recovered,
    ) -> Result<Self, JournalError> {
        let WriterSetup {
            options,
            wrap,
            keys,
            epoch,
        } = setting;
        let last = recovered.key;
        let may_seal = |key: KeyId| {
            keys.of(key).is_some() || keys.sealing().is_some() && keys.lost.contains(&key)
        };
        if let Some(key) = last.filter(|last| !may_seal(*last)) {
            return Err(JournalError::KeyMissing {
                dir: place.dir.clone(),
                key,
            });
        }
        let failed = |source: WriteFailure, dir: &std::path::Path| {
            JournalError::io("begin to write a journal in", dir, source.into())
        };
        let tail = match recovered.tail {
            Some(tail) => tail,
            None => first(&place, epoch, &keys).map_err(|source| failed(source, &place.dir))?,
        };
        let Tail {
            file,
            header,
            offset,
            head,
        } = tail;
        let mut writer = Self {
            compressor: None,
            medium: wrap(file),
            place,
            ahead: SpaceAhead::new(options.reserve_bytes, offset),
            options,
            wrap,
            epoch,
            keys,
            number: header.number,
            offset,
            head,
            synced: head.seq,
            unsynced: 0,
            due: None,
            space: Space::Ample,
            again: None,
        };
        writer
            .rekey(last, &header)
            .map_err(|source| failed(source, &writer.place.dir))?;
        Ok(writer)
    }

    /// Where another key than `last` is to seal from here on, or none any more, a record says so,
    /// durably. Sealed batches stand in segments that are marked for them, and `header` is the
    /// last one's.
    fn rekey(
        &mut self,
        last: Option<KeyId>,
        header: &segment::SegmentHeader,
    ) -> Result<(), WriteFailure> {
        let current = self.keys.sealing();
        if last == current {
            return Ok(());
        }
        let shown = |key: Option<KeyId>| key.map(|key| key.to_string());
        let (key, previous) = (shown(current), shown(last));
        let words = Rekeyed {
            time: Clock.wall().to_string(),
            key,
            previous,
        };
        let words =
            serde_json::to_vec(&words).map_err(|error| WriteFailure::Failed(error.into()))?;
        if current.is_some() && !header.sealed {
            // No two segments begin with the same record.
            if self.offset == segment::SEGMENT_HEADER_BYTES {
                self.write_rekeyed(&words, None)?;
            }
            self.start_segment(
                &segment::SegmentHeader::after(self.number, self.head, self.epoch).sealing(last),
            )?;
        }
        // That nothing is sealed any more is sealed, too.
        let key = self
            .keys
            .current
            .clone()
            .or_else(|| self.keys.of(last?).cloned());
        self.write_rekeyed(&words, key.as_ref())?;
        if let Some(key) = current {
            tracing::warn!(%key, head = %self.head, "from here on the ledger is sealed with this key; keep the head elsewhere");
        } else {
            tracing::warn!(head = %self.head, "from here on the ledger is not sealed any more");
        }
        Ok(())
    }

    /// Writes a record of another key, alone in its batch and durably.
    fn write_rekeyed(
        &mut self,
        words: &[u8],
        key: Option<&SealingKey>,
    ) -> Result<(), WriteFailure> {
        let group = RecordGroup::of(REKEYED_RECORD, words);
        let mut frame = Frame::new();
        frame.add(&group.bytes, group.count);
        let (sealed, head) = frame.complete(self.head, self.epoch, self.synced, key);
        self.medium.write(sealed, self.offset)?;
        self.medium.sync().map_err(WriteFailure::Failed)?;
        self.offset += sealed.len() as u64;
        (self.head, self.synced) = (head, head.seq);
        self.ahead.begin(self.offset, self.offset);
        Ok(())
    }

    /// Where the journal stands.
    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// When there is something to do though nothing is queued, on the steady clock.
    fn due(&self) -> Option<Duration> {
        self.due.into_iter().chain(self.again).min()
    }

    /// Writes `work`, and syncs when a caller waits for that or it is due. What does not fit on the
    /// disk goes back to the queue, unless that is closing.
    fn work(&mut self, queue: &WriteQueue, work: &mut WriteJob) -> Result<(), WriteFailure> {
        let look = work.closing || self.again.is_none_or(|again| again <= Clock.steady());
        if look {
            self.space = Space::Ample;
            self.keep_ahead(self.offset)?;
        }
        let mut done = 0;
        for frame in &mut work.frames {
            if !look && matches!(self.space, Space::Gone(_)) {
                break;
            }
            match self.append(queue, frame) {
                Ok(()) => frame.clear(),
                Err(WriteFailure::Full(error)) if !work.closing => {
                    self.space = Space::Gone(error.to_string());
                    break;
                }
                Err(stop) => return Err(stop),
            }
            done += 1;
        }
        if work.closing || work.wanted > self.synced || self.sync_is_due() {
            self.sync(queue)?;
        }
        if done < work.frames.len() {
            queue.put_back(work.frames.split_off(done));
        }
        if look {
            self.again =
                (self.space != Space::Ample).then(|| Clock.steady() + self.options.look_every);
        }
        queue.set_space(&self.space);
        self.fill_ahead(work.closing)
    }

    /// Fills what is written next with zeros, once callers are told of all that is written: what is
    /// not synced yet would have to wait for the zeros, too.
    fn fill_ahead(&mut self, closing: bool) -> Result<(), WriteFailure> {
        if closing || self.unsynced > 0 || self.space != Space::Ample {
            return Ok(());
        }
        let limit = self.options.segment_bytes;
        self.ahead.fill(&*self.medium, self.offset, limit)
    }

    fn sync_is_due(&self) -> bool {
        self.unsynced >= self.options.sync_bytes
            || self.due.is_some_and(|due| due <= Clock.steady())
    }

    /// Writes `frame` as the next batch; or nothing of it.
    fn append(&mut self, queue: &WriteQueue, frame: &mut Frame) -> Result<(), WriteFailure> {
        let is_long = self.offset >= self.options.segment_bytes
            && self.offset > segment::SEGMENT_HEADER_BYTES;
        if is_long && self.space == Space::Ample {
            match self.rotate(queue) {
                // The old segment takes what fits into its reserve.
                Err(WriteFailure::Full(error)) => self.space = Space::Low(error.to_string()),
                done => done?,
            }
        }
        let key = self.keys.current.as_ref();
        let (sealed, head) = frame.complete(self.head, self.epoch, self.synced, key);
        let bytes = sealed.len() as u64;
        let end = self.offset + bytes;
        if let Err(stop) = self.ensure_space(end) {
            frame.reopen();
            return Err(stop);
        }
        if let Err(error) = self.medium.write(sealed, self.offset) {
            frame.reopen();
            // What was written of it must not stand before the batch that comes in its place.
            self.medium.cut(self.offset).map_err(WriteFailure::Failed)?;
            self.ahead.begin(self.offset, self.offset);
            return Err(error.into());
        }
        self.offset = end;
        self.head = head;
        self.unsynced += bytes;
        self.due
            .get_or_insert_with(|| Clock.steady() + self.options.sync_every);
        queue.wrote(bytes);
        Ok(())
    }

    /// Sees to it that the segment can be written up to `end`.
    fn ensure_space(&mut self, end: u64) -> Result<(), WriteFailure> {
        self.keep_ahead(end)?;
        match &self.space {
            Space::Low(why) | Space::Gone(why) if !self.ahead.covers(end) => Err(
                WriteFailure::Full(io::Error::new(io::ErrorKind::StorageFull, why.clone())),
            ),
            Space::Ample | Space::Low(_) | Space::Gone(_) => Ok(()),
        }
    }

    /// Keeps space reserved beyond `end`: when no more can be had, the outcomes of calls in flight
    /// have to fit into that.
    fn keep_ahead(&mut self, end: u64) -> Result<(), WriteFailure> {
        if self.space != Space::Ample {
            return Ok(());
        }
        match self.ahead.keep(&*self.medium, end) {
            Err(WriteFailure::Full(error)) => self.space = Space::Low(error.to_string()),
            done => done?,
        }
        Ok(())
    }

    /// An error here is final, whatever it says: after a failed sync nobody knows what is on the
    /// disk.
    fn sync(&mut self, queue: &WriteQueue) -> Result<(), WriteFailure> {
        self.due = None;
        if self.unsynced == 0 {
            return Ok(());
        }
        let start = Clock.steady();
        self.medium.sync().map_err(WriteFailure::Failed)?;
        let took = Clock.steady().saturating_sub(start);
        self.unsynced = 0;
        self.synced = self.head.seq;
        queue.synced(self.head, took);
        Ok(())
    }

    /// Closes the segment and begins the next one, which is made first: without space for it,
    /// nothing changes.
    fn rotate(&mut self, queue: &WriteQueue) -> Result<(), WriteFailure> {
        self.sync(queue)?;
        failpoint::reached("rotate");
        let header = segment::SegmentHeader::after(self.number, self.head, self.epoch);
        let key = self.keys.sealing();
        self.start_segment(&if key.is_some() {
            header.sealing(key)
        } else {
            header
        })?;
        tracing::info!(segment = self.number, head = %self.head, "a segment of the journal is full; the next begins");
        Ok(())
    }

    /// Closes the segment and begins the one with `header`.
    fn start_segment(&mut self, header: &segment::SegmentHeader) -> Result<(), WriteFailure> {
        let next = (self.wrap)(segment::prepare(&self.place.dir, header)?);
        let reserved = segment::SEGMENT_HEADER_BYTES + self.options.reserve_bytes;
        if self.options.reserve_bytes > 0
            && let Err(error) = next.reserve(reserved)
        {
            // What it holds is wanted elsewhere.
            segment::discard(&self.place.dir, header);
            return Err(error.into());
        }
        self.close()?;
        segment::publish(&self.place.dir, header)?;
        self.medium = next;
        (self.number, self.offset) = (header.number, segment::SEGMENT_HEADER_BYTES);
        self.ahead.begin(self.offset, reserved);
        self.head = header.head();
        if let Some(compressor) = &self.compressor {
            compressor.segment_closed();
        }
        Ok(())
    }

    /// Has closed segments compressed from now on, where that is wanted.
    fn begin_compressing(&mut self, queue: &Arc<WriteQueue>) {
        if self.options.compress {
            self.compressor = Compressor::start(&self.place.dir, queue)
                .inspect_err(|error| tracing::warn!(%error, "closed segments are not compressed"))
                .ok();
        }
    }

    /// Gives back what is reserved, durably: after a closed segment's last batch nothing may stand.
    fn close(&mut self) -> Result<(), WriteFailure> {
        self.medium.cut(self.offset).map_err(WriteFailure::Failed)?;
        self.ahead.begin(self.offset, self.offset);
        self.medium.sync().map_err(WriteFailure::Failed)
    }
}

/// Begins the first segment.
fn first(place: &DataDir, epoch: u64, keys: &SealingKeys) -> Result<Tail, WriteFailure> {
    let mut chain: Hash = [0; 32];
    getrandom::fill(&mut chain).map_err(|error| WriteFailure::Failed(io::Error::other(error)))?;
    let header = segment::SegmentHeader {
        number: 1,
        first: 1,
        epoch,
        chain,
        sealed: keys.sealing().is_some(),
        key: None,
    };
    let file = segment::prepare(&place.dir, &header)?;
    segment::publish(&place.dir, &header)?;
    Ok(Tail {
        file,
        header,
        offset: segment::SEGMENT_HEADER_BYTES,
        head: header.head(),
    })
}

/// Writes what `queue` holds until it is closed or writing fails.
pub(super) fn run(mut writer: Writer, queue: &Arc<WriteQueue>) {
    let alarm = Alarm(Arc::clone(queue));
    writer.begin_compressing(queue);
    let mut work = WriteJob {
        frames: Vec::new(),
        wanted: 0,
        closing: false,
    };
    let (result, work) = loop {
        let result = writer.work(queue, &mut work);
        if result.is_err() || work.closing {
            break (result, work);
        }
        work = queue.take(writer.due(), work.frames.pop());
    };
    let result = result.and_then(|()| writer.close());
    let head = writer.head;
    // The lock is given up before anyone is told.
    drop(writer);
    std::mem::forget(alarm);
    if result.is_ok() {
        tracing::info!(%head, "the journal is closed");
    }
    let reason = match result.map_err(io::Error::from) {
        Ok(()) => JournalError::Closed,
        Err(error) => JournalError::Poisoned(error.to_string().into()),
    };
    queue.fail_waiters(
        &reason,
        work.frames
            .iter()
            .map(|frame| u64::from(frame.count()))
            .sum(),
    );
}

/// Dropped only by a panic.
struct Alarm(Arc<WriteQueue>);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0
            .fail_waiters(&JournalError::Poisoned("its writer panicked".into()), 0);
    }
}
