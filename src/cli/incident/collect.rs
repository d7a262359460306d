//! `toolgate incident collect`: all that there is about an incident in one file, for who finds out why.

use super::number::incident_number;
use super::{Args, found, place_of};
use crate::cli::configured;
use crate::cli::files;
use crate::cli::ledger::call_filter::since;
use crate::cli::ledger::reading;
use crate::cli::ledger::scoped::ScopedRows;
use crate::cli::ledger::text::{json as escaped, plain};
use crate::cli::operator::{print, refused};
use crate::config::{self, Loaded};
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::model::digest::sha256;
use crate::owners::keep_private;
use crate::policy::compile;
use crate::store::incidents::Incident;
use crate::store::journal::{JournalReader, VerifyOptions, check};
use anyhow::{Context as _, bail};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What the first line says that the file is.
const FORMAT: &str = "toolgate incident bundle 1";
/// How long before an incident was opened its rows begin, unless told otherwise.
const BEFORE: SignedDuration = SignedDuration::from_hours(24);
/// Rows of the ledger.
const MAX_ROWS: usize = 100_000;
/// Bytes of a file of the configuration that is copied.
const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct CollectArgs {
    /// The incident's number
    #[arg(value_parser = incident_number)]
    id: u64,
    /// Where it is written; nothing that is there is replaced [default: incident-ID.jsonl]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Rows of the ledger since then: a time such as 2026-07-28T09:00:00Z, or how long ago, such as 90s, 15m,
    /// 2h, 7d [default: a day before it was opened]
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Rows of the ledger up to then; as --since [default: when it was closed, or now]
    #[arg(long, value_name = "TIME", value_parser = since)]
    until: Option<Timestamp>,
    /// What was written, as one JSON object
    #[arg(long)]
    json: bool,
}

/// What was written.
#[derive(Default)]
struct BundleCount {
    rows: usize,
    left_out: usize,
    files: usize,
}

impl CollectArgs {
    /// Writes the file; 0, or 1 where there is no such incident.
    pub(super) fn run(&self, args: &Args) -> anyhow::Result<u8> {
        let incident = match found(args, self.id)? {
            Ok(incident) => incident,
            Err(why) => return Ok(refused(&why)),
        };
        keep_private();
        let usual = || PathBuf::from(format!("incident-{}.jsonl", self.id));
        let path = self.out.clone().unwrap_or_else(usual);
        let cannot = || format!("{} cannot be written", path.display());
        let mut opening = OpenOptions::new();
        let opening = opening.write(true).create_new(true).mode(0o600);
        let mut out = BufWriter::new(opening.open(&path).with_context(cannot)?);
        let count = self.write(args, &incident, &mut out)?;
        let file = out
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error);
        file.and_then(|file| file.sync_all()).with_context(cannot)?;
        let (rows, files) = (counted(count.rows, "row"), counted(count.files, "file"));
        let shown = plain(&path.display().to_string());
        print(&if self.json {
            let said = json!({ "file": path, "rows": count.rows, "left_out": count.left_out, "files": count.files });
            escaped(&said.to_string()) + "\n"
        } else if count.left_out > 0 {
            let more = counted(count.left_out, "older row");
            format!(
                "{shown}: {rows} of the ledger and {files}; {more} left out: narrow --since and --until\n"
            )
        } else {
            format!("{shown}: {rows} of the ledger and {files}\n")
        })?;
        Ok(0)
    }

    /// Writes line by line: what it is, the incident, files, rows, and where the journal stands.
    fn write(
        &self,
        args: &Args,
        incident: &Incident,
        out: &mut dyn Write,
    ) -> anyhow::Result<BundleCount> {
        let place = place_of(args)?;
        let (since, until) = self.span(incident)?;
        let made = Clock.wall().to_string();
        let head = json!({
            "bundle": FORMAT, "toolgate": env!("CARGO_PKG_VERSION"), "made": made,
            "since": since.to_string(), "until": until.to_string(),
        });
        say(out, &head)?;
        say(out, &json!({ "incident": incident }))?;
        let mut count = BundleCount::default();
        if let Ok(path) = configured::path(args.place.config.as_deref()) {
            count.files = write_files(&path, &place.data, out)?;
        }
        let mut wanted = ScopedRows::of(&incident.scope, since, until);
        let progress = reading();
        let mut rows = std::collections::VecDeque::new();
        for record in JournalReader::after_in(&place.data, None, 0)? {
            progress.step();
            if let Some(line) = wanted.line(&record?)? {
                rows.push_back(line);
            }
            if rows.len() > MAX_ROWS {
                rows.pop_front();
                count.left_out += 1;
            }
        }
        drop(progress);
        count.rows = rows.len();
        for line in rows {
            writeln!(out, "{line}")?;
        }
        let report = check(&place.data, &VerifyOptions::default())?;
        let problem = report.problem.map(|problem| problem.to_string());
        let end = json!({
            "journal": { "head": report.head.to_string(), "records": report.records, "problem": problem },
            "rows": count.rows, "left_out": count.left_out,
        });
        say(out, &end)?;
        Ok(count)
    }

    /// From when to when rows are wanted.
    fn span(&self, incident: &Incident) -> anyhow::Result<(Timestamp, Timestamp)> {
        let opened: Timestamp = incident.opened.parse().context("when it was opened")?;
        let closed = incident.closed.as_ref();
        let closed = closed.and_then(|end| end.at.parse().ok());
        let since = match self.since {
            Some(since) => since,
            None => opened.saturating_sub(BEFORE)?,
        };
        let until = self.until.or(closed).unwrap_or_else(|| Clock.wall());
        if until < since {
            bail!("--until is before --since");
        }
        Ok((since, until))
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
