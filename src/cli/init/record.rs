//! How `init` writes its files, and what it records of them.

use super::init_record::{InitRecord, REPLACED_BYTES_MAX, WrittenFile};
use super::record_place::RecordPlace;
use crate::cli::files;
use crate::model::digest::sha256;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::{Context as _, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// The directories that `init` makes beside the configuration, the inner one first.
pub(super) const DIRECTORIES: [&str; 2] = ["policies/tests", "policies"];

/// One file to write.
pub(super) struct NewFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Whether it is the agent's own configuration.
    pub(super) is_agents: bool,
    /// What the agent's own configuration said when it was read, from which `text` was made.
    pub(super) read_as: Option<String>,
}

impl NewFile {
    /// One of toolgate's.
    pub(super) fn own(path: PathBuf, text: String) -> Self {
        Self {
            path,
            text,
            is_agents: false,
            read_as: None,
        }
    }

    /// An error where the file was changed since it was read: what was added to it would be lost.
    fn still_as_read(&self) -> anyhow::Result<()> {
        let Some(read_as) = &self.read_as else {
            return Ok(());
        };
        let shown = self.path.display();
        let now = files::read(&self.path, REPLACED_BYTES_MAX)
            .with_context(|| format!("nothing was written: {shown} cannot be read any more"))?;
        if now != read_as.as_bytes() {
            bail!(
                "nothing was written: {shown} was changed while the tool servers were asked; do the same again"
            );
        }
        Ok(())
    }

    /// Writes it, and makes the directories above it that are not there.
    fn put_with_parents(&self) -> anyhow::Result<()> {
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("{} cannot be made", parent.display()))?;
        }
        self.put()
    }

    /// The mode to write it with: an agent's own file keeps the rights that its owner gave.
    fn put(&self) -> anyhow::Result<()> {
        match files::mode_of(&self.path).filter(|_| self.is_agents) {
            Some(mode) => files::replace_as(&self.path, self.text.as_bytes(), mode),
            None => files::replace(&self.path, self.text.as_bytes(), PRIVATE_FILE_MODE),
        }
    }
}

/// Why no file can be written to `path`, whatever is there may be replaced; none: nothing is seen that is in the way.
pub(super) fn obstacle(path: &Path) -> Option<String> {
    let shown = path.display();
    if leads_nowhere(path) {
        return Some(format!("{shown} is a link that leads nowhere"));
    }
    if path.is_dir() {
        return Some(format!("{shown} is a directory"));
    }
    let mut above = path.ancestors().skip(1);
    above.find_map(|above| {
        let shown = above.display();
        match fs::metadata(above) {
            Ok(known) if !known.is_dir() => Some(format!("{shown} is no directory")),
            Err(_) if leads_nowhere(above) => Some(format!("{shown} is a link that leads nowhere")),
            Ok(_) | Err(_) => None,
        }
    })
}

fn leads_nowhere(path: &Path) -> bool {
    path.is_symlink() && fs::canonicalize(path).is_err()
}

/// Writes `files` as if at once, into `directory`: what they replace is kept first, then the record of
/// all is written to `place`, then each of them whole. Where one cannot be written, all is as it was before, and the
/// error says so, or how that is done. The caller has `place` to itself.
pub(super) fn write(
    place: &RecordPlace,
    directory: &Path,
    files: &[NewFile],
) -> anyhow::Result<InitRecord> {
    for file in files {
        file.still_as_read()?;
        if let Some(why) = obstacle(&file.path) {
            bail!("nothing was written: {why}");
        }
    }
    let mut record = InitRecord {
        directory: place.directory().to_path_buf(),
        ..InitRecord::default()
    };
    for (index, file) in files.iter().enumerate() {
        let written = match kept_of(file, directory, index, &mut record) {
            Ok(written) => written,
            Err(error) => {
                record.remove_backups();
                return Err(error);
            }
        };
        record.files.push(written);
    }
    if let Err(error) = place.keep(&record) {
        record.remove_backups();
        return Err(error);
    }
    for (nth, file) in files.iter().enumerate() {
        let Err(error) = file.put_with_parents() else {
            continue;
        };
        let is_back = roll_back(directory, &files[..nth], &record).and_then(|()| place.forget());
        if let Err(why) = is_back {
            let undo = "a part was written, and stays: `toolgate init --undo` takes it back";
            return Err(error.context(format!("{undo} ({why:#})")));
        }
        record.remove_backups();
        return Err(error.context("nothing was written"));
    }
    Ok(record)
}

