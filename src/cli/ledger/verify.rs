//! `toolgate ledger verify`.

use super::{LedgerLocation, VerifyArgs, text};
use crate::app::ledger;
use crate::cli::runtime::runtime;
use crate::cli::terminal::progress::{ProgressUnit, WorkProgress};
use crate::config::{Ledger, SealConfig};
use crate::guards::secrets::SecretSource;
use crate::model::counted::counted;
use crate::store::journal::{
    HeadProof, SealingKeys, VerifyOptions, VerifyReport, Witness, check_telling, written_bytes,
};
use anyhow::{Context as _, bail};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::path::Path;

/// Bytes of a line of a file of heads.
const HEAD_LINE_BYTES_MAX: u64 = 1 << 10;
/// Heads that are compared, the newest; one is written every ten minutes.
const MAX_HEADS_COMPARED: usize = 4 << 20;

/// The heads of a file, and what is to be said of them.
#[derive(Default)]
struct HeadsFile {
    heads: VecDeque<Witness>,
    /// Older ones that are not compared.
    older: u64,
    /// Without a seal that can be checked.
    bare: usize,
    unreadable: usize,
    /// What is wrong with one of them.
    forged: Option<String>,
}

impl VerifyArgs {
    pub(super) fn run(
        &self,
        place: &LedgerLocation<'_>,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let keys = self.keys(place)?;
        let kept = self
            .heads
            .as_ref()
            .map(|file| read(file, &keys, MAX_HEADS_COMPARED))
            .transpose()?;
        let against = VerifyOptions {
            keys,
            expected: self.expect_head,
            heads: kept
                .iter()
                .flat_map(|kept| kept.heads.iter().map(|witness| witness.head))
                .collect(),
            archive: match place.archive {
                Some(archive) => Some(archive.to_owned()),
                None => place.kept()?.archive.clone(),
            },
        };
        let progress = WorkProgress::of(
            "verifying",
            written_bytes(place.data).ok(),
            ProgressUnit::Bytes,
        );
        let report = check_telling(place.data, &against, &|bytes| progress.reach(bytes))?;
        drop(progress);
        if self.json {
            return self.json(&report, kept.as_ref(), out);
        }
        let read = read_words(&report);
        if let Some(problem) = &report.problem {
            writeln!(out, "DAMAGED: {problem}")?;
            writeln!(out, "as written up to there: {read}")?;
            return Ok(1);
        }
        if let Some(forged) = kept.as_ref().and_then(|kept| kept.forged.as_ref()) {
            writeln!(out, "FORGED: {forged}")?;
            return Ok(1);
        }
        writeln!(out, "ok: {read}")?;
        say_rest(&report, out)?;
        say_seals(&report, &against.keys, out)?;
        if let Some(kept) = &kept {
            say_heads(kept, &report, out)?;
            let met_none = report.met == u64::from(self.expect_head.is_some());
            if met_none {
                return Ok(1);
            }
        }
        writeln!(out, "head {}", report.head)?;
        if self.expect_head.is_none() && kept.is_none() {
            writeln!(
                out,
                "Not proved: that the end was not cut off, and that this is no older copy. Keep the head somewhere else, \
                 `toolgate ledger verify --expect-head {}` finds both then; `ledger.heads` keeps heads by itself.",
                report.head
            )?;
        }
        Ok(0)
    }

    /// The same as one JSON object: `state` is `ok`, `damaged` or `forged`, or `nothing_proved` where no
    /// head that is named is of a record that is still here. `seals_checked`: there are seals, and each was compared
    /// with its key.
    fn json(
        &self,
        report: &VerifyReport,
        kept: Option<&HeadsFile>,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let forged = kept.and_then(|kept| kept.forged.as_ref());
        let met_none = kept.is_some() && report.met == u64::from(self.expect_head.is_some());
        let state = match (&report.problem, forged) {
            (Some(_), _) => "damaged",
            (None, Some(_)) => "forged",
            (None, None) if met_none => "nothing_proved",
            (None, None) => "ok",
        };
        let sealed = || report.stretches.iter().filter(|one| one.key.is_some());
        let seals_checked = sealed().count() > 0 && sealed().all(|one| one.checked);
        let stretches = report.stretches.iter().map(|stretch| {
            let key = stretch.key.map(|key| key.to_string());
            json!({ "first": stretch.first, "last": stretch.last, "key": key, "checked": stretch.checked })
        });
        let said = json!({
            "state": state, "problem": report.problem.as_ref().map(ToString::to_string).or(forged.cloned()),
            "records": report.records, "batches": report.batches, "segments": report.segments, "bytes": report.bytes,
            "dropped": report.dropped, "unfinished": report.unfinished.is_some(),
            "head": report.head.to_string(), "heads_met": report.met,
            "seals_checked": seals_checked, "sealed": stretches.collect::<Vec<_>>(),
        });
        writeln!(out, "{}", text::json(&said.to_string()))?;
        Ok(u8::from(state != "ok"))
    }

