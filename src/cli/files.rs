//! Files that are replaced whole or not at all: a process that reads one meanwhile reads the old or
//! the new.

use crate::model::ids::unguessable;
use crate::owners::private::{PRIVATE_DIRECTORY_MODE, replace_file};
use crate::owners::regular;
use anyhow::Context as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Writes `text` to `path`, durably. A file that is there keeps its rights, though others lose that
/// to write; a new one gets `mode`. A link stays one, and what it leads to is replaced.
pub(super) fn replace(path: &Path, text: &[u8], mode: u32) -> anyhow::Result<()> {
    let path = &target(path)?;
    let mode = match fs::metadata(path) {
        Ok(known) => known.permissions().mode() & 0o755,
        Err(error) if error.kind() == ErrorKind::NotFound => mode,
        Err(error) => {
            return Err(error).with_context(|| format!("{} cannot be looked at", path.display()));
        }
    };
    put(path, text, mode)
}

/// As [`replace`], and the file has exactly this mode then, whatever it had: for a file that is not
/// toolgate's, whose rights are its owner's to give.
pub(super) fn replace_as(path: &Path, text: &[u8], mode: u32) -> anyhow::Result<()> {
    put(&target(path)?, text, mode)
}

fn put(path: &Path, text: &[u8], mode: u32) -> anyhow::Result<()> {
    let directory = directory_of(path);
    let beside = directory.join(format!(".toolgate-{}", unguessable()));
    replace_file(path, &beside, text, mode)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    // The name is durable once the directory is; where a directory cannot be synced, the file is
    // whole all the same.
    drop(File::open(directory).and_then(|directory| directory.sync_all()));
    Ok(())
}

/// What a file holds, if that is at most `max` bytes. Regular files alone are read: nobody may ever write
/// to a pipe, and a device may never end.
pub(super) fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    Ok(regular::read(path, max)?)
}

/// The rights that a file gives, if it is there.
pub(super) fn mode_of(path: &Path) -> Option<u32> {
    let known = fs::metadata(path).ok()?;
    Some(known.permissions().mode() & 0o777)
}

/// The right to replace files beside `path`, for a process that first looks at what they say; it
/// ends with the value. Waits for the process that has it.
pub(super) fn alone(path: &Path) -> anyhow::Result<File> {
    let directory = directory_of(path);
    let file = File::open(directory)
        .with_context(|| format!("{} cannot be opened", directory.display()))?;
    file.lock()
        .with_context(|| format!("{} cannot be locked", directory.display()))?;
    Ok(file)
}

/// Where toolgate keeps what belongs to the operator's account: `$XDG_STATE_HOME/toolgate`, else
/// `~/.local/state/toolgate`.
pub(super) fn state_directory() -> anyhow::Result<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let base = absolute("XDG_STATE_HOME").or_else(home);
    let base = base.context("neither XDG_STATE_HOME nor HOME is set")?;
    Ok(base.join("toolgate"))
}

/// Makes a directory, and those above it, that only their owner can read.
pub(super) fn private_directory(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIRECTORY_MODE)
        .create(path)
        .with_context(|| format!("{} cannot be made", path.display()))
}

fn directory_of(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn target(path: &Path) -> anyhow::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(known) if known.is_symlink() => {
            fs::canonicalize(path).with_context(|| format!("{} leads nowhere", path.display()))
        }
        _ => Ok(path.to_path_buf()),
    }
}
