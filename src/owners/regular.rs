//! Files that a configuration, a policy or an operator names, read whole or not at all. Regular files alone:
//! nobody may ever write to a pipe, and a device may never end.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileFault {
    /// It cannot be opened or read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It is a directory, a pipe, a socket or a device.
    #[error("it is no regular file")]
    NotRegular,
    /// It has more bytes than may be.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
}

impl From<FileFault> for io::Error {
    fn from(fault: FileFault) -> Self {
        match fault {
            FileFault::Unreadable(error) => error,
            FileFault::NotRegular | FileFault::TooLarge(_) => Self::other(fault),
        }
    }
}

/// What the regular file at `path` holds, of at most `most` bytes; links are followed. Blocks as long as the disk
/// does, and never for another program.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, FileFault> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read <= most) {
        Ok(bytes)
    } else {
        Err(FileFault::TooLarge(most))
    }
}

/// The regular file at `path`, to be read.
pub(crate) fn open(path: &Path) -> Result<File, FileFault> {
    // A pipe that nobody writes to is opened all the same, and then refused. Programs that are started
    // meanwhile do not get it, and no terminal becomes this process's own.
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(FileFault::NotRegular)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::path::PathBuf;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// The fault in words, or what was read; none where that does not end.
    fn read_in_time(path: PathBuf) -> Option<Result<Vec<u8>, String>> {
        let (sender, receiver) = channel();
        std::thread::spawn(move || sender.send(read(&path, 4).map_err(|fault| fault.to_string())));
        receiver.recv_timeout(Duration::from_secs(20)).ok()
    }

    /// What is no regular file is refused at once, and what is too large is not read to its end.
    #[test]
    fn regular_files_alone_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        std::fs::write(place("whole"), "1234").unwrap();
        std::fs::write(place("large"), "12345").unwrap();
        std::os::unix::fs::symlink("whole", place("link")).unwrap();
        mknodat(CWD, place("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for name in ["whole", "link"] {
            let read = read_in_time(place(name)).unwrap();
            assert_eq!(read.as_deref(), Ok(b"1234".as_slice()), "{name}");
        }
        let other = "it is no regular file";
        for (path, why) in [
            (place("large"), "it is larger than 4 bytes"),
            (place("pipe"), other),
            (place(""), other),
            (PathBuf::from("/dev/zero"), other),
        ] {
            let read = read_in_time(path.clone());
            assert_eq!(read, Some(Err(why.to_owned())), "{}", path.display());
        }
        let gone = read(&place("gone"), 4).unwrap_err();
        assert_eq!(io::Error::from(gone).kind(), io::ErrorKind::NotFound);
    }
}
