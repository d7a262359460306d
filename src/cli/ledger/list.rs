//! `toolgate ledger list`.

use super::{List, text};
use crate::model::entry::Entry;
use crate::store::journal::{Error, Reader, Record};
use jiff::Timestamp;
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;

/// Rows of a table, unless told otherwise.
const ROWS: u32 = 50;

impl List {
    pub(super) fn run(&self, data: &Path, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<u8> {
        let limit = self.limit.unwrap_or(if self.json { 0 } else { ROWS }) as usize;
        let reader = Reader::open(data)?;
        if !self.json {
            writeln!(out, "{}", row(["TIME", "ACTION ID", "AGENT", "TOOL", "OUTCOME", "CODE", "MS"]))?;
        }
        let mut newest: VecDeque<String> = VecDeque::new();
        let (mut fitting, mut code, mut end) = (0_usize, 0, Ok(()));
        for record in reader {
            let line = match record.and_then(|record| self.line(&record)) {
                Ok(None) => continue,
                Ok(Some(line)) => line,
                Err(error @ Error::Unreadable { .. }) => {
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
            writeln!(err, "{} of {fitting} calls; --limit 0 lists all", newest.len())?;
        }
        end?;
        Ok(code)
    }

    /// The line for `record`; none when it is not asked for.
    fn line(&self, record: &Record) -> Result<Option<String>, Error> {
        let Some(entry) = record.entry()? else { return Ok(None) };
        if !self.fits(&entry) {
            return Ok(None);
        }
        if self.json {
            return Ok(Some(text::line(record.seq, &record.bytes)));
        }
        let code = match (&entry.aborted_reason, &entry.would_refuse) {
            (Some(code), _) => text::plain(code),
            (None, Some(code)) => format!("({})", text::plain(code)),
            (None, None) => String::new(),
        };
        Ok(Some(row([
            &text::plain(&entry.time),
            &text::plain(&entry.action_id),
            &text::plain(&entry.user_id),
            &text::plain(&entry.tool),
            &text::plain(&entry.outcome),
            &code,
            &format!("{:.1}", entry.latency_ms),
        ])))
    }

    fn fits(&self, entry: &Entry) -> bool {
        let code = [&entry.aborted_reason, &entry.would_refuse];
        self.agent.as_ref().is_none_or(|agent| *agent == entry.user_id)
            && self.tool.as_ref().is_none_or(|tool| *tool == entry.tool)
            && self.outcome.as_ref().is_none_or(|outcome| *outcome == entry.outcome)
            && self.code.as_ref().is_none_or(|wanted| code.iter().any(|code| code.as_ref() == Some(wanted)))
            // A time that can't be read must not hide a call.
            && self.since.is_none_or(|since| entry.time.parse::<Timestamp>().map_or(true, |time| time >= since))
    }
}

fn row([time, action, agent, tool, outcome, code, ms]: [&str; 7]) -> String {
    format!("{time:<30}  {action:<36}  {agent:<12}  {tool:<28}  {outcome:<8}  {code:<24}  {ms:>8}")
}
