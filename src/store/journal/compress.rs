//! Writes a closed segment anew in its compressed form, block by block.
//!
//! The new file is whole, synced and compared with what was written before it takes the segment's name, in one step:
//! a crash leaves the one form or the other. What is half done has a name that nobody reads, and goes at the next
//! start. Readers that have the old file open go on reading it.

use super::compressed::{BlockLayout, CompressedSegment};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentForm, SegmentHeader};
use super::source::{FrameSource as _, ReadFault, read_up_to};
use super::{data_dir, files, segment};
use crate::failpoint;
use crate::owners::private::fresh;
use miniz_oxide::DataFormat;
use miniz_oxide::deflate::CompressionLevel;
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, TDEFLStatus, compress};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes that a block stands for. Larger ones are hardly shorter in all, since DEFLATE looks back 32 KiB; and so much is
/// read for one record.
const BLOCK_BYTES: u32 = 256 << 10;

/// A segment that is being compressed. Dropped before it is published, nothing is left of it.
pub(super) struct SegmentRewrite {
    path: PathBuf,
    new: PathBuf,
    /// As it was written, and when that was.
    from: File,
    modified: SystemTime,
    to: BufWriter<File>,
    layout: BlockLayout,
    /// The block that comes next, to be written or compared.
    next: u32,
    /// The table so far.
    rows: Vec<u8>,
    /// What was written, once it is all there.
    written: Option<CompressedSegment>,
    plain: Vec<u8>,
    packed: Vec<u8>,
    deflater: Box<CompressorOxide>,
}

impl SegmentRewrite {
    /// Begins with the closed segment of `dir` whose first record is `first`; none where it is compressed, or is not to
    /// be.
    ///
    /// # Errors
    /// The disk, or a file that is no segment.
    pub(super) fn begin(dir: &Path, first: u64) -> io::Result<Option<Self>> {
        let path = dir.join(segment::name(first));
        let from = files::open(&path, false)?;
        let (header, form) = segment::read_header(&from)?.map_err(io::Error::other)?;
        if form == SegmentForm::Compressed || !is_whole(&from, &header)? {
            return Ok(None);
        }
        let about = from.metadata()?;
        let content = about.len().saturating_sub(SEGMENT_HEADER_BYTES);
        let Some(layout) = BlockLayout::of(content, BLOCK_BYTES).filter(|_| content > 0) else {
            return Ok(None);
        };
        let new = path.with_extension("compressed.new");
        let mut to = BufWriter::new(fresh(&new)?);
        to.write_all(&header.encode(SegmentForm::Compressed))?;
        let (format, level) = (DataFormat::Raw, CompressionLevel::DefaultLevel);
        Ok(Some(Self {
            path,
            new,
            from,
            modified: about.modified()?,
            to,
            layout,
            next: 0,
            rows: Vec::new(),
            written: None,
            plain: Vec::new(),
            packed: Vec::new(),
            deflater: Box::new(CompressorOxide::with_format_and_level(format, level)),
        }))
    }

    /// Bytes of the segment as it was written.
    pub(super) fn content(&self) -> u64 {
        self.layout.content
    }

    /// Compresses the next block; after the last one, compares the next with what was written. False when nothing is
    /// left but to publish it.
    ///
    /// # Errors
    /// The disk, or what was compressed does not read as what was written.
    pub(super) fn step(&mut self) -> io::Result<bool> {
        if self.next == self.layout.blocks {
            if self.written.is_some() {
                return Ok(false);
            }
            self.complete()?;
        }
        self.read()?;
        if let Some(written) = &mut self.written {
            self.packed.resize(self.plain.len(), 0);
            let at = place(&self.layout, self.next);
            let got = written.read_up_to(&mut self.packed, at);
            if got.map_err(io_error)? != self.plain.len() || self.packed != self.plain {
                return Err(io_error(ReadFault::Damaged(
                    "what was compressed does not read as what was written",
                )));
            }
        } else {
            self.write()?;
        }
        self.next += 1;
        Ok(true)
    }

