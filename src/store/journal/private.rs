//! Nothing in the data directory is for others to read, to change, or to have put there: it holds
//! the arguments of held calls and the answers of tools (threat-model §10). Judged and narrowed at
//! every start, because the directory may be older.

use super::error::JournalError;
use crate::owners::{self, ExposedPath, ExposureReason, PathKind};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::{Metadata, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// What toolgate makes in a data directory; each may also stand there with the extension `new`,
/// before it is whole.
const OWN_FILE_NAMES: [&str; 13] = [
    ".gitignore",
    "children",
    "disabled.json",
    "epoch",
    "incidents",
    "index",
    "index.aside",
    "index.mark",
    "journal",
    "lock",
    "results",
    "round-key",
    "sent",
];
/// The bits of a mode that let others do anything.
const GROUP_OTHERS_MODE: u32 = 0o077;

/// An error when another account could put something else in the place of the data directory, or
/// has.
pub(super) fn check_exposure(data: &Path) -> Result<(), JournalError> {
    let whole =
        std::fs::canonicalize(data).map_err(|source| JournalError::io("look at", data, source))?;
    for exposed in owners::exposed(data) {
        match exposed.why {
            ExposureReason::Foreign(_) => return Err(shared(&exposed)),
            // It is narrowed below.
            ExposureReason::Writable(_) if exposed.path == whole => {}
            ExposureReason::Writable(_) => tracing::warn!(
                path = %exposed.path.display(),
                hint = exposed.hint(),
                "others may put something else in the place of the data directory"
            ),
        }
    }
    Ok(())
}

/// Takes away what others may do with what is there. An error when something of another account's,
/// or a link, stands where toolgate would write.
pub(super) fn narrow(data: &Path) -> Result<(), JournalError> {
    let known =
        std::fs::metadata(data).map_err(|source| JournalError::io("look at", data, source))?;
    let mut was_open = take_away(data, &known)?;
    for entry in std::fs::read_dir(data).map_err(|source| JournalError::io("list", data, source))? {
        let path = entry
            .map_err(|source| JournalError::io("list", data, source))?
            .path();
        if path.file_name().is_some_and(is_ours) {
            was_open |= narrow_own(&path)?;
        }
    }
    if was_open {
        tracing::warn!(data = %data.display(), "others could read what is in the data directory; it is now for its owner only");
    }
    Ok(())
}

/// `epoch`, `epoch.new`, `index.new` before it is `index.mark`, and so on.
fn is_ours(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let begun = |known: &str| {
        name.strip_suffix(".new")
            .is_some_and(|stem| known.split('.').next() == Some(stem))
    };
    OWN_FILE_NAMES
        .iter()
        .any(|known| *known == name || begun(known))
}

/// Whether others could look into it.
fn narrow_own(path: &Path) -> Result<bool, JournalError> {
    let known = own(path)?;
    let was_open = take_away(path, &known)?;
    // Results lie deep, and are out of reach once their directory is.
    if known.is_dir() && path.file_name().is_some_and(|name| name != "results") {
        for entry in
            std::fs::read_dir(path).map_err(|source| JournalError::io("list", path, source))?
        {
            let within = entry
                .map_err(|source| JournalError::io("list", path, source))?
                .path();
            take_away(&within, &own(&within)?)?;
        }
    }
    Ok(was_open)
}

/// What is at `path`, if it is a file or a directory of ours.
fn own(path: &Path) -> Result<Metadata, JournalError> {
    let known = std::fs::symlink_metadata(path)
        .map_err(|source| JournalError::io("look at", path, source))?;
    if known.uid() != geteuid().as_raw() {
        let kind = if known.is_dir() {
            PathKind::Directory
        } else {
            PathKind::File
        };
        return Err(shared(&ExposedPath {
            path: path.to_owned(),
            kind,
            why: ExposureReason::Foreign(known.uid()),
        }));
    }
    if !known.is_file() && !known.is_dir() {
        let why = "toolgate writes here, and this is a link or no file".to_owned();
        let hint = "find out who made it, and remove it".to_owned();
        return Err(JournalError::Shared {
            path: path.to_owned(),
            why,
            hint,
        });
    }
    Ok(known)
}

/// Whether there was anything to take away. What is root's, such as a volume's own directory, stays
/// as root made it.
fn take_away(path: &Path, known: &Metadata) -> Result<bool, JournalError> {
    let mode = known.mode() & 0o7777;
    if mode & GROUP_OTHERS_MODE == 0 || known.uid() != geteuid().as_raw() {
        return Ok(false);
    }
    let narrowed = Permissions::from_mode(mode & !GROUP_OTHERS_MODE);
    std::fs::set_permissions(path, narrowed)
        .map_err(|source| JournalError::io("take away others' access to", path, source))?;
    Ok(true)
}

fn shared(exposed: &ExposedPath) -> JournalError {
    JournalError::Shared {
        path: exposed.path.clone(),
        why: exposed.message(),
        hint: exposed.hint(),
    }
}
