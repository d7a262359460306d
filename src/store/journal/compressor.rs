//! The thread that compresses closed segments, one at a time and slowly: a quarter of a core at most, and nothing
//! while the writer has much to write or the disk is full.

use super::compress::SegmentRewrite;
use super::error::is_full;
use super::health::JournalState;
use super::queue::WriteQueue;
use super::segment;
use crate::model::clock::Clock;
use crate::store::disk_space::DiskSpace;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it waits after a start, which has other work, unless a segment is closed before.
const START_DELAY: Duration = Duration::from_secs(30);
/// How often it looks for segments by itself.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);
/// For each part of the time that it works it rests so many.
const REST_PARTS: u32 = 3;
/// Records that may wait to be written while it works …
const MAX_QUEUED_RECORDS: usize = 2048;
/// … and how long it waits when there are more.
const CALM_DELAY: Duration = Duration::from_millis(250);

/// Compresses closed segments until it is dropped.
pub(super) struct Compressor {
    shared: Arc<CompressorShared>,
    thread: Option<JoinHandle<()>>,
}

struct CompressorShared {
    dir: PathBuf,
    queue: Arc<WriteQueue>,
    orders: Mutex<CompressorOrders>,
    told: Condvar,
}

#[derive(Default)]
struct CompressorOrders {
    ending: bool,
    /// A segment was closed since it last looked.
    closed: bool,
}

impl Compressor {
    /// Starts it for the segments in `dir`, beside the writer that takes from `queue`.
    ///
    /// # Errors
    /// The operating system starts no thread.
    pub(super) fn start(dir: &Path, queue: &Arc<WriteQueue>) -> io::Result<Self> {
        let shared = Arc::new(CompressorShared {
            dir: dir.to_owned(),
            queue: Arc::clone(queue),
            orders: Mutex::default(),
            told: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("compressor".to_owned())
            .spawn(move || own.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// A segment is closed, and the next one is there.
    pub(super) fn segment_closed(&self) {
        self.shared.orders.lock().closed = true;
        self.shared.told.notify_all();
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.shared.orders.lock().ending = true;
        self.shared.told.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl CompressorShared {
    fn run(&self) {
        let (mut wait, mut done) = (START_DELAY, 0);
        while self.wait(wait) {
            self.compress_all(&mut done);
            wait = LOOK_INTERVAL;
        }
    }

    /// Waits until a segment is closed, `most` at most; false when it is to end.
    fn wait(&self, most: Duration) -> bool {
        let mut orders = self.orders.lock();
        if !orders.ending && !orders.closed {
            self.told.wait_for(&mut orders, most);
        }
        orders.closed = false;
        !orders.ending
    }

    /// Does nothing for so long; false when it is to end.
    fn rest(&self, long: Duration) -> bool {
        let over = Clock.steady() + long;
        let mut orders = self.orders.lock();
        while !orders.ending {
            let left = over.saturating_sub(Clock.steady());
            if left.is_zero() {
                return true;
            }
            self.told.wait_for(&mut orders, left);
        }
        false
    }

    /// Compresses all segments after `done`, the last one that was looked at, but for the newest. One that fails is
    /// left as it is until the next start; without room, all are looked at again.
    fn compress_all(&self, done: &mut u64) {
        let listed = match segment::list(&self.dir) {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(%error, "which segments of the journal are closed cannot be known; they are not compressed");
                return;
            }
        };
        for pair in listed.windows(2) {
            let first = pair[0];
            if first <= *done {
                continue;
            }
            match self.compress(first) {
                Ok(true) => {}
                Ok(false) => return,
                // Dropped meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if is_full(&error) => {
                    tracing::debug!(%error, "there is no room to compress a segment of the journal");
                    return;
                }
                Err(error) => {
                    let segment = segment::name(first);
                    tracing::warn!(%error, segment, "a segment of the journal cannot be compressed; it stays as it is");
                }
            }
            *done = first;
        }
    }

    /// Compresses the closed segment that begins with `first`, if it is not; false when it is to end.
    fn compress(&self, first: u64) -> io::Result<bool> {
        let Some(mut rewrite) = SegmentRewrite::begin(&self.dir, first)? else {
            return Ok(true);
        };
        // Half of what is free is left to others, even if nothing of it becomes shorter.
        let free = DiskSpace::of(&self.dir).map_or(u64::MAX, |disk| disk.free);
        if rewrite.content() > free / 2 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        loop {
            if !self.is_calm()? {
                return Ok(false);
            }
            let began = Clock.steady();
            if !rewrite.step()? {
                break;
            }
            let took = Clock.steady().saturating_sub(began);
            if !self.rest(took * REST_PARTS) {
                return Ok(false);
            }
        }
        let (before, after) = rewrite.publish()?;
        let segment = segment::name(first);
        tracing::info!(
            segment,
            before,
            after,
            "a closed segment of the journal is compressed"
        );
        Ok(true)
    }

    /// Waits until the writer has little to write; false when it is to end.
    fn is_calm(&self) -> io::Result<bool> {
        loop {
            let health = self.queue.health();
            match health.state {
                JournalState::Writing if health.queued <= MAX_QUEUED_RECORDS => return Ok(true),
                // What is half done goes, and takes no room.
                JournalState::Full(_) => return Err(io::ErrorKind::StorageFull.into()),
                JournalState::Writing | JournalState::Closed | JournalState::Poisoned(_) => {}
            }
            if !self.rest(CALM_DELAY) {
                return Ok(false);
            }
        }
    }
}
