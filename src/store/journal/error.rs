//! What can go wrong with the journal, said so that an operator knows what to do.

use super::seal::KeyId;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the journal could not be opened, written or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// Too many entries wait to be written; this one was not taken.
    #[error("the journal's queue is full: the disk is slower than the calls")]
    Full,
    /// A record is larger than a record may be; nothing of what it came with was taken.
    #[error("{bytes} bytes are too many for the journal; it takes {limit} at once")]
    TooLarge {
        /// Bytes there were.
        bytes: usize,
        /// Bytes there may be.
        limit: usize,
    },
    /// The disk is full. What was queued stays queued, in order, and is written when there is
    /// space.
    #[error("there is no space for the journal: {0}; it goes on by itself when there is")]
    NoSpace(String),
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
    /// Writing failed once; nothing is written any more until a restart.
    #[error("the journal can't be written any more: {0}; restart toolgate when the cause is gone")]
    Poisoned(Arc<str>),
    /// Another process writes to this data directory.
    #[error("{} is in use by process {}; stop it, or use another data directory", .data.display(), .pid.as_deref().unwrap_or("(unknown)"))]
    Locked {
        /// The data directory.
        data: PathBuf,
        /// The process id the lock file names.
        pid: Option<String>,
    },
    /// Something in the data directory, or on the way to it, is not ours alone.
    #[error("the data directory is not toolgate's alone: {}: {why}; {hint}", .path.display())]
    Shared {
        /// What.
        path: PathBuf,
        /// Why.
        why: String,
        /// What to do.
        hint: String,
    },
    /// There is no journal.
    #[error("there is no journal in {}; is it the data directory of a toolgate that has run?", .0.display())]
    NoJournal(PathBuf),
    /// The journal is not as it was written.
    #[error("{0}")]
    Damaged(JournalDamage),
    /// The journal is sealed with a key that is not given.
    #[error(
        "the journal in {} is sealed with the key `{key}`: name where it is under `ledger.seal`, as `key` or among `previous`; \
         if it was yours and nobody has it any more, write `previous: [{{ lost: \"{key}\" }}]`, and a new `key`", .dir.display()
    )]
    KeyMissing {
        /// Where the segments lie.
        dir: PathBuf,
        /// Which key.
        key: KeyId,
    },
    /// The key that is to seal sealed the journal before, and was replaced.
    #[error(
        "the key `{key}` of `ledger.seal` sealed this journal before and was replaced; a replaced key never seals again: make a \
         new one (`openssl rand -hex 32`) and name this one, and the one after it, under `previous`"
    )]
    KeyReplaced {
        /// Which key.
        key: KeyId,
    },
    /// A record that stands as it was written makes no sense.
    #[error("record {seq} can't be read, perhaps a newer toolgate wrote it: {why}")]
    Unreadable {
        /// The record.
        seq: u64,
        /// Why, without its text.
        why: String,
    },
    /// What is to stand for dropped records cannot be given; nothing is dropped.
    #[error("the state that old segments leave behind can't be read: {0}")]
    NotCarried(String),
    /// The operating system refused.
    #[error("can't {what} {}: {why}", .path.display())]
    Io {
        /// What was tried, as a verb.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// The reason; said here, and not once more as a source.
        why: Arc<io::Error>,
    },
}

impl JournalError {
    /// Wraps what the operating system said to `what` with `path`.
    pub(super) fn io(what: &'static str, path: &Path, why: io::Error) -> Self {
        Self::Io {
            what,
            path: path.to_owned(),
            why: Arc::new(why),
        }
    }
}

/// Why the writer stops at what it is doing.
#[derive(Debug)]
pub(super) enum WriteFailure {
    /// There is no space; that may end.
    Full(io::Error),
    /// Anything else, and whatever a sync says: that is for good.
    Failed(io::Error),
}

impl From<io::Error> for WriteFailure {
    fn from(error: io::Error) -> Self {
        if is_full(&error) {
            Self::Full(error)
        } else {
            Self::Failed(error)
        }
    }
}

/// Whether there may be room again: on the disk, in a quota, or once files of this process may be
/// larger again.
pub(in crate::store) fn is_full(error: &io::Error) -> bool {
    let is_large = rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::FBIG);
    is_large
        || matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
}

impl From<WriteFailure> for io::Error {
    fn from(stop: WriteFailure) -> Self {
        match stop {
            WriteFailure::Full(error) | WriteFailure::Failed(error) => error,
        }
    }
}

/// The first place where the journal is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalDamage {
    /// The segment's file name.
    pub segment: String,
    /// Where in it, in bytes; of a compressed one, in what was written.
    pub offset: u64,
    /// The first record in doubt.
    pub seq: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for JournalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at byte {}, record {}: {}",
            self.segment, self.offset, self.seq, self.what
        )
    }
}
