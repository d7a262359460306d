//! What there is about an incident, line by line: for a file here, and for the operators' door.

use crate::cli::configured;
use crate::cli::files;
use crate::cli::ledger::reading;
use crate::cli::ledger::recorded;
use crate::cli::ledger::remaining::RemainingRecords;
use crate::cli::ledger::scoped::ScopedRows;
use crate::cli::ledger::text::{json as escaped, plain};
use crate::config::{self, Config, Loaded};
use crate::model::clock::Clock;
use crate::model::digest::sha256;
use crate::model::entry::Entry;
use crate::policy::compile;
use crate::store::incidents::{BundleCount, BundleSpan, Incident, IncidentEvidence};
use crate::store::journal::{VerifyOptions, check};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the first line says that the file is.
const FORMAT: &str = "toolgate incident bundle 1";
/// Rows of the ledger …
const MAX_ROWS: usize = 100_000;
/// … and their bytes.
const ROWS_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a file of the configuration that is copied.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// That of one toolgate.
pub(in crate::cli) struct LedgerEvidence {
    /// Its configuration, if it has one.
    pub(super) config: Option<PathBuf>,
    /// Its data directory.
    pub(super) data: PathBuf,
    /// Where old segments of its ledger are.
    pub(super) archive: Option<PathBuf>,
    /// Whether a person at a terminal sees how far the ledger is read.
    pub(super) is_watched: bool,
}

/// Which rows are wanted, before it is known how many there are.
struct WantedRows<'a> {
    scope: &'a str,
    since: Timestamp,
    until: Timestamp,
}

/// What was read of the ledger.
struct ReadRecords {
    /// Records that are nowhere.
    missing: u64,
    /// The archive, where it was needed.
    archive: Option<PathBuf>,
}

/// The rows that are written: the newest, as many as may be.
#[derive(Debug, Default)]
struct KeptRows {
    /// Where they stand and how long they are, the oldest first.
    kept: VecDeque<(u64, u64)>,
    bytes: u64,
    left_out: usize,
}

/// That of the toolgate with this configuration, which may have been read from a file.
pub(in crate::cli) fn of(path: Option<PathBuf>, config: &Config) -> Arc<dyn IncidentEvidence> {
    Arc::new(LedgerEvidence {
        config: path,
        data: config.data.clone(),
        archive: config.ledger.archive.clone(),
        is_watched: false,
    })
}

impl IncidentEvidence for LedgerEvidence {
    fn bundle(
        &self,
        incident: &Incident,
        span: BundleSpan,
        out: &mut dyn Write,
    ) -> Result<BundleCount, String> {
        let written = self.write(incident, span, out);
        written.map_err(|error| plain(&format!("{error:#}")))
    }

    fn call(&self, id: &str) -> Result<Entry, String> {
        let progress = self.is_watched.then(reading);
        let archive = self.archive.as_deref();
        let found = recorded::find_in(&self.data, archive, id, progress.as_ref());
        found.map_err(|error| plain(&format!("{error:#}")))
    }
}

impl LedgerEvidence {
    /// Writes line by line: what it is, the incident, files, rows, and where the journal stands.
    pub(super) fn write(
        &self,
        incident: &Incident,
        span: BundleSpan,
        out: &mut dyn Write,
    ) -> anyhow::Result<BundleCount> {
        let now = Clock.wall();
        let (since, until) = span.of(incident, now).map_err(anyhow::Error::msg)?;
        let head = json!({
            "bundle": FORMAT, "toolgate": env!("CARGO_PKG_VERSION"), "made": now.to_string(),
            "since": since.to_string(), "until": until.to_string(),
        });
        say(out, &head)?;
        say(out, &json!({ "incident": incident }))?;
        let mut count = BundleCount::default();
        if let Some(path) = &self.config {
            count.files = write_files(path, &self.data, out)?;
        }
        // Who reads it sees that it comes, however long the ledger is.
        out.flush()?;
        let scope = &incident.scope;
        let wanted = WantedRows {
            scope,
            since,
            until,
        };
        let against = VerifyOptions {
            archive: self.write_rows(&wanted, &mut count, out)?,
            ..VerifyOptions::default()
        };
        let report = check(&self.data, &against)?;
        let problem = report.problem.map(|problem| problem.to_string());
        let end = json!({
            "journal": { "head": report.head.to_string(), "records": report.records, "problem": problem },
            "rows": count.rows, "left_out": count.left_out, "missing": count.missing, "files": count.files,
        });
        say(out, &end)?;
        Ok(count)
    }

