//! A closed segment that was compressed. Numbers are little-endian.
//!
//! ```text
//!   0  header   96   the segment's own, but for its version and the CRC32C that follows from it
//!  96  blocks        each stands for `block` bytes of what follows the header in the segment as it was written, the
//!                    last one for what is left: raw DEFLATE (RFC 1951), or these bytes where that is not shorter
//!      table         of each block: its bytes here u32, CRC32C of them u32
//!      content  u64  bytes of the segment as it was written, without its header
//!      block    u32  bytes that each block stands for
//!      blocks   u32  how many there are
//!      crc      u32  CRC32C of the table and the 16 bytes above
//!      end      u32  "TGCS"
//! ```
//!
//! Blocks are of one size, so that the one in which a byte stands is known without a search, and it is read without
//! the others. The chain runs over what was written, and what comes out of the blocks has to be that. Any process that
//! can write to the file may have changed it since: what a table and a block may take is bounded, and what would be
//! more is damage.

use super::frame::array;
use super::segment::SEGMENT_HEADER_BYTES;
use super::source::{FrameSource, ReadFault, read_up_to};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use std::fs::File;

/// Bytes that a block stands for at most: so many are held by each reader.
pub(super) const MAX_BLOCK_BYTES: u32 = 1 << 20;
/// Blocks of a segment at most: what a table takes is bounded.
pub(super) const MAX_BLOCKS: u32 = 1 << 16;
/// Bytes of a block in the table.
pub(super) const ROW_BYTES: usize = 8;
/// Bytes after the table.
pub(super) const FOOTER_BYTES: usize = 24;
/// The last bytes of a file.
const END_MARK: [u8; 4] = *b"TGCS";

/// What the blocks of a segment stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockLayout {
    /// Bytes of the segment as it was written, without its header.
    pub(super) content: u64,
    /// Bytes that each block stands for.
    pub(super) block: u32,
    /// How many there are.
    pub(super) blocks: u32,
}

impl BlockLayout {
    /// That of `content` bytes in blocks of `block`; none where it would need more blocks than there may be.
    pub(super) fn of(content: u64, block: u32) -> Option<Self> {
        let blocks = u32::try_from(content.div_ceil(u64::from(block))).ok()?;
        (blocks <= MAX_BLOCKS).then_some(Self {
            content,
            block,
            blocks,
        })
    }

    /// Bytes that block `number` stands for.
    pub(super) fn size(&self, number: u32) -> u32 {
        let rest = self.content - u64::from(number) * u64::from(self.block);
        u32::try_from(rest).map_or(self.block, |rest| rest.min(self.block))
    }

    /// What follows the blocks, of which `rows` is the table.
    pub(super) fn footer(&self, rows: &[u8]) -> [u8; FOOTER_BYTES] {
        let mut out = [0; FOOTER_BYTES];
        out[..8].copy_from_slice(&self.content.to_le_bytes());
        out[8..12].copy_from_slice(&self.block.to_le_bytes());
        out[12..16].copy_from_slice(&self.blocks.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(rows), &out[..16]);
        out[16..20].copy_from_slice(&crc.to_le_bytes());
        out[20..].copy_from_slice(&END_MARK);
        out
    }

    /// What `footer` says, where that is possible.
    fn read(footer: &[u8; FOOTER_BYTES]) -> Option<Self> {
        let (content, block) = (
            u64::from_le_bytes(array(footer, 0)),
            u32::from_le_bytes(array(footer, 8)),
        );
        let is_ended = footer[20..] == END_MARK && (1..=MAX_BLOCK_BYTES).contains(&block);
        let layout = is_ended.then(|| Self::of(content, block)).flatten();
        layout.filter(|layout| layout.blocks == u32::from_le_bytes(array(footer, 12)))
    }
}

/// Where a block stands in the file.
#[derive(Debug, Clone, Copy)]
struct BlockPlace {
    at: u64,
    length: u32,
    crc: u32,
}

/// A compressed segment, open: its bytes as they were written.
pub(super) struct CompressedSegment {
    file: File,
    layout: BlockLayout,
    places: Vec<BlockPlace>,
    /// The block that was read last.
    current: Option<u32>,
    /// Its bytes, as they were written and as they stand in the file.
    bytes: Vec<u8>,
    packed: Vec<u8>,
    inflater: Box<DecompressorOxide>,
}

impl CompressedSegment {
    /// Reads the table of `file`.
    pub(super) fn open(file: File) -> Result<Self, ReadFault> {
        let (layout, rows) = table(&file)?;
        let places = places(&layout, &rows).ok_or(ReadFault::Damaged(
            "the table of the compressed segment does not fit its blocks",
        ))?;
        let end = places.last().map_or(SEGMENT_HEADER_BYTES, |last| {
            last.at + u64::from(last.length)
        });
        if end + (rows.len() + FOOTER_BYTES) as u64 != file.metadata()?.len() {
            return Err(ReadFault::Damaged(
                "the compressed segment does not have the size it should",
            ));
        }
        Ok(Self {
            file,
            layout,
            places,
            current: None,
            bytes: Vec::new(),
            packed: Vec::new(),
            inflater: Box::default(),
        })
    }

