//! The journal: an append-only file of batches, each checked by CRC32C and chained to the one before by SHA-256
//! (SEMANTICS §8, SECURITY §3G). The ledger is what stands in it.
//!
//! [`Journal`] writes, from one thread of its own. [`Reader`] reads what is written, also while it is being written.
//! [`verify`] says whether all of it is as it was written.

use crate::failpoint;
use crate::model::entry::Entry;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

mod chain;
mod error;
mod frame;
mod place;
mod queue;
mod reader;
mod recovery;
mod segment;
mod verify;
mod walk;
mod writer;

pub use chain::Head;
pub use error::{Error, Problem};
pub use queue::{Health, State};
pub use reader::{Reader, Record};
pub use verify::{Report, Unfinished, verify};

use queue::Queue;

/// How a journal is written. Sizes in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Entries that may wait to be written; one more is refused.
    pub queue: usize,
    /// A segment that has reached this size is closed and the next one begun.
    pub segment_bytes: u64,
    /// Space is reserved in steps of this size, so that a sync need not touch the file's length each time; 0: never.
    pub reserve_bytes: u64,
    /// How long the writer lets entries gather before it writes them as one batch.
    pub gather: Duration,
    /// How long a written batch may stay unsynced.
    pub sync_every: Duration,
    /// How many bytes may stay unsynced.
    pub sync_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue: 8192,
            segment_bytes: failpoint::segment_bytes(64 << 20),
            reserve_bytes: 1 << 20,
            gather: Duration::from_millis(5),
            sync_every: Duration::from_millis(100),
            sync_bytes: 1 << 20,
        }
    }
}

/// The journal, open for writing. A clone is another handle on the same journal; when the last one is dropped, what is
/// queued is written and synced first.
#[derive(Clone)]
pub struct Journal(Arc<Owner>);

struct Owner {
    queue: Arc<Queue>,
    epoch: u64,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Journal {
    /// Opens the journal of the data directory `data`, which is made when it does not exist. Takes the lock, cuts a torn
    /// tail, counts the epoch up durably and starts the writer. Blocks for as long as the newest segment takes to read.
    pub fn open(data: &Path, options: Options) -> Result<Self, Error> {
        Self::open_on(data, options, |file| Box::new(file))
    }

    /// Like `open`, writing through what `wrap` makes of a segment's file.
    fn open_on(data: &Path, options: Options, wrap: writer::Wrap) -> Result<Self, Error> {
        let place = place::Place::claim(data)?;
        let recovered = recovery::recover(&place)?;
        let epoch = place.next_epoch(recovered.epoch)?;
        let writer = writer::Writer::new(place, options, wrap, recovered.tail, epoch)?;
        let head = writer.head();
        let queue = Arc::new(Queue::new(&options, head));
        let shared = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer::run(writer, &shared))
            .map_err(|source| Error::io("start the journal's writer for", data, source))?;
        tracing::info!(%head, epoch, "the journal is open");
        Ok(Self(Arc::new(Owner { queue, epoch, thread: Some(thread) })))
    }

    /// Queues `entry` to be written within [`Options::gather`] and synced within [`Options::sync_every`]. Never waits:
    /// [`Error::Full`] when the queue is full, and the reason when nothing can be written any more.
    pub fn record(&self, entry: Entry) -> Result<(), Error> {
        self.0.queue.push(entry)
    }

    /// Waits until everything queued so far is written and synced. The head is the journal's at that moment; kept
    /// elsewhere, it lets [`verify`] find a removed tail.
    pub async fn flush(&self) -> Result<Head, Error> {
        Self::answer(self.0.queue.ask(false)?).await
    }

    /// Writes and syncs what is queued, ends the writer and gives up the lock. Everything afterwards is refused with
    /// [`Error::Closed`]; closing twice is fine.
    pub async fn close(&self) -> Result<Head, Error> {
        match self.0.queue.ask(true) {
            Ok(asked) => Self::answer(asked).await,
            Err(Error::Closed) => Ok(self.health().head),
            Err(error) => Err(error),
        }
    }

    async fn answer(asked: oneshot::Receiver<Result<Head, Error>>) -> Result<Head, Error> {
        asked.await.unwrap_or_else(|_| Err(Error::Poisoned("the journal's writer is gone".into())))
    }

    /// How the journal is doing.
    pub fn health(&self) -> Health {
        self.0.queue.health()
    }

    /// Whether entries can still be written. Cheap enough to ask for every call.
    pub fn is_writing(&self) -> bool {
        self.0.queue.is_writing()
    }

    /// How often this data directory was opened for writing, this time included. Durable before `open` returns, so no
    /// two processes ever have the same.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The answer is not awaited: joining the thread waits for the same.
        drop(self.queue.ask(true));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests;
