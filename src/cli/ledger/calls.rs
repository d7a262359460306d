//! The calls in the journal, one after the other: those with an entry, and those whose toolgate
//! ended before it could write one. For these there is only the intent, and perhaps what the next
//! start made of it.

use super::text;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::store::journal::{Error, Reader, Record};
use crate::store::state::claim::Phase;
use crate::store::state::event::{Event, Evidence};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::path::Path;

/// Intents that are kept until it is known what became of them. No toolgate has so many calls in
/// flight.
const OPEN: usize = 1 << 16;

/// One call.
pub(in crate::cli) struct Call {
    /// The number of its entry, or of its intent when it has none.
    pub(super) seq: u64,
    /// What the ledger knows of it.
    pub(in crate::cli) entry: Entry,
    /// The same as it stands in the journal, when it does.
    written: Option<bytes::Bytes>,
}

impl Call {
    /// As one line of JSON.
    pub(super) fn line(&self) -> String {
        match &self.written {
            Some(written) => text::line(self.seq, written),
            None => text::line(
                self.seq,
                &serde_json::to_vec(&self.entry).unwrap_or_default(),
            ),
        }
    }
}

/// Reads the calls of a journal.
pub(in crate::cli) struct Calls {
    records: Reader,
    /// Calls that have begun and not ended, with the number of their intent.
    open: BTreeMap<ActionId, (u64, Entry)>,
    /// What is told once the journal has been read through.
    rest: Option<VecDeque<Call>>,
    /// Are messages through side doors told, too?
    messages: bool,
}

impl Calls {
    /// All calls of the journal in `data`.
    pub(in crate::cli) fn open(data: &Path) -> Result<Self, Error> {
        Self::open_in(data, None)
    }

    /// As `open`, and those in the `archive`.
    pub(super) fn open_in(data: &Path, archive: Option<&Path>) -> Result<Self, Error> {
        let records = Reader::after_in(data, archive, 0)?;
        Ok(Self {
            records,
            open: BTreeMap::new(),
            rest: None,
            messages: false,
        })
    }

    /// The same with the messages that went through side doors.
    pub(super) fn and_messages(self) -> Self {
        Self {
            messages: true,
            ..self
        }
    }

    /// The call that `record` completes.
    fn take(&mut self, record: &Record) -> Result<Option<Call>, Error> {
        if let Some(entry) = record.entry()? {
            if entry.method.is_some() && !self.messages {
                return Ok(None);
            }
            return Ok(Some(Call {
                seq: record.seq,
                entry,
                written: Some(record.bytes.clone()),
            }));
        }
        match event(record)? {
            Some(Event::Intended(intended)) => {
                if self.open.len() == OPEN {
                    self.open.pop_first();
                }
                self.open
                    .insert(intended.action, (record.seq, intended.entry));
                Ok(None)
            }
            Some(Event::Settled(settled)) => {
                let begun = self.open.remove(&settled.action);
                // Every other end comes with an entry of its own.
                let died = begun.filter(|_| settled.evidence == Evidence::Restart);
                Ok(died.map(|(seq, entry)| unfinished(seq, entry, &settled.phase)))
            }
            Some(
                Event::Reserved(_)
                | Event::Spent(_)
                | Event::Entered { .. }
                | Event::Fenced { .. }
                | Event::Held(_)
                | Event::Decided(_)
                | Event::Noted(_)
                | Event::Carried(_),
            )
            | None => Ok(None),
        }
    }
}

/// A call without an entry of its own, which its intent tells of.
pub(super) fn unfinished(seq: u64, entry: Entry, phase: &Phase) -> Call {
    let outcome = match phase {
        Phase::Dispatching | Phase::AwaitingInput { .. } => "dispatching",
        Phase::NotSent | Phase::Failed { .. } => "failed",
        Phase::Completed(_) => "answered",
        Phase::Unknown { .. } | Phase::Abandoned => "unknown",
    };
    Call {
        seq,
        entry: Entry {
            outcome: outcome.to_owned(),
            ..entry
        },
        written: None,
    }
}

/// The event in `record`; none when it holds none.
pub(super) fn event(record: &Record) -> Result<Option<Event>, Error> {
    let Some(bytes) = record.event() else {
        return Ok(None);
    };
    let why = |error: serde_json::Error| Error::Unreadable {
        seq: record.seq,
        why: error.to_string(),
    };
    Event::decode(bytes).map(Some).map_err(why)
}

impl Iterator for Calls {
    type Item = Result<Call, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.rest.is_none() {
            let Some(record) = self.records.next() else {
                let open = std::mem::take(&mut self.open).into_values();
                let mut open: Vec<_> = open
                    .map(|(seq, entry)| unfinished(seq, entry, &Phase::Dispatching))
                    .collect();
                open.sort_by_key(|call| call.seq);
                self.rest = Some(open.into());
                break;
            };
            match record.and_then(|record| self.take(&record)) {
                Ok(None) => {}
                Ok(Some(call)) => return Some(Ok(call)),
                Err(error) => return Some(Err(error)),
            }
        }
        self.rest.as_mut()?.pop_front().map(Ok)
    }
}
