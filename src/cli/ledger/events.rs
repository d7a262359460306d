//! `toolgate ledger events`: what happened beside calls.

use super::call_filter::since;
use super::noted::LedgerNote;
use super::output::{LedgerOutput, Newest};
use super::{CallFilter, LedgerLocation, reading};
use crate::store::journal::JournalReader;
use jiff::Timestamp;

/// Lines for people, unless told otherwise.
const DEFAULT_LINES: u32 = 50;

#[derive(Debug, clap::Args)]
pub(super) struct LedgerEventsArgs {
    /// Only what happened since then: a time such as 2026-07-28T09:00:00Z, or how long ago, such as 90s,
    /// 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Only what happened before then; as --since
    #[arg(long, value_name = "TIME", value_parser = since)]
    until: Option<Timestamp>,
    /// Only the newest N; 0 for all [default: 50, 0 with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    limit: Option<u32>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

impl LedgerEventsArgs {
    pub(super) fn run(
        &self,
        place: &LedgerLocation<'_>,
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        let limit = self
            .limit
            .unwrap_or(if self.json { 0 } else { DEFAULT_LINES });
        let wanted = CallFilter::of_time(self.since, self.until);
        let mut newest = Newest::limited(limit);
        let progress = reading();
        for record in JournalReader::after_in(place.data, place.archive, 0)? {
            progress.step();
            let read = record.and_then(|record| LedgerNote::of(&record));
            let note = output.readable(read)?.flatten();
            if let Some(note) = note.filter(|note| note.fits(&wanted)) {
                newest.push(if self.json {
                    note.json()
                } else {
                    note.line(&place.terminal)
                });
            }
        }
        drop(progress);
        for line in newest.into_all() {
            output.line(&line)?;
        }
        Ok(output.code)
    }
}
