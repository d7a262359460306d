//! What a rollback notes while it writes files, and when it is done. Files that were written in part
//! are no policy: as long as the first note is there, nothing comes in force.

use super::BundleError;
use super::shelf::{PolicyShelf, read, replace};
use crate::model::digest::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Bytes of a note.
const MAX_NOTE_BYTES: u64 = 64 << 10;

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

/// From here on nothing comes in force.
pub(crate) fn begin(shelf: &PolicyShelf, note: &RollbackNote) -> Result<(), BundleError> {
    put(begun(shelf), note)
}

/// All is written.
pub(crate) fn end(shelf: &PolicyShelf, note: &RollbackNote) -> Result<(), BundleError> {
    put(ended(shelf), note)?;
    let path = begun(shelf);
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

fn begun(shelf: &PolicyShelf) -> PathBuf {
    shelf.directory().join("rolling-back.json")
}

fn ended(shelf: &PolicyShelf) -> PathBuf {
    shelf.directory().join("last-rollback.json")
}
