//! Marks that a call may have left: set right before the first byte, never synced. A process that
//! is killed leaves its marks with the kernel, so while the kernel lives, a call in flight without
//! a mark was not sent (guarantees §4). They stand beside the journal, in slots that are used
//! again: a mark means nothing any more once its call is settled.
//!
//! That a mark is missing is a proof, so the file shows that it is whole: it has its full length
//! from the start, and each slot says the same twice. One that is cut, emptied or partly gone
//! proves nothing.

use crate::model::ids::ActionId;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes of a call's id.
const ID_BYTES: usize = 16;
/// Bytes of a slot: the id, and the same with every bit the other way.
const SLOT_BYTES: usize = 2 * ID_BYTES;
/// Marks at once; a call beyond that is treated as sent before it is.
const MAX_SENT_FLAGS: usize = 4096;

/// The marks of one data directory.
#[derive(Debug)]
pub(super) struct SentFlags {
    path: PathBuf,
    /// None until the file is whole.
    file: OnceLock<File>,
    slots: Mutex<FlagSlots>,
}

#[derive(Debug, Default)]
struct FlagSlots {
    used: HashMap<ActionId, usize>,
    free: Vec<usize>,
    /// Slots never used so far begin here.
    next: usize,
}

impl SentFlags {
    /// Reads the marks in `data`, with those that the last process left, unless they are gone or
    /// damaged: then nothing is proven, and none can be set before [`Self::begin`].
    pub(super) fn open(data: &Path) -> io::Result<(Self, Option<HashSet<[u8; ID_BYTES]>>)> {
        let path = data.join("sent");
        let file = match options().open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let left = file.as_ref().map(whole).transpose()?.flatten();
        let file = file.filter(|_| left.is_some());
        let file = file.map_or_else(OnceLock::new, OnceLock::from);
        Ok((
            Self {
                path,
                file,
                slots: Mutex::default(),
            },
            left,
        ))
    }

    /// Makes a whole file of one that was not. Only once nothing is in flight that it would have to
    /// prove something of: the next start takes it for complete.
    pub(super) fn begin(&self) -> io::Result<()> {
        if self.file.get().is_some() {
            return Ok(());
        }
        let fresh = self.path.with_extension("new");
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = options().create_new(true).open(&fresh)?;
        file.write_all_at(&slot([0; ID_BYTES]).repeat(MAX_SENT_FLAGS), 0)?;
        std::fs::rename(&fresh, &self.path)?;
        // Nobody else begins it.
        drop(self.file.set(file));
        Ok(())
    }

    /// Marks `action`; the kernel has it when this returns.
    pub(super) fn set(&self, action: ActionId) -> io::Result<()> {
        let file = self
            .file
            .get()
            .ok_or_else(|| io::Error::other("there is no file of marks yet"))?;
        let place = {
            let mut slots = self.slots.lock();
            // It is sent once more.
            if slots.used.contains_key(&action) {
                return Ok(());
            }
            let fresh = slots.next;
            let place = slots
                .free
                .pop()
                .or_else(|| (fresh < MAX_SENT_FLAGS).then_some(fresh));
            let place = place.ok_or_else(|| io::Error::other("too many calls in flight"))?;
            slots.next = slots.next.max(place + 1);
            slots.used.insert(action, place);
            place
        };
        file.write_all_at(&slot(*action.as_bytes()), (place * SLOT_BYTES) as u64)
    }

    /// The call is settled, durably: its slot may be used again.
    pub(super) fn clear(&self, action: ActionId) {
        let mut slots = self.slots.lock();
        if let Some(place) = slots.used.remove(&action) {
            slots.free.push(place);
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    options
        .read(true)
        .write(true)
        .mode(crate::owners::private::PRIVATE_FILE_MODE)
        .custom_flags(no_links);
    options
}

fn slot(id: [u8; ID_BYTES]) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..ID_BYTES].copy_from_slice(&id);
    slot[ID_BYTES..].copy_from_slice(&id.map(|byte| !byte));
    slot
}

/// The ids in a file of marks; none when it isn't whole.
fn whole(file: &File) -> io::Result<Option<HashSet<[u8; ID_BYTES]>>> {
    if file.metadata()?.len() != (MAX_SENT_FLAGS * SLOT_BYTES) as u64 {
        tracing::warn!("the file `sent` is not whole: calls that were in flight count as unknown");
        return Ok(None);
    }
    let mut bytes = vec![0; MAX_SENT_FLAGS * SLOT_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    let ids: Option<HashSet<_>> = bytes
        .chunks_exact(SLOT_BYTES)
        .map(|read| {
            read.first_chunk::<ID_BYTES>()
                .copied()
                .filter(|id| slot(*id) == read)
        })
        .collect();
    if ids.is_none() {
        tracing::warn!("the file `sent` is damaged: calls that were in flight count as unknown");
    }
    Ok(ids)
}
