//! A segment, open for reading, in the form that it has.

use super::compressed::CompressedSegment;
use super::segment::{SEGMENT_HEADER_BYTES, SegmentForm, SegmentHeader, read_header};
use super::source::{FrameSource, ReadFault};
use super::{data_dir, files, segment};
use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes that are compared at once.
const COMPARED_BYTES: usize = 64 << 10;

/// A segment, open for reading. What is read is what was written, and goes on being so when another form takes its
/// name.
pub(super) enum SegmentFile {
    /// As it was written; it may still grow.
    Plain(File),
    /// Compressed since.
    Compressed(Box<CompressedSegment>),
}

impl SegmentFile {
    /// Opens the segment at `path`, and reads its header.
    pub(super) fn open(path: &Path) -> Result<(SegmentHeader, Self), ReadFault> {
        let file = files::open(path, false)?;
        let (header, form) = read_header(&file)?.map_err(ReadFault::Damaged)?;
        let file = match form {
            SegmentForm::Plain => Self::Plain(file),
            SegmentForm::Compressed => Self::Compressed(Box::new(CompressedSegment::open(file)?)),
        };
        Ok((header, file))
    }

    /// Bytes of it as they were written.
    pub(super) fn length(&self) -> io::Result<u64> {
        match self {
            Self::Plain(file) => Ok(file.metadata()?.len()),
            Self::Compressed(segment) => Ok(segment.length()),
        }
    }
}

impl FrameSource for SegmentFile {
    fn read_up_to(&mut self, out: &mut [u8], at: u64) -> Result<usize, ReadFault> {
        match self {
            Self::Plain(file) => file.read_up_to(out, at),
            Self::Compressed(segment) => segment.read_up_to(out, at),
        }
    }
}

/// Whether the same was written to the segments at both paths, in whatever form each stands there now. What is no
/// segment, or a damaged one, is the same as nothing.
pub(super) fn are_same(one: &Path, other: &Path) -> io::Result<bool> {
    match compare(one, other) {
        Ok(same) => Ok(same),
        Err(ReadFault::Damaged(_)) => Ok(false),
        Err(ReadFault::Disk(error)) => Err(error),
    }
}

fn compare(one: &Path, other: &Path) -> Result<bool, ReadFault> {
    let ((header, mut one), (its, mut other)) =
        (SegmentFile::open(one)?, SegmentFile::open(other)?);
    if header != its {
        return Ok(false);
    }
    let (mut mine, mut theirs) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    let mut at = SEGMENT_HEADER_BYTES;
    loop {
        let got = one.read_up_to(&mut mine, at)?;
        let there = other.read_up_to(&mut theirs, at)?;
        if mine[..got] != theirs[..there] {
            return Ok(false);
        }
        if got == 0 {
            return Ok(true);
        }
        at += got as u64;
    }
}

/// Bytes of all segments of the data directory `data` as they were written, those that a summary stands for left out.
/// Where one cannot be read, those of its file: an estimate of the work that reading is.
pub fn written_bytes(data: &Path) -> io::Result<u64> {
    let dir = data_dir::journal_dir(data);
    let mut bytes = 0;
    for first in segment::list(&dir)? {
        let path = dir.join(segment::name(first));
        let whole = SegmentFile::open(&path).ok();
        let length = whole.and_then(|(_, file)| file.length().ok());
        bytes += match length {
            Some(length) => length,
            None => std::fs::symlink_metadata(&path).map_or(0, |about| about.len()),
        };
    }
    Ok(bytes)
}
