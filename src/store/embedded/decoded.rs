//! Records on their way from the journal into an index: read, checked and decoded, by a thread ahead
//! of the one that applies them where there are many.

use super::super::claims::StoreError;
use super::super::journal::{JournalReader, JournalRecord};
use super::super::state::event::StoreEvent;
use super::errors::unwritten;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Records that are handed over at once.
const RECORDS_PER_PORTION: usize = 512;
/// Bytes of them, or a few more.
const BYTES_PER_PORTION: usize = 1 << 20;
/// Portions of records that wait to be applied.
const PORTIONS_AHEAD: usize = 4;

/// A record as an index needs it.
#[derive(Debug)]
pub(super) struct DecodedRecord {
    pub(super) seq: u64,
    /// What happened; none where the record is of something else.
    pub(super) event: Option<StoreEvent>,
    /// There may be more to come of a state that is carried.
    pub(super) carrying: bool,
}

impl DecodedRecord {
    /// The next record of `reader`.
    pub(super) fn next(reader: &mut JournalReader) -> Option<Result<Self, StoreError>> {
        let record = reader.next()?;
        let carrying = reader.is_carrying();
        Some(
            record
                .map_err(unwritten)
                .and_then(|record| Self::of(&record, carrying)),
        )
    }

    fn of(record: &JournalRecord, carrying: bool) -> Result<Self, StoreError> {
        let seq = record.seq;
        let event = record.event().map(StoreEvent::decode).transpose();
        let event = event.map_err(|error| {
            StoreError::Broken(format!(
                "record {seq} of the journal cannot be read: {error}"
            ))
        })?;
        Ok(Self {
            seq,
            event,
            carrying,
        })
    }
}

type RecordPortion = Vec<Result<DecodedRecord, StoreError>>;

/// A thread that reads ahead.
pub(super) struct DecodeAhead {
    portions: Receiver<RecordPortion>,
    at: std::vec::IntoIter<Result<DecodedRecord, StoreError>>,
    thread: JoinHandle<JournalReader>,
}

impl DecodeAhead {
    /// Begins to read from `reader`, up to record `last`, or the first after that.
    pub(super) fn begin(reader: JournalReader, last: u64) -> Result<Self, StoreError> {
        let (sender, portions) = sync_channel(PORTIONS_AHEAD);
        let thread = std::thread::Builder::new()
            .name("index-reader".to_owned())
            .spawn(move || read(reader, last, &sender))
            .map_err(|error| StoreError::Broken(format!("cannot read the journal: {error}")))?;
        Ok(Self {
            portions,
            at: Vec::new().into_iter(),
            thread,
        })
    }

    /// The next record; none after the last.
    pub(super) fn next_record(&mut self) -> Option<Result<DecodedRecord, StoreError>> {
        loop {
            if let Some(record) = self.at.next() {
                return Some(record);
            }
            self.at = self.portions.recv().ok()?.into_iter();
        }
    }

    /// Gives the reader back, where it is.
    pub(super) fn end(self) -> Result<JournalReader, StoreError> {
        drop(self.portions);
        let ended = self.thread.join();
        ended.map_err(|_| StoreError::Broken("the journal's reader panicked".to_owned()))
    }
}

/// Reads until the end, an error, record `last`, or until nobody takes what is read.
fn read(mut reader: JournalReader, last: u64, to: &SyncSender<RecordPortion>) -> JournalReader {
    let (mut portion, mut bytes) = (Vec::new(), 0);
    while let Some(record) = reader.next() {
        let carrying = reader.is_carrying();
        bytes += record.as_ref().map_or(0, |record| record.bytes.len());
        let decoded = record
            .map_err(unwritten)
            .and_then(|record| DecodedRecord::of(&record, carrying));
        let goes_on = decoded.as_ref().is_ok_and(|record| record.seq <= last);
        portion.push(decoded);
        if !goes_on {
            break;
        }
        if portion.len() >= RECORDS_PER_PORTION || bytes >= BYTES_PER_PORTION {
            bytes = 0;
            if to.send(std::mem::take(&mut portion)).is_err() {
                return reader;
            }
        }
    }
    drop(to.send(portion));
    reader
}