    /// Reads the ledger twice, so that no more of it is in memory than one row; the archive, where it is read.
    fn write_rows(
        &self,
        wanted: &WantedRows<'_>,
        count: &mut BundleCount,
        out: &mut dyn Write,
    ) -> anyhow::Result<Option<PathBuf>> {
        let mut rows = KeptRows::default();
        let mut read = self.each_row(wanted, |seq, line| {
            rows.add(seq, line.len() as u64 + 1);
            Ok(())
        })?;
        let kept = rows.kept.front().zip(rows.kept.back());
        if let Some(((first, _), (last, _))) = kept {
            // What has come since is of no incident that is looked at now.
            read = self.each_row(wanted, |seq, line| {
                if (*first..=*last).contains(&seq) {
                    count.rows += 1;
                    writeln!(out, "{line}")?;
                }
                Ok(())
            })?;
        }
        count.left_out = rows.left_out;
        count.missing = read.missing;
        Ok(read.archive)
    }

    fn each_row(
        &self,
        wanted: &WantedRows<'_>,
        mut each: impl FnMut(u64, &str) -> anyhow::Result<()>,
    ) -> anyhow::Result<ReadRecords> {
        let mut scoped = ScopedRows::of(wanted.scope, wanted.since, wanted.until);
        let progress = self.is_watched.then(reading);
        let archive = self.archive.as_deref();
        let mut records = RemainingRecords::since(&self.data, archive, wanted.since)?;
        for record in records.by_ref() {
            if let Some(progress) = &progress {
                progress.step();
            }
            let record = record?;
            if let Some(line) = scoped.line(&record)? {
                each(record.seq, &line)?;
            }
        }
        Ok(ReadRecords {
            missing: records.missing(),
            archive: records.archive().map(Path::to_owned),
        })
    }
}

impl KeptRows {
    fn add(&mut self, seq: u64, bytes: u64) {
        self.kept.push_back((seq, bytes));
        self.bytes += bytes;
        while self.kept.len() > MAX_ROWS || self.bytes > ROWS_BYTES_MAX {
            let Some((_, oldest)) = self.kept.pop_front() else {
                return;
            };
            self.bytes -= oldest;
            self.left_out += 1;
        }
    }
}

/// The policies and the pin file whole, of the configuration its hash, since secrets may stand in it; how many
/// files.
fn write_files(path: &Path, data: &Path, out: &mut dyn Write) -> anyhow::Result<usize> {
    let loaded = config::load_supposing(path);
    let pins = loaded
        .config
        .as_ref()
        .and_then(|config| config.pins.as_ref());
    let pins = pins.map(|pins| pins.file.clone());
    let mut policies: Vec<PathBuf> = loaded.reading.files.iter().cloned().collect();
    policies.retain(|file| file != path && Some(file) != pins.as_ref());
    let bytes = files::read(path, FILE_BYTES_MAX)?;
    let mut count = 1;
    say(
        out,
        &json!({ "file": path, "kind": "configuration", "sha256": sha256(&bytes) }),
    )?;
    for document in compile::documents(&policies) {
        let text = document.text();
        let (file, hash) = (document.file(), sha256(text.as_bytes()));
        say(
            out,
            &json!({ "file": file, "kind": "policy", "sha256": hash, "text": text }),
        )?;
        count += 1;
    }
    if let Some(file) = pins
        && let Ok(bytes) = files::read(&file, FILE_BYTES_MAX)
    {
        let text = String::from_utf8_lossy(&bytes);
        say(
            out,
            &json!({ "file": file, "kind": "pins", "sha256": sha256(&bytes), "text": text }),
        )?;
        count += 1;
    }
    say(out, &version(loaded, data))?;
    Ok(count)
}

/// The version of what the files say now, and of what is in force with what is taken away.
fn version(loaded: Loaded, data: &Path) -> Value {
    let written = loaded
        .reading
        .policy
        .as_ref()
        .map(|policy| policy.written.clone());
    let in_force = configured::in_force(loaded, data).ok();
    json!({ "policy": { "written": written, "in_force": in_force.map(|policy| policy.version) } })
}

