//! The calls in the journal, one after the other: those with an entry, and those whose toolgate
//! ended before it could write one. For these there is only the intent, and perhaps what the next
//! start made of it.

use super::contents::{Contents, LedgerContent, configured_keys};
use super::noted::{LedgerNote, event};
use super::text;
use crate::cli::configured;
use crate::config::Ledger;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::store::content_key::ContentKeys;
use crate::store::journal::{JournalError, JournalReader, JournalRecord};
use crate::store::state::claim::ClaimPhase;
use crate::store::state::event::StoreEvent;
use crate::store::state::settlement::Evidence;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::path::Path;

/// Intents that are kept until it is known what became of them. No toolgate has so many calls in
/// flight.
const MAX_OPEN_CALLS: usize = 1 << 16;

/// One call.
pub(in crate::cli) struct LedgerCall {
    /// The number of its entry, or of its intent when it has none.
    pub(in crate::cli) seq: u64,
    /// What the ledger knows of it.
    pub(in crate::cli) entry: Entry,
    /// The same as it stands in the journal, when it does.
    written: Option<bytes::Bytes>,
}

impl LedgerCall {
    /// As one line of JSON, with `more` members.
    pub(super) fn line(&self, more: &[(&str, Text)]) -> String {
        let entry = match &self.written {
            Some(written) => written.clone(),
            None => serde_json::to_vec(&self.entry).unwrap_or_default().into(),
        };
        let read = || Text::read(entry.clone(), &SERVER_JSON_LIMITS).ok();
        let with = (!more.is_empty()).then(read).flatten().map(|entry| {
            let member =
                |entry: Text, (name, value): &(&str, Text)| entry.with_new_member(name, value);
            more.iter().fold(entry, member).bytes()
        });
        text::line(self.seq, &with.unwrap_or(entry))
    }
}

/// What a record tells.
pub(super) enum LedgerStep {
    /// A call, or a message.
    Call(Box<LedgerCall>),
    /// Something else that happened.
    Note(LedgerNote),
    /// What only the journal needs, or a part of a call.
    Other,
}

/// Reads the calls of a journal.
pub(in crate::cli) struct LedgerCalls {
    records: JournalReader,
    /// Calls that have begun and not ended, with the number of their intent.
    open: BTreeMap<ActionId, (u64, Entry)>,
    /// What was kept of calls whose entry was not read yet, by action id.
    contents: Contents,
    /// What these may be encrypted with.
    keys: ContentKeys,
    /// What is told once the journal has been read through.
    rest: Option<VecDeque<LedgerCall>>,
    /// Has a call come to an end of which only the intent tells, and that was not read?
    lacks_begin: bool,
    /// Are messages through side doors told, too?
    messages: bool,
}

impl LedgerCalls {
    /// All calls of the journal in `data`.
    pub(in crate::cli) fn open(data: &Path) -> Result<Self, JournalError> {
        Self::open_in(data, None)
    }

    /// As `open`, and those in the `archive`.
    pub(super) fn open_in(data: &Path, archive: Option<&Path>) -> Result<Self, JournalError> {
        Self::after_in(data, archive, 0)
    }

    /// As `open_in`, those alone that end after record `seq`, which should be the last of a segment.
    pub(super) fn after_in(
        data: &Path,
        archive: Option<&Path>,
        seq: u64,
    ) -> Result<Self, JournalError> {
        let records = JournalReader::after_in(data, archive, seq)?;
        Ok(Self {
            records,
            open: BTreeMap::new(),
            contents: Contents::default(),
            keys: ContentKeys::default(),
            rest: None,
            lacks_begin: false,
            messages: false,
        })
    }

    /// The same with the arguments that `kept` has the keys for. What is encrypted with one that
    /// cannot be had stays unread, which is said.
    pub(in crate::cli) fn with_keys(self, kept: &Ledger) -> Self {
        let keys = configured_keys(kept).unwrap_or_else(|error| {
            configured::say(&format!(
                "toolgate: what the ledger keeps encrypted is not read: {error:#}"
            ));
            ContentKeys::default()
        });
        Self { keys, ..self }
    }

    /// The same with the messages that went through side doors.
    pub(super) fn and_messages(self) -> Self {
        Self {
            messages: true,
            ..self
        }
    }

    /// Whether a call is missing because it began before what was read.
    pub(super) fn lacks_begin(&self) -> bool {
        self.lacks_begin
    }

    /// What the next record tells, if it tells something; none at the end, for now: it goes on when more is
    /// written.
    pub(super) fn step(&mut self) -> Option<Result<LedgerStep, JournalError>> {
        let record = match self.records.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        Some(match LedgerNote::of(&record) {
            Ok(Some(note)) => Ok(LedgerStep::Note(note)),
            Ok(None) => self.take(&record).map(|call| match call {
                Some(call) => LedgerStep::Call(Box::new(call)),
                None => LedgerStep::Other,
            }),
            Err(error) => Err(error),
        })
    }

    /// The call that `record` completes.
    fn take(&mut self, record: &JournalRecord) -> Result<Option<LedgerCall>, JournalError> {
        if let Some(content) = LedgerContent::of(record, &self.keys)? {
            self.contents.add(content);
            return Ok(None);
        }
        if let Some(mut entry) = record.entry()? {
            self.contents.complete(&mut entry);
            if entry.method.is_some() && !self.messages {
                return Ok(None);
            }
            return Ok(Some(LedgerCall {
                seq: record.seq,
                entry,
                written: Some(record.bytes.clone()),
            }));
        }
        let event = event(record)?;
        if let Some(StoreEvent::Intended(intended)) = event {
            if self.open.len() == MAX_OPEN_CALLS {
                self.open.pop_first();
            }
            self.open
                .insert(intended.action, (record.seq, intended.entry));
            return Ok(None);
        }
        let Some(StoreEvent::Settled(settled)) = event else {
            return Ok(None);
        };
        let begun = self.open.remove(&settled.action);
        // Every other end comes with an entry of its own.
        let is_restart = settled.evidence == Evidence::Restart;
        self.lacks_begin |= is_restart && begun.is_none();
        let died = begun.filter(|_| is_restart);
        Ok(died.map(|(seq, mut entry)| {
            self.contents.complete(&mut entry);
            unfinished(seq, entry, &settled.phase)
        }))
    }
}

/// A call without an entry of its own, which its intent tells of.
pub(super) fn unfinished(seq: u64, entry: Entry, phase: &ClaimPhase) -> LedgerCall {
    let outcome = match phase {
        ClaimPhase::Dispatching | ClaimPhase::AwaitingInput { .. } => "dispatching",
        ClaimPhase::NotSent | ClaimPhase::Failed { .. } => "failed",
        ClaimPhase::Completed(_) => "answered",
        ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned => "unknown",
    };
    LedgerCall {
        seq,
        entry: Entry {
            outcome: outcome.to_owned(),
            ..entry
        },
        written: None,
    }
}

impl Iterator for LedgerCalls {
    type Item = Result<LedgerCall, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.rest.is_none() {
            let Some(record) = self.records.next() else {
                let open = std::mem::take(&mut self.open).into_values();
                let mut open: Vec<_> = open
                    .map(|(seq, entry)| unfinished(seq, entry, &ClaimPhase::Dispatching))
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
