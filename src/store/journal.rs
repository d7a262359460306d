//! The journal: an append-only file of batches, each checked by CRC32C and chained to the one
//! before by SHA-256 (guarantees §8, threat-model §3G). The ledger is what stands in it.
//!
//! [`Journal`] writes, from one thread of its own. [`JournalReader`] reads what is written, also while it
//! is being written. [`verify()`] says whether all of it is as it was written.

use crate::failpoint;
use crate::model::clock::Clock;
use crate::model::entry::Entry;
use crate::model::long_work::{LongWork, WorkUnit};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

mod ahead;
mod archive;
mod chain;
mod compaction;
mod compress;
mod compressed;
mod compressor;
mod data_dir;
mod error;
mod extent;
mod files;
mod frame;
mod health;
mod item;
mod medium;
mod private;
mod queue;
mod reader;
mod recovery;
mod seal;
mod segment;
mod segment_file;
mod source;
mod summary;
mod verify;
mod waiting;
mod walk;
mod witness;
mod writer;

pub use chain::Head;
pub use compaction::{DroppedSegments, Retention};
pub(in crate::store) use error::is_full;
pub use error::{JournalDamage, JournalError};
pub use extent::{Extent, Sizes};
pub use frame::REKEYED_RECORD;
pub use health::{JournalHealth, JournalState, SYNC_BOUNDS_MICROS};
pub use item::{Item, MAX_EVENT_BYTES, MAX_GROUP_BYTES};
pub use reader::{JournalReader, JournalRecord};
pub use seal::{KeyId, MIN_KEY_BYTES, SealedStretch, SealingKey, SealingKeyTooShort, SealingKeys};
pub use segment_file::written_bytes;
pub use verify::{UnfinishedBatch, VerifyOptions, VerifyReport, check, check_telling, verify};
pub use waiting::Ticket;
pub use walk::segment_starts;
pub use witness::{HeadProof, Witness};

pub(super) use data_dir::replace;
pub use data_dir::{DataHolder, LockNote};

use item::RecordGroup;
use queue::{WaitGoal, WriteQueue};
use waiting::SyncWait;

/// How a journal is written. Sizes in bytes.
#[derive(Debug, Clone, Copy)]
pub struct JournalOptions {
    /// Records that may wait to be written; one more is refused.
    pub queue: usize,
    /// Bytes that may wait to be written.
    pub queue_bytes: usize,
    /// A segment that has reached this size is closed and the next one begun.
    pub segment_bytes: u64,
    /// Most of this is reserved beyond what is written, so that calls in flight are still recorded
    /// when the disk is full, and up to half more where much is written; the next part of it is
    /// filled with zeros, so that a sync writes records and nothing else. 0: nothing is.
    pub reserve_bytes: u64,
    /// How long the writer lets entries gather before it writes them as one batch, unless a caller
    /// waits for a sync: then they go along.
    pub gather: Duration,
    /// How long a written batch may stay unsynced.
    pub sync_every: Duration,
    /// How many bytes may stay unsynced.
    pub sync_bytes: u64,
    /// How often a full disk is looked at again.
    pub look_every: Duration,
    /// Bytes of all segments.
    pub sizes: Sizes,
    /// Whether closed segments are compressed, by a thread of its own. Only a toolgate that knows of it reads them
    /// then.
    pub compress: bool,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            queue: 8192,
            queue_bytes: 32 << 20,
            segment_bytes: failpoint::segment_bytes(64 << 20),
            reserve_bytes: 2 << 20,
            // Together no more than what a power cut may take of what nobody waits for.
            gather: Duration::from_millis(50),
            sync_every: Duration::from_millis(50),
            sync_bytes: 1 << 20,
            look_every: Duration::from_secs(1),
            sizes: Sizes::UNLIMITED,
            compress: false,
        }
    }
}

/// The journal, open for writing. A clone is another handle on the same journal; when the last one
/// is dropped, what is queued is written and synced first.
#[derive(Clone)]
pub struct Journal(Arc<JournalInner>);

