//! Files and directories for the account alone that runs this, and files that are replaced whole or
//! not at all (threat-model §9).

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The mode of a directory that its owner alone may enter.
pub(crate) const PRIVATE_DIRECTORY_MODE: u32 = 0o700;
/// The mode of a file that its owner alone may read and write.
pub(crate) const PRIVATE_FILE_MODE: u32 = 0o600;

/// Makes the file at `path`, empty and for us alone. What was there under that name is removed
/// first, so that no link is followed and no file of another's is written.
pub(crate) fn fresh(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(PRIVATE_FILE_MODE)
        .custom_flags(flags)
        .open(path)
}

/// Gives the file at `path` these bytes and this mode, whole and synced or not at all, by way of
/// `beside` in the same directory: what was there under that name is removed first. The new name is
/// durable once the directory is synced.
pub(crate) fn replace_file(path: &Path, beside: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let write = |mut file: File| {
        // Also what the umask takes away.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    let replaced = fresh(beside)
        .and_then(write)
        .and_then(|()| std::fs::rename(beside, path));
    if replaced.is_err() {
        drop(std::fs::remove_file(beside));
    }
    replaced
}
