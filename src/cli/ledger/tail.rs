//! `toolgate ledger tail`: the last calls and events, and with `-f` each one as it is written.

use super::LedgerLocation;
use super::call_filter::CallFilter;
use super::calls::{LedgerCall, LedgerCalls, LedgerStep};
use super::output::{LedgerOutput, Newest};
use super::text::{plain, short};
use crate::cli::serve::{runtime, told_to_end};
use crate::cli::terminal::ids;
use std::time::Duration;

/// How soon the end of the journal is looked at again, at first …
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// … and at most, where nothing is written.
const LAST_LOOK: Duration = Duration::from_millis(500);

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
    pub(super) fn run(
        &self,
        place: &LedgerLocation<'_>,
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        let mut calls = LedgerCalls::open_in(place.data, place.archive)?.and_messages();
        let mut newest = Newest::at_most(self.lines);
        while let Some(line) = self.next(&mut calls, output)? {
            newest.push(line);
        }
        for line in newest.into_all() {
            output.line(&line)?;
        }
        output.out.flush()?;
        if !self.follow {
            return Ok(output.code);
        }
        runtime()?.block_on(async {
            tokio::select! {
                followed = self.go_on(&mut calls, output) => followed,
                () = told_to_end() => Ok(0),
            }
        })
    }

    /// Writes each line as it comes; ends only with an error.
    async fn go_on(
        &self,
        calls: &mut LedgerCalls,
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        let mut wait = FIRST_LOOK;
        loop {
            let mut has_more = false;
            while let Some(line) = self.next(calls, output)? {
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
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<Option<String>> {
        while let Some(step) = calls.step() {
            match output.readable(step)? {
                Some(LedgerStep::Call(call)) if self.wanted.fits(&call.entry) => {
                    return Ok(Some(self.line(&call)));
                }
                Some(LedgerStep::Note(note)) if note.fits(&self.wanted) => {
                    let line = if self.json { note.json() } else { note.line() };
                    return Ok(Some(line));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn line(&self, call: &LedgerCall) -> String {
        if self.json {
            return call.line(None);
        }
        let entry = &call.entry;
        let at = entry.time.get(..19).unwrap_or(&entry.time);
        let code = match (&entry.aborted_reason, &entry.would_refuse) {
            (Some(code), _) => format!(" {code}"),
            (None, Some(code)) => format!(" (would refuse: {code})"),
            (None, None) if entry.replayed => " (replayed)".to_owned(),
            (None, None) => String::new(),
        };
        let method = entry.method.as_deref().map(|method| format!("{method} "));
        let behind = entry
            .named_user()
            .map(|user| format!(" for {}", short(user)));
        let count = entry.count.filter(|count| *count > 1);
        format!(
            "{}Z  {:<14}  {}{} by {}{}{}  {:.1} ms  {}",
            plain(at),
            plain(&entry.outcome),
            plain(&method.unwrap_or_default()),
            short(&entry.tool),
            short(entry.agent()),
            behind.unwrap_or_default(),
            plain(&code) + &count.map(|count| format!(" ×{count}")).unwrap_or_default(),
            entry.latency_ms,
            plain(&ids::short(&entry.action_id, ids::SHORT_ID_DIGITS)),
        )
    }
}

#[cfg(test)]
mod tests;
