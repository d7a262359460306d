//! What batches are read from. Offsets are of the bytes as they were written, in whatever form they stand on the disk
//! now.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes as they were written.
pub(super) trait FrameSource {
    /// Reads up to `out.len()` bytes from byte `at` on; gives how many there were.
    fn read_up_to(&mut self, out: &mut [u8], at: u64) -> Result<usize, ReadFault>;
}

/// Why bytes cannot be read.
#[derive(Debug)]
pub(super) enum ReadFault {
    /// The operating system refused.
    Disk(io::Error),
    /// What stands there is not what was written.
    Damaged(&'static str),
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl FrameSource for File {
    fn read_up_to(&mut self, out: &mut [u8], at: u64) -> Result<usize, ReadFault> {
        Ok(read_up_to(self, out, at)?)
    }
}

/// Reads up to `out.len()` bytes of `file` itself; gives how many there were.
pub(super) fn read_up_to(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < out.len() {
        match file.read_at(&mut out[got..], at + got as u64) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
