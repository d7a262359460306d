//! How an `init` is taken back: first the agent's own configuration, which keeps what its operator
//! added since, then toolgate's files, each as it was before. A file that was changed since stays,
//! with those that it needs; `--force` takes it, too, and keeps a copy.

use super::draft_files::remove_leftovers;
use super::init_record::{InitRecord, REPLACED_BYTES_MAX, WrittenFile};
use super::merge::{MergedConfig, merge, names_no_server};
use super::record::DIRECTORIES;
use super::record_place::RecordPlace;
use super::telling::InitTelling;
use crate::cli::files;
use crate::config::FILE_NAME;
use crate::model::counted::counted;
use crate::model::digest::sha256;
use crate::model::ids::unguessable;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::{Context as _, bail};
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
    let place = RecordPlace::of(directory)?;
    // Told without a lock, which needs a place to be.
    if !place.is_taken() {
        // One that was killed before it wrote has no record, and may have left its draft.
        if let Ok(_alone) = files::alone(&directory.join(FILE_NAME)) {
            remove_leftovers(directory);
        }
        return place.read().map(|_| 0);
    }
    let _alone = place.alone()?;
    remove_leftovers(directory);
    let record = place.read()?;
    let mut undoing = Undoing {
        directory,
        place: &place,
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

/// What became of a file, as a line begins, and how it goes on.
struct BackTaken {
    change: &'static str,
    more: String,
}

struct Undoing<'a> {
    directory: &'a Path,
    place: &'a RecordPlace,
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
        let before = aside(written.backup.as_deref())?;
        if now == before {
            telling.took_back("restored", path, ": it was so already");
            return Ok(true);
        }
        if sha256(&now) == written.sha256 {
            put_back(path, &before, written)?;
            telling.took_back("restored", path, "");
            return Ok(true);
        }
        let merged = match merged(&before, written, &now, self.force) {
            Ok(merged) => merged,
            Err(_) if self.force => return self.agents_whole_back(path, written, telling),
            Err(_) if names_no_server(&now) => {
                let why = ": it names no tool server any more, and stays so";
                telling.took_back("left", path, why);
                return Ok(true);
            }
            Err(why) => {
                let backup = written.backup.as_deref().unwrap_or(Path::new(""));
                bail!("{why:#}; what it was is in {}", backup.display());
            }
        };
        let copy = self.copy(path, &now)?;
        put_back(path, merged.text.as_bytes(), written)?;
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

    /// The agent's own configuration as it was before, where what was changed since cannot be told from
    /// what `init` wrote.
    fn agents_whole_back(
        &mut self,
        path: &Path,
        written: &WrittenFile,
        telling: &mut InitTelling<'_>,
    ) -> anyhow::Result<bool> {
        let now = present(path)?.unwrap_or_default();
        let before = aside(written.backup.as_deref())?;
        let copy = self.copy(path, &now)?;
        put_back(path, &before, written)?;
        let why = format!(
            ", without what was changed since (as it was: {})",
            copy.display()
        );
        telling.took_back("restored", path, &why);
        Ok(true)
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
            Some(backup) => Some(aside(Some(backup))?),
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
        put_back(path, &before, written)?;
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
        for emptied in DIRECTORIES {
            drop(fs::remove_dir(self.directory.join(emptied)));
        }
        others(self.directory, self.record, telling);
        telling.keeps(self.copies.as_ref());
        if self.left.is_empty() {
            self.place.forget()?;
            let backups = self.record.backups.as_deref();
            if self.copies.is_none() && !backups.is_some_and(holds_copies) {
                self.record.remove_backups();
            }
            telling.line("everything that init did is undone");
            return Ok(0);
        }
        let one = self.left.len() == 1;
        let (are, them) = if one { ("is", "it") } else { ("are", "them") };
        let number = counted(self.left.len(), "file");
        let record = self.place.path().display();
        telling.problem_line(&if self.force {
            format!("{number} {are} kept: mend {them} by hand; `rm {record}` forgets this init then")
        } else {
            format!(
                "{number} {are} kept: go on with what is there, or `toolgate init --undo --force` takes {them} back, too, and keeps a copy"
            )
        });
        self.place.keep(&InitRecord {
            files: self.left,
            ..self.record.clone()
        })?;
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

/// What was kept of a file.
fn aside(kept: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let kept = kept.context("nothing was kept")?;
    files::read(kept, REPLACED_BYTES_MAX)
        .with_context(|| format!("{} cannot be read", kept.display()))
}

/// What becomes of an agent's own configuration that was changed since.
fn merged(
    before: &[u8],
    written: &WrittenFile,
    now: &[u8],
    force: bool,
) -> anyhow::Result<MergedConfig> {
    let base = aside(written.written.as_deref())?;
    let text = |bytes| std::str::from_utf8(bytes).context("it is not UTF-8");
    merge(text(before)?, text(&base)?, text(now)?, force).map_err(anyhow::Error::msg)
}

/// Writes a file that was there before, with the rights that it gave then.
fn put_back(path: &Path, text: &[u8], written: &WrittenFile) -> anyhow::Result<()> {
    match written.mode {
        Some(mode) => files::replace_as(path, text, mode),
        None => files::replace(path, text, PRIVATE_FILE_MODE),
    }
}

/// What a file holds, if it is there.
fn present(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match files::read(path, REPLACED_BYTES_MAX) {
        Ok(now) => Ok(Some(now)),
        // A file that stands where its directory was has nothing below it.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error).context("it cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was never written, because something else stands where its directory should be, is gone.
    #[test]
    fn what_a_file_stands_in_place_of_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("policies");
        assert_eq!(present(&file.join("a.yaml")).unwrap(), None);
        fs::write(&file, "mine").unwrap();
        assert_eq!(present(&file.join("a.yaml")).unwrap(), None);
        assert_eq!(present(&file).unwrap().as_deref(), Some(&b"mine"[..]));
    }
}
