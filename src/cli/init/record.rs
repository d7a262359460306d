//! How `init` writes its files, and what it records of them.

use super::init_record::{InitRecord, REPLACED_BYTES_MAX, WrittenFile};
use super::record_place::RecordPlace;
use crate::cli::files;
use crate::model::digest::sha256;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::{Context as _, bail};
use std::fs;
use std::path::{Path, PathBuf};

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
