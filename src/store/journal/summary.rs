//! The sealed summary: what stands in the place of segments that were dropped. Numbers are
//! little-endian.
//!
//! ```text
//!   0  magic     8    "TGSUMMRY"
//!   8  version   u32  1
//!  12  hashing   u32  1: SHA-256 without a key; 2: batches may be sealed
//!  16  segments  u64  number of the last segment it stands for
//!  24  first     u64  number of the first record it stands for
//!  32  last      u64  and of the last one
//!  40  state     u64  the record after which what it carries is so
//!  48  dropped   u64  bytes of the segments it stands for, as they were written
//!  56  before    32   the chain before the first of them
//!  88  after     32   hash over the last frame of the last of them
//! 120  archived  u64  the first record from which on everything it stands for is in the archive; 0: not all of it is
//! 128  zeros     28
//! 156  crc       u32  CRC32C of the 156 bytes above
//! 160  batches        as in a segment, counted from 1: the events that are carried; then one of one seal
//! ```
//!
//! The seal ends the file and counts what is before it. The hash over its batch stands in a record
//! of the journal, written before the summary takes its name: an operator who keeps a head of the
//! journal keeps the summary's too.

use super::chain::{Hash, Head, hash};
use super::error::{JournalDamage, JournalError};
use super::frame::{self, Batch, BatchScan, EVENT_RECORD, Frame, SUMMARY_SEAL_RECORD, array};
use super::item::{MAX_EVENT_BYTES, RecordGroup};
use super::seal::{BatchSeal, SealVerdict, SealingKey, SealingKeys};
use super::{data_dir, files, source};
use crate::owners::private::fresh;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes before the first batch.
const SUMMARY_HEADER_BYTES: usize = 160;
const SUMMARY_MAGIC: [u8; 8] = *b"TGSUMMRY";
const FORMAT_VERSION: u32 = 1;
const SHA256_FLAG: u32 = 1;
const SEALED_FLAG: u32 = 2;
/// A batch is closed when it has reached this size.
const BATCH_CLOSE_BYTES: usize = 1 << 20;

/// The header of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SummaryHeader {
    pub(super) segments: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) state: u64,
    pub(super) dropped: u64,
    pub(super) before: Hash,
    pub(super) after: Hash,
    /// The first record from which on everything it stands for is in the archive; 0: not all of it
    /// is.
    pub(super) archived: u64,
    /// Whether its batches may be sealed.
    pub(super) sealed: bool,
}

impl SummaryHeader {
    fn encode(&self) -> [u8; SUMMARY_HEADER_BYTES] {
        let mut out = [0; SUMMARY_HEADER_BYTES];
        out[..8].copy_from_slice(&SUMMARY_MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(
            &(if self.sealed {
                SEALED_FLAG
            } else {
                SHA256_FLAG
            })
            .to_le_bytes(),
        );
        let numbers = [
            self.segments,
            self.first,
            self.last,
            self.state,
            self.dropped,
        ];
        for (place, number) in out[16..56].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        out[56..88].copy_from_slice(&self.before);
        out[88..120].copy_from_slice(&self.after);
        out[120..128].copy_from_slice(&self.archived.to_le_bytes());
        let crc = crc32c::crc32c(&out[..156]);
        out[156..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; SUMMARY_HEADER_BYTES]) -> Result<Self, &'static str> {
        if u32::from_le_bytes(array(bytes, 156)) != crc32c::crc32c(&bytes[..156]) {
            return Err("the summary's header does not match its checksum");
        }
        if bytes[..8] != SUMMARY_MAGIC {
            return Err("this is no summary of a journal");
        }
        let hashing = u32::from_le_bytes(array(bytes, 12));
        if u32::from_le_bytes(array(bytes, 8)) != FORMAT_VERSION
            || !matches!(hashing, SHA256_FLAG | SEALED_FLAG)
        {
            return Err(
                "the summary is of a version this toolgate does not know; a newer one wrote it",
            );
        }
        let number = |at| u64::from_le_bytes(array(bytes, at));
        let (before, after) = (array(bytes, 56), array(bytes, 88));
        let (segments, first, last, state, dropped) =
            (number(16), number(24), number(32), number(40), number(48));
        let (archived, sealed) = (number(120), hashing == SEALED_FLAG);
        Ok(Self {
            segments,
            first,
            last,
            state,
            dropped,
            before,
            after,
            archived,
            sealed,
        })
    }
}

/// The name of the summary that stands for everything up to record `last`.
pub(super) fn name(last: u64) -> String {
    format!("{last:020}.summary")
}

/// The last records of all summaries in `dir`, in order; the newest counts.
pub(super) fn list(dir: &Path) -> io::Result<Vec<u64>> {
    files::numbered(dir, name, ".summary")
}

/// A summary, open.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) header: SummaryHeader,
    file: File,
    path: PathBuf,
    offset: u64,
    head: Head,
    /// The seal of the batch that was read last.
    seal: Option<Box<BatchSeal>>,
}

