//! Marks that a call may have left: set right before the first byte, never synced. A process that is killed leaves its
//! marks with the kernel, so while the kernel lives, a call in flight without a mark was not sent (SEMANTICS §4). They stand
//! beside the journal, in slots that are used again: a mark means nothing any more once its call is settled.

use crate::model::ids::ActionId;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of a mark: the call's id.
const MARK: usize = 16;
/// Marks at once; a call beyond that is treated as sent before it is.
const SLOTS: u64 = 4096;

/// The marks of one data directory.
#[derive(Debug)]
pub(super) struct Marks {
    file: File,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    used: HashMap<ActionId, u64>,
    free: Vec<u64>,
    /// Slots never used so far begin here.
    next: u64,
}

impl Marks {
    /// Opens the marks in `data`; with those that the last process left, unless they are gone: then nothing is proven.
    pub(super) fn open(data: &Path) -> io::Result<(Self, Option<HashSet<[u8; MARK]>>)> {
        let path = data.join("sent");
        let was_there = path.exists();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        let mut left = HashSet::new();
        let mut mark = [0; MARK];
        for slot in 0..SLOTS.min(file.metadata()?.len() / MARK as u64) {
            file.read_exact_at(&mut mark, slot * MARK as u64)?;
            left.insert(mark);
        }
        Ok((Self { file, slots: Mutex::default() }, was_there.then_some(left)))
    }

    /// Marks `action`; the kernel has it when this returns.
    pub(super) fn set(&self, action: ActionId) -> io::Result<()> {
        let slot = {
            let mut slots = self.slots.lock();
            // It is sent once more.
            if slots.used.contains_key(&action) {
                return Ok(());
            }
            let fresh = slots.next;
            let slot = slots.free.pop().or_else(|| (fresh < SLOTS).then_some(fresh));
            let slot = slot.ok_or_else(|| io::Error::other("too many calls in flight"))?;
            slots.next = slots.next.max(slot + 1);
            slots.used.insert(action, slot);
            slot
        };
        self.file.write_all_at(action.as_bytes(), slot * MARK as u64)
    }

    /// The call is settled, durably: its slot may be used again.
    pub(super) fn clear(&self, action: ActionId) {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.used.remove(&action) {
            slots.free.push(slot);
        }
    }
}
