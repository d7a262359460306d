//! Brings an index up to the journal, a portion at a time: a new one from the first record on, any
//! other from where it is.

use super::super::claims::Error;
use super::super::journal::{Reader, Record};
use super::super::state::event::Event;
use super::super::table::Table;
use super::index::{Applied, Changes, Index};
use std::path::Path;

/// Changes that are gathered before they go into the index.
const PORTION: usize = 8192;

/// An index on its way.
pub(super) struct Replay<'a> {
    index: &'a Index,
    reader: Reader,
    /// Read, and not wanted yet.
    ahead: Option<Record>,
    /// What the index does not have yet.
    table: Table,
    /// As the index will have it.
    applied: Applied,
    replayed: u64,
    portion: usize,
}

impl<'a> Replay<'a> {
    /// Goes on after `applied`. None when the journal does not begin there any more: then the index
    /// has to begin anew.
    pub(super) fn begin(
        data: &Path,
        index: &'a Index,
        applied: Applied,
    ) -> Result<Option<Self>, Error> {
        let reader = Reader::replay(data, applied.seq).map_err(super::unwritten)?;
        if reader.is_anew() && applied != Applied::default() {
            return Ok(None);
        }
        let table = Table {
            token: applied.token,
            last: applied.seq,
            ..Table::default()
        };
        Ok(Some(Self {
            index,
            reader,
            ahead: None,
            table,
            applied,
            replayed: 0,
            portion: PORTION,
        }))
    }

    /// By so many changes at a time.
    #[cfg(test)]
    pub(super) fn by(self, portion: usize) -> Self {
        Self { portion, ..self }
    }

    /// Goes on by a portion at most, and not beyond record `last`; whether there is more up to
    /// there.
    pub(super) fn step(&mut self, last: u64) -> Result<bool, Error> {
        while self.table.len() < self.portion {
            let next = self.ahead.take().map(Ok).or_else(|| self.reader.next());
            let Some(record) = next.transpose().map_err(super::unwritten)? else {
                self.write()?;
                return Ok(false);
            };
            if record.seq > last {
                self.ahead = Some(record);
                self.write()?;
                return Ok(false);
            }
            self.apply(&record)?;
        }
        self.write().map(|()| true)
    }

    /// How far the index is.
    pub(super) fn applied(&self) -> Applied {
        self.applied
    }

    /// How many events it took.
    pub(super) fn replayed(&self) -> u64 {
        self.replayed
    }

    fn apply(&mut self, record: &Record) -> Result<(), Error> {
        self.table.last = self.table.last.max(record.seq);
        let Some(bytes) = record.event() else {
            return Ok(());
        };
        let event = Event::decode(bytes).map_err(|error| {
            Error::Broken(format!(
                "record {} of the journal cannot be read: {error}",
                record.seq
            ))
        })?;
        let mut view = self.table.view(event.place());
        self.index.complete(&mut view, event.place())?;
        self.table.apply(&event, view, record.seq);
        self.applied.seen = self.applied.seen.max(event.at());
        self.replayed += 1;
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        let (seen, token) = (self.applied.seen, self.table.token);
        // Half of a carried state is none: who finds it begins anew.
        let seq = if self.reader.is_carrying() {
            0
        } else {
            self.table.last
        };
        let changes = Changes::of(&self.table);
        if !changes.is_empty() || seq != self.applied.seq {
            self.applied = Applied { seq, token, seen };
            self.index.write(&changes, self.applied)?;
            self.table = Table {
                token,
                last: self.table.last,
                ..Table::default()
            };
        }
        Ok(())
    }
}
