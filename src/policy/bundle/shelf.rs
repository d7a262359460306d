//! Where bundles are kept: each a file of the data directory that is called as it is known. They are
//! bounded in number and bytes; what is in force, and the newest, are never among what goes.

use super::{BUNDLE_BYTES_MAX, Bundle, BundleError};
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::ids::unguessable;
use crate::owners::private::{PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE, replace_file};
use jiff::{SignedDuration, Timestamp};
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bundles at most …
const MAX_BUNDLES: usize = 128;
/// … and their bytes, whatever is in force.
const MAX_SHELF_BYTES: u64 = 256 << 20;
/// Entries of the directory that are looked at.
const MAX_ENTRIES: usize = 1_024;
/// How long nothing of a bundle takes to be written.
const LEFT_BEHIND_AGE: SignedDuration = SignedDuration::from_hours(1);
/// How the name of a bundle's file ends.
const BUNDLE_FILE_ENDING: &str = ".json";

/// The bundles of a data directory.
#[derive(Debug, Clone)]
pub(crate) struct PolicyShelf {
    directory: PathBuf,
}

/// A bundle that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShelvedBundle {
    /// Its name.
    pub(crate) name: Digest,
    /// How large its file is.
    pub(crate) bytes: u64,
    /// When it was kept last.
    pub(crate) kept: SystemTime,
}

impl PolicyShelf {
    /// That of the data directory `data`, which need not be there.
    pub(crate) fn of(data: &Path) -> Self {
        Self {
            directory: data.join("policies"),
        }
    }

    /// Where all of it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directories, durably.
    pub(crate) fn open(&self) -> Result<(), BundleError> {
        if self.bundles().is_dir() {
            return Ok(());
        }
        let made = DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE_DIRECTORY_MODE)
            .create(self.bundles());
        made.map_err(|error| BundleError::Disk(self.bundles(), error))?;
        for made_in in self.directory.ancestors().take(2) {
            let synced = File::open(made_in).and_then(|directory| directory.sync_all());
            synced.map_err(|error| BundleError::Disk(made_in.to_owned(), error))?;
        }
        Ok(())
    }

    /// Keeps `bundle`: durable when this returns well.
    pub(crate) fn put(&self, bundle: &Bundle) -> Result<Digest, BundleError> {
        self.open()?;
        let text = bundle.written();
        let name = Digest::of(text.as_bytes());
        let path = self.path(name);
        replace(&path, text.as_bytes()).map_err(|error| BundleError::Disk(path, error))?;
        Ok(name)
    }

    /// The bundle of this name, if it is as it was kept.
    pub(crate) fn get(&self, name: Digest) -> Result<Bundle, BundleError> {
        let path = self.path(name);
        let text = match read(&path, BUNDLE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(BundleError::Tampered(name));
            }
            Err(error) => return Err(BundleError::Disk(path, error)),
        };
        Bundle::read(name, &text)
    }

    /// Those that are kept, the oldest first; none where there is no such directory.
    pub(crate) fn all(&self) -> Result<Vec<ShelvedBundle>, BundleError> {
        let entries = match std::fs::read_dir(self.bundles()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(BundleError::Disk(self.bundles(), error)),
        };
        let bundle = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let name = name.to_str()?.strip_suffix(BUNDLE_FILE_ENDING)?;
            let name = Digest::from_hex(name)?;
            let known = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some(ShelvedBundle {
                name,
                bytes: known.len(),
                kept: known.modified().ok()?,
            })
        };
        let mut found: Vec<_> = entries.take(MAX_ENTRIES).filter_map(bundle).collect();
        found.sort_by_key(|one| (one.kept, one.name));
        Ok(found)
    }

    /// Removes the oldest beyond what may be kept, but never one of `kept`.
    pub(crate) fn prune(&self, kept: &[Digest]) -> Result<(), BundleError> {
        self.prune_to(kept, MAX_BUNDLES, MAX_SHELF_BYTES)
    }

    fn prune_to(&self, kept: &[Digest], most: usize, most_bytes: u64) -> Result<(), BundleError> {
        self.sweep();
        let all = self.all()?;
        let mut bytes: u64 = all.iter().map(|one| one.bytes).sum();
        let mut count = all.len();
        let newest = all.last().map(|one| one.name);
        for one in &all {
            if count <= most && bytes <= most_bytes {
                break;
            }
            if kept.contains(&one.name) || Some(one.name) == newest {
                continue;
            }
            let path = self.path(one.name);
            std::fs::remove_file(&path).map_err(|error| BundleError::Disk(path, error))?;
            count -= 1;
            bytes -= one.bytes;
        }
        Ok(())
    }

    /// Removes what kills have left of bundles that were being written; what is written now is younger.
    fn sweep(&self) {
        let entries = std::fs::read_dir(self.bundles()).into_iter().flatten();
        let left = entries.take(MAX_ENTRIES).flatten().filter(|entry| {
            let is_beside = entry.file_name().as_encoded_bytes().starts_with(b".");
            let written = entry.metadata().and_then(|known| known.modified());
            let written = written.ok().and_then(|at| Timestamp::try_from(at).ok());
            let is_old =
                written.is_some_and(|at| Clock.wall().duration_since(at) > LEFT_BEHIND_AGE);
            is_beside && is_old
        });
        for entry in left {
            let path = entry.path();
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "half a bundle cannot be removed");
            }
        }
    }

    fn bundles(&self) -> PathBuf {
        self.directory.join("bundles")
    }

    fn path(&self, name: Digest) -> PathBuf {
        self.bundles().join(format!("{name}{BUNDLE_FILE_ENDING}"))
    }
}

/// Gives the file these bytes, whole or not at all, and durably.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let beside = directory.join(format!(".{}", unguessable()));
    replace_file(path, &beside, bytes, PRIVATE_FILE_MODE)?;
    File::open(directory)?.sync_all()
}

/// The text of a regular file of at most `most` bytes, and of no link.
pub(super) fn read(path: &Path, most: u64) -> io::Result<String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    let read = file
        .take(most.saturating_add(1))
        .read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read <= most) {
        Ok(text)
    } else {
        Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("it is larger than {most} bytes"),
        ))
    }
}

#[cfg(test)]
mod tests;
