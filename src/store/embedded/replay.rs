//! Brings an index up to the journal, a portion at a time: a new one from the first record on, any
//! other from where it is.

use super::super::claims::StoreError;
use super::super::journal::JournalReader;
use super::super::table::StateTable;
use super::decoded::{DecodeAhead, DecodedRecord};
use super::errors::unwritten;
use super::index::{Index, IndexChanges, IndexProgress};
use std::path::Path;

/// Changes that are gathered before they go into the index.
const CHANGES_PER_PORTION: usize = 8192;

/// An index on its way.
pub(super) struct IndexReplay<'a> {
    index: &'a Index,
    /// None while another thread reads.
    reader: Option<JournalReader>,
    /// That thread, on the first way through the journal of an index that is made anew.
    decoding: Option<DecodeAhead>,
    /// Read, and not wanted yet.
    ahead: Option<DecodedRecord>,
    /// There may be more to come of a state that is carried.
    carrying: bool,
    /// Nothing is read yet of an index that is made anew.
    anew: bool,
    /// What the index does not have yet.
    table: StateTable,
    /// As the index will have it.
    applied: IndexProgress,
    replayed: u64,
    portion: usize,
    /// Everything is read of an index that is made anew, and comes into it.
    finishing: bool,
}

impl<'a> IndexReplay<'a> {
    /// Goes on after `applied`. None when the journal does not begin there any more: then the index
    /// has to begin anew.
    pub(super) fn begin(
        data: &Path,
        index: &'a Index,
        applied: IndexProgress,
    ) -> Result<Option<Self>, StoreError> {
        let reader = JournalReader::replay(data, applied.seq).map_err(unwritten)?;
        if reader.is_anew() && applied != IndexProgress::default() {
            return Ok(None);
        }
        if applied == IndexProgress::default() && !index.begin_anew() {
            return Ok(None);
        }
        let table = StateTable {
            token: applied.token,
            last: applied.seq,
            ..StateTable::default()
        };
        Ok(Some(Self {
            index,
            carrying: reader.is_carrying(),
            reader: Some(reader),
            decoding: None,
            ahead: None,
            anew: applied == IndexProgress::default(),
            table,
            applied,
            replayed: 0,
            portion: CHANGES_PER_PORTION,
            finishing: false,
        }))
    }

    /// By so many changes at a time.
    #[cfg(test)]
    pub(super) fn by(self, portion: usize) -> Self {
        Self { portion, ..self }
    }

    /// Goes on by a portion at most, and not beyond record `last`; whether there is more up to
    /// there.
    pub(super) fn step(&mut self, last: u64) -> Result<bool, StoreError> {
        if self.finishing {
            return self.finish();
        }
        while self.table.len() < self.portion {
            let Some(record) = self.next_record(last)? else {
                self.carrying = false;
                self.write()?;
                return self.finish();
            };
            self.carrying = record.carrying;
            if record.seq > last {
                self.ahead = Some(record);
                self.write()?;
                return self.finish();
            }
            self.apply(record)?;
        }
        self.write().map(|()| true)
    }

    /// What has gathered comes into the index, a portion at a time; whether there is more of it.
    fn finish(&mut self) -> Result<bool, StoreError> {
        self.finishing = self.index.finish()?;
        Ok(self.finishing)
    }

    /// How far the index is.
    pub(super) fn applied(&self) -> IndexProgress {
        self.applied
    }

    /// Of an index that is made anew: how many rows of all have come into it, while they do.
    pub(super) fn rows(&self) -> Option<(u64, u64)> {
        self.index.rows()
    }

    /// How many events it took.
    pub(super) fn replayed(&self) -> u64 {
        self.replayed
    }

    /// The next record; the thread that reads ahead does so up to record `last`.
    fn next_record(&mut self, last: u64) -> Result<Option<DecodedRecord>, StoreError> {
        if let Some(record) = self.ahead.take() {
            return Ok(Some(record));
        }
        if std::mem::take(&mut self.anew)
            && let Some(reader) = self.reader.take()
        {
            self.decoding = Some(DecodeAhead::begin(reader, last)?);
        }
        if let Some(decoding) = &mut self.decoding
            && let Some(record) = decoding.next_record()
        {
            return record.map(Some);
        }
        if let Some(decoding) = self.decoding.take() {
            self.reader = Some(decoding.end()?);
        }
        let next = self.reader.as_mut().and_then(DecodedRecord::next);
        next.transpose()
    }

    fn apply(&mut self, record: DecodedRecord) -> Result<(), StoreError> {
        let seq = record.seq;
        self.table.last = self.table.last.max(seq);
        let Some(event) = record.event else {
            return Ok(());
        };
        let mut view = self.table.view(event.place());
        self.index.complete(&mut view, event.place())?;
        self.table.apply(&event, view, seq);
        self.applied.seen = self.applied.seen.max(event.at());
        self.replayed += 1;
        Ok(())
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let (seen, token) = (self.applied.seen, self.table.token);
        // Half of a carried state is none: who finds it begins anew.
        let seq = if self.carrying { 0 } else { self.table.last };
        let next = StateTable {
            token,
            last: self.table.last,
            ..StateTable::default()
        };
        let changes = IndexChanges::all_of(std::mem::replace(&mut self.table, next));
        if !changes.is_empty() || seq != self.applied.seq {
            self.applied = IndexProgress { seq, token, seen };
            self.index.write(&changes, self.applied)?;
        }
        Ok(())
    }
}
