//! A forger who can write the data directory: takes journals apart, and puts them together with
//! checksums and chain made anew. Not with the code that is under test.

use super::*;
use crate::model::secret::Secret;
use crate::store::journal::chain::Hash;
use crate::store::journal::walk::{JournalWalk, WalkStep};
use sha2::{Digest as _, Sha256};

pub(super) fn key(text: &str) -> SealingKey {
    SealingKey::new(&Secret::new(text.repeat(32))).unwrap()
}

pub(super) fn keys(current: &str) -> SealingKeys {
    SealingKeys {
        current: Some(key(current)),
        ..SealingKeys::default()
    }
}

/// A batch, taken apart.
#[derive(Clone, PartialEq)]
pub(super) struct ForgedBatch {
    pub(super) payload: Vec<u8>,
    pub(super) count: u32,
    pub(super) epoch: u64,
    pub(super) synced: u64,
    /// The key's id and the seal.
    pub(super) trailer: Option<Vec<u8>>,
}

/// A segment, taken apart.
#[derive(Clone)]
pub(super) struct ForgedSegment {
    pub(super) epoch: u64,
    pub(super) chain: Hash,
    pub(super) sealed: bool,
    pub(super) key: [u8; 8],
    pub(super) parts: Vec<ForgedBatch>,
}

/// What the forger does with seals that do not fit any more.
#[derive(Debug, Clone, Copy)]
pub(super) enum SealForgery {
    /// Leaves them as they were.
    Leaves,
    /// Takes all of them away, and every mark of them.
    Strips,
    /// Takes away those from the forgery on.
    StripsRest,
    /// Makes all of them with a key of his own.
    Reseals,
    /// Makes those from the forgery on with a key of his own.
    ResealsRest,
}
pub(super) const SEAL_FORGERIES: [SealForgery; 5] = [
    SealForgery::Leaves,
    SealForgery::Strips,
    SealForgery::StripsRest,
    SealForgery::Reseals,
    SealForgery::ResealsRest,
];

pub(super) fn take_apart(data: &Path) -> Vec<ForgedSegment> {
    let mut walk = JournalWalk::begin(data).unwrap();
    let mut pieces: Vec<ForgedSegment> = Vec::new();
    loop {
        match walk.step().unwrap() {
            WalkStep::Segment(header) => {
                let key = header.key.map_or([0; 8], |key| key.0);
                let segment::SegmentHeader {
                    epoch,
                    chain,
                    sealed,
                    ..
                } = header;
                pieces.push(ForgedSegment {
                    epoch,
                    chain,
                    sealed,
                    key,
                    parts: Vec::new(),
                });
            }
            WalkStep::Batch(batch) => {
                let trailer = batch
                    .seal
                    .map(|seal| [seal.key.0.as_slice(), &seal.mac].concat());
                let frame::BatchHeader {
                    count,
                    epoch,
                    synced,
                    ..
                } = batch.header;
                let part = ForgedBatch {
                    payload: batch.payload.to_vec(),
                    count,
                    epoch,
                    synced,
                    trailer,
                };
                pieces.last_mut().unwrap().parts.push(part);
            }
            WalkStep::End { .. } => return pieces,
        }
    }
}

/// Writes what was taken apart as a journal whose checksums and chain are right. Not with the code
/// that is under test.
pub(super) fn put_together(data: &Path, pieces: &[ForgedSegment], hand: SealForgery, from: usize) {
    let dir = data.join("journal");
    for file in fs::read_dir(&dir).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let (mut seq, mut chain, mut nth) = (0_u64, pieces[0].chain, 0);
    for (index, piece) in pieces.iter().enumerate() {
        let strips = matches!(hand, SealForgery::Strips);
        let mut file = vec![0; 96];
        file[..8].copy_from_slice(b"TGJOURNL");
        file[8] = 1;
        file[12] = if piece.sealed && !strips { 2 } else { 1 };
        file[16..24].copy_from_slice(&(index as u64 + 1).to_le_bytes());
        file[24..32].copy_from_slice(&(seq + 1).to_le_bytes());
        file[32..40].copy_from_slice(&piece.epoch.to_le_bytes());
        file[40..72].copy_from_slice(&chain);
        file[72..80].copy_from_slice(if strips { &[0; 8] } else { &piece.key });
        let crc = crc32c::crc32c(&file[..92]);
        file[92..].copy_from_slice(&crc.to_le_bytes());
        let name = dir.join(segment::name(seq + 1));
        chain = Sha256::digest(&file).into();
        for part in &piece.parts {
            let frame = frame_of(part, (seq, chain), hand, nth >= from);
            chain = Sha256::digest(&frame).into();
            file.extend_from_slice(&frame);
            seq += u64::from(part.count);
            nth += 1;
        }
        fs::write(name, file).unwrap();
    }
}

pub(super) fn frame_of(
    part: &ForgedBatch,
    (seq, chain): (u64, Hash),
    hand: SealForgery,
    is_after: bool,
) -> Vec<u8> {
    let own = key("forger");
    let (strips, reseals) = match hand {
        SealForgery::Leaves => (false, false),
        SealForgery::Strips => (true, false),
        SealForgery::StripsRest => (is_after, false),
        SealForgery::Reseals => (false, true),
        SealForgery::ResealsRest => (false, is_after),
    };
    let sealed = part.trailer.is_some() && !strips;
    let mut bytes = vec![0; 76];
    bytes[..4].copy_from_slice(&u32::try_from(part.payload.len()).unwrap().to_le_bytes());
    bytes[4..8].copy_from_slice(&crc32c::crc32c(&part.payload).to_le_bytes());
    bytes[8..16].copy_from_slice(&(seq + 1).to_le_bytes());
    bytes[16..20].copy_from_slice(&part.count.to_le_bytes());
    bytes[20] = u8::from(sealed);
    bytes[24..32].copy_from_slice(&part.epoch.to_le_bytes());
    bytes[32..40].copy_from_slice(&part.synced.to_le_bytes());
    bytes[40..72].copy_from_slice(&chain);
    let crc = crc32c::crc32c(&bytes[..72]);
    bytes[72..76].copy_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&part.payload);
    match &part.trailer {
        Some(_) if sealed && reseals => {
            let digest: Hash = Sha256::digest(&bytes).into();
            let trailer = [own.id().0.as_slice(), &own.seal(&digest)].concat();
            bytes.extend_from_slice(&trailer);
            bytes.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
        }
        Some(trailer) if sealed => {
            bytes.extend_from_slice(trailer);
            bytes.extend_from_slice(&crc32c::crc32c(trailer).to_le_bytes());
        }
        _ => {}
    }
    bytes.push(0xA5);
    bytes
}
