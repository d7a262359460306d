//! Long answers, each in a file named by its SHA-256 (guarantees §4): synced, with its directory,
//! before anything refers to it, and checked when it is read.

use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::owners::private::{PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE, replace_file};
use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes of the longest answer that is kept.
const MAX_RESULT_BYTES: u64 = 16 << 20;

/// The files of one data directory: `<data>/results/ab/abcd…`.
#[derive(Debug)]
pub(super) struct Results {
    dir: PathBuf,
    /// Directories that are known to be there for good.
    made: Mutex<HashSet<PathBuf>>,
    /// Held while a file is found again or removed, so that none is found and then removed.
    finding: Mutex<()>,
}

impl Results {
    /// Opens the directory, made when it does not exist.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let results = Self {
            dir: data.join("results"),
            made: Mutex::default(),
            finding: Mutex::default(),
        };
        results.make(&results.dir)?;
        Ok(results)
    }

    /// Writes `body` durably; gives its name. Two who write the same do no harm. Blocks.
    pub(super) fn put(&self, body: &Bytes) -> io::Result<Digest> {
        if body.len() as u64 > MAX_RESULT_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("a result has {} bytes", body.len()),
            ));
        }
        let digest = Digest::of(body);
        let path = self.path(&digest);
        let dir = path.parent().unwrap_or(&self.dir);
        self.make(dir)?;
        if self.find_again(&digest, &path)? {
            return Ok(digest);
        }
        let beside = path.with_extension(crate::model::ids::unguessable());
        replace_file(&path, &beside, body, PRIVATE_FILE_MODE)?;
        if let Err(error) = File::open(dir).and_then(|dir| dir.sync_all()) {
            // Found again it would pass for durable.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        Ok(digest)
    }

    /// Reads what `digest` names; an error when it is not what was written. Blocks.
    pub(super) fn get(&self, digest: &Digest) -> io::Result<Bytes> {
        let mut body = Vec::new();
        open(&self.path(digest))?
            .take(MAX_RESULT_BYTES + 1)
            .read_to_end(&mut body)?;
        if Digest::of(&body) == *digest {
            return Ok(body.into());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("result {digest} was changed"),
        ))
    }

    /// Removes what nothing refers to and nobody wrote or found again for `age`, and what was never
    /// finished; gives how many files. A caller that puts a file has to refer to it within
    /// `age`. Blocks.
    pub(super) fn sweep(
        &self,
        age: Duration,
        mut is_needed: impl FnMut(&Digest) -> bool,
    ) -> io::Result<usize> {
        let mut removed = 0;
        for shard in std::fs::read_dir(&self.dir)? {
            for file in std::fs::read_dir(shard?.path())? {
                let file = file?;
                let digest = file.file_name().to_str().and_then(Digest::from_hex);
                if !is_old(&file.metadata()?, age)
                    || digest.is_some_and(|digest| is_needed(&digest))
                {
                    continue;
                }
                let _finding = self.finding.lock();
                match std::fs::metadata(file.path()) {
                    Ok(about) if is_old(&about, age) => std::fs::remove_file(file.path())?,
                    _ => continue,
                }
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Whether `path` holds what it should already; then it is as if it were written now.
    fn find_again(&self, digest: &Digest, path: &Path) -> io::Result<bool> {
        let _finding = self.finding.lock();
        if self.get(digest).is_err() {
            return Ok(false);
        }
        OpenOptions::new()
            .write(true)
            .open(path)?
            .set_modified(Clock.wall().into())?;
        // The thread that renamed it may not have synced the directory yet.
        File::open(path.parent().unwrap_or(&self.dir))?.sync_all()?;
        Ok(true)
    }

    /// Makes `dir`, for us alone and durably.
    fn make(&self, dir: &Path) -> io::Result<()> {
        let mut made = self.made.lock();
        if made.contains(dir) {
            return Ok(());
        }
        match DirBuilder::new().mode(PRIVATE_DIRECTORY_MODE).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        File::open(dir.parent().unwrap_or(dir))?.sync_all()?;
        made.insert(dir.to_owned());
        Ok(())
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.dir.join(&name[..2]).join(name)
    }
}

/// Opens a file to read; never follows a link.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Whether a file was last written that long ago. A clock that was set back makes it young.
fn is_old(about: &Metadata, age: Duration) -> bool {
    let ago = |written: SystemTime| {
        let written = Timestamp::try_from(written).ok()?;
        Duration::try_from(Clock.wall().duration_since(written)).ok()
    };
    about
        .modified()
        .ok()
        .and_then(ago)
        .is_some_and(|ago| ago >= age)
}

#[cfg(test)]
mod tests;