    fn keys(&self, place: &LedgerLocation<'_>) -> anyhow::Result<SealingKeys> {
        if self.key.is_empty() {
            return configured_keys(place.kept()?).with_context(|| {
                format!(
                    "nothing is said of the ledger {}: whether it was forged cannot be told without its key; give it with --key",
                    place.data.display()
                )
            });
        }
        let runtime = runtime()?;
        let mut read = self.key.iter().map(|file| {
            let key = runtime.block_on(ledger::read(&SecretSource::File(file.clone())));
            key.with_context(|| format!("the key in {} cannot be had", file.display()))
        });
        let current = read.next().transpose()?;
        Ok(SealingKeys {
            current,
            previous: read.collect::<anyhow::Result<_>>()?,
            lost: Vec::new(),
        })
    }
}

fn configured_keys(kept: &Ledger) -> anyhow::Result<SealingKeys> {
    let SealConfig {
        key,
        previous,
        lost,
    } = &kept.seal;
    if key.is_none() && previous.is_empty() {
        return Ok(SealingKeys {
            lost: lost.clone(),
            ..SealingKeys::default()
        });
    }
    runtime()?.block_on(ledger::keys(kept))
}

fn read_words(report: &VerifyReport) -> String {
    let batches = if report.batches == 1 {
        "1 batch".to_owned()
    } else {
        format!("{} batches", report.batches)
    };
    let (records, segments) = (
        counted(report.records, "record"),
        counted(report.segments, "segment"),
    );
    format!(
        "{records} in {batches}, {segments}, {}",
        counted(report.bytes, "byte")
    )
}

fn say_rest(report: &VerifyReport, out: &mut dyn Write) -> anyhow::Result<()> {
    let first = report.head.seq - report.records + 1;
    if report.dropped >= first {
        writeln!(
            out,
            "records {first} to {} are in the archive, and follow on the rest",
            report.dropped
        )?;
    }
    if report.dropped > 0 && first > 1 {
        writeln!(
            out,
            "records 1 to {} were dropped; a sealed summary stands for them",
            report.dropped.min(first - 1)
        )?;
    }
    if let Some(begun) = &report.unfinished {
        writeln!(
            out,
            "the last batch is not finished ({} at byte {}): toolgate is writing it, or was killed while it did and \
             cuts it off when it next starts",
            begun.segment, begun.offset
        )?;
    }
    Ok(())
}

/// What the seals prove, and what nothing proves without them.
fn say_seals(report: &VerifyReport, keys: &SealingKeys, out: &mut dyn Write) -> anyhow::Result<()> {
    let sealed = report.stretches.iter().any(|stretch| stretch.key.is_some());
    if keys.is_empty() {
        let why = if sealed {
            "sealed, but without the key the seals are not checked"
        } else {
            "not sealed"
        };
        writeln!(
            out,
            "{why}. Not proved: that nobody who can write the data directory has rewritten an entry and everything after it."
        )?;
    }
    for stretch in &report.stretches {
        let records = format!("records {} to {}", stretch.first, stretch.last);
        match (stretch.key, stretch.checked) {
            (Some(key), true) => {
                writeln!(
                    out,
                    "{records}: sealed with the key `{key}`; nobody without it has changed them"
                )?;
            }
            (Some(key), false) => {
                writeln!(
                    out,
                    "{records}: sealed with the key `{key}`, which is not there to check them"
                )?;
            }
            (None, _) if keys.is_empty() => {}
            (None, _)
                if report
                    .stretches
                    .iter()
                    .any(|later| later.checked && later.first > stretch.last) =>
            {
                writeln!(
                    out,
                    "{records}: not sealed, and as they were when what follows was"
                )?;
            }
            (None, _) => {
                writeln!(
                    out,
                    "{records}: not sealed; a process that can write the data directory can have rewritten them"
                )?;
            }
        }
    }
    Ok(())
}

