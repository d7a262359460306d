//! The one thread that writes: everything queued becomes one batch and one write; one sync answers all who wait.

use super::Options;
use super::chain::{Hash, Head};
use super::error::Error;
use super::frame::{CALL, Frame};
use super::place::Place;
use super::queue::{Queue, Work};
use super::recovery::Tail;
use super::segment;
use crate::failpoint;
use crate::model::clock::Clock;
use crate::model::entry::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

mod shorten;

/// A batch is closed when it has reached this size.
const BATCH: usize = 1 << 20;

/// Room for this many entries is kept between two batches.
const SPARE: usize = 1024;

/// What a segment is written on. Tests put something between that fails or forgets.
pub(super) trait Medium: Send {
    /// Writes all of `bytes` at `at`.
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Reserves space for the file up to `length`; whether that can be done is up to the file system.
    fn reserve(&self, length: u64) -> io::Result<()>;
    /// Gives back what is reserved beyond `length`.
    fn cut(&self, length: u64) -> io::Result<()>;
    /// Waits until everything written is on the disk.
    fn sync(&self) -> io::Result<()>;
}

/// Makes the medium of a segment's file.
pub(super) type Wrap = fn(File) -> Box<dyn Medium>;

impl Medium for File {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, rustix::fs::FallocateFlags::empty(), 0, length) {
            // Not every file system can; it only costs speed.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            done => Ok(done?),
        }
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The writer.
pub(super) struct Writer {
    place: Place,
    options: Options,
    wrap: Wrap,
    epoch: u64,
    medium: Box<dyn Medium>,
    number: u64,
    offset: u64,
    reserved: u64,
    head: Head,
    /// The last record that is synced.
    synced: u64,
    /// Bytes that are not.
    unsynced: u64,
    /// When they have to be, on the steady clock.
    due: Option<Duration>,
    frame: Frame,
}

impl Writer {
    /// A writer that goes on at `tail`, or begins the first segment.
    pub(super) fn new(
        place: Place,
        options: Options,
        wrap: Wrap,
        tail: Option<Tail>,
        epoch: u64,
    ) -> Result<Self, Error> {
        let tail = match tail {
            Some(tail) => tail,
            None => first(&place, epoch).map_err(|source| Error::io("begin a journal in", &place.dir, source))?,
        };
        let Tail { file, number, offset, head } = tail;
        let (medium, synced, reserved, frame) = (wrap(file), head.seq, offset, Frame::new());
        let (unsynced, due) = (0, None);
        Ok(Self { place, options, wrap, epoch, medium, number, offset, reserved, head, synced, unsynced, due, frame })
    }

    /// Where the journal stands.
    pub(super) fn head(&self) -> Head {
        self.head
    }

    fn work(&mut self, queue: &Queue, work: &mut Work) -> io::Result<()> {
        let written = self.write(queue, &mut work.entries);
        if written.is_ok() && (work.closing || !work.waiters.is_empty() || self.sync_is_due()) {
            self.sync(queue)?;
        }
        written
    }

    fn sync_is_due(&self) -> bool {
        self.unsynced >= self.options.sync_bytes || self.due.is_some_and(|due| due <= Clock.steady())
    }

    /// Writes `entries`; what is left in them was not written.
    fn write(&mut self, queue: &Queue, entries: &mut Vec<Entry>) -> io::Result<()> {
        let mut done = 0;
        let mut result = Ok(());
        while done < entries.len() && result.is_ok() {
            let mut count = 0;
            for entry in &mut entries[done..] {
                if self.frame.payload() >= BATCH {
                    break;
                }
                self.frame.push(CALL, |out| shorten::write(entry, out));
                count += 1;
            }
            result = self.append(queue);
            self.frame.clear();
            done += if result.is_ok() { count } else { 0 };
        }
        entries.drain(..done);
        result
    }

