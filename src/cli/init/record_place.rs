//! Where the record of an `init` is, and whether it is one: what an undo removes and writes is what a
//! record names, so no record is followed that another account or a repository could have brought, or that names what
//! `init` never writes.

use super::init_record::{InitRecord, REPLACED_BYTES_MAX, WrittenFile};
use crate::cli::files;
use crate::config::FILE_NAME;
use crate::guards::pins::PIN_FILE_NAME as PINS;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::digest::sha256;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::{Context as _, bail};
use bytes::Bytes;
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Where records are, in the state directory.
const RECORDS: &str = "inits";
/// Where what was before is, in the state directory.
const BACKUPS: &str = "backups";
/// The record that earlier versions left beside `toolgate.yaml`, where anybody may have written it.
const EARLIER_RECORD_FILE: &str = ".toolgate-init.json";
/// The bits of a mode that let others write.
const OTHERS_WRITE_MODE: u32 = 0o022;

/// Where the record of what `init` wrote to one directory is.
pub(super) struct RecordPlace {
    /// The operator's state directory.
    state: PathBuf,
    /// That directory: absolute, and without links.
    directory: PathBuf,
    record: PathBuf,
}

impl RecordPlace {
    /// That of `directory`, which need not be there.
    ///
    /// # Errors
    /// There is no state directory.
    pub(super) fn of(directory: &Path) -> anyhow::Result<Self> {
        let state = files::state_directory()
            .context("what init writes is recorded in the state directory")?;
        Self::below(state, directory)
    }

    /// The same in another state directory than the account's.
    pub(super) fn below(state: PathBuf, directory: &Path) -> anyhow::Result<Self> {
        let directory = whole(directory)?;
        let name = sha256(directory.as_os_str().as_bytes());
        let name = format!("{}.json", name.get(..32).unwrap_or(&name));
        let record = state.join(RECORDS).join(name);
        Ok(Self {
            state,
            directory,
            record,
        })
    }

    /// The directory that was written to: absolute, and without links.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The record.
    pub(super) fn path(&self) -> &Path {
        &self.record
    }

    /// Whether an `init` is recorded.
    pub(super) fn is_taken(&self) -> bool {
        self.record.symlink_metadata().is_ok()
    }

    /// The right to write and to take back, for one process of this account at a time and, where the
    /// directory is there, for one at a time in it; it ends with the value. Waits for the process that
    /// has it.
    pub(super) fn alone(&self) -> anyhow::Result<Vec<File>> {
        files::private_directory(&self.state.join(RECORDS))?;
        let mut locks = vec![files::alone(&self.record)?];
        // A directory that was removed since has nobody in it.
        if self.directory.is_dir() {
            locks.push(files::alone(&self.directory.join(FILE_NAME))?);
        }
        Ok(locks)
    }

    /// Writes the record.
    pub(super) fn keep(&self, record: &InitRecord) -> anyhow::Result<()> {
        files::private_directory(&self.state.join(RECORDS))?;
        let text = serde_json::to_string_pretty(record)?;
        files::replace(&self.record, text.as_bytes(), PRIVATE_FILE_MODE)
    }

    /// Removes it.
    pub(super) fn forget(&self) -> anyhow::Result<()> {
        fs::remove_file(&self.record)
            .with_context(|| format!("{} cannot be removed", self.record.display()))
    }

