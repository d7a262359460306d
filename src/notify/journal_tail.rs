//! Reads the journal as it grows, for what there is to tell. Most records are none of it, and are
//! told apart by their first bytes.

use crate::store::journal::{JournalError, JournalReader, JournalRecord};
use crate::store::state::event::StoreEvent;
use std::path::PathBuf;

/// Records that are looked at in one go.
const MAX_RECORDS_AT_ONCE: usize = 4096;
/// How the records begin that may be told of.
const TOLD_RECORDS: [&[u8]; 8] = [
    b"{\"held\"",
    b"{\"decided\"",
    b"{\"extended\"",
    b"{\"granted\"",
    b"{\"intended\"",
    b"{\"reserved\"",
    b"{\"settled\"",
    b"{\"carried\":{\"hold\"",
];

/// What stands in the record of a call that was held.
const HELD_MEMBER: &[u8] = b"\"hold\":";

/// A record that may be told of.
#[derive(Debug)]
pub(super) struct ToldRecord {
    /// Its number.
    pub(super) seq: u64,
    /// What it says.
    pub(super) event: StoreEvent,
}

/// A reader that stays where it was.
pub(super) struct JournalTail {
    data: PathBuf,
    reader: Option<JournalReader>,
    /// Read, and not durable yet.
    ahead: Option<JournalRecord>,
}

impl JournalTail {
    /// Of the data directory `data`.
    pub(super) fn new(data: PathBuf) -> Self {
        Self {
            data,
            reader: None,
            ahead: None,
        }
    }

    /// What was written after record `after` and not after `durable`, or some of it: and up to which record.
    /// Blocks.
    pub(super) fn read(
        &mut self,
        after: u64,
        durable: u64,
    ) -> Result<(Vec<ToldRecord>, u64), JournalError> {
        let read = self.go_on(after, durable);
        if read.is_err() {
            // It is opened anew where it was.
            (self.reader, self.ahead) = (None, None);
        }
        read
    }

    fn go_on(&mut self, after: u64, durable: u64) -> Result<(Vec<ToldRecord>, u64), JournalError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(JournalReader::after(&self.data, after)?),
        };
        let (mut records, mut last) = (Vec::new(), after);
        for _ in 0..MAX_RECORDS_AT_ONCE {
            let Some(record) = self.ahead.take().map(Ok).or_else(|| reader.next()) else {
                break;
            };
            let record = record?;
            if record.seq > durable {
                self.ahead = Some(record);
                break;
            }
            last = record.seq;
            let event = told(&record);
            records.extend(event.map(|event| ToldRecord { seq: last, event }));
        }
        Ok((records, last))
    }
}

fn told(record: &JournalRecord) -> Option<StoreEvent> {
    let bytes = record.event()?;
    let begins = |start: &&[u8]| bytes.starts_with(start);
    if !TOLD_RECORDS.iter().any(begins) || !may_tell(bytes) {
        return None;
    }
    let decoded = StoreEvent::decode(bytes);
    if let Err(error) = &decoded {
        tracing::error!(record = record.seq, %error, "a record cannot be read, so nobody is told of it");
    }
    decoded.ok()
}

/// Of what begins, only what was held is told.
fn may_tell(record: &[u8]) -> bool {
    let is_begun = record.starts_with(b"{\"intended\"") || record.starts_with(b"{\"reserved\"");
    !is_begun
        || record
            .windows(HELD_MEMBER.len())
            .any(|part| part == HELD_MEMBER)
}
