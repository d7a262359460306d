//! `toolgate ledger list`.

use super::LedgerListArgs;
use super::calls::LedgerCall;
use super::merged::{MergedCall, MergedCalls, MergedLedger, NamedLedger};
use super::output::{LedgerOutput, Newest};
use super::reading;
use super::resolved::ResolvedCalls;
use super::text::{plain, short};
use crate::cli::table::{Column, Table, TableWriter};
use crate::cli::terminal::Tone;
use crate::mcp::json::Text;
use crate::model::counted::counted;
use crate::model::entry::Entry;
use std::borrow::Cow;
use std::io::{self, Write};

/// Rows of a table, unless told otherwise.
const DEFAULT_TABLE_ROWS: u32 = 50;

/// How calls are listed.
static CALLS: Table<7> = Table(COLUMNS);
/// How those of several ledgers are.
static SERVERS_CALLS: Table<8> = {
    let [time, id, agent, tool, outcome, code, ms] = COLUMNS;
    let server = Column::text("SERVER").least(8);
    Table([time, server, id, agent, tool, outcome, code, ms])
};
const COLUMNS: [Column; 7] = [
    Column::time("TIME"),
    Column::id("ACTION ID"),
    Column::text("AGENT").rank(1).least(8),
    Column::text("TOOL").least(16),
    Column::text("OUTCOME").tone(outcome_tone),
    Column::text("CODE").least(16),
    Column::number("MS").rank(2),
];

/// How an outcome is to be taken.
pub(super) fn outcome_tone(outcome: &str) -> Option<Tone> {
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
    Row(Option<String>, [String; 7]),
}

impl LedgerListArgs {
    /// Lists the calls of all `ledgers` in one table. Which names there can be, the first of them says.
    pub(super) fn run(
        &self,
        ledgers: &[NamedLedger<'_>],
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        let Some(NamedLedger { place, server }) = ledgers.first() else {
            return Ok(output.code);
        };
        let limit = self
            .limit
            .unwrap_or(if self.json { 0 } else { DEFAULT_TABLE_ROWS });
        let mut calls = MergedCalls::default();
        for ledger in ledgers {
            if let Err(error) = calls.add(ledger) {
                output.unread(ledger.server, error.into())?;
            }
        }
        let mut screen = match server {
            _ if self.json => CallScreen::Json,
            None => CallScreen::One(CALLS.on(place.terminal)),
            Some(_) => CallScreen::Several(SERVERS_CALLS.on(place.terminal)),
        };
        let mut newest = Newest::limited(limit);
        let (mut fitting, mut end) = (0_usize, Ok(()));
        let is_among_lines = limit == 0 && place.terminal.columns.is_some();
        let progress = reading().unless(is_among_lines);
        let mut is_supposed = false;
        while let Some(MergedCall { ledger, call }) = calls.next() {
            progress.step();
            let call = match output.readable(call) {
                Ok(Some(call)) if self.asks_for(&call, &ledger.known) => call,
                Ok(_) => continue,
                Err(error) => match output.unread(ledger.server, error) {
                    Ok(()) => continue,
                    unread => {
                        end = unread;
                        break;
                    }
                },
            };
            is_supposed |= call.entry.would_refuse.is_some();
            let line = self.line(&call, ledger);
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
        let unmet = self.wanted.say_unmet(place.named, output.err)?;
        Ok(output.code.max(unmet))
    }

    fn asks_for(&self, call: &LedgerCall, known: &ResolvedCalls) -> bool {
        self.wanted.fits(&call.entry) && (!self.open || known.leave_open(&call.entry))
    }

    /// The line for `call`.
    fn line(&self, call: &LedgerCall, ledger: &MergedLedger<'_>) -> CallLine {
        let (entry, known) = (&call.entry, &ledger.known);
        let resolved = known.of(entry);
        if self.json {
            let server = ledger.server.map(|server| ("server", Text::string(server)));
            let resolved = resolved.map(|resolved| ("resolved", resolved.field()));
            let more: Vec<_> = server.into_iter().chain(resolved).collect();
            return CallLine::Json(call.line(&more));
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
        let cells = [
            plain(&entry.time),
            plain(&entry.action_id),
            short(&caller(entry)),
            short(&named(entry)),
            outcome,
            code,
            format!("{:.1}", entry.latency_ms),
        ];
        CallLine::Row(ledger.server.map(ToOwned::to_owned), cells)
    }
}

/// How the lines of calls are laid out.
enum CallScreen {
    Json,
    One(TableWriter<7>),
    Several(TableWriter<8>),
}

impl CallScreen {
    fn write(&mut self, line: CallLine, out: &mut dyn Write) -> io::Result<()> {
        match (line, self) {
            (CallLine::Json(line), _) => writeln!(out, "{line}"),
            (CallLine::Row(_, row), Self::One(table)) => out.write_all(table.add(row).as_bytes()),
            (CallLine::Row(server, row), Self::Several(table)) => {
                let [time, id, agent, tool, outcome, code, ms] = row;
                let server = server.unwrap_or_default();
                let row = [time, server, id, agent, tool, outcome, code, ms];
                out.write_all(table.add(row).as_bytes())
            }
            (CallLine::Row(..), Self::Json) => Ok(()),
        }
    }

    /// Writes what is left, so that what is said of it on standard error comes after it.
    fn end(self, out: &mut dyn Write) -> io::Result<()> {
        let rest = match self {
            Self::Json => String::new(),
            Self::One(table) => table.end(),
            Self::Several(table) => table.end(),
        };
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
