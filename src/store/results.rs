//! Long answers, each in a file named by its SHA-256 (SEMANTICS §4): synced, with its directory, before anything refers to
//! it, and checked when it is read.

use super::state::digest::Digest;
use bytes::Bytes;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The files of one data directory: `<data>/results/ab/abcd…`.
#[derive(Debug)]
pub(super) struct Results(PathBuf);

impl Results {
    /// Opens the directory, made when it does not exist.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let dir = data.join("results");
        make(&dir)?;
        Ok(Self(dir))
    }

    /// Writes `body` durably; gives its name. Blocks.
    pub(super) fn put(&self, body: &Bytes) -> io::Result<Digest> {
        let digest = Digest::of(body);
        let path = self.path(&digest);
        if path.exists() {
            return Ok(digest);
        }
        let dir = path.parent().unwrap_or(&self.0);
        make(dir)?;
        let new = path.with_extension(crate::model::ids::unguessable());
        let written = write(&new, body).and_then(|()| std::fs::rename(&new, &path));
        if let Err(error) = written {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        File::open(dir)?.sync_all()?;
        Ok(digest)
    }

    /// Reads what `digest` names; an error when it is not what was written. Blocks.
    pub(super) fn get(&self, digest: &Digest) -> io::Result<Bytes> {
        let body = Bytes::from(std::fs::read(self.path(digest))?);
        match Digest::of(&body) == *digest {
            true => Ok(body),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("result {digest} was changed"))),
        }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.0.join(&name[..2]).join(name)
    }
}

fn write(path: &Path, body: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(body)?;
    file.sync_all()
}

/// Makes `dir`, for us alone and durably.
fn make(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => File::open(dir.parent().unwrap_or(dir))?.sync_all(),
    }
}
