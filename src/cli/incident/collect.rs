//! `toolgate incident collect`: all that there is about an incident in one file, for who finds out why.

use super::evidence::LedgerEvidence;
use super::number::incident_number;
use super::place::IncidentPlace;
use super::{Args, found};
use crate::cli::configured;
use crate::cli::ledger::call_filter::since;
use crate::cli::ledger::text::{json as escaped, plain};
use crate::cli::operator::{print, refused};
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::owners::keep_private;
use crate::store::incidents::{BundleCount, BundleSpan, Incident};
use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Why no archive is named of another toolgate.
const DOORS_ARCHIVE: &str =
    "the running toolgate reads the archive of its own configuration; leave out --archive";
/// Bytes of a bundle's last line.
const LAST_LINE_BYTES_MAX: u64 = 4 << 10;

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
    /// Where segments are that the ledger does not need any more; they are read where the ledger begins after
    /// --since [default: as in the configuration]
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// What was written, as one JSON object
    #[arg(long)]
    json: bool,
}

impl CollectArgs {
    /// Writes the file; 0, or 1 where there is no such incident.
    pub(super) fn run(&self, args: &Args) -> anyhow::Result<u8> {
        let place = IncidentPlace::of(args)?;
        let incident = match found(&place, self.id)? {
            Ok(incident) => incident,
            Err(why) => return Ok(refused(&why)),
        };
        if let Err(why) = self.span().of(&incident, Clock.wall()) {
            return Ok(refused(&why));
        }
        keep_private();
        let usual = || PathBuf::from(format!("incident-{}.jsonl", self.id));
        let path = self.out.clone().unwrap_or_else(usual);
        let kept = keep(&path, |file| self.write(args, &place, &incident, file))?;
        match kept {
            Ok(count) => self.say(&path, count).map(|()| 0),
            Err(why) => Ok(refused(&why)),
        }
    }

    fn span(&self) -> BundleSpan {
        let (since, until) = (self.since, self.until);
        BundleSpan { since, until }
    }

    /// Writes it from the ledger that is here, or as the door hands it out; in words, why that refuses.
    fn write(
        &self,
        args: &Args,
        place: &IncidentPlace<'_>,
        incident: &Incident,
        file: &mut BufWriter<File>,
    ) -> anyhow::Result<Result<(), String>> {
        match place {
            IncidentPlace::Here(place) => {
                let configured = || place.ledger.as_ref().ok()?.archive.clone();
                let evidence = LedgerEvidence {
                    config: configured::path(args.place.config.as_deref()).ok(),
                    data: place.data.clone(),
                    archive: self.archive.clone().or_else(configured),
                    is_watched: true,
                };
                evidence.write(incident, self.span(), file)?;
                Ok(Ok(()))
            }
            IncidentPlace::Door(_) if self.archive.is_some() => Ok(Err(DOORS_ARCHIVE.to_owned())),
            IncidentPlace::Door(door) => {
                let times = [("since", self.since), ("until", self.until)];
                let asked = times.into_iter().filter_map(|(key, time)| {
                    let time = time?;
                    Some(format!("{key}={time}"))
                });
                let asked: Vec<String> = asked.collect();
                let query = if asked.is_empty() {
                    String::new()
                } else {
                    format!("?{}", asked.join("&"))
                };
                let path = format!("/api/incidents/{}/bundle{query}", self.id);
                door.save(path, file)
            }
        }
    }

    fn say(&self, path: &Path, count: BundleCount) -> anyhow::Result<()> {
        let (rows, files) = (counted(count.rows, "row"), counted(count.files, "file"));
        let shown = plain(&path.display().to_string());
        if self.json {
            let said = json!({
                "file": path, "rows": count.rows, "left_out": count.left_out, "missing": count.missing, "files": count.files,
            });
            return print(&(escaped(&said.to_string()) + "\n"));
        }
        let mut words = vec![format!("{shown}: {rows} of the ledger and {files}")];
        if count.left_out > 0 {
            let more = counted(count.left_out, "older row");
            words.push(format!("{more} left out: narrow --since and --until"));
        }
        if count.missing > 0 {
            let records = counted(count.missing, "record");
            words.push(format!(
                "of that time or before, {records} dropped and not read: name their archive with --archive, or narrow --since"
            ));
        }
        print(&(words.join("; ") + "\n"))
    }
}