/// Puts back what was there before the first of the files of `record` were `written`.
fn roll_back(directory: &Path, written: &[NewFile], record: &InitRecord) -> anyhow::Result<()> {
    for (file, known) in written.iter().zip(&record.files).rev() {
        match &known.backup {
            Some(backup) => {
                let before = files::read(backup, REPLACED_BYTES_MAX)
                    .with_context(|| format!("{} cannot be read", backup.display()))?;
                let mode = known.mode.unwrap_or(PRIVATE_FILE_MODE);
                files::replace_as(&file.path, &before, mode)?;
            }
            None => fs::remove_file(&file.path)
                .with_context(|| format!("{} cannot be removed", file.path.display()))?,
        }
    }
    // Only where nothing else is in them.
    for emptied in DIRECTORIES {
        drop(fs::remove_dir(directory.join(emptied)));
    }
    Ok(())
}

/// What is recorded of one file; what it replaces is kept.
fn kept_of(
    file: &NewFile,
    directory: &Path,
    index: usize,
    record: &mut InitRecord,
) -> anyhow::Result<WrittenFile> {
    let own = file.path.strip_prefix(directory).ok();
    let own = own.filter(|_| !file.is_agents);
    let mut written = WrittenFile {
        path: own.unwrap_or(&file.path).to_path_buf(),
        sha256: sha256(file.text.as_bytes()),
        backup: None,
        mode: files::mode_of(&file.path),
        written: None,
    };
    if !file.path.exists() {
        return Ok(written);
    }
    let before = files::read(&file.path, REPLACED_BYTES_MAX)
        .with_context(|| format!("{} cannot be read", file.path.display()))?;
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{index}-{name}");
    written.backup = Some(record.keep_aside(&name, &before)?);
    if file.is_agents {
        let base = record.keep_aside(&format!("{name}.written"), file.text.as_bytes())?;
        written.written = Some(base);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn own(directory: &Path, name: &str) -> NewFile {
        NewFile::own(directory.join(name), "text".to_owned())
    }

    fn entries(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    /// Issue 17 D14: where one of the files cannot be written, none is, nothing is recorded, and it can be done again.
    #[test]
    fn what_cannot_be_written_whole_is_not_written() {
        let (state, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = directory.path();
        let place = RecordPlace::below(state.path().to_path_buf(), at).unwrap();
        let long = "x".repeat(300);
        let mut files = vec![own(at, "toolgate.yaml"), own(at, "policies/tests/a.yaml")];
        files.push(own(at, &long));
        let error = write(&place, at, &files).unwrap_err();
        let words = format!("{error:#}");
        assert!(words.starts_with("nothing was written: "), "{words}");
        assert!(words.contains(&long), "{words}");
        assert_eq!((entries(at), place.is_taken()), (0, false));
        files.pop();
        write(&place, at, &files).unwrap();
        assert_eq!((entries(at), place.is_taken()), (2, true));
    }

    /// What is in the way is seen before anything is written.
    #[test]
    fn what_is_in_the_way_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("file"), "").unwrap();
        symlink("nowhere/x", at.join("link")).unwrap();
        symlink("file", at.join("good")).unwrap();
        let obstacle = |name: &str| obstacle(&at.join(name)).unwrap_or_default();
        for name in ["file/tests/a.yaml", "file/a.yaml"] {
            assert!(obstacle(name).ends_with("file is no directory"), "{name}");
        }
        for name in ["link", "link/a.yaml"] {
            let why = obstacle(name);
            assert!(why.ends_with("link is a link that leads nowhere"), "{why}");
        }
        assert!(obstacle("").ends_with("is a directory"));
        for name in ["file", "good", "new", "new/tests/a.yaml"] {
            assert_eq!(obstacle(name), "", "{name}");
        }
    }
}