fn say_heads(kept: &HeadsFile, report: &VerifyReport, out: &mut dyn Write) -> anyhow::Result<()> {
    let met = report.met;
    let passed = report.passed_over;
    match kept.heads.iter().max_by_key(|witness| witness.head.seq) {
        Some(last) if met > 0 => writeln!(
            out,
            "{} kept elsewhere, of which this ledger has every one that is not of dropped records ({passed}); the last is of \
             record {}, {}. Not proved: that nothing after it was cut off",
            counted(kept.heads.len() as u64, "head"),
            last.head.seq,
            last.time
        )?,
        _ => writeln!(
            out,
            "NOTHING PROVED by the heads: none of them is of a record that is still here"
        )?,
    }
    if kept.older > 0 {
        let older = counted(kept.older, "older head");
        writeln!(
            out,
            "{older} of the file not compared: those that are vouch for all that is before them"
        )?;
    }
    if kept.bare > 0 {
        let bare = counted(kept.bare as u64, "head");
        writeln!(
            out,
            "{bare} without a seal that can be checked: a process that can write that file could have written them"
        )?;
    }
    if kept.unreadable > 0 {
        writeln!(
            out,
            "{} of the file hold no head",
            counted(kept.unreadable as u64, "line")
        )?;
    }
    Ok(())
}

/// The heads in `file`, the newest `most` of them. After the first one that is sealed, and with a
/// key that seals, each has to be.
fn read(file: &Path, keys: &SealingKeys, most: usize) -> anyhow::Result<HeadsFile> {
    let opened =
        std::fs::File::open(file).with_context(|| format!("{} cannot be read", file.display()))?;
    if opened.metadata()?.is_dir() {
        bail!(
            "{} is a directory; name the file in it that `ledger.heads.file` has written",
            file.display()
        );
    }
    let mut from = BufReader::new(opened);
    let (mut kept, mut sealed) = (HeadsFile::default(), false);
    for number in 1_u64.. {
        let mut line = Vec::new();
        if (&mut from)
            .take(HEAD_LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)?
            == 0
        {
            break;
        }
        let Some(witness) = Witness::read(line.trim_ascii()) else {
            kept.unreadable += usize::from(!line.trim_ascii().is_empty());
            continue;
        };
        let proof = witness.proof(keys);
        let wrong = match proof {
            HeadProof::Forged => {
                Some("its seal does not fit: someone without the key wrote it".to_owned())
            }
            HeadProof::Unknown(key) => Some(format!(
                "it is sealed with the key `{key}`, which is not given"
            )),
            HeadProof::Bare if sealed && keys.current.is_some() => {
                Some("it is not sealed, though those before it are".to_owned())
            }
            HeadProof::Bare | HeadProof::Sealed => None,
        };
        let named = |wrong| format!("{}, line {number}: {wrong}", file.display());
        kept.forged = kept.forged.or_else(|| wrong.map(named));
        kept.bare += usize::from(proof == HeadProof::Bare);
        sealed |= proof == HeadProof::Sealed;
        if kept.heads.len() == most {
            kept.heads.pop_front();
            kept.older += 1;
        }
        kept.heads.push_back(witness);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The newest heads of a long file stand last, and are the ones that count; what is wrong
    /// before them is still found.
    #[test]
    fn the_newest_heads_of_a_long_file_are_compared() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("heads");
        let hash = "5e".repeat(32);
        let line = |seq: u64| {
            format!("{{\"seq\":{seq},\"hash\":\"{hash}\",\"time\":\"2026-01-01T00:00:00Z\"}}\n")
        };
        std::fs::write(&file, (1..=10).map(line).collect::<String>()).unwrap();
        let kept = read(&file, &SealingKeys::default(), 3).unwrap();
        let seqs: Vec<u64> = kept.heads.iter().map(|witness| witness.head.seq).collect();
        assert_eq!((seqs, kept.older, kept.bare), (vec![8, 9, 10], 7, 10));
    }
}
