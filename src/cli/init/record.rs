//! What `init` writes, and the record of it by which it is taken back. The record, and what was there
//! before, are kept in the operator's state directory: an agent's configuration holds secrets, where it
//! lies may be a repository, and what stands in a repository is no word of the operator's.

use super::record_place::RecordPlace;
use crate::cli::files;
use crate::model::clock::Clock;
use crate::model::digest::sha256;
use crate::model::ids::unguessable;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a file that `init` replaces, and of its record.
pub(super) const REPLACED_BYTES_MAX: u64 = 16 << 20;

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

    /// The mode to write it with: an agent's own file keeps the rights that its owner gave.
    fn put(&self) -> anyhow::Result<()> {
        match files::mode_of(&self.path).filter(|_| self.is_agents) {
            Some(mode) => files::replace_as(&self.path, self.text.as_bytes(), mode),
            None => files::replace(&self.path, self.text.as_bytes(), PRIVATE_FILE_MODE),
        }
    }
}

/// One file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenFile {
    /// The file: below the directory where it is toolgate's, absolute where it is the agent's.
    pub(super) path: PathBuf,
    /// SHA-256 of what was written.
    pub(super) sha256: String,
    /// What it was before; none: it was not there.
    pub(super) backup: Option<PathBuf>,
    /// The rights that it gave before.
    #[serde(default)]
    pub(super) mode: Option<u32>,
    /// What was written, of an agent's own configuration.
    #[serde(default)]
    pub(super) written: Option<PathBuf>,
}

/// Everything that one `init` wrote.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InitRecord {
    /// Where toolgate's files are: absolute, and without links.
    pub(super) directory: PathBuf,
    /// In the order in which they were written.
    pub(super) files: Vec<WrittenFile>,
    /// Where what was before is kept; none: nothing was there.
    #[serde(default)]
    pub(super) backups: Option<PathBuf>,
    /// Every file that `init` made there.
    #[serde(default)]
    pub(super) kept: Vec<PathBuf>,
}

impl InitRecord {
    /// Keeps `text` among the backups, as `name`.
    fn keep_aside(&mut self, name: &str, text: &[u8]) -> anyhow::Result<PathBuf> {
        let backups = match &self.backups {
            Some(backups) => backups.clone(),
            None => backups_for_one_init()?,
        };
        self.backups = Some(backups.clone());
        let path = backups.join(name);
        files::replace(&path, text, PRIVATE_FILE_MODE)?;
        self.kept.push(path.clone());
        Ok(path)
    }

    /// Removes what is no backup any more, and held secrets: the files that `init` made there, and
    /// their directory where nothing else is in it.
    pub(super) fn remove_backups(&self) {
        for path in &self.kept {
            drop(fs::remove_file(path));
        }
        if let Some(backups) = &self.backups {
            drop(fs::remove_dir(backups));
        }
    }
}

/// Writes `files` as if at once, into `directory`: what they replace is kept first, then the record of
/// all is written to `place`, then each of them whole. The caller has `place` to itself.
pub(super) fn write(
    place: &RecordPlace,
    directory: &Path,
    files: &[NewFile],
) -> anyhow::Result<InitRecord> {
    for file in files {
        file.still_as_read()?;
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
    for file in files {
        if let Some(parent) = file.path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("{} cannot be made", parent.display()))?;
        }
        file.put()?;
    }
    Ok(record)
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

/// A new directory for what one `init` replaces, which only its owner can read.
fn backups_for_one_init() -> anyhow::Result<PathBuf> {
    let state = files::state_directory()
        .context("what is replaced is kept in the state directory, with the secrets in it")?;
    let time = Clock.wall().strftime("%Y%m%dT%H%M%SZ");
    let chance = unguessable();
    let directory = state.join(format!("backups/{time}-{}", &chance[..8]));
    files::private_directory(&directory)?;
    Ok(directory)
}
