//! What `init` writes, and the record of it by which it is taken back. What was there before is kept
//! in the operator's state directory: an agent's configuration holds secrets, and where it lies may
//! be a repository.

use crate::cli::files;
use crate::model::clock::Clock;
use crate::model::digest::sha256;
use crate::model::ids::unguessable;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The record, beside `toolgate.yaml`.
pub(super) const RECORD_FILE: &str = ".toolgate-init.json";

/// One file to write.
pub(super) struct NewFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Whether it is the agent's own configuration.
    pub(super) is_agents: bool,
}

impl NewFile {
    /// One of toolgate's.
    pub(super) fn own(path: PathBuf, text: String) -> Self {
        Self {
            path,
            text,
            is_agents: false,
        }
    }
}

/// One file that was written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenFile {
    /// The file.
    pub(super) path: PathBuf,
    /// SHA-256 of what was written.
    pub(super) sha256: String,
    /// What it was before; none: it was not there.
    pub(super) backup: Option<PathBuf>,
    /// What was written, of an agent's own configuration.
    #[serde(default)]
    pub(super) written: Option<PathBuf>,
}

/// Everything that one `init` wrote.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InitRecord {
    /// In the order in which they were written.
    pub(super) files: Vec<WrittenFile>,
    /// Where what was before is kept; none: nothing was there.
    #[serde(default)]
    pub(super) backups: Option<PathBuf>,
}

impl InitRecord {
    /// Writes it, beside the files of `directory`.
    pub(super) fn keep(&self, directory: &Path) -> anyhow::Result<()> {
        files::replace(
            &directory.join(RECORD_FILE),
            serde_json::to_string_pretty(self)?.as_bytes(),
            PRIVATE_FILE_MODE,
        )
    }
}

/// Writes `files` as if at once: what they replace is kept first, then the record of all is written,
/// then each of them whole.
pub(super) fn write(directory: &Path, files: &[NewFile]) -> anyhow::Result<InitRecord> {
    let mut record = InitRecord::default();
    if files.iter().any(|file| file.path.exists()) {
        record.backups = Some(backups_for_one_init()?);
    }
    for (index, file) in files.iter().enumerate() {
        let path = file.path.strip_prefix(directory).unwrap_or(&file.path);
        let mut written = WrittenFile {
            path: path.to_path_buf(),
            sha256: sha256(file.text.as_bytes()),
            backup: None,
            written: None,
        };
        if let (true, Some(backups)) = (file.path.exists(), &record.backups) {
            let before = fs::read(&file.path)
                .with_context(|| format!("{} cannot be read", file.path.display()))?;
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            let backup = backups.join(format!("{index}-{name}"));
            files::replace(&backup, &before, PRIVATE_FILE_MODE)?;
            if file.is_agents {
                let base = backups.join(format!("{index}-{name}.written"));
                files::replace(&base, file.text.as_bytes(), PRIVATE_FILE_MODE)?;
                written.written = Some(base);
            }
            written.backup = Some(backup);
        }
        record.files.push(written);
    }
    record.keep(directory)?;
    for file in files {
        if let Some(parent) = file.path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("{} cannot be made", parent.display()))?;
        }
        files::replace(&file.path, file.text.as_bytes(), PRIVATE_FILE_MODE)?;
    }
    Ok(record)
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
