//! `toolgate ledger show`.

use super::{Show, text};
use crate::mcp::json::Text;
use crate::store::journal::{Error, Reader};
use std::io::Write;
use std::path::Path;

/// How many ids are named when the beginning of one fits several.
const NAMED: usize = 5;

impl Show {
    pub(super) fn run(&self, data: &Path, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<u8> {
        let wanted = self.action_id.to_ascii_lowercase();
        let mut records: Vec<(u64, Text)> = Vec::new();
        let mut ids: Vec<String> = Vec::new();
        for record in Reader::open(data)? {
            let record = record?;
            let found = match record.text() {
                Ok(found) => found,
                Err(error @ Error::Unreadable { .. }) => {
                    writeln!(err, "{error}")?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let Some(entry) = found else { continue };
            let id = entry.get("action_id").and_then(|id| Some(id.as_str()?.into_owned()));
            let Some(id) = id.filter(|id| id.to_ascii_lowercase().starts_with(&wanted)) else { continue };
            if ids.last() != Some(&id) && !ids.contains(&id) && ids.len() <= NAMED {
                ids.push(id.clone());
            }
            if ids.len() == 1 && ids[0] == id {
                records.push((record.seq, entry));
            }
        }
        match ids.as_slice() {
            [] => {
                writeln!(err, "no call's action id begins with {}; see `toolgate ledger list`", text::plain(&wanted))?;
                Ok(1)
            }
            [_] => {
                self.print(&records, out)?;
                Ok(0)
            }
            several => {
                let more = if several.len() > NAMED { ", and more" } else { "" };
                let named: Vec<String> = several.iter().take(NAMED).map(|id| text::plain(id)).collect();
                writeln!(err, "several calls fit, give more of the id: {}{more}", named.join(", "))?;
                Ok(1)
            }
        }
    }

    fn print(&self, records: &[(u64, Text)], out: &mut dyn Write) -> std::io::Result<()> {
        for (seq, entry) in records {
            if self.json {
                writeln!(out, "{}", text::line(*seq, entry.as_bytes()))?;
                continue;
            }
            writeln!(out, "{:<15} {seq}", "record")?;
            for (name, value) in entry.members().into_iter().flatten() {
                let shown = match value.as_str() {
                    Some(string) => text::plain(&string),
                    None => text::plain(&String::from_utf8_lossy(value.as_bytes())),
                };
                writeln!(out, "{:<15} {shown}", text::plain(&name))?;
            }
        }
        Ok(())
    }
}
