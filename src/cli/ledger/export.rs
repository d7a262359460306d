//! `toolgate ledger export`: everything, for another system to keep or to search.

use super::ExportArgs;
use super::LedgerLocation;
use super::contents::{LedgerContent, keys};
use super::noted::{event, event_line};
use super::output::LedgerOutput;
use super::{reading, text};
use crate::store::content_key::ContentKeys;
use crate::store::journal::{JournalError, JournalReader, JournalRecord, REKEYED_RECORD};
use crate::store::state::event::StoreEvent;
use jiff::Timestamp;
use std::io::IsTerminal as _;

impl ExportArgs {
    pub(super) fn run(
        &self,
        place: &LedgerLocation<'_>,
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        let keys = if self.contents {
            keys(place, &self.key)?
        } else {
            ContentKeys::default()
        };
        let progress = reading().unless(std::io::stdout().is_terminal());
        for record in JournalReader::after_in(place.data, place.archive, self.after)? {
            progress.step();
            if let Some(Some(line)) = output.readable(self.line(&record?, &keys))? {
                output.line(&line)?;
            }
        }
        let unmet = self.wanted.say_unmet(place.named, output.err)?;
        Ok(output.code.max(unmet))
    }

    /// The line for `record`; none when it is not asked for, or of a kind that only the journal
    /// needs.
    fn line(
        &self,
        record: &JournalRecord,
        keys: &ContentKeys,
    ) -> Result<Option<String>, JournalError> {
        if let Some(entry) = record.entry()? {
            let fits = self.wanted.fits(&entry);
            return Ok(fits.then(|| text::line_of(record.seq, "entry", &record.bytes)));
        }
        if let Some(content) = LedgerContent::of(record, keys)? {
            let is_wanted = self.contents
                && !self.wanted.is_of_entries()
                && self.wanted.names(&content.head.action_id);
            let line = || text::line_of(record.seq, "content", &content.line());
            return Ok(is_wanted.then(line));
        }
        if !self.entries && record.kind == REKEYED_RECORD && !self.wanted.is_of_entries() {
            return Ok(Some(text::line_of(record.seq, "rekeyed", &record.bytes)));
        }
        let event = event(record)?.filter(|event| !self.entries && self.fits(event));
        Ok(event.map(|event| event_line(record, event)))
    }

    fn fits(&self, event: &StoreEvent) -> bool {
        let time = i64::try_from(event.at())
            .ok()
            .and_then(|at| Timestamp::from_millisecond(at).ok());
        let action = match event {
            StoreEvent::Intended(intended) if self.wanted.is_of_entries() => {
                return self.wanted.fits(&intended.entry);
            }
            StoreEvent::Intended(intended) => Some(intended.action),
            StoreEvent::Settled(settled) => Some(settled.action),
            StoreEvent::Held(held) => Some(held.hold.id),
            StoreEvent::Decided(decided) => Some(decided.id),
            StoreEvent::Edited(edited) => Some(edited.id),
            StoreEvent::Extended(extended) => Some(extended.id),
            StoreEvent::Granted(minted) => {
                let allowed = minted.allowed.as_ref();
                Some(allowed.map_or(minted.grant.id, |allowed| allowed.id))
            }
            StoreEvent::Revoked(revoked) => Some(revoked.id),
            StoreEvent::UndoAsked(asked) => Some(asked.of),
            StoreEvent::Reserved(_)
            | StoreEvent::Spent(_)
            | StoreEvent::Tallied(_)
            | StoreEvent::Entered { .. }
            | StoreEvent::Planned { .. }
            | StoreEvent::Steered(_)
            | StoreEvent::Fenced { .. }
            | StoreEvent::Noted(_)
            | StoreEvent::Carried(_) => None,
        };
        !self.wanted.is_of_entries()
            && time.is_none_or(|time| self.wanted.is_in_time(time))
            && self
                .wanted
                .names(&action.map(|action| action.to_string()).unwrap_or_default())
    }
}