struct JournalInner {
    data: PathBuf,
    /// Where the segments lie.
    dir: PathBuf,
    keys: SealingKeys,
    queue: Arc<WriteQueue>,
    epoch: u64,
    instance: String,
    sizes: Sizes,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// A key that begins to seal has never sealed before: verifying takes a seal of one that was
/// replaced for one by another writer.
fn never_before(data: &Path, keys: &SealingKeys, key: KeyId) -> Result<(), JournalError> {
    let against = VerifyOptions {
        keys: keys.clone(),
        ..VerifyOptions::default()
    };
    let (what, all) = (
        "looking for seals of the new key",
        bytes_in(data).unwrap_or_default(),
    );
    let work = RefCell::new(LongWork::of(what, WorkUnit::Bytes, all));
    let report = match check_telling(data, &against, &|bytes| work.borrow_mut().reach(bytes)) {
        Err(JournalError::NoJournal(_)) => return Ok(()),
        report => report?,
    };
    work.borrow_mut().reach(all);
    if report
        .stretches
        .iter()
        .any(|stretch| stretch.key == Some(key))
    {
        return Err(JournalError::KeyReplaced { key });
    }
    Ok(())
}

impl Journal {
    /// Opens the journal of the data directory `data`, which is made when it does not exist. Takes
    /// the lock, cuts a torn tail, counts the epoch up durably and starts the writer. Blocks
    /// for as long as the newest segment takes to read.
    pub fn open(data: &Path, options: JournalOptions) -> Result<Self, JournalError> {
        Self::open_sealed(data, options, SealingKeys::default())
    }

    /// As `open`; every batch is sealed with the current one of `keys`. A journal that is sealed
    /// already is only opened with the key of its last seal. Where that is not the current one,
    /// a record says that another seals from here on, or none.
    pub fn open_sealed(
        data: &Path,
        options: JournalOptions,
        keys: SealingKeys,
    ) -> Result<Self, JournalError> {
        Self::open_on(data, options, keys, Box::new(|file| Box::new(file)))
    }

