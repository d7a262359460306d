//! Whether there is room on the disk for the index.

use crate::store::disk_space::DiskSpace;
use std::path::Path;

/// Bytes of room there have to be for the index to be written: sled takes 512 KiB at once, and does
/// not come back from a full disk.
pub(super) const MIN_FREE_BYTES: u64 = 2 << 20;

/// Bytes of room for the directory `data`; where that cannot be known, there is enough.
pub(super) fn room(data: &Path) -> u64 {
    DiskSpace::of(data).map_or(u64::MAX, |disk| disk.free)
}