    /// Writes the batch that was put together.
    fn append(&mut self, queue: &Queue) -> io::Result<()> {
        if self.offset >= self.options.segment_bytes && self.offset > segment::HEADER {
            self.rotate(queue)?;
        }
        let (frame, head) = self.frame.seal(self.head, self.epoch, self.synced);
        let end = self.offset + frame.len() as u64;
        if self.options.reserve_bytes > 0 && end > self.reserved {
            let length = end.next_multiple_of(self.options.reserve_bytes);
            self.medium.reserve(length)?;
            self.reserved = length;
        }
        self.medium.write(frame, self.offset)?;
        let bytes = frame.len() as u64;
        self.offset = end;
        self.head = head;
        self.unsynced += bytes;
        self.due.get_or_insert_with(|| Clock.steady() + self.options.sync_every);
        queue.note(|health| {
            health.bytes += bytes;
            health.batches += 1;
        });
        Ok(())
    }

    /// An error here is final: after a failed sync nobody knows what is on the disk.
    fn sync(&mut self, queue: &Queue) -> io::Result<()> {
        self.due = None;
        if self.unsynced == 0 {
            return Ok(());
        }
        let start = Clock.steady();
        self.medium.sync()?;
        let took = Clock.steady().saturating_sub(start);
        self.unsynced = 0;
        self.synced = self.head.seq;
        queue.note(|health| {
            health.head = self.head;
            health.syncs += 1;
            health.sync_time += took;
            health.sync_longest = health.sync_longest.max(took);
        });
        Ok(())
    }

    /// Closes the segment and begins the next one.
    fn rotate(&mut self, queue: &Queue) -> io::Result<()> {
        self.cut()?;
        self.sync(queue)?;
        failpoint::reached("rotate");
        let header = segment::Header::after(self.number, self.head, self.epoch);
        self.medium = (self.wrap)(segment::create(&self.place.dir, &header)?);
        tracing::info!(segment = header.number, head = %self.head, "a segment of the journal is full; the next begins");
        (self.number, self.offset, self.reserved) = (header.number, segment::HEADER, segment::HEADER);
        self.head = header.head();
        Ok(())
    }

    fn cut(&self) -> io::Result<()> {
        if self.reserved > self.offset { self.medium.cut(self.offset) } else { Ok(()) }
    }
}

/// Begins the first segment.
fn first(place: &Place, epoch: u64) -> io::Result<Tail> {
    let mut chain: Hash = [0; 32];
    getrandom::fill(&mut chain).map_err(io::Error::other)?;
    let header = segment::Header { number: 1, first: 1, epoch, chain };
    let file = segment::create(&place.dir, &header)?;
    Ok(Tail { file, number: 1, offset: segment::HEADER, head: header.head() })
}

/// Writes what `queue` holds until it is closed or writing fails.
pub(super) fn run(mut writer: Writer, queue: &Arc<Queue>) {
    let alarm = Alarm(Arc::clone(queue));
    let mut spare = Vec::new();
    let (result, work) = loop {
        let mut work = queue.take(writer.due, std::mem::take(&mut spare));
        let result = writer.work(queue, &mut work);
        if result.is_err() || work.closing {
            break (result, work);
        }
        let head = writer.head;
        for waiter in work.waiters {
            // Who no longer waits need not be told.
            let _ = waiter.send(Ok(head));
        }
        spare = work.entries;
        // One burst must not hold its memory for ever.
        spare.shrink_to(SPARE);
    };
    let result = result.and_then(|()| writer.cut());
    let head = writer.head;
    // The lock is given up before anyone is told.
    drop(writer);
    std::mem::forget(alarm);
    if result.is_ok() {
        tracing::info!(%head, "the journal is closed");
    }
    let reason = result.map_or_else(|error| Error::Poisoned(error.to_string().into()), |()| Error::Closed);
    queue.end(&reason, work.waiters, work.entries.len() as u64);
}

/// Dropped only by a panic.
struct Alarm(Arc<Queue>);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.end(&Error::Poisoned("its writer panicked".into()), Vec::new(), 0);
    }
}
