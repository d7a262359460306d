//! The files of a journal, segments and summaries alike: found by their numbers, opened with care.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The numbers of all files in `dir` that have one of the names `name` makes, which end with
/// `ending`; in order.
pub(super) fn numbered(dir: &Path, name: fn(u64) -> String, ending: &str) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(dir)? {
        let item = item?;
        let number = item
            .file_name()
            .to_str()
            .and_then(|name| name.strip_suffix(ending)?.parse().ok());
        found.extend(number.filter(|number| item.file_name().to_str() == Some(&name(*number))));
    }
    found.sort_unstable();
    Ok(found)
}

/// Opens one; never follows a link, and never waits on something that is not a file.
pub(super) fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("this is not a regular file"));
    }
    Ok(file)
}
