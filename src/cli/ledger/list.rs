//! `toolgate ledger list`.

use super::LedgerListArgs;
use super::LedgerLocation;
use super::calls::{LedgerCall, LedgerCalls};
use super::resolved::{Resolved, ResolvedCalls};
use super::text::{plain, short};
use crate::cli::table::{Column, Table};
use crate::model::counted::counted;
use crate::model::entry::Entry;
use crate::store::journal::JournalError;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Write;

/// Rows of a table, unless told otherwise.
const DEFAULT_TABLE_ROWS: u32 = 50;

/// How calls are listed.
const CALLS: Table<7> = Table([
    Column::text("TIME", 30),
    Column::text("ACTION ID", 36),
    Column::text("AGENT", 12),
    Column::text("TOOL", 28),
    Column::text("OUTCOME", 11),
    Column::text("CODE", 24),
    Column::number("MS", 8),
]);

impl LedgerListArgs {
    pub(super) fn run(
        &self,
        place: &LedgerLocation<'_>,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let limit = self
            .limit
            .unwrap_or(if self.json { 0 } else { DEFAULT_TABLE_ROWS }) as usize;
        let known = ResolvedCalls::read(place.data, place.archive)?;
        let calls = LedgerCalls::open_in(place.data, place.archive)?.and_messages();
        if !self.json {
            writeln!(out, "{}", CALLS.head())?;
        }
        let mut newest: VecDeque<String> = VecDeque::new();
        let (mut fitting, mut code, mut end) = (0_usize, 0, Ok(()));
        for call in calls {
            let line = match call {
                Ok(call) if !self.asks_for(&call, &known) => continue,
                Ok(call) => self.line(&call, &known),
                Err(error @ JournalError::Unreadable { .. }) => {
                    writeln!(err, "{error}")?;
                    code = 1;
                    continue;
                }
                Err(error) => {
                    end = Err(error);
                    break;
                }
            };
            fitting += 1;
            if limit == 0 {
                writeln!(out, "{line}")?;
                continue;
            }
            if newest.len() == limit {
                newest.pop_front();
            }
            newest.push_back(line);
        }
        for line in &newest {
            writeln!(out, "{line}")?;
        }
        if limit > 0 && fitting > newest.len() && !self.json {
            out.flush()?;
            writeln!(
                err,
                "{} of {}; --limit 0 lists all",
                newest.len(),
                counted(fitting, "call")
            )?;
        }
        end?;
        Ok(code)
    }

    fn asks_for(&self, call: &LedgerCall, known: &ResolvedCalls) -> bool {
        self.wanted.fits(&call.entry) && (!self.open || known.leave_open(&call.entry))
    }

    /// The line for `call`.
    fn line(&self, call: &LedgerCall, known: &ResolvedCalls) -> String {
        let entry = &call.entry;
        let resolved = known.of(entry);
        if self.json {
            return call.line(resolved.map(Resolved::field).as_ref());
        }
        let code = match (&entry.aborted_reason, &entry.would_refuse) {
            (Some(code), _) => plain(code),
            (None, Some(code)) => format!("({})", plain(code)),
            (None, None) if entry.replayed => "(replayed)".to_owned(),
            (None, None) => String::new(),
        };
        let code = match (resolved, known.asked_again(entry)) {
            (Some(resolved), _) => plain(&resolved.short()),
            (None, Some(holder)) => format!("(of {}, resolved)", plain(&holder)),
            (None, None) => code,
        };
        let outcome = match entry.count {
            Some(count @ 2..) => format!("{} ×{count}", plain(&entry.outcome)),
            Some(_) | None => plain(&entry.outcome),
        };
        CALLS.row(&[
            &plain(&entry.time),
            &plain(&entry.action_id),
            &short(&caller(entry)),
            &short(&named(entry)),
            &outcome,
            &code,
            &format!("{:.1}", entry.latency_ms),
        ])
    }
}

/// The agent, and the user that it acted for.
fn caller(entry: &Entry) -> Cow<'_, str> {
    match entry.named_user() {
        Some(user) => Cow::Owned(format!("{} for {user}", entry.agent())),
        None => Cow::Borrowed(entry.agent()),
    }
}

/// The tool, or the method of a message and what it was about.
fn named(entry: &Entry) -> Cow<'_, str> {
    match &entry.method {
        Some(method) => Cow::Owned(format!("{method} {}", entry.tool)),
        None => Cow::Borrowed(&entry.tool),
    }
}