fn say(out: &mut dyn Write, line: &Value) -> anyhow::Result<()> {
    writeln!(out, "{}", escaped(&line.to_string()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
    use crate::store::journal::{Journal, JournalOptions, Retention};
    use std::time::Duration;

    fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
        let text = Text::read(value.to_string().into(), &AGENT_JSON_LIMITS);
        text.unwrap().parse().unwrap()
    }

    /// A call of the frozen tool in that minute.
    fn call(minute: u64) -> Entry {
        read(&json!({
            "time": format!("2026-07-28T09:{minute:02}:00Z"), "action_id": format!("0198f1a2-{minute:04x}-7000-8000-00000000000a"),
            "request_id": "1", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "user_id": "billing", "roles": [],
            "revision": "2026-07-28", "tool": "mail__send", "params_hash": "a".repeat(64), "actions": [], "state": "execute",
            "event": "exit", "outcome": "answered", "stage": "dispatch", "latency_ms": 12.5, "gate_ms": 0.4,
            "upstream_ms": 12.1, "policy": "3f9a1c",
        }))
    }

    /// 003-41: rows whose segments are in the archive are in the bundle; without the archive it says how many
    /// records it lacks.
    #[tokio::test]
    async fn archived_rows_are_in_the_bundle() {
        let (data, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = JournalOptions {
            segment_bytes: 400,
            reserve_bytes: 0,
            ..JournalOptions::default()
        };
        let journal = Journal::open(data.path(), options).unwrap();
        for minute in 1..=12 {
            journal.record(call(minute)).unwrap();
            journal.flush().await.unwrap();
        }
        let retention = Retention {
            upto: 6,
            age: Duration::ZERO,
            archive: Some(archive.path()),
        };
        let dropped = journal.compact(retention, std::iter::empty()).await;
        let dropped = dropped.unwrap().unwrap().last;
        journal.close().await.unwrap();
        let incident: Incident = read(&json!({
            "id": 1, "state": "open", "scope": "mail__*", "who": "ann", "why": "w", "opened": "2026-07-28T09:30:00Z",
            "tools": [], "settled": true, "voided": 0, "revoked": 0, "samples": [], "timeline": [], "more": 0,
        }));
        for (archive, rows, missing) in
            [(Some(archive.path()), 12, 0), (None, 12 - dropped, dropped)]
        {
            let evidence = LedgerEvidence {
                config: None,
                data: data.path().to_owned(),
                archive: archive.map(Path::to_owned),
                is_watched: false,
            };
            let mut out = Vec::new();
            let span = BundleSpan {
                since: None,
                until: "2026-07-28T10:00:00Z".parse().ok(),
            };
            let count = evidence.write(&incident, span, &mut out);
            let count = count.unwrap();
            assert_eq!((count.rows as u64, count.missing), (rows, missing));
            let text = String::from_utf8(out).unwrap();
            let end: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            assert_eq!(
                (&end["missing"], &end["journal"]["problem"]),
                (&json!(missing), &Value::Null)
            );
        }
    }

    /// The newest rows are kept, as many as may be, and no more bytes than may be, however long one is.
    #[test]
    fn rows_of_a_huge_ledger_have_bounds() {
        let mut rows = KeptRows::default();
        for seq in 1..=MAX_ROWS as u64 + 7 {
            rows.add(seq, 3);
        }
        let places = |rows: &KeptRows| {
            let (first, last) = (rows.kept.front(), rows.kept.back());
            first.zip(last).map(|(first, last)| (first.0, last.0))
        };
        assert_eq!(places(&rows), Some((8, MAX_ROWS as u64 + 7)));
        assert_eq!((rows.left_out, rows.bytes), (7, 3 * MAX_ROWS as u64));

        let mut rows = KeptRows::default();
        for seq in 1..=9 {
            rows.add(seq, ROWS_BYTES_MAX / 4 + 1);
            assert!(rows.bytes <= ROWS_BYTES_MAX);
        }
        assert_eq!(places(&rows), Some((7, 9)));
        rows.add(10, ROWS_BYTES_MAX + 1);
        assert_eq!((places(&rows), rows.left_out), (None, 10));
    }
}
