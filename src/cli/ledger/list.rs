//! `toolgate ledger list`.

use super::LedgerListArgs;
use super::LedgerLocation;
use super::calls::{LedgerCall, LedgerCalls};
use super::output::{LedgerOutput, Newest};
use super::reading;
use super::resolved::{Resolved, ResolvedCalls};
use super::text::{plain, short};
use crate::cli::table::{Column, Table, TableWriter};
use crate::cli::terminal::Tone;
use crate::model::counted::counted;
use crate::model::entry::Entry;
use std::borrow::Cow;
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
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        let limit = self
            .limit
            .unwrap_or(if self.json { 0 } else { DEFAULT_TABLE_ROWS });
        let known = ResolvedCalls::read(place.data, place.archive)?;
        let calls = LedgerCalls::open_in(place.data, place.archive)?.and_messages();
        let mut screen = CallScreen {
            table: (!self.json).then(|| CALLS.on(place.terminal)),
        };
        let mut newest = Newest::limited(limit);
        let (mut fitting, mut end) = (0_usize, Ok(()));
        let is_among_lines = limit == 0 && place.terminal.columns.is_some();
        let progress = reading().unless(is_among_lines);
        let mut is_supposed = false;
        for call in calls {
            progress.step();
            let call = match output.readable(call) {
                Ok(Some(call)) if self.asks_for(&call, &known) => call,
                Ok(_) => continue,
                Err(error) => {
                    end = Err(error);
                    break;
                }
            };
            is_supposed |= call.entry.would_refuse.is_some();
            let line = self.line(&call, &known);
            fitting += 1;
            if limit == 0 {
                screen.write(line, output.out)?;
            } else {
                newest.push(line);
            }
        }
        drop(progress);
        let newest = newest.into_all();
        let shown = if limit == 0 { fitting } else { newest.len() };
        for line in newest {
            screen.write(line, output.out)?;
        }
        screen.end(output.out)?;
        if !self.json {
            notes(shown, fitting, is_supposed, output.err)?;
        }
        end?;
        let config = place.named.config.as_deref();
        let unmet = self.wanted.say_unmet(config, output.err)?;
        Ok(output.code.max(unmet))
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

/// How the lines of calls are laid out.
struct CallScreen {
    /// Unless lines are JSON.
    table: Option<TableWriter<7>>,
}

impl CallScreen {
    fn write(&mut self, line: CallLine, out: &mut dyn Write) -> io::Result<()> {
        match (line, &mut self.table) {
            (CallLine::Json(line), _) => writeln!(out, "{line}"),
            (CallLine::Row(row), Some(table)) => out.write_all(table.add(row).as_bytes()),
            (CallLine::Row(_), None) => Ok(()),
        }
    }

    /// Writes what is left, so that what is said of it on standard error comes after it.
    fn end(self, out: &mut dyn Write) -> io::Result<()> {
        let rest = self.table.map(TableWriter::end).unwrap_or_default();
        out.write_all(rest.as_bytes())?;
        out.flush()
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
