//! `toolgate ledger tail`: the last calls and events, and with `-f` each one as it is written.

use super::LedgerLocation;
use super::call_filter::CallFilter;
use super::calls::{LedgerCall, LedgerCalls, LedgerStep};
use super::list::outcome_tone;
use super::noted::{EVENT_COLUMNS, GAP_COLUMNS, TIME_COLUMNS, second};
use super::output::LedgerOutput;
use super::text::{plain, short};
use crate::cli::runtime::{runtime, told_to_end};
use crate::cli::table::cut;
use crate::cli::terminal::{Terminal, Tone, ids};
use crate::model::entry::Entry;
use search::LedgerEnd;
use std::time::Duration;
use unicode_width::UnicodeWidthStr as _;

mod search;

/// How soon the end of the journal is looked at again, at first …
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// … and at most, where nothing is written.
const LAST_LOOK: Duration = Duration::from_millis(500);
/// Columns of a call's tool and agent, however long what it was refused with is.
const MIN_CALL_COLUMNS: usize = 16;

#[derive(Debug, clap::Args)]
pub(super) struct LedgerTailArgs {
    #[command(flatten)]
    wanted: CallFilter,
    /// Go on with what is written from now on, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Begin with the newest N that fit
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=100_000))]
    lines: u32,
    /// One JSON object per line; what is no call has an `event`
    #[arg(long)]
    json: bool,
}

impl LedgerTailArgs {
    /// Whether it goes on until it is told to end.
    pub(super) fn goes_on(&self) -> bool {
        self.follow
    }

    pub(super) fn run(
        &self,
        place: &LedgerLocation<'_>,
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        let end = search::read(place, self.lines, output, |calls, output| {
            self.next(calls, place.terminal, output)
        });
        let LedgerEnd { mut calls, lines } = end?;
        for line in lines {
            output.line(&line)?;
        }
        output.out.flush()?;
        let unmet = self.wanted.say_unmet(place.named, output.err)?;
        if !self.follow || unmet > 0 {
            return Ok(output.code.max(unmet));
        }
        runtime()?.block_on(async {
            tokio::select! {
                followed = self.go_on(&mut calls, place.terminal, output) => followed,
                () = told_to_end() => Ok(0),
            }
        })
    }

    /// Writes each line as it comes; ends only with an error.
    async fn go_on(
        &self,
        calls: &mut LedgerCalls,
        terminal: Terminal,
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        let mut wait = FIRST_LOOK;
        loop {
            let mut has_more = false;
            while let Some(line) = self.next(calls, terminal, output)? {
                output.line(&line)?;
                has_more = true;
            }
            output.out.flush()?;
            wait = if has_more {
                FIRST_LOOK
            } else {
                LAST_LOOK.min(wait * 2)
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// The next line that is asked for; none at the end, for now.
    fn next(
        &self,
        calls: &mut LedgerCalls,
        terminal: Terminal,
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<Option<String>> {
        while let Some(step) = calls.step() {
            match output.readable(step)? {
                Some(LedgerStep::Call(call)) if self.wanted.fits(&call.entry) => {
                    return Ok(Some(self.line(&call, terminal)));
                }
                Some(LedgerStep::Note(note)) if note.fits(&self.wanted) => {
                    let line = if self.json {
                        note.json()
                    } else {
                        note.line(&terminal)
                    };
                    return Ok(Some(line));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn line(&self, call: &LedgerCall, terminal: Terminal) -> String {
        if self.json {
            return call.line(&[]);
        }
        let entry = &call.entry;
        let outcome = format!("{:<EVENT_COLUMNS$}", plain(&entry.outcome));
        // What reads a pipe needs the id that no other call has.
        let id = plain(&match terminal.columns {
            Some(_) => ids::short(&entry.action_id, ids::SHORT_ID_DIGITS),
            None => entry.action_id.clone(),
        });
        let taken = TIME_COLUMNS + outcome.width() + 2 * GAP_COLUMNS + id.width();
        let what = what(entry, terminal.room_beside(taken), terminal);
        let outcome = match outcome_tone(&entry.outcome) {
            Some(tone) => terminal.paint(tone, &outcome),
            None => outcome,
        };
        format!("{}  {outcome}  {what}  {id}", second(&entry.time))
    }
}

/// Which call it was and how long it took, in so many columns: the time goes first, then names are cut.
fn what(entry: &Entry, columns: usize, terminal: Terminal) -> String {
    let (code, tone) = match (&entry.aborted_reason, &entry.would_refuse) {
        (Some(code), _) => (format!(" {code}"), Tone::Warn),
        (None, Some(code)) => (format!(" (would refuse: {code})"), Tone::Warn),
        (None, None) if entry.replayed => (" (replayed)".to_owned(), Tone::Faint),
        (None, None) => (String::new(), Tone::Faint),
    };
    let method = entry.method.as_deref().map(|method| format!("{method} "));
    let behind = entry
        .named_user()
        .map(|user| format!(" for {}", short(user)));
    let call = format!(
        "{}{} by {}{}",
        plain(&method.unwrap_or_default()),
        short(&entry.tool),
        short(entry.agent()),
        behind.unwrap_or_default(),
    );
    let count = entry.count.filter(|count| *count > 1);
    let count = count.map(|count| format!(" ×{count}")).unwrap_or_default();
    let latency = format!("  {:.1} ms", entry.latency_ms);
    let code = plain(&code);
    let all = [&call, &code, &count, &latency].map(|part| part.width());
    let latency = if all.iter().sum::<usize>() <= columns {
        latency
    } else {
        String::new()
    };
    let named = call.width().min(MIN_CALL_COLUMNS);
    let code = if code.is_empty() {
        code
    } else {
        cut(&code, columns.saturating_sub(named + count.width()))
    };
    let call = cut(&call, columns.saturating_sub(code.width() + count.width()));
    format!("{call}{}{count}{latency}", terminal.paint(tone, &code))
}

#[cfg(test)]
mod tests;
