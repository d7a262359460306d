//! Reads the journal's records in order, one batch in memory at a time.

use super::data_dir;
use super::error::JournalError;
use super::frame::{self, Batch};
use super::summary::Summary;
use super::walk::{JournalWalk, WalkStep};
use crate::mcp::json::{JsonLimits, SERVER_JSON_LIMITS, Text};
use crate::model::entry::Entry;
use bytes::Bytes;
use std::path::Path;

/// What may stand in a record. We wrote it, but any process that can write to the file could have
/// written it since.
const RECORD_JSON_LIMITS: JsonLimits = JsonLimits {
    bytes: frame::MAX_PAYLOAD_BYTES,
    ..SERVER_JSON_LIMITS
};

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRecord {
    /// Its number, from 1.
    pub seq: u64,
    /// What it holds: 1 an entry, 2 an event, 4 (`REKEYED_RECORD`) the word that another key
    /// seals from here on, 5 what was sent or came back of a call. Kinds that a newer toolgate writes are read past.
    pub kind: u8,
    /// Its bytes.
    pub bytes: Bytes,
}

impl JournalRecord {
    /// The entry as the JSON it was written as; none when the record is of another kind.
    pub fn text(&self) -> Result<Option<Text>, JournalError> {
        if self.kind != frame::ENTRY_RECORD {
            return Ok(None);
        }
        Text::read(self.bytes.clone(), &RECORD_JSON_LIMITS)
            .map(Some)
            .map_err(|error| self.unreadable(&error.to_string()))
    }

    /// The entry; none when the record is of another kind.
    pub fn entry(&self) -> Result<Option<Entry>, JournalError> {
        let Some(text) = self.text()? else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|error| self.unreadable(&error.to_string()))
    }

    /// The event, as it was appended; none when the record is of another kind.
    pub fn event(&self) -> Option<&Bytes> {
        (self.kind == frame::EVENT_RECORD).then_some(&self.bytes)
    }

    /// What was sent or came back of a call, as it was appended; none when the record is of another
    /// kind.
    pub fn content(&self) -> Option<&Bytes> {
        (self.kind == frame::CONTENT_RECORD).then_some(&self.bytes)
    }

    fn unreadable(&self, why: &str) -> JournalError {
        JournalError::Unreadable {
            seq: self.seq,
            why: why.to_owned(),
        }
    }
}

/// A reader at some place of the journal. Takes no lock. `next` gives `None` at the last whole
/// batch, and goes on when more has been written since. After an error it stays where it is.
pub struct JournalReader {
    walk: JournalWalk,
    rest: Bytes,
    seq: u64,
    /// Records up to this one are passed over.
    after: u64,
    /// What stands in the place of what was dropped, where that is needed and not read yet.
    carried: Option<Summary>,
    anew: bool,
    missing: u64,
}

impl JournalReader {
    /// Begins with the oldest record of the data directory `data`.
    pub fn open(data: &Path) -> Result<Self, JournalError> {
        Self::after(data, 0)
    }

    /// Begins with the record after `seq`, at its segment: what is before that is neither read nor
    /// checked.
    pub fn after(data: &Path, seq: u64) -> Result<Self, JournalError> {
        Self::after_in(data, None, seq)
    }

    /// As `Self::after`; what was dropped is read from the `archive`, as far as it is there.
    pub fn after_in(data: &Path, archive: Option<&Path>, seq: u64) -> Result<Self, JournalError> {
        let walk = JournalWalk::begin_before(data, archive, seq.saturating_add(1))?;
        Ok(Self {
            missing: walk.head.seq.saturating_sub(seq),
            walk,
            rest: Bytes::new(),
            seq: 0,
            after: seq,
            carried: None,
            anew: false,
        })
    }

    /// As `Self::after`, for a caller that wants to know the state and not the history: where
    /// records after `seq` were dropped, the events that were carried come first, numbered as the
    /// record after which they are so, and then the records after that. `Self::is_anew` tells that,
    /// and then nothing that was known before counts any more.
    pub fn replay(data: &Path, seq: u64) -> Result<Self, JournalError> {
        let carried = Summary::open(&data_dir::journal_dir(data))?
            .filter(|summary| seq < summary.header.last);
        let anew = carried.is_some();
        let after = carried.as_ref().map_or(seq, |summary| summary.header.state);
        Ok(Self {
            carried,
            anew,
            seq: after,
            ..Self::after(data, after)?
        })
    }

    /// How many of the records that were asked for come before the first that is there: they were dropped.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Whether it begins with a whole state, and not with changes to one.
    pub fn is_anew(&self) -> bool {
        self.anew
    }

    /// Whether there may be more of that state to come.
    pub fn is_carrying(&self) -> bool {
        self.carried.is_some()
    }

    /// The next of the carried events; none when there are none or no more.
    fn take_carried(&mut self) -> Result<Option<JournalRecord>, JournalError> {
        loop {
            let Some(summary) = &mut self.carried else {
                return Ok(None);
            };
            let state = summary.header.state;
            if let Some(size) =
                frame::record_size(&self.rest).filter(|size| *size <= self.rest.len())
            {
                let record = self.rest.split_to(size);
                return Ok(Some(JournalRecord {
                    seq: state,
                    kind: record[0],
                    bytes: record.slice(frame::RECORD_HEADER_BYTES..),
                }));
            }
            match summary.next()? {
                Some(batch) => self.rest = batch.payload,
                None => self.carried = None,
            }
        }
    }

    fn take(&mut self) -> Option<JournalRecord> {
        loop {
            let size = frame::record_size(&self.rest).filter(|size| *size <= self.rest.len())?;
            let record = self.rest.split_to(size);
            let seq = self.seq;
            self.seq += 1;
            if seq > self.after {
                return Some(JournalRecord {
                    seq,
                    kind: record[0],
                    bytes: record.slice(frame::RECORD_HEADER_BYTES..),
                });
            }
        }
    }

    fn load(&mut self, batch: &Batch) {
        self.seq = batch.header.first;
        self.rest = if batch.head.seq > self.after {
            batch.payload.clone()
        } else {
            Bytes::new()
        };
    }
}

impl Iterator for JournalReader {
    type Item = Result<JournalRecord, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(carried) = self.take_carried().transpose() {
            return Some(carried);
        }
        loop {
            if let Some(record) = self.take() {
                return Some(Ok(record));
            }
            match self.walk.step() {
                Ok(WalkStep::Batch(batch)) => self.load(&batch),
                Ok(WalkStep::Segment(_)) => {}
                Ok(WalkStep::End { .. }) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
