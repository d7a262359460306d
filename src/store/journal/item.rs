//! What is queued: records, encoded by the thread that queues them. That costs the same there as on
//! the writer's thread, nothing is freed by another thread than the one that took it, and the queue
//! knows its size in bytes.

use super::error::JournalError;
use super::frame::{CONTENT_RECORD, ENTRY_RECORD, EVENT_RECORD, RECORD_HEADER_BYTES};
use crate::model::entry::Entry;

mod shorten;
mod written;

/// Bytes of the largest event.
pub const MAX_EVENT_BYTES: usize = 64 << 10;
/// Bytes of the largest group of items that are queued together.
pub const MAX_GROUP_BYTES: usize = 1 << 20;

/// Bytes that few entries are beyond.
const TYPICAL_ENTRY_BYTES: usize = 1536;

/// One record to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Something that happened, in the words of the caller that appends it; at most [`MAX_EVENT_BYTES`]
    /// bytes. The journal does not look into it.
    Event(Vec<u8>),
    /// An entry of the ledger. What is too long in it is cut.
    Entry(Box<Entry>),
    /// What was sent or came back of a call, in the words of the caller that appends it; at most
    /// [`MAX_EVENT_BYTES`] bytes.
    Content(Vec<u8>),
}

impl From<Entry> for Item {
    fn from(entry: Entry) -> Self {
        Self::Entry(Box::new(entry))
    }
}

impl Item {
    /// About how many bytes it takes up: memory that grows while it is written is copied each time.
    fn expected(&self) -> usize {
        RECORD_HEADER_BYTES
            + match self {
                Self::Event(words) | Self::Content(words) => words.len(),
                Self::Entry(_) => TYPICAL_ENTRY_BYTES,
            }
    }
}

/// Records that stand next to each other in one batch.
#[derive(Debug, Default)]
pub(super) struct RecordGroup {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
}

impl RecordGroup {
    /// Encodes `items`; [`JournalError::TooLarge`] when one or all of them are beyond their bounds.
    pub(super) fn new(items: &mut [Item]) -> Result<Self, JournalError> {
        let mut group = Self::with_room(items.iter().map(Item::expected).sum());
        for item in items {
            match item {
                Item::Event(words) | Item::Content(words) if words.len() > MAX_EVENT_BYTES => {
                    return Err(JournalError::TooLarge {
                        bytes: words.len(),
                        limit: MAX_EVENT_BYTES,
                    });
                }
                Item::Event(words) => group.push(EVENT_RECORD, |out| out.extend_from_slice(words)),
                Item::Content(words) => {
                    group.push(CONTENT_RECORD, |out| out.extend_from_slice(words));
                }
                Item::Entry(entry) => group.push(ENTRY_RECORD, |out| shorten::write(entry, out)),
            }
        }
        match group.bytes.len() {
            bytes if bytes > MAX_GROUP_BYTES => Err(JournalError::TooLarge {
                bytes,
                limit: MAX_GROUP_BYTES,
            }),
            _ => Ok(group),
        }
    }

    fn with_room(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            count: 0,
        }
    }

    /// One record of `kind`.
    pub(super) fn of(kind: u8, bytes: &[u8]) -> Self {
        let mut group = Self::with_room(RECORD_HEADER_BYTES + bytes.len());
        group.push(kind, |out| out.extend_from_slice(bytes));
        group
    }

    /// Encodes an entry alone.
    pub(super) fn entry(mut entry: Entry) -> Self {
        let mut group = Self::with_room(TYPICAL_ENTRY_BYTES);
        group.push(ENTRY_RECORD, |out| shorten::write(&mut entry, out));
        group
    }

    /// Adds a record of `kind`, whose bytes `write` appends.
    fn push(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[kind, 0, 0, 0, 0]);
        write(&mut self.bytes);
        let length =
            u32::try_from(self.bytes.len() - start - RECORD_HEADER_BYTES).unwrap_or(u32::MAX);
        self.bytes[start + 1..start + RECORD_HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
    }
}
