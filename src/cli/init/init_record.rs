//! The record of what one `init` wrote, by which it is taken back. The record, and what was there
//! before, are kept in the operator's state directory: an agent's configuration holds secrets, where it
//! lies may be a repository, and what stands in a repository is no word of the operator's.

use crate::cli::files;
use crate::model::clock::Clock;
use crate::model::ids::unguessable;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// Bytes of a file that `init` replaces, and of its record.
pub(super) const REPLACED_BYTES_MAX: u64 = 16 << 20;

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
    pub(super) fn keep_aside(&mut self, name: &str, text: &[u8]) -> anyhow::Result<PathBuf> {
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
