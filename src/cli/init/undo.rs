//! How an `init` is taken back: first the agent's own configuration, which keeps what its operator
//! added since, then toolgate's files, each as it was before. A file that was changed since stays,
//! with those that it needs; `--force` takes it, too, and keeps a copy.

use super::merge::merge;
use super::record::{InitRecord, RECORD_FILE, WrittenFile};
use super::telling::InitTelling;
use crate::cli::files;
use crate::config::FILE_NAME;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::counted::counted;
use crate::model::digest::sha256;
use crate::model::ids::unguessable;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::{Context as _, bail};
use bytes::Bytes;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Files that are not `init`'s and are named at most.
const MAX_OTHERS_NAMED: usize = 20;

/// Takes the last `init` in `directory` back; with `force` also what was changed since. 1 where
/// something has to stay.
pub(super) fn undo(
    directory: &Path,
    force: bool,
    telling: &mut InitTelling<'_>,
) -> anyhow::Result<u8> {
    let record = read(&directory.join(RECORD_FILE))?;
    let mut undoing = Undoing {
        directory,
        force,
        record: &record,
        copies: None,
        left: Vec::new(),
    };
    // The agent's own file must be back before what it leads to is gone.
    let (agents, own): (Vec<_>, Vec<_>) = record
        .files
        .iter()
        .partition(|written| written.written.is_some());
    for written in agents {
        undoing.agents_own(written, telling);
    }
    let mut needed_by = undoing.left.first().map(|left| left.path.clone());
    // The configuration first: where it stays, so does what it names.
    for written in own {
        if let Some(other) = &needed_by {
            let why = format!(": {} needs it", other.display());
            telling.took_back("kept", &written.path, &why);
            undoing.left.push(written.clone());
        } else if !undoing.toolgates_own(written, telling) && written.path == Path::new(FILE_NAME) {
            needed_by = Some(written.path.clone());
        }
    }
    undoing.end(telling)
}

fn read(path: &Path) -> anyhow::Result<InitRecord> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) => bail!("there is no init to take back: {}: {error}", path.display()),
    };
    let read = Text::read(Bytes::from(text), &SERVER_JSON_LIMITS)
        .ok()
        .and_then(|text| text.parse::<InitRecord>().ok());
    read.with_context(|| {
        format!(
            "{} is not as init wrote it; nothing was taken back",
            path.display()
        )
    })
}

/// What became of a file, as a line begins, and how it goes on.
struct BackTaken {
    change: &'static str,
    more: String,
}

struct Undoing<'a> {
    directory: &'a Path,
    force: bool,
    record: &'a InitRecord,
    /// Where copies of what was changed since are, once there are some.
    copies: Option<PathBuf>,
    left: Vec<WrittenFile>,
}

