//! The archive: where segments go that the journal does not need any more, whole, with nothing
//! changed in them, in the form that they have.

use super::error::JournalError;
use super::{data_dir, files, segment, segment_file};
use crate::owners::private::fresh;
use std::io::{self, Write};
use std::path::Path;

/// The first records of all segments in the archive `dir`, in order; none where there is no
/// archive.
pub(super) fn list(dir: &Path) -> io::Result<Vec<u64>> {
    match segment::every(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}

/// Whether something can be kept in the archive `dir`, which is made when it does not exist: asked
/// before much is read.
pub(super) fn can_keep(dir: &Path) -> Result<(), JournalError> {
    data_dir::make_dir(dir).map_err(|source| JournalError::io("make the archive", dir, source))?;
    let trial = dir.join("trial.new");
    let kept = fresh(&trial).and_then(|mut file| {
        file.write_all(b"toolgate")?;
        file.sync_all()?;
        std::fs::remove_file(&trial)
    });
    kept.map_err(|source| JournalError::io("write into the archive", dir, source))
}

/// Copies the segments that begin with `firsts` from `from` to the archive `to`, durably. What is
/// there already stays as it is, and has to be the same, compressed or not.
pub(super) fn take(from: &Path, to: &Path, firsts: &[u64]) -> Result<(), JournalError> {
    data_dir::make_dir(to).map_err(|source| JournalError::io("make the archive", to, source))?;
    for first in firsts {
        let name = segment::name(*first);
        let (source, target) = (from.join(&name), to.join(&name));
        copy(&source, &target).map_err(|error| {
            JournalError::io("copy a segment into the archive as", &target, error)
        })?;
    }
    data_dir::sync_dir(to).map_err(|source| JournalError::io("keep what is new in", to, source))
}

fn copy(source: &Path, target: &Path) -> io::Result<()> {
    let mut from = files::open(source, false)?;
    match files::open(target, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        there => {
            there?;
            return same(source, target);
        }
    }
    let new = target.with_extension("new");
    let mut file = fresh(&new)?;
    io::copy(&mut from, &mut file)?;
    file.sync_all()?;
    // The one that is there now: it may have been compressed meanwhile.
    same(source, &new)?;
    std::fs::rename(&new, target)
}

/// An error where the two differ: one of them is evidence, and neither is written over.
fn same(one: &Path, other: &Path) -> io::Result<()> {
    if segment_file::are_same(one, other)? {
        Ok(())
    } else {
        Err(io::Error::other(
            "another segment of that name is there; nothing is dropped",
        ))
    }
}
