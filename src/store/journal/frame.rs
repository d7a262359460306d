//! A batch on disk. Numbers are little-endian.
//!
//! ```text
//!  0  length    u32  bytes of the payload, never 0
//!  4  crc       u32  CRC32C of the payload
//!  8  first     u64  number of its first record
//! 16  count     u32  records
//! 20  flags     u32  1: sealed; 0: not
//! 24  epoch     u64  which run wrote it
//! 32  synced    u64  the last record known to be synced when it was written
//! 40  previous  32   hash over the frame before it
//! 72  crc       u32  CRC32C of the 72 bytes above
//! 76  payload        records: kind u8, length u32, bytes
//!     key       8    which key sealed it; only when sealed
//!     seal      32   HMAC-SHA256 over the hash over everything above; only when sealed
//!     crc       u32  CRC32C of the key and the seal; only when sealed
//!     end       u8   0xA5
//! ```
//!
//! A write that stopped half-way leaves a prefix and then nothing or zeros: the first record's kind
//! or the end is missing. Anything else that does not fit was changed afterwards. `synced` tells,
//! for a bad frame with good ones after it, whether it had been whole once.

use super::chain::{Hash, Head};
use super::seal::{BatchSeal, KeyId, SealingKey};
use super::source::{FrameSource, ReadFault};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::io;

/// Bytes before the payload.
pub(super) const BATCH_HEADER_BYTES: usize = 76;
/// Bytes before a record's own bytes.
pub(super) const RECORD_HEADER_BYTES: usize = 5;
/// The last byte of a frame.
const END_BYTE: u8 = 0xA5;
/// The flag of a sealed batch.
const SEALED_FLAG: u32 = 1;
/// Bytes of a key's id; of it and the seal; and of these and their checksum.
const KEY_ID_BYTES: usize = 8;
const SEAL_BYTES: usize = KEY_ID_BYTES + 32;
const TRAILER_BYTES: usize = SEAL_BYTES + 4;
/// No batch is larger: what a reader allocates for one is bounded.
pub(super) const MAX_PAYLOAD_BYTES: usize = 4 << 20;

/// A record that holds an entry as JSON.
pub(super) const ENTRY_RECORD: u8 = 1;
/// A record that holds an event in the words of who appended it.
pub(super) const EVENT_RECORD: u8 = 2;

/// A record that holds what was sent or came back of a call: a head as JSON on a line, then the bytes.
pub(super) const CONTENT_RECORD: u8 = 5;

/// A record that vouches for a summary: the last record it stands for (u64), and its hash.
pub(super) const SUMMARY_SEAL_RECORD: u8 = 3;
/// A record that another key seals from here on, or none: `{"time", "key", "previous"}`.
pub const REKEYED_RECORD: u8 = 4;

/// Part of `bytes` as an array; zeros where they end too early.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(part) = bytes.get(at..at + N) {
        out.copy_from_slice(part);
    }
    out
}

/// The header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchHeader {
    pub(super) length: u32,
    crc: u32,
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) epoch: u64,
    pub(super) synced: u64,
    previous: Hash,
    sealed: bool,
}

