//! What a segment is written on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What a segment is written on. Tests put something between that fails or forgets.
pub(super) trait Medium: Send {
    /// Writes all of `bytes` at `at`.
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Reserves space for the file up to `length`; whether that can be done is up to the file
    /// system.
    fn reserve(&self, length: u64) -> io::Result<()>;
    /// Gives back what is reserved or half written beyond `length`.
    fn cut(&self, length: u64) -> io::Result<()>;
    /// Waits until everything written is on the disk.
    fn sync(&self) -> io::Result<()>;
}

/// Makes the medium of a segment's file.
pub(super) type Wrap = Box<dyn Fn(File) -> Box<dyn Medium> + Send>;

impl Medium for File {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, rustix::fs::FallocateFlags::empty(), 0, length) {
            // Not every file system can; it only costs speed.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            done => Ok(done?),
        }
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