impl Undoing<'_> {
    /// The agent's own configuration.
    fn agents_own(&mut self, written: &WrittenFile, telling: &mut InitTelling<'_>) {
        let path = self.directory.join(&written.path);
        let why = match self.agents_own_back(&path, written, telling) {
            Ok(true) => return,
            Ok(false) => ": it leads to toolgate still; --force takes that, too".to_owned(),
            Err(why) => format!(": {why:#}"),
        };
        telling.took_back("kept", &path, &why);
        self.left.push(written.clone());
    }

    /// Whether it leads to toolgate no more.
    fn agents_own_back(
        &mut self,
        path: &Path,
        written: &WrittenFile,
        telling: &mut InitTelling<'_>,
    ) -> anyhow::Result<bool> {
        let Some(now) = present(path)? else {
            telling.took_back("gone", path, "");
            return Ok(true);
        };
        let kept = |kept: &Option<PathBuf>| -> anyhow::Result<Vec<u8>> {
            let kept = kept.as_deref().context("nothing was kept")?;
            fs::read(kept).with_context(|| format!("{} cannot be read", kept.display()))
        };
        let before = kept(&written.backup)?;
        if now == before {
            telling.took_back("restored", path, ": it was so already");
            return Ok(true);
        }
        if sha256(&now) == written.sha256 {
            files::replace(path, &before, PRIVATE_FILE_MODE)?;
            telling.took_back("restored", path, "");
            return Ok(true);
        }
        let base = kept(&written.written)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).context("it is not UTF-8");
        let merged = merge(&text(&before)?, &text(&base)?, &text(&now)?, self.force);
        let merged = merged.map_err(|why| {
            let backup = written.backup.as_deref().unwrap_or(Path::new(""));
            anyhow::anyhow!("{why}; what it was is in {}", backup.display())
        })?;
        let copy = self.copy(path, &now)?;
        files::replace(path, merged.text.as_bytes(), PRIVATE_FILE_MODE)?;
        let why = format!(
            ", and kept what was changed since (as it was: {})",
            copy.display()
        );
        telling.took_back("restored", path, &why);
        for note in &merged.notes {
            telling.detail(note);
        }
        Ok(merged.leading.is_empty())
    }

    /// One of toolgate's files; whether it is as it was before.
    fn toolgates_own(&mut self, written: &WrittenFile, telling: &mut InitTelling<'_>) -> bool {
        let path = self.directory.join(&written.path);
        match self.toolgates_own_back(&path, written) {
            Ok(BackTaken { change, more }) => {
                telling.took_back(change, &path, &more);
                true
            }
            Err(why) => {
                telling.took_back("kept", &path, &format!(": {why:#}"));
                self.left.push(written.clone());
                false
            }
        }
    }

    fn toolgates_own_back(
        &mut self,
        path: &Path,
        written: &WrittenFile,
    ) -> anyhow::Result<BackTaken> {
        let taken = |change, more| Ok(BackTaken { change, more });
        let now = present(path)?;
        let before = match &written.backup {
            Some(backup) => Some(
                fs::read(backup).with_context(|| format!("{} cannot be read", backup.display()))?,
            ),
            None => None,
        };
        if now == before {
            return match now {
                Some(_) => taken("restored", ": it was so already".to_owned()),
                None => taken("gone", String::new()),
            };
        }
        let mut copied = String::new();
        if let Some(now) = &now
            && sha256(now) != written.sha256
        {
            if !self.force {
                bail!("it was changed since");
            }
            let copy = self.copy(path, now)?;
            copied = format!(", which was changed since (as it was: {})", copy.display());
        }
        let Some(before) = before else {
            fs::remove_file(path).context("it cannot be removed")?;
            return taken("removed", copied);
        };
        files::replace(path, &before, PRIVATE_FILE_MODE)?;
        taken("restored", copied)
    }

    /// Keeps what the operator has made of a file.
    fn copy(&mut self, path: &Path, now: &[u8]) -> anyhow::Result<PathBuf> {
        let directory = match self.copies.take() {
            Some(directory) => directory,
            None => self.place_for_copies()?,
        };
        self.copies = Some(directory.clone());
        let name = path.file_name().unwrap_or_default();
        let mut copy = directory.join(name);
        for number in 2.. {
            if !copy.exists() {
                break;
            }
            copy = directory.join(format!("{number}-{}", name.to_string_lossy()));
        }
        files::replace(&copy, now, PRIVATE_FILE_MODE)?;
        Ok(copy)
    }

    fn place_for_copies(&self) -> anyhow::Result<PathBuf> {
        let base = match &self.record.backups {
            Some(backups) => backups.clone(),
            None => files::state_directory()?.join("backups"),
        };
        let chance = unguessable();
        let directory = base.join(format!("undone-{}", &chance[..8]));
        files::private_directory(&directory)?;
        Ok(directory)
    }

    /// Says what is left, and keeps the record of what can be taken back later.
    fn end(self, telling: &mut InitTelling<'_>) -> anyhow::Result<u8> {
        // Only where nothing else is in them.
        for emptied in ["policies/tests", "policies"] {
            drop(fs::remove_dir(self.directory.join(emptied)));
        }
        others(self.directory, self.record, telling);
        telling.keeps(self.copies.as_ref());
        let path = self.directory.join(RECORD_FILE);
        if self.left.is_empty() {
            fs::remove_file(&path)
                .with_context(|| format!("{} cannot be removed", path.display()))?;
            if let Some(backups) = &self.record.backups
                && self.copies.is_none()
                && !holds_copies(backups)
            {
                // What is no backup any more held secrets.
                drop(fs::remove_dir_all(backups));
            }
            telling.line("everything that init did is undone");
            return Ok(0);
        }
        let one = self.left.len() == 1;
        telling.problem_line(&format!(
            "{} {} kept: go on with what is there, or `toolgate init --undo --force` takes {} back, too, and keeps a copy",
            counted(self.left.len(), "file"),
            if one { "is" } else { "are" },
            if one { "it" } else { "them" },
        ));
        let keep = InitRecord {
            files: self.left,
            backups: self.record.backups.clone(),
        };
        keep.keep(self.directory)?;
        Ok(1)
    }
}

/// Whether an earlier undo has kept there what the operator had changed.
fn holds_copies(backups: &Path) -> bool {
    let Ok(entries) = fs::read_dir(backups) else {
        return true;
    };
    let mut names = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("undone-"))
}

/// Names what toolgate or the operator wrote since.
fn others(directory: &Path, record: &InitRecord, telling: &mut InitTelling<'_>) {
    let within = |below: &str| {
        let entries = fs::read_dir(directory.join(below)).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .map(|entry| Path::new(below).join(entry.file_name()))
            .collect();
        paths.sort();
        paths
    };
    for path in within("") {
        let name = path.to_string_lossy().into_owned();
        if name.starts_with("toolgate-data") && directory.join(&path).is_dir() {
            let left = directory.join(&path);
            let shown = left.display();
            let why = format!(": the ledger of all calls; `rm -r {shown}` removes it for good");
            telling.took_back("left", &left, &why);
        }
    }
    let mut others: Vec<PathBuf> = ["policies", "policies/tests"]
        .into_iter()
        .flat_map(within)
        .collect();
    others.retain(|path| {
        let is_known = record.files.iter().any(|written| written.path == *path);
        !is_known && directory.join(path).is_file()
    });
    for path in others.iter().take(MAX_OTHERS_NAMED) {
        let left = directory.join(path);
        telling.took_back("left", &left, ": init did not write it");
    }
}

/// What a file holds, if it is there.
fn present(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(now) => Ok(Some(now)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("it cannot be read"),
    }
}