impl BatchHeader {
    fn encode(&self) -> [u8; BATCH_HEADER_BYTES] {
        let mut out = [0; BATCH_HEADER_BYTES];
        out[..4].copy_from_slice(&self.length.to_le_bytes());
        out[4..8].copy_from_slice(&self.crc.to_le_bytes());
        out[8..16].copy_from_slice(&self.first.to_le_bytes());
        out[16..20].copy_from_slice(&self.count.to_le_bytes());
        out[20..24].copy_from_slice(&(if self.sealed { SEALED_FLAG } else { 0 }).to_le_bytes());
        out[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        out[32..40].copy_from_slice(&self.synced.to_le_bytes());
        out[40..72].copy_from_slice(&self.previous);
        let crc = crc32c::crc32c(&out[..72]);
        out[72..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header in `bytes`, when its CRC fits and its numbers are possible.
    pub(super) fn decode(bytes: &[u8; BATCH_HEADER_BYTES]) -> Result<Self, &'static str> {
        if u32::from_le_bytes(array(bytes, 72)) != crc32c::crc32c(&bytes[..72]) {
            return Err("the batch's header does not match its checksum");
        }
        let header = Self {
            length: u32::from_le_bytes(array(bytes, 0)),
            crc: u32::from_le_bytes(array(bytes, 4)),
            first: u64::from_le_bytes(array(bytes, 8)),
            count: u32::from_le_bytes(array(bytes, 16)),
            epoch: u64::from_le_bytes(array(bytes, 24)),
            synced: u64::from_le_bytes(array(bytes, 32)),
            previous: array(bytes, 40),
            sealed: u32::from_le_bytes(array(bytes, 20)) == SEALED_FLAG,
        };
        if !matches!(u32::from_le_bytes(array(bytes, 20)), 0 | SEALED_FLAG) {
            return Err("the batch has flags this toolgate does not know; a newer one wrote it");
        }
        if header.length as usize > MAX_PAYLOAD_BYTES || header.length == 0 || header.count == 0 {
            return Err("the batch has an impossible size");
        }
        Ok(header)
    }
}

/// A batch being put together; its memory is used again.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: Vec<u8>,
    count: u32,
    /// Bytes after the payload, once it is complete.
    trailer: usize,
}

impl Frame {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; BATCH_HEADER_BYTES],
            count: 0,
            trailer: 0,
        }
    }

    /// Bytes of the records so far.
    pub(super) fn payload(&self) -> usize {
        self.bytes.len() - BATCH_HEADER_BYTES
    }

    /// Adds `count` records that are encoded already.
    pub(super) fn add(&mut self, records: &[u8], count: u32) {
        self.bytes.extend_from_slice(records);
        self.count += count;
    }

    /// How many records it holds.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Completes the batch as the one after `head`, sealed with `key` when there is one; gives the
    /// frame and the head after it.
    pub(super) fn complete(
        &mut self,
        head: Head,
        epoch: u64,
        synced: u64,
        key: Option<&SealingKey>,
    ) -> (&[u8], Head) {
        let header = BatchHeader {
            length: u32::try_from(self.payload()).unwrap_or(u32::MAX),
            crc: crc32c::crc32c(&self.bytes[BATCH_HEADER_BYTES..]),
            first: head.seq + 1,
            count: self.count,
            epoch,
            synced,
            previous: head.hash,
            sealed: key.is_some(),
        };
        self.bytes[..BATCH_HEADER_BYTES].copy_from_slice(&header.encode());
        let length = self.bytes.len();
        let mut hash = Sha256::new_with_prefix(&self.bytes);
        if let Some(key) = key {
            let seal = key.seal(&hash.clone().finalize().into());
            self.bytes.extend_from_slice(&key.id().0);
            self.bytes.extend_from_slice(&seal);
            let crc = crc32c::crc32c(&self.bytes[length..]);
            self.bytes.extend_from_slice(&crc.to_le_bytes());
        }
        self.bytes.push(END_BYTE);
        self.trailer = self.bytes.len() - length;
        hash.update(&self.bytes[length..]);
        (
            &self.bytes,
            Head {
                seq: head.seq + u64::from(self.count),
                hash: hash.finalize().into(),
            },
        )
    }

    /// Undoes `complete`: the batch could not be written.
    pub(super) fn reopen(&mut self) {
        self.bytes.truncate(self.bytes.len() - self.trailer);
        self.trailer = 0;
    }

    /// Begins the next batch.
    pub(super) fn clear(&mut self) {
        self.bytes.truncate(BATCH_HEADER_BYTES);
        // One unusually large batch must not hold its memory for ever.
        self.bytes.shrink_to(2 << 20);
        (self.count, self.trailer) = (0, 0);
    }
}

/// A batch that was read.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) header: BatchHeader,
    pub(super) payload: Bytes,
    /// Bytes of the frame.
    pub(super) size: u64,
    /// Its seal, not judged yet; none when it has none.
    pub(super) seal: Option<Box<BatchSeal>>,
    /// The head after it.
    pub(super) head: Head,
}