    /// Whether a process has the journal in `data` open; asked without its keys.
    pub(crate) fn is_held(data: &Path) -> Result<bool, JournalError> {
        match data_dir::lock(data) {
            Ok(_) => Ok(false),
            Err(JournalError::Locked { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Like `open_sealed`, writing through what `wrap` makes of a segment's file.
    fn open_on(
        data: &Path,
        options: JournalOptions,
        keys: SealingKeys,
        wrap: medium::Wrap,
    ) -> Result<Self, JournalError> {
        let options = JournalOptions {
            segment_bytes: options.segment_bytes.min(options.sizes.most / 8),
            ..options
        };
        let place = data_dir::DataDir::claim(data)?;
        let (dir, instance) = (place.dir.clone(), place.instance().to_owned());
        compaction::sweep_unfinished(&dir)
            .map_err(|source| JournalError::io("tidy", &dir, source))?;
        compaction::sweep(&dir)?;
        let recovered = recovery::recover(&place, &keys)?;
        if let Some(key) = keys.sealing().filter(|key| recovered.key != Some(*key)) {
            never_before(data, &keys, key)?;
        }
        let epoch = place.next_epoch(recovered.epoch)?;
        let setting = writer::WriterSetup {
            options,
            wrap,
            keys: keys.clone(),
            epoch,
        };
        let writer = writer::Writer::new(place, setting, recovered)?;
        let head = writer.head();
        let queue = Arc::new(WriteQueue::new(&options, head));
        let shared = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer::run(writer, &shared))
            .map_err(|source| JournalError::io("start the journal's writer for", data, source))?;
        tracing::info!(%head, epoch, "the journal is open");
        Ok(Self(Arc::new(JournalInner {
            data: data.to_owned(),
            dir,
            keys,
            queue,
            epoch,
            instance,
            sizes: options.sizes,
            thread: Some(thread),
        })))
    }

    /// Queues `entry` to be written within `JournalOptions::gather` and synced within
    /// `JournalOptions::sync_every`. Never waits: `JournalError::Full` when the queue is full, and
    /// the reason when nothing can be written any more. While the disk is full the entry waits
    /// behind everything that is appended.
    pub fn record(&self, entry: Entry) -> Result<(), JournalError> {
        self.0.queue.push_behind(&RecordGroup::entry(entry))
    }

    /// Queues `items`, next to each other and in this order, as part of one batch: all of them are
    /// there after a power cut, or none. Never waits, and wakes at most the writer, so that it may
    /// be called under a lock: items are written in the order in which they were appended. Refused
    /// as in `Self::record`, and with `JournalError::TooLarge`; then nothing of it was queued.
    pub fn append(&self, items: Vec<Item>) -> Result<Ticket, JournalError> {
        self.push(items, true)
    }

    /// As `Self::append`, for what may be refused: a quarter of the queue is left to what must not
    /// be.
    pub fn append_unless_crowded(&self, items: Vec<Item>) -> Result<Ticket, JournalError> {
        self.push(items, false)
    }

    fn push(&self, mut items: Vec<Item>, urgent: bool) -> Result<Ticket, JournalError> {
        let group = RecordGroup::new(&mut items)?;
        let seq = self.0.queue.push(&group, urgent)?;
        Ok(Ticket::new(&self.0.queue, seq))
    }

    /// The last record that is synced. Costs nothing.
    pub fn durable_seq(&self) -> u64 {
        self.0.queue.durable()
    }

    /// Waits until record `seq` is synced: for who has seen what came of it and must not tell
    /// before it is durable.
    pub async fn wait_durable(&self, seq: u64) -> Result<Head, JournalError> {
        SyncWait::new(&self.0.queue, WaitGoal::Durable(seq)).await
    }

    /// Waits until there is space to write; at once where there is. An error when the journal has
    /// ended.
    pub async fn writable(&self) -> Result<(), JournalError> {
        SyncWait::new(&self.0.queue, WaitGoal::Writing)
            .await
            .map(drop)
    }

    /// Waits until nothing can be written any more, if that ever happens, and gives the reason.
    /// Nothing that was not synced by then is promised to anyone, and only a restart finds out
    /// what is on the disk.
    pub async fn failed(&self) -> JournalError {
        match SyncWait::new(&self.0.queue, WaitGoal::Failed).await {
            Err(error) => error,
            Ok(_) => JournalError::Closed,
        }
    }

    /// Waits until everything queued so far is written and synced. The head is the journal's at
    /// that moment; kept elsewhere, it lets [`verify()`] find a removed tail.
    pub async fn flush(&self) -> Result<Head, JournalError> {
        let last = self.0.queue.press(false)?;
        self.wait_durable(last).await
    }

    /// Writes and syncs what is queued, ends the writer and gives up the lock. Everything
    /// afterwards is refused with `JournalError::Closed`; closing twice is fine.
    pub async fn close(&self) -> Result<Head, JournalError> {
        match self.0.queue.press(true) {
            Ok(_) | Err(JournalError::Closed) => {
                SyncWait::new(&self.0.queue, WaitGoal::Ended).await
            }
            Err(error) => Err(error),
        }
    }

    /// Where the journal stands, as far as it is synced, for another place to keep; sealed where
    /// the journal is.
    pub fn witness(&self) -> Witness {
        Witness::new(self.health().head, Clock.wall(), &self.0.keys)
    }

    /// How the journal is doing.
    pub fn health(&self) -> JournalHealth {
        self.0.queue.health()
    }

    /// Whether what is appended now will be written, as far as that can be known: false while the
    /// disk is full and after writing has ended. Costs nothing.
    pub fn is_writing(&self) -> bool {
        self.0.queue.is_writing()
    }

    /// Looks at how large the journal is, and remembers whether there is room in what it may have.
    pub fn measure(&self) -> Result<Extent, JournalError> {
        let dir = &self.0.dir;
        let bytes =
            compaction::size(dir).map_err(|source| JournalError::io("measure", dir, source))?;
        let extent = Extent::of(bytes, self.0.sizes);
        self.0
            .queue
            .measured(extent, self.0.sizes.lean.saturating_sub(bytes));
        Ok(extent)
    }

    /// Bytes that it takes up. Reads its directory.
    pub fn bytes(&self) -> Result<u64, JournalError> {
        bytes_in(&self.0.data)
    }

    /// Bytes that it may take up, where that is bounded.
    pub fn max_bytes(&self) -> Option<u64> {
        let most = self.0.sizes.most;
        (most != Sizes::UNLIMITED.most).then_some(most)
    }

    /// Whether there was room in what the journal may have when it was last measured. Costs
    /// nothing.
    pub fn extent(&self) -> Extent {
        self.0.queue.extent()
    }

    /// How often this data directory was opened for writing, this time included. Durable before
    /// `open` returns, so no two processes ever have the same.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// What tells this opening of the journal from every other of any data directory; it stands in the lock
    /// ([`LockNote`]), too. No secret.
    pub fn instance(&self) -> &str {
        &self.0.instance
    }
}

/// Bytes that the journal in the data directory `data` takes up.
pub fn bytes_in(data: &Path) -> Result<u64, JournalError> {
    let dir = data_dir::journal_dir(data);
    compaction::size(&dir).map_err(|source| JournalError::io("measure", &dir, source))
}

/// Whether there is a journal in the data directory `data`, which may be one that cannot be read.
pub fn is_in(data: &Path) -> std::io::Result<bool> {
    data_dir::journal_dir(data).try_exists()
}

impl Drop for JournalInner {
    fn drop(&mut self) {
        // The answer is not awaited: joining the thread waits for the same.
        drop(self.queue.press(true));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