    /// Bytes of the segment as it was written.
    pub(super) fn length(&self) -> u64 {
        SEGMENT_HEADER_BYTES + self.layout.content
    }

    /// Makes block `number` the current one.
    fn load(&mut self, number: u32) -> Result<(), ReadFault> {
        if self.current == Some(number) {
            return Ok(());
        }
        self.current = None;
        let Some(place) = self.places.get(number as usize).copied() else {
            return Err(ReadFault::Damaged("a compressed block is missing"));
        };
        self.packed.resize(place.length as usize, 0);
        self.bytes.resize(self.layout.size(number) as usize, 0);
        let got = read_up_to(&self.file, &mut self.packed, place.at)?;
        if got < self.packed.len() || crc32c::crc32c(&self.packed) != place.crc {
            return Err(ReadFault::Damaged(
                "a compressed block does not match its checksum",
            ));
        }
        if self.packed.len() == self.bytes.len() {
            self.bytes.copy_from_slice(&self.packed);
        } else {
            inflate(&mut self.inflater, &self.packed, &mut self.bytes)?;
        }
        self.current = Some(number);
        Ok(())
    }
}

impl FrameSource for CompressedSegment {
    fn read_up_to(&mut self, out: &mut [u8], at: u64) -> Result<usize, ReadFault> {
        let Some(mut place) = at.checked_sub(SEGMENT_HEADER_BYTES) else {
            return Err(ReadFault::Damaged("the header is in no block"));
        };
        let (mut got, block) = (0, u64::from(self.layout.block));
        while got < out.len() && place < self.layout.content {
            let Ok(number) = u32::try_from(place / block) else {
                break;
            };
            self.load(number)?;
            // Less than the bound of a block.
            let within = usize::try_from(place % block).unwrap_or(usize::MAX);
            let Some(there) = self.bytes.get(within..) else {
                break;
            };
            let count = there.len().min(out.len() - got);
            out[got..got + count].copy_from_slice(&there[..count]);
            got += count;
            place += count as u64;
        }
        Ok(got)
    }
}

/// Fills `out` with what `packed` holds; an error where that is not as long.
fn inflate(
    inflater: &mut DecompressorOxide,
    packed: &[u8],
    out: &mut [u8],
) -> Result<(), ReadFault> {
    inflater.init();
    let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, _, written) = decompress(inflater, packed, out, 0, flags);
    if status == TINFLStatus::HasMoreOutput {
        return Err(ReadFault::Damaged(
            "a compressed block holds more than it should",
        ));
    }
    if status != TINFLStatus::Done || written != out.len() {
        return Err(ReadFault::Damaged("a compressed block cannot be read"));
    }
    Ok(())
}

/// What stands at the end of `file`: the layout of its blocks and their table.
fn table(file: &File) -> Result<(BlockLayout, Vec<u8>), ReadFault> {
    let wrong = ReadFault::Damaged("the compressed segment has no whole table");
    let Some(end) = file.metadata()?.len().checked_sub(FOOTER_BYTES as u64) else {
        return Err(wrong);
    };
    let mut footer = [0; FOOTER_BYTES];
    read_up_to(file, &mut footer, end)?;
    let Some(layout) = BlockLayout::read(&footer) else {
        return Err(wrong);
    };
    let mut rows = vec![0; layout.blocks as usize * ROW_BYTES];
    let Some(begin) = end.checked_sub(rows.len() as u64) else {
        return Err(wrong);
    };
    read_up_to(file, &mut rows, begin)?;
    if layout.footer(&rows) != footer {
        return Err(ReadFault::Damaged(
            "the table of the compressed segment does not match its checksum",
        ));
    }
    Ok((layout, rows))
}

/// Where the blocks of `rows` stand, one after another; none where one is longer than what it stands for.
fn places(layout: &BlockLayout, rows: &[u8]) -> Option<Vec<BlockPlace>> {
    let mut at = SEGMENT_HEADER_BYTES;
    let rows = (0..).zip(rows.chunks_exact(ROW_BYTES));
    rows.map(|(number, row)| {
        let (length, crc) = (
            u32::from_le_bytes(array(row, 0)),
            u32::from_le_bytes(array(row, 4)),
        );
        let place = BlockPlace { at, length, crc };
        at += u64::from(length);
        (1..=layout.size(number)).contains(&length).then_some(place)
    })
    .collect()
}