/// What stands at some place of a segment.
#[derive(Debug)]
pub(super) enum BatchScan {
    /// A whole batch that follows on what precedes it.
    Whole(Batch),
    /// Nothing yet.
    Nothing,
    /// The beginning of a batch.
    Partial,
    /// Neither.
    Bad(&'static str),
}

/// Looks for the batch after `head` at byte `at` of what `from` has.
pub(super) fn read(from: &mut impl FrameSource, at: u64, head: &Head) -> io::Result<BatchScan> {
    match scan(from, at, head) {
        Ok(found) => Ok(found),
        Err(ReadFault::Damaged(what)) => Ok(BatchScan::Bad(what)),
        Err(ReadFault::Disk(error)) => Err(error),
    }
}

fn scan(from: &mut impl FrameSource, at: u64, head: &Head) -> Result<BatchScan, ReadFault> {
    // One byte more: the first record's kind, which is never 0, shows that the header was written
    // to its end.
    let mut begin = [0; BATCH_HEADER_BYTES + 1];
    let got = from.read_up_to(&mut begin, at)?;
    if begin[..got].iter().all(|byte| *byte == 0) {
        return Ok(BatchScan::Nothing);
    }
    let raw: [u8; BATCH_HEADER_BYTES] = array(&begin, 0);
    let header = match BatchHeader::decode(&raw) {
        Ok(header) => header,
        Err(_) if begin[BATCH_HEADER_BYTES] == 0 => return Ok(BatchScan::Partial),
        Err(what) => return Ok(BatchScan::Bad(what)),
    };
    let length = header.length as usize;
    let end = BATCH_HEADER_BYTES + length;
    let mut frame = vec![0; end + if header.sealed { TRAILER_BYTES } else { 0 } + 1];
    frame[..BATCH_HEADER_BYTES].copy_from_slice(&raw);
    from.read_up_to(
        &mut frame[BATCH_HEADER_BYTES..],
        at + BATCH_HEADER_BYTES as u64,
    )?;
    match frame.last() {
        Some(&END_BYTE) => {}
        Some(0) => return Ok(BatchScan::Partial),
        _ => return Ok(BatchScan::Bad("the batch does not end where it should")),
    }
    if let Some(what) = unfit(&frame, &header, head) {
        return Ok(BatchScan::Bad(what));
    }
    let mut hash = Sha256::new_with_prefix(&frame[..end]);
    let seal = header.sealed.then(|| {
        let (key, mac) = (KeyId(array(&frame, end)), array(&frame, end + KEY_ID_BYTES));
        Box::new(BatchSeal {
            key,
            mac,
            digest: hash.clone().finalize().into(),
        })
    });
    hash.update(&frame[end..]);
    let head = Head {
        seq: head.seq + u64::from(header.count),
        hash: hash.finalize().into(),
    };
    let size = frame.len() as u64;
    let payload = Bytes::from(frame).slice(BATCH_HEADER_BYTES..end);
    Ok(BatchScan::Whole(Batch {
        header,
        payload,
        size,
        seal,
        head,
    }))
}

/// Why the whole `frame` is not the one after `head`.
fn unfit(frame: &[u8], header: &BatchHeader, head: &Head) -> Option<&'static str> {
    let (payload, trailer) = frame[BATCH_HEADER_BYTES..].split_at(header.length as usize);
    let sealed_as = |crc| {
        trailer
            .get(..SEAL_BYTES)
            .is_some_and(|seal| crc32c::crc32c(seal) == crc)
    };
    if crc32c::crc32c(payload) != header.crc {
        return Some("the batch does not match its checksum");
    }
    if header.sealed && !sealed_as(u32::from_le_bytes(array(trailer, SEAL_BYTES))) {
        return Some("the batch's seal does not match its checksum");
    }
    if header.first != head.seq + 1 {
        return Some("the batch's records don't follow on the ones before");
    }
    if header.previous != head.hash {
        return Some(
            "the batch is not chained to the one before it: something was changed or exchanged",
        );
    }
    (records(payload) != Some(header.count))
        .then_some("the batch does not hold the records it should")
}

/// The records in `payload`: their kinds and bytes.
pub(super) fn each(mut payload: Bytes) -> impl Iterator<Item = (u8, Bytes)> {
    std::iter::from_fn(move || {
        let size = record_size(&payload).filter(|size| *size <= payload.len())?;
        let record = payload.split_to(size);
        Some((record[0], record.slice(RECORD_HEADER_BYTES..)))
    })
}

/// How many records `payload` holds, when it holds nothing else.
fn records(mut payload: &[u8]) -> Option<u32> {
    let mut count = 0;
    while !payload.is_empty() {
        payload = payload.get(record_size(payload)?..)?;
        count += 1;
    }
    Some(count)
}

/// Bytes of the record `payload` begins with, its kind and length included.
pub(super) fn record_size(payload: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(payload.get(1..RECORD_HEADER_BYTES)?.try_into().ok()?);
    (payload.first() != Some(&0)).then_some(RECORD_HEADER_BYTES + length as usize)
}
