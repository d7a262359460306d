//! `toolgate ledger events`: what happened beside calls.

use super::call_filter::since;
use super::noted::LedgerNote;
use super::{CallFilter, LedgerLocation};
use crate::store::journal::{JournalError, JournalReader};
use jiff::Timestamp;
use std::collections::VecDeque;
use std::io::Write;

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
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let limit = self
            .limit
            .unwrap_or(if self.json { 0 } else { DEFAULT_LINES });
        let limit = if limit == 0 {
            usize::MAX
        } else {
            limit as usize
        };
        let wanted = CallFilter::of_time(self.since, self.until);
        let (mut newest, mut code) = (VecDeque::new(), 0);
        for record in JournalReader::after_in(place.data, place.archive, 0)? {
            let note = match record.and_then(|record| LedgerNote::of(&record)) {
                Ok(note) => note.filter(|note| note.fits(&wanted)),
                Err(error @ JournalError::Unreadable { .. }) => {
                    writeln!(err, "{error}")?;
                    code = 1;
                    None
                }
                Err(error) => return Err(error.into()),
            };
            let Some(note) = note else { continue };
            if newest.len() == limit {
                newest.pop_front();
            }
            newest.push_back(if self.json { note.json() } else { note.line() });
        }
        for line in newest {
            writeln!(out, "{line}")?;
        }
        Ok(code)
    }
}
