//! Segments: the files a journal consists of, named by their first record. Numbers are
//! little-endian.
//!
//! ```text
//!  0  magic    8    "TGJOURNL"
//!  8  version  u32  1; 2 where it was compressed since (`compressed`)
//! 12  hashing  u32  1: SHA-256 without a key; 2: batches may be sealed
//! 16  number   u64  segments counted from 1
//! 24  first    u64  number of its first record
//! 32  epoch    u64  which run began it
//! 40  chain    32   hash over the last frame of the segment before; random in the first, so that no two journals
//!                   have the same chain
//! 72  key      8    which key sealed the batch before; zeros: it was not sealed, or there is none
//! 80  zeros    12
//! 92  crc      u32  CRC32C of the 92 bytes above
//! 96  batches
//! ```

use super::chain::{Hash, Head, hash};
use super::error::WriteFailure;
use super::files::numbered;
use super::frame::array;
use super::seal::KeyId;
use super::{data_dir, summary};
use crate::owners::private::fresh;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes before the first batch.
pub(super) const SEGMENT_HEADER_BYTES: u64 = 96;
const SEGMENT_MAGIC: [u8; 8] = *b"TGJOURNL";
const FORMAT_VERSION: u32 = 1;
const COMPRESSED_VERSION: u32 = 2;
const SHA256_FLAG: u32 = 1;
const SEALED_FLAG: u32 = 2;

/// How a segment stands on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentForm {
    /// As it was written.
    Plain,
    /// Compressed since.
    Compressed,
}

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: u64,
    pub(super) first: u64,
    pub(super) epoch: u64,
    pub(super) chain: Hash,
    /// Whether its batches may be sealed. Who does not know of seals must not take them for torn
    /// writes.
    pub(super) sealed: bool,
    /// Which key sealed the batch before.
    pub(super) key: Option<KeyId>,
}

impl SegmentHeader {
    /// The header of the segment after `number`, which ended at `head`; its batches are not sealed.
    pub(super) fn after(number: u64, head: Head, epoch: u64) -> Self {
        Self {
            number: number + 1,
            first: head.seq + 1,
            epoch,
            chain: head.hash,
            sealed: false,
            key: None,
        }
    }

    /// The same where batches are sealed, and `key` has sealed the last one.
    pub(super) fn sealing(self, key: Option<KeyId>) -> Self {
        Self {
            sealed: true,
            key,
            ..self
        }
    }

    /// The header as it stands at the beginning of a file of that form.
    pub(super) fn encode(&self, form: SegmentForm) -> [u8; 96] {
        let version = match form {
            SegmentForm::Plain => FORMAT_VERSION,
            SegmentForm::Compressed => COMPRESSED_VERSION,
        };
        let mut out = [0; 96];
        out[..8].copy_from_slice(&SEGMENT_MAGIC);
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[12..16].copy_from_slice(
            &(if self.sealed {
                SEALED_FLAG
            } else {
                SHA256_FLAG
            })
            .to_le_bytes(),
        );
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[24..32].copy_from_slice(&self.first.to_le_bytes());
        out[32..40].copy_from_slice(&self.epoch.to_le_bytes());
        out[40..72].copy_from_slice(&self.chain);
        out[72..80].copy_from_slice(&self.key.map_or([0; 8], |key| key.0));
        let crc = crc32c::crc32c(&out[..92]);
        out[92..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; 96]) -> Result<(Self, SegmentForm), &'static str> {
        if array(bytes, 0) != SEGMENT_MAGIC {
            return Err("this is not a segment of a toolgate journal");
        }
        if u32::from_le_bytes(array(bytes, 92)) != crc32c::crc32c(&bytes[..92]) {
            return Err("the segment's header does not match its checksum");
        }
        let newer = "a newer toolgate wrote this segment; read it with that one";
        let form = match u32::from_le_bytes(array(bytes, 8)) {
            FORMAT_VERSION => SegmentForm::Plain,
            COMPRESSED_VERSION => SegmentForm::Compressed,
            _ => return Err(newer),
        };
        let hashing = u32::from_le_bytes(array(bytes, 12));
        if !matches!(hashing, SHA256_FLAG | SEALED_FLAG) {
            return Err(newer);
        }
        let header = Self {
            number: u64::from_le_bytes(array(bytes, 16)),
            first: u64::from_le_bytes(array(bytes, 24)),
            epoch: u64::from_le_bytes(array(bytes, 32)),
            chain: array(bytes, 40),
            sealed: hashing == SEALED_FLAG,
            key: KeyId::read(array(bytes, 72)),
        };
        Ok((header, form))
    }

    /// The head after this header, before the segment's first batch: the chain runs through headers
    /// too, as they were written.
    pub(super) fn head(&self) -> Head {
        Head {
            seq: self.first.saturating_sub(1),
            hash: hash(&self.encode(SegmentForm::Plain)),
        }
    }
}

/// The name of the segment whose first record is `first`.
pub(super) fn name(first: u64) -> String {
    format!("{first:020}.journal")
}

/// The first records of all segments in `dir` that no summary stands for, in order.
pub(super) fn list(dir: &Path) -> io::Result<Vec<u64>> {
    let dropped = summary::list(dir)?.last().copied().unwrap_or_default();
    let mut segments = every(dir)?;
    segments.retain(|first| *first > dropped);
    Ok(segments)
}

/// As `list`, with those a summary stands for that are not removed yet.
pub(super) fn every(dir: &Path) -> io::Result<Vec<u64>> {
    numbered(dir, name, ".journal")
}

/// Reads the header of `file`, and the form that the rest of it has.
pub(super) fn read_header(
    file: &File,
) -> io::Result<Result<(SegmentHeader, SegmentForm), &'static str>> {
    let mut raw = [0; 96];
    match file.read_exact_at(&mut raw, 0) {
        Ok(()) => Ok(SegmentHeader::decode(&raw)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Ok(Err("the segment has no whole header"))
        }
        Err(error) => Err(error),
    }
}

/// Makes the segment that begins with `header` in `dir`, under a name that nobody reads yet.
pub(super) fn prepare(dir: &Path, header: &SegmentHeader) -> Result<File, WriteFailure> {
    let new = dir.join(name(header.first)).with_extension("new");
    let mut file = fresh(&new)?;
    file.write_all(&header.encode(SegmentForm::Plain))?;
    file.sync_all().map_err(WriteFailure::Failed)?;
    Ok(file)
}

/// Gives a prepared segment its name: it is whole and durable, or not there.
pub(super) fn publish(dir: &Path, header: &SegmentHeader) -> Result<(), WriteFailure> {
    let path = dir.join(name(header.first));
    std::fs::rename(path.with_extension("new"), &path)?;
    data_dir::sync_dir(dir).map_err(WriteFailure::Failed)
}

/// Removes a prepared segment.
pub(super) fn discard(dir: &Path, header: &SegmentHeader) {
    // The next start does it too.
    let _ = std::fs::remove_file(dir.join(name(header.first)).with_extension("new"));
}
