//! `toolgate ledger verify`.

use super::Verify;
use crate::model::counted::counted;
use crate::store::journal::verify;
use std::io::Write;
use std::path::Path;

impl Verify {
    pub(super) fn run(&self, data: &Path, out: &mut dyn Write) -> anyhow::Result<u8> {
        let report = verify(data, self.expect_head)?;
        let (records, batches, segments) = (report.records, report.batches, report.segments);
        let batches = if batches == 1 { "1 batch".to_owned() } else { format!("{batches} batches") };
        let (records, segments) = (counted(records, "record"), counted(segments, "segment"));
        let read = format!("{records} in {batches}, {segments}, {}", counted(report.bytes, "byte"));
        if let Some(problem) = &report.problem {
            writeln!(out, "DAMAGED: {problem}")?;
            writeln!(out, "as written up to there: {read}")?;
            return Ok(1);
        }
        writeln!(out, "ok: {read}")?;
        if report.dropped > 0 {
            writeln!(out, "records 1 to {} were dropped; a sealed summary stands for them", report.dropped)?;
        }
        if let Some(begun) = &report.unfinished {
            writeln!(
                out,
                "the last batch is not finished ({} at byte {}): toolgate is writing it, or was killed while it did and \
                 cuts it off when it next starts",
                begun.segment, begun.offset
            )?;
        }
        writeln!(out, "head {}", report.head)?;
        if self.expect_head.is_none() {
            writeln!(
                out,
                "Keep the head somewhere else: `toolgate ledger verify --expect-head {}` then also finds a removed end.",
                report.head
            )?;
        }
        Ok(0)
    }
}