/// Has the file at `path` written, which must not be there; what it says at its end. Of one that is not written
/// to its end nothing stays, so that nobody takes it for whole, and it can be asked for again.
fn keep(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<Result<(), String>>,
) -> anyhow::Result<Result<BundleCount, String>> {
    let cannot = || format!("{} cannot be written", path.display());
    let mut opening = OpenOptions::new();
    let opening = opening.read(true).write(true).create_new(true).mode(0o600);
    let mut out = BufWriter::new(opening.open(path).with_context(cannot)?);
    let written = write(&mut out).and_then(|done| match done {
        Ok(()) => {
            out.flush().with_context(cannot)?;
            out.get_ref().sync_all().with_context(cannot)?;
            last_line(out.get_mut()).map(Ok)
        }
        Err(why) => Ok(Err(why)),
    });
    if !matches!(written, Ok(Ok(_))) {
        drop(std::fs::remove_file(path));
    }
    written
}

/// What the last line says is in the bundle; an error where that is no last line.
fn last_line(file: &mut File) -> anyhow::Result<BundleCount> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_LINE_BYTES_MAX)))?;
    let mut end = Vec::new();
    file.take(LAST_LINE_BYTES_MAX).read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end);
    let last = end.strip_suffix('\n').and_then(|end| end.lines().last());
    let last: Option<Value> = last.and_then(|last| serde_json::from_str(last).ok());
    let Some(last) = last.filter(|last| last.get("journal").is_some()) else {
        bail!("the bundle broke off before its end, and nothing of it is kept; ask again");
    };
    let count = |key: &str| {
        let count = last.get(key).and_then(Value::as_u64);
        count.unwrap_or_default()
    };
    let several = |key: &str| usize::try_from(count(key)).unwrap_or(usize::MAX);
    Ok(BundleCount {
        rows: several("rows"),
        left_out: several("left_out"),
        missing: count("missing"),
        files: several("files"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str =
        "{\"journal\":{\"head\":\"1:ab\"},\"rows\":3,\"left_out\":2,\"missing\":4,\"files\":1}\n";

    /// What is not whole is not kept, whatever stops it: a disk that is full, a door that breaks off or refuses.
    #[test]
    fn half_a_bundle_is_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bundle.jsonl");
        let head = "{\"bundle\":\"x\"}\n";
        let failed = keep(&path, |file| {
            file.write_all(head.as_bytes())?;
            bail!("no space left on device")
        });
        assert!(failed.unwrap_err().to_string().contains("no space"));
        assert!(!path.exists());
        for end in ["", head, "{\"journal\":1", "{\"journal\":{}}"] {
            let broken = keep(&path, |file| {
                file.write_all(format!("{head}{end}").as_bytes())?;
                Ok(Ok(()))
            });
            let words = broken.unwrap_err().to_string();
            assert!(words.contains("broke off"), "{end}: {words}");
            assert!(!path.exists(), "{end}");
        }
        let refused = keep(&path, |_| Ok(Err("not yours".to_owned())));
        assert_eq!(refused.unwrap(), Err("not yours".to_owned()));
        assert!(!path.exists());

        let count = BundleCount {
            rows: 3,
            left_out: 2,
            missing: 4,
            files: 1,
        };
        let whole = || {
            keep(&path, |file| {
                file.write_all(format!("{head}{END}").as_bytes())?;
                Ok(Ok(()))
            })
        };
        assert_eq!(whole().unwrap(), Ok(count));
        assert!(whole().is_err(), "nothing is replaced");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{head}{END}"));
    }
}
