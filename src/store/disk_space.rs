//! How much room the disk of the data directory has, and when that is little.

use std::io;
use std::path::Path;

/// Room below which operators are warned, on any disk: at a thousand recorded calls in a second it lasts for about
/// a quarter of an hour …
const LOW_BYTES: u64 = 1 << 30;
/// … but on a small disk, only this part of it: one that was made small is not low from the start.
const LOW_PART: u64 = 10;

/// The room on one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    /// Bytes that toolgate can still write.
    pub free: u64,
    /// Bytes that there are.
    pub total: u64,
}

impl DiskSpace {
    /// That of the disk of `data`, or of the nearest directory above it that exists. Asks the file system, which
    /// may take long where it is far away.
    pub(crate) fn of(data: &Path) -> io::Result<Self> {
        let there = data.ancestors().find(|above| above.exists());
        let there = there.filter(|there| !there.as_os_str().is_empty());
        let about = rustix::fs::statvfs(there.unwrap_or(Path::new(".")))?;
        Ok(Self {
            free: about.f_bavail.saturating_mul(about.f_frsize),
            total: about.f_blocks.saturating_mul(about.f_frsize),
        })
    }

    /// Bytes below which it is low.
    pub(crate) fn low_mark(self) -> u64 {
        LOW_BYTES.min(self.total / LOW_PART)
    }

    /// Whether operators should make room.
    pub(crate) fn is_low(self) -> bool {
        self.free < self.low_mark()
    }

    /// As [`Self::is_low`], where it was low before: a tenth more is asked for then, so that what is about to be
    /// full is not told of every few seconds.
    pub(crate) fn is_still_low(self) -> bool {
        self.free < self.low_mark() + self.low_mark() / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_disk_is_low_below_a_gibibyte_or_a_tenth() {
        for (free, total, is_low, is_still_low) in [
            (GIB, 500 * GIB, false, true),
            (GIB - 1, 500 * GIB, true, true),
            (GIB / 10, GIB, false, true),
            (GIB / 10 - 1, GIB, true, true),
            (2 * GIB, 500 * GIB, false, false),
            (0, 0, false, false),
        ] {
            let disk = DiskSpace { free, total };
            assert_eq!(
                (disk.is_low(), disk.is_still_low()),
                (is_low, is_still_low),
                "{disk:?}"
            );
        }
    }

    #[test]
    fn a_directory_that_is_not_there_yet_is_asked_for_above_it() {
        let directory = tempfile::tempdir().unwrap();
        let asked = DiskSpace::of(&directory.path().join("data/of/a/new/toolgate")).unwrap();
        assert!(asked.total > 0 && asked.free <= asked.total, "{asked:?}");
        assert!(DiskSpace::of(Path::new("no-such-data")).unwrap().total > 0);
    }
}
