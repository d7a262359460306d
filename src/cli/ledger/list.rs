//! `toolgate ledger list`.

use super::LedgerListArgs;
use super::LedgerLocation;
use super::calls::{LedgerCall, LedgerCalls};
use super::reading;
use super::resolved::{Resolved, ResolvedCalls};
use super::text::{plain, short};
use crate::cli::table::{Column, Table, TableWriter};
use crate::cli::terminal::Tone;
use crate::model::counted::counted;
use crate::model::entry::Entry;
use crate::store::journal::JournalError;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Write};

/// Rows of a table, unless told otherwise.
const DEFAULT_TABLE_ROWS: u32 = 50;

/// How calls are listed.
static CALLS: Table<7> = Table([
    Column::time("TIME"),
    Column::id("ACTION ID"),
    Column::text("AGENT").rank(1).least(8),
    Column::text("TOOL").least(16),
    Column::text("OUTCOME").tone(outcome_tone),
    Column::text("CODE").least(16),
    Column::number("MS").rank(2),
]);

/// How an outcome is to be taken.
fn outcome_tone(outcome: &str) -> Option<Tone> {
    match outcome.split(' ').next()? {
        "refused" => Some(Tone::Warn),
        "failed" | "unknown" => Some(Tone::Bad),
        "dispatching" => Some(Tone::Hint),
        _ => None,
    }
}

/// What is written of a call.
enum CallLine {
    Json(String),
    Row([String; 7]),
}

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
        let mut screen = CallScreen {
            table: (!self.json).then(|| CALLS.on(place.terminal)),
            out,
        };
        let mut newest: VecDeque<CallLine> = VecDeque::new();
        let (mut fitting, mut code, mut end) = (0_usize, 0, Ok(()));
        let is_among_lines = limit == 0 && place.terminal.columns.is_some();
        let progress = reading().unless(is_among_lines);
        let mut is_supposed = false;
        for call in calls {
            progress.step();
            let line = match call {
                Ok(call) if !self.asks_for(&call, &known) => continue,
                Ok(call) => {
                    is_supposed |= call.entry.would_refuse.is_some();
                    self.line(&call, &known)
                }
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
                screen.write(line)?;
                continue;
            }
            if newest.len() == limit {
                newest.pop_front();
            }
            newest.push_back(line);
        }
        drop(progress);
        let shown = if limit == 0 { fitting } else { newest.len() };
        newest.into_iter().try_for_each(|line| screen.write(line))?;
        screen.end()?;
        if !self.json {
            notes(shown, fitting, is_supposed, err)?;
        }
        end?;
        let unmet = self.wanted.say_unmet(place.named.config.as_deref(), err)?;
        Ok(code.max(unmet))
    }

    fn asks_for(&self, call: &LedgerCall, known: &ResolvedCalls) -> bool {
        self.wanted.fits(&call.entry) && (!self.open || known.leave_open(&call.entry))
    }

    /// The line for `call`.
    fn line(&self, call: &LedgerCall, known: &ResolvedCalls) -> CallLine {
        let entry = &call.entry;
        let resolved = known.of(entry);
        if self.json {
            return CallLine::Json(call.line(resolved.map(Resolved::field).as_ref()));
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
        CallLine::Row([
            plain(&entry.time),
            plain(&entry.action_id),
            short(&caller(entry)),
            short(&named(entry)),
            outcome,
            code,
            format!("{:.1}", entry.latency_ms),
        ])
    }
}

/// Where the lines of calls go.
struct CallScreen<'o> {
    /// Unless lines are JSON.
    table: Option<TableWriter<7>>,
    out: &'o mut dyn Write,
}

impl CallScreen<'_> {
    fn write(&mut self, line: CallLine) -> io::Result<()> {
        match (line, &mut self.table) {
            (CallLine::Json(line), _) => writeln!(self.out, "{line}"),
            (CallLine::Row(row), Some(table)) => self.out.write_all(table.add(row).as_bytes()),
            (CallLine::Row(_), None) => Ok(()),
        }
    }

    /// Writes what is left, so that what is said of it on standard error comes after it.
    fn end(self) -> io::Result<()> {
        let rest = self.table.map(TableWriter::end).unwrap_or_default();
        self.out.write_all(rest.as_bytes())?;
        self.out.flush()
    }
}

/// What is said below the table.
fn notes(shown: usize, fitting: usize, is_supposed: bool, err: &mut dyn Write) -> io::Result<()> {
    if is_supposed {
        writeln!(
            err,
            "a code in brackets is what enforce mode would have refused the call with"
        )?;
    }
    if fitting > shown {
        let all = counted(fitting, "call");
        writeln!(err, "{shown} of {all}; --limit 0 lists all")?;
    }
    Ok(())
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
