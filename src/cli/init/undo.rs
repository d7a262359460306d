//! What `init` wrote, and how it is taken back: each file as it was before, unless the operator has
//! changed it since.

use crate::cli::files;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::digest::sha256;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::{Context as _, bail};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The record, beside `toolgate.yaml`.
pub(super) const RECORD_FILE: &str = ".toolgate-init.json";
/// What stands behind the name of a file as it was before.
const BACKUP_SUFFIX: &str = ".before-toolgate";

/// One file that was written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenFile {
    /// The file.
    pub(super) path: PathBuf,
    /// SHA-256 of what was written.
    sha256: String,
    /// What it was before; none: it was not there.
    backup: Option<PathBuf>,
}

/// Everything that one `init` writes.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InitRecord {
    files: Vec<WrittenFile>,
}

/// Where the file at `path` is kept as it was.
pub(super) fn backup_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(BACKUP_SUFFIX);
    PathBuf::from(name)
}

/// Writes `files` as if at once: the record of them first, then what they replace is kept, then
/// each of them whole.
pub(super) fn write(directory: &Path, files: &[(PathBuf, String)]) -> anyhow::Result<()> {
    let one = |(path, text): &(PathBuf, String)| WrittenFile {
        path: within(directory, path),
        sha256: sha256(text.as_bytes()),
        backup: path.exists().then(|| within(directory, &backup_of(path))),
    };
    let record = InitRecord {
        files: files.iter().map(one).collect(),
    };
    files::replace(
        &directory.join(RECORD_FILE),
        serde_json::to_string_pretty(&record)?.as_bytes(),
        PRIVATE_FILE_MODE,
    )?;
    for ((path, text), written) in files.iter().zip(&record.files) {
        if let Some(backup) = &written.backup {
            let backup = &directory.join(backup);
            let before =
                fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
            files::replace(backup, &before, PRIVATE_FILE_MODE)?;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("{} cannot be made", parent.display()))?;
        }
        files::replace(path, text.as_bytes(), PRIVATE_FILE_MODE)?;
    }
    Ok(())
}

/// Takes the last `init` in `directory` back; 1 where something has to stay.
pub(super) fn undo(directory: &Path, out: &mut impl Write) -> anyhow::Result<u8> {
    let path = directory.join(RECORD_FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) => bail!("there is no init to take back: {}: {error}", path.display()),
    };
    let read = Text::read(Bytes::from(text), &SERVER_JSON_LIMITS)
        .ok()
        .and_then(|text| text.parse::<InitRecord>().ok());
    let record = read.with_context(|| {
        format!(
            "{} is not as init wrote it; nothing was taken back",
            path.display()
        )
    })?;
    let mut left = Vec::new();
    // The last that was written is the agent's own file: that one must be back before what it
    // points at is gone.
    for written in record.files.iter().rev() {
        match take_back(directory, written) {
            Ok(done) => writeln!(out, "{done}")?,
            Err(why) => {
                writeln!(out, "kept     {}: {why:#}", written.path.display())?;
                left.push(written.clone());
            }
        }
    }
    // Only if nothing else is in it.
    drop(fs::remove_dir(directory.join("policies")));
    if left.is_empty() {
        fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
        writeln!(out, "everything is as it was before")?;
        return Ok(0);
    }
    writeln!(
        out,
        "{} files are kept; undo again when that is settled, or remove {}",
        left.len(),
        path.display()
    )?;
    files::replace(
        &path,
        serde_json::to_string_pretty(&InitRecord {
            files: left.into_iter().rev().collect(),
        })?
        .as_bytes(),
        PRIVATE_FILE_MODE,
    )?;
    Ok(1)
}

/// As the record has it, so that the directory can be moved.
fn within(directory: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(directory).unwrap_or(path).to_path_buf()
}

fn take_back(directory: &Path, written: &WrittenFile) -> anyhow::Result<String> {
    let WrittenFile {
        path,
        sha256: expected,
        backup,
    } = written;
    let (path, backup) = (
        &directory.join(path),
        backup.as_ref().map(|backup| directory.join(backup)),
    );
    let shown = path.display();
    let now = match fs::read(path) {
        Ok(now) => Some(now),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).context("it cannot be read"),
    };
    let Some(backup) = backup else {
        return match now {
            None => Ok(format!("gone     {shown}")),
            Some(now) if sha256(&now) == *expected => {
                fs::remove_file(path).context("it cannot be removed")?;
                Ok(format!("removed  {shown}"))
            }
            Some(_) => bail!("it was changed since"),
        };
    };
    let Ok(before) = fs::read(&backup) else {
        // Written down, and never come to.
        return match now {
            Some(now) if sha256(&now) != *expected => Ok(format!("as it was {shown}")),
            _ => bail!("{} is gone", backup.display()),
        };
    };
    if now
        .as_ref()
        .is_some_and(|now| sha256(now) != *expected && *now != before)
    {
        bail!(
            "it was changed since; what it was is in {}",
            backup.display()
        );
    }
    files::replace(path, &before, PRIVATE_FILE_MODE)?;
    fs::remove_file(&backup).with_context(|| format!("{} cannot be removed", backup.display()))?;
    Ok(format!("restored {shown}"))
}