    /// The record, which is this account's own and names nothing but what `init` writes.
    pub(super) fn read(&self) -> anyhow::Result<InitRecord> {
        let shown = self.record.display();
        let known = match self.record.symlink_metadata() {
            Ok(known) => known,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(self.absent()),
            Err(error) => return Err(error).with_context(|| format!("{shown} cannot be read")),
        };
        let is_own = known.is_file()
            && known.uid() == geteuid().as_raw()
            && known.mode() & OTHERS_WRITE_MODE == 0;
        if !is_own {
            bail!(
                "{shown} is not this account's alone, so it may not be as init wrote it; nothing was taken back"
            );
        }
        let text = files::read(&self.record, REPLACED_BYTES_MAX)
            .with_context(|| format!("{shown} cannot be read"))?;
        let read = Text::read(Bytes::from(text), &SERVER_JSON_LIMITS).ok();
        let record = read.and_then(|text| text.parse::<InitRecord>().ok());
        let record = record.filter(|record| record.directory == self.directory);
        let record = record
            .with_context(|| format!("{shown} is not as init wrote it; nothing was taken back"))?;
        if let Some(strange) = self.strange(&record) {
            bail!(
                "{shown} names {}, which init never writes; nothing was taken back",
                strange.display()
            );
        }
        Ok(record)
    }

    /// Why there is nothing to take back.
    fn absent(&self) -> anyhow::Error {
        let directory = self.directory.display();
        let earlier = self.directory.join(EARLIER_RECORD_FILE);
        if earlier.symlink_metadata().is_ok() {
            return anyhow::anyhow!(
                "{} is of an earlier toolgate or came with the files here: it is not followed, since anybody may have \
                 written it. If you ran init here, it names what was written and where what was before is kept: put \
                 that back by hand, then remove it",
                earlier.display()
            );
        }
        anyhow::anyhow!(
            "there is no init to take back: this account has no record of one in {directory} ({})",
            self.record.display()
        )
    }

    /// The first path that `init` does not write.
    fn strange<'r>(&self, record: &'r InitRecord) -> Option<&'r Path> {
        let backups = record.backups.iter().chain(&record.kept);
        let aside = |file: &'r WrittenFile| file.backup.iter().chain(&file.written);
        let mut backups = backups.chain(record.files.iter().flat_map(aside));
        let mut files = record.files.iter();
        let strange = backups.find(|path| !self.is_aside(path));
        let strange = strange.or_else(|| {
            let strange = files.find(|file| !is_writable(file));
            strange.map(|file| &file.path)
        });
        strange.map(PathBuf::as_path)
    }

    /// Whether it is among the backups, and none of the directories that hold them.
    fn is_aside(&self, path: &Path) -> bool {
        let base = self.state.join(BACKUPS);
        let is_below = |path: &Path, base: &Path| path.starts_with(base) && path != base;
        match (fs::canonicalize(path), fs::canonicalize(&base)) {
            (Ok(path), Ok(base)) => is_below(&path, &base),
            // It is gone, so there is nothing to read or remove, whatever its name says.
            _ => is_plain(path) && is_below(path, &base),
        }
    }
}

/// Whether it is a file that `init` writes: one of toolgate's in the directory, or an agent's own, whose
/// text before is kept.
fn is_writable(file: &WrittenFile) -> bool {
    let path = &file.path;
    if file.written.is_some() {
        return path.is_absolute() && is_plain(path) && file.backup.is_some();
    }
    let is_policy = path.parent().is_some_and(|parent| {
        [Path::new("policies"), Path::new("policies/tests")].contains(&parent)
    });
    let is_policy = is_policy && path.extension().is_some_and(|ending| ending == "yaml");
    let is_own = path == Path::new(FILE_NAME) || path == Path::new(PINS) || is_policy;
    is_own && path.is_relative() && is_plain(path)
}

/// Whether no step leads up again.
fn is_plain(path: &Path) -> bool {
    path.components()
        .all(|step| matches!(step, Component::RootDir | Component::Normal(_)))
}

/// The one name that a directory has by whatever way it is reached; also one that is not there.
fn whole(directory: &Path) -> anyhow::Result<PathBuf> {
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    let absolute = std::path::absolute(directory).context("the directory has no absolute path")?;
    for above in absolute.ancestors() {
        if let Ok(known) = fs::canonicalize(above) {
            let rest = absolute.strip_prefix(above).unwrap_or(Path::new(""));
            return Ok(known.components().chain(rest.components()).collect());
        }
    }
    Ok(absolute)
}

#[cfg(test)]
mod tests;