    /// Gives it the segment's name. Bytes of the file before and after.
    ///
    /// # Errors
    /// The disk; [`io::ErrorKind::NotFound`] where the segment was dropped meanwhile.
    pub(super) fn publish(self) -> io::Result<(u64, u64)> {
        failpoint::reached("compress");
        // One that was dropped meanwhile does not come back.
        let before = std::fs::symlink_metadata(&self.path)?.len();
        let after = std::fs::symlink_metadata(&self.new)?.len();
        std::fs::rename(&self.new, &self.path)?;
        failpoint::reached("compressed");
        let dir = self.path.parent().unwrap_or(Path::new("."));
        data_dir::sync_dir(dir)?;
        Ok((before, after))
    }

    /// Reads the block that comes next, as it was written.
    fn read(&mut self) -> io::Result<()> {
        self.plain.resize(self.layout.size(self.next) as usize, 0);
        let at = place(&self.layout, self.next);
        let got = read_up_to(&self.from, &mut self.plain, at)?;
        if got < self.plain.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Writes the block that was read.
    fn write(&mut self) -> io::Result<()> {
        let is_shorter = deflate(&mut self.deflater, &self.plain, &mut self.packed);
        let block = if is_shorter {
            &self.packed
        } else {
            &self.plain
        };
        let length = u32::try_from(block.len()).map_err(io::Error::other)?;
        self.to.write_all(block)?;
        self.rows.extend_from_slice(&length.to_le_bytes());
        self.rows
            .extend_from_slice(&crc32c::crc32c(block).to_le_bytes());
        Ok(())
    }

    /// Writes what follows the blocks, and makes all of it durable.
    fn complete(&mut self) -> io::Result<()> {
        self.to.write_all(&self.rows)?;
        self.to.write_all(&self.layout.footer(&self.rows))?;
        self.to.flush()?;
        let file = self.to.get_ref();
        // A segment's age counts from its last entry.
        file.set_modified(self.modified)?;
        file.sync_all()?;
        let written = CompressedSegment::open(files::open(&self.new, false)?);
        self.written = Some(written.map_err(io_error)?);
        self.next = 0;
        Ok(())
    }
}

impl Drop for SegmentRewrite {
    fn drop(&mut self) {
        // Once it is published, nothing stands there; else the next start does it, too.
        let _ = std::fs::remove_file(&self.new);
    }
}

/// Where block `number` begins in the segment as it was written.
fn place(layout: &BlockLayout, number: u32) -> u64 {
    SEGMENT_HEADER_BYTES + u64::from(number) * u64::from(layout.block)
}

/// Whether `file` begins with nothing but `header`, so that it can be made again.
fn is_whole(file: &File, header: &SegmentHeader) -> io::Result<bool> {
    let mut raw = [0; 96];
    let got = read_up_to(file, &mut raw, 0)?;
    Ok(got == raw.len() && raw == header.encode(SegmentForm::Plain))
}

fn io_error(fault: ReadFault) -> io::Error {
    match fault {
        ReadFault::Disk(error) => error,
        ReadFault::Damaged(what) => io::Error::other(what),
    }
}

/// Compresses `bytes`, of which there are some, into `packed`; false where that is not shorter.
fn deflate(deflater: &mut CompressorOxide, bytes: &[u8], packed: &mut Vec<u8>) -> bool {
    deflater.reset();
    packed.resize(bytes.len() - 1, 0);
    let (mut read, mut written) = (0, 0);
    loop {
        let (from, to) = (&bytes[read..], &mut packed[written..]);
        let (status, took, gave) = compress(deflater, from, to, TDEFLFlush::Finish);
        (read, written) = (read + took, written + gave);
        if status == TDEFLStatus::Done {
            packed.truncate(written);
            return true;
        }
        if status != TDEFLStatus::Okay || written == packed.len() || took + gave == 0 {
            return false;
        }
    }
}
