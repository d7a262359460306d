//! What a rollback notes while it writes files, and when it is done. Files that were written in part
//! are no policy: as long as the first note is there, nothing comes in force.

use super::BundleError;
use super::shelf::{PolicyShelf, read, replace};
use crate::model::digest::Digest;
use crate::model::ids::unguessable;
use crate::owners::private::PRIVATE_DIRECTORY_MODE;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a note.
const MAX_NOTE_BYTES: u64 = 64 << 10;
/// Rollbacks that wait to be recorded, where no toolgate ever runs …
const MAX_UNRECORDED: usize = 64;
/// … and entries of their directory that are looked at.
const MAX_ENTRIES_READ: usize = 1_024;
/// How their files end.
const NOTE_EXTENSION: &str = "json";

/// One rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RollbackNote {
    /// The bundle that the files are, once it is done.
    pub(crate) to: Digest,
    /// What they were before.
    pub(crate) copy: Digest,
    /// When it began.
    pub(crate) at: Timestamp,
    /// The account that rolled back.
    pub(crate) by: String,
    /// Why.
    pub(crate) why: Option<String>,
    /// It may come in force although its packs fail.
    pub(crate) forced: bool,
}

/// The rollback that has begun and not ended, if there is one.
pub(crate) fn under_way(shelf: &PolicyShelf) -> Result<Option<RollbackNote>, BundleError> {
    note(begun(shelf))
}

/// The last rollback that has ended, if there was one.
pub(crate) fn last(shelf: &PolicyShelf) -> Result<Option<RollbackNote>, BundleError> {
    note(ended(shelf))
}

/// The rollbacks that have ended and do not stand in the ledger yet, the oldest first, each with the file that
/// says so. Files that cannot be read are left out: they are no reason why nothing is recorded.
pub(crate) fn unrecorded(shelf: &PolicyShelf) -> Result<Vec<(PathBuf, RollbackNote)>, BundleError> {
    let mut found = Vec::new();
    for path in waiting(shelf)? {
        match note(path.clone()) {
            Ok(Some(one)) => found.push((path, one)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a rollback cannot be recorded"),
        }
    }
    found.sort_by_key(|(_, one)| one.at);
    Ok(found)
}

/// The rollback that the file at `path` tells of stands in the ledger.
pub(crate) fn recorded(path: &Path) -> Result<(), BundleError> {
    removed(path.to_owned())
}

/// From here on nothing comes in force.
pub(crate) fn begin(shelf: &PolicyShelf, note: &RollbackNote) -> Result<(), BundleError> {
    put(begun(shelf), note)
}

/// All is written.
pub(crate) fn end(shelf: &PolicyShelf, note: &RollbackNote) -> Result<(), BundleError> {
    // Before it can come in force, so that the ledger has every one that does.
    wait(shelf, note)?;
    put(ended(shelf), note)?;
    removed(begun(shelf))
}

/// Has the next toolgate that looks record `note`.
fn wait(shelf: &PolicyShelf, note: &RollbackNote) -> Result<(), BundleError> {
    let folder = unrecorded_in(shelf);
    let made = DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIRECTORY_MODE)
        .create(&folder);
    made.map_err(|error| BundleError::Disk(folder.clone(), error))?;
    let mut before = waiting(shelf)?;
    before.sort();
    let surplus = (before.len() + 1).saturating_sub(MAX_UNRECORDED);
    for path in before.into_iter().take(surplus) {
        removed(path)?;
    }
    // As long as all of them, so that names are in the order of time.
    let name = format!("{:020}-{}", note.at.as_millisecond(), unguessable());
    put(folder.join(name).with_extension(NOTE_EXTENSION), note)
}

/// The files of those that wait to be recorded.
fn waiting(shelf: &PolicyShelf) -> Result<Vec<PathBuf>, BundleError> {
    let folder = unrecorded_in(shelf);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(BundleError::Disk(folder, error)),
    };
    // What a killed rollback has left beside them has no such extension.
    let paths = entries.take(MAX_ENTRIES_READ).flatten();
    let paths = paths.map(|entry| entry.path());
    let is_note = |path: &PathBuf| path.extension().is_some_and(|end| end == NOTE_EXTENSION);
    Ok(paths.filter(is_note).collect())
}

fn removed(path: PathBuf) -> Result<(), BundleError> {
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(BundleError::Disk(path, error)),
        _ => Ok(()),
    }
}

fn put(path: PathBuf, note: &RollbackNote) -> Result<(), BundleError> {
    let text = serde_json::to_string(note).map_err(io::Error::other);
    text.and_then(|text| replace(&path, text.as_bytes()))
        .map_err(|error| BundleError::Disk(path, error))
}

fn note(path: PathBuf) -> Result<Option<RollbackNote>, BundleError> {
    let text = match read(&path, MAX_NOTE_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(BundleError::Disk(path, error)),
    };
    let note = serde_json::from_str(&text).map_err(io::Error::other);
    note.map(Some)
        .map_err(|error| BundleError::Disk(path, error))
}

fn unrecorded_in(shelf: &PolicyShelf) -> PathBuf {
    shelf.directory().join("unrecorded")
}

fn begun(shelf: &PolicyShelf) -> PathBuf {
    shelf.directory().join("rolling-back.json")
}

fn ended(shelf: &PolicyShelf) -> PathBuf {
    shelf.directory().join("last-rollback.json")
}