impl Summary {
    /// Opens the newest summary in `dir`; none where nothing was ever dropped.
    pub(super) fn open(dir: &Path) -> Result<Option<Self>, JournalError> {
        let listed = list(dir).map_err(|source| JournalError::io("read", dir, source))?;
        let Some(last) = listed.last() else {
            return Ok(None);
        };
        let path = dir.join(name(*last));
        let failed = |source| JournalError::io("read", &path, source);
        let file = files::open(&path, false).map_err(failed)?;
        let mut raw = [0; SUMMARY_HEADER_BYTES];
        let got = source::read_up_to(&file, &mut raw, 0).map_err(failed)?;
        let damaged = |what: &str| {
            let segment = name(*last);
            JournalError::Damaged(JournalDamage {
                segment,
                offset: 0,
                seq: *last,
                what: what.to_owned(),
            })
        };
        if got < SUMMARY_HEADER_BYTES {
            return Err(damaged("the summary has no whole header"));
        }
        let header = SummaryHeader::decode(&raw).map_err(damaged)?;
        if header.last != *last {
            return Err(damaged("the summary's name and header differ"));
        }
        let head = Head {
            seq: 0,
            hash: hash(&raw),
        };
        Ok(Some(Self {
            header,
            file,
            path,
            offset: SUMMARY_HEADER_BYTES as u64,
            head,
            seal: None,
        }))
    }

    fn wrong(&self, what: &str) -> JournalError {
        let segment = name(self.header.last);
        JournalError::Damaged(JournalDamage {
            segment,
            offset: self.offset,
            seq: self.header.last,
            what: what.to_owned(),
        })
    }

    /// The next batch of what it carries; none after the last.
    pub(super) fn next(&mut self) -> Result<Option<Batch>, JournalError> {
        let found = frame::read(&mut self.file, self.offset, &self.head);
        let batch = match found.map_err(|source| JournalError::io("read", &self.path, source))? {
            BatchScan::Whole(batch) => batch,
            BatchScan::Bad(what) => return Err(self.wrong(what)),
            BatchScan::Nothing | BatchScan::Partial => {
                return Err(self.wrong("the summary ends before its seal"));
            }
        };
        let carried = self.head.seq;
        self.seal.clone_from(&batch.seal);
        self.offset += batch.size;
        self.head = batch.head;
        if batch.payload.first() != Some(&SUMMARY_SEAL_RECORD) {
            return Ok(Some(batch));
        }
        let length = self
            .file
            .metadata()
            .map_err(|source| JournalError::io("read", &self.path, source))?
            .len();
        let count = u64::from_le_bytes(array(&batch.payload, frame::RECORD_HEADER_BYTES));
        let sealed = length == self.offset && batch.header.count == 1 && count == carried;
        if sealed {
            Ok(None)
        } else {
            Err(self.wrong("the summary's seal is not where it should be"))
        }
    }

    /// Reads it to its seal; gives the record of the journal that vouches for it. Seals whose keys
    /// are among `keys` have to fit.
    pub(super) fn check(&mut self, keys: &SealingKeys) -> Result<Vec<u8>, JournalError> {
        loop {
            let more = self.next()?.is_some();
            if self
                .seal
                .as_ref()
                .is_some_and(|seal| keys.verify_seal(seal) == SealVerdict::Forged)
            {
                return Err(
                    self.wrong("the summary's seal does not fit: someone without the key wrote it")
                );
            }
            if !more {
                return Ok(seal(self.header.last, &self.head.hash));
            }
        }
    }
}

/// The bytes of the record that vouches for the summary up to `last` whose seal has this `hash`.
fn seal(last: u64, hash: &Hash) -> Vec<u8> {
    [&last.to_le_bytes(), hash.as_slice()].concat()
}

/// Writes a summary that carries `events`, sealed with `key` when there is one, into `dir`,
/// durably, under a name that nobody reads yet. Gives the record that is to vouch for it.
pub(super) fn prepare(
    dir: &Path,
    header: &SummaryHeader,
    key: Option<&SealingKey>,
    events: impl Iterator<Item = Result<Vec<u8>, JournalError>>,
) -> Result<Vec<u8>, JournalError> {
    let path = dir.join(name(header.last)).with_extension("new");
    let failed = |source| JournalError::io("write", &path, source);
    let file = fresh(&path).map_err(failed)?;
    let mut file = BufWriter::new(file);
    let raw = SummaryHeader {
        sealed: key.is_some(),
        ..*header
    }
    .encode();
    file.write_all(&raw).map_err(failed)?;
    let mut writing = SummaryWriter {
        file,
        head: Head {
            seq: 0,
            hash: hash(&raw),
        },
        frame: Frame::new(),
        key,
    };
    for event in events {
        let event = event?;
        if event.len() > MAX_EVENT_BYTES {
            return Err(JournalError::TooLarge {
                bytes: event.len(),
                limit: MAX_EVENT_BYTES,
            });
        }
        writing.add(EVENT_RECORD, &event).map_err(failed)?;
    }
    writing.flush().map_err(failed)?;
    let carried = writing.head.seq;
    writing
        .add(SUMMARY_SEAL_RECORD, &carried.to_le_bytes())
        .map_err(failed)?;
    writing.flush().map_err(failed)?;
    let file = writing
        .file
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    Ok(seal(header.last, &writing.head.hash))
}

/// Gives a prepared summary its name.
pub(super) fn publish(dir: &Path, header: &SummaryHeader) -> Result<(), JournalError> {
    let path = dir.join(name(header.last));
    let done =
        std::fs::rename(path.with_extension("new"), &path).and_then(|()| data_dir::sync_dir(dir));
    done.map_err(|source| JournalError::io("name", &path, source))
}

struct SummaryWriter<'a> {
    file: BufWriter<File>,
    head: Head,
    frame: Frame,
    key: Option<&'a SealingKey>,
}

impl SummaryWriter<'_> {
    fn add(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let group = RecordGroup::of(kind, bytes);
        self.frame.add(&group.bytes, group.count);
        if self.frame.payload() >= BATCH_CLOSE_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.frame.count() > 0 {
            let (sealed, head) = self.frame.complete(self.head, 0, 0, self.key);
            self.file.write_all(sealed)?;
            self.head = head;
            self.frame.clear();
        }
        Ok(())
    }
}
