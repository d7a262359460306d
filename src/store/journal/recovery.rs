//! What a writer finds at its start: the end of the newest segment, and perhaps a batch that was
//! not finished.

use super::chain::Head;
use super::data_dir::DataDir;
use super::error::{JournalDamage, JournalError};
use super::frame::{self, BatchScan};
use super::seal::{KeyId, SealFault, SealWatch, SealingKeys};
use super::summary::Summary;
use super::{files, segment, source};
use crate::owners::private::fresh;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the journal goes on.
pub(super) struct Recovered {
    /// The highest epoch the newest segment names.
    pub(super) epoch: u64,
    /// The newest segment; none in a new journal.
    pub(super) tail: Option<Tail>,
    /// Which key seals there.
    pub(super) key: Option<KeyId>,
}

/// The newest segment.
pub(super) struct Tail {
    pub(super) file: File,
    pub(super) header: segment::SegmentHeader,
    /// Where the next batch goes.
    pub(super) offset: u64,
    pub(super) head: Head,
}

/// Finds the end of the journal, and cuts what follows it. A seal there that does not fit is
/// damage.
pub(super) fn recover(place: &DataDir, keys: &SealingKeys) -> Result<Recovered, JournalError> {
    let listed =
        segment::list(&place.dir).map_err(|source| JournalError::io("read", &place.dir, source))?;
    let Some(first) = listed.last() else {
        return without_segments(&place.dir);
    };
    begins(&place.dir, &listed)?;
    let path = place.dir.join(segment::name(*first));
    let failed = |source| JournalError::io("read", &path, source);
    let mut file = files::open(&path, true).map_err(failed)?;
    let header = tail_header(&file, *first).map_err(failed)??;
    let mut watch = SealWatch::new(keys);
    watch.segment(&header);
    let mut end = TailEnd {
        head: header.head(),
        offset: segment::SEGMENT_HEADER_BYTES,
        epoch: header.epoch,
    };
    let last = loop {
        match frame::read(&mut file, end.offset, &end.head).map_err(failed)? {
            BatchScan::Whole(batch) => {
                watch.batch(&batch).map_err(|wrong| {
                    unsealed(wrong, place, *first, end.offset, batch.header.first)
                })?;
                end.offset += batch.size;
                end.head = batch.head;
                end.epoch = end.epoch.max(batch.header.epoch);
            }
            last @ (BatchScan::Nothing | BatchScan::Partial | BatchScan::Bad(_)) => break last,
        }
    };
    cut_unfinished(&file, &path, *first, &end, &last)?;
    let tail = Tail {
        file,
        header,
        offset: end.offset,
        head: end.head,
    };
    Ok(Recovered {
        epoch: end.epoch,
        tail: Some(tail),
        key: watch.last,
    })
}

/// The header of the newest segment, which begins with record `first`.
fn tail_header(
    file: &File,
    first: u64,
) -> io::Result<Result<segment::SegmentHeader, JournalError>> {
    let wrong = |what| Ok(Err(damaged(first, 0, first, what)));
    match segment::read_header(file)? {
        Err(what) => wrong(what),
        // Only what another segment follows is compressed.
        Ok((_, segment::SegmentForm::Compressed)) => {
            wrong("the segments after this one are missing; put them back, from a backup")
        }
        Ok((header, _)) if header.first != first => wrong("the segment's name and header differ"),
        Ok((header, segment::SegmentForm::Plain)) => Ok(Ok(header)),
    }
}

/// A journal without a segment: a new one, unless a summary says what is missing.
fn without_segments(dir: &Path) -> Result<Recovered, JournalError> {
    if let Some(summary) = Summary::open(dir)? {
        let first = summary.header.last + 1;
        let what = "the segments after the summary are missing";
        return Err(damaged(first, 0, first, what));
    }
    Ok(Recovered {
        epoch: 0,
        tail: None,
        key: None,
    })
}

/// Cuts what follows the end of segment `first`, where `last` stands: a write that was not
/// finished. What was synced once is not cut; then the journal is damaged.
fn cut_unfinished(
    file: &File,
    path: &Path,
    first: u64,
    end: &TailEnd,
    last: &BatchScan,
) -> Result<(), JournalError> {
    let rest = rest(file, end.offset).map_err(|source| JournalError::io("read", path, source))?;
    if let Some(rest) = rest {
        if was_synced(&rest, &end.head) {
            let what = match last {
                BatchScan::Bad(what) => what,
                BatchScan::Whole(_) | BatchScan::Nothing | BatchScan::Partial => {
                    "a batch is missing"
                }
            };
            return Err(damaged(first, end.offset, end.head.seq + 1, what));
        }
        keep(path, &rest, end.offset)
            .map_err(|source| JournalError::io("keep what is cut from", path, source))?;
        tracing::warn!(segment = %path.display(), offset = end.offset, bytes = rest.len(), head = %end.head,
            "the last batch was not finished and is cut off; nobody was told it was written");
    }
    file.set_len(end.offset)
        .and_then(|()| file.sync_all())
        .map_err(|source| JournalError::io("cut", path, source))
}

/// Nothing is missing before the newest segment: what is not there would be forgotten, and keys of
/// calls that ran be free again.
fn begins(dir: &Path, listed: &[u64]) -> Result<(), JournalError> {
    let dropped = Summary::open(dir)?.map(|summary| summary.header);
    let (first, mut number) =
        dropped.map_or((1, 1), |dropped| (dropped.last + 1, dropped.segments + 1));
    let mut first = Some(first);
    for listed in listed {
        let path = dir.join(segment::name(*listed));
        let failed = |source| JournalError::io("read", &path, source);
        let header = files::open(&path, false)
            .and_then(|file| segment::read_header(&file))
            .map_err(failed)?;
        let (header, _) = header.map_err(|what| damaged(*listed, 0, *listed, what))?;
        if header.number != number || first.is_some_and(|first| header.first != first) {
            let what = format!(
                "segments before record {} are missing; put them back, from a backup or the archive",
                header.first
            );
            return Err(damaged(*listed, 0, header.first, &what));
        }
        (first, number) = (None, number + 1);
    }
    Ok(())
}

/// A key that is not there is asked for; everything else was written by another author.
fn unsealed(wrong: SealFault, place: &DataDir, first: u64, offset: u64, seq: u64) -> JournalError {
    match wrong {
        SealFault::Unknown(key) => JournalError::KeyMissing {
            dir: place.dir.clone(),
            key,
        },
        wrong @ (SealFault::Forged(_)
        | SealFault::Replaced(_)
        | SealFault::Bare(_)
        | SealFault::Never(_)
        | SealFault::Outdated(..)) => {
            let what = format!(
                "{wrong}. toolgate does not write to such a journal; look with `toolgate ledger verify`, then move the \
                 journal directory away to begin a new one"
            );
            JournalError::Damaged(JournalDamage {
                segment: segment::name(first),
                offset,
                seq,
                what,
            })
        }
    }
}

struct TailEnd {
    head: Head,
    offset: u64,
    epoch: u64,
}

fn damaged(first: u64, offset: u64, seq: u64, what: &str) -> JournalError {
    let what = format!(
        "{what}. This is no torn write: what follows shows that it was whole once. toolgate does not write to a damaged \
         journal; look with `toolgate ledger verify`, then move the journal directory away to begin a new one"
    );
    JournalError::Damaged(JournalDamage {
        segment: segment::name(first),
        offset,
        seq,
        what,
    })
}

/// What follows `offset` up to the last byte that is not reserved space; none when nothing does.
fn rest(file: &File, offset: u64) -> io::Result<Option<Vec<u8>>> {
    // A segment is bounded, and only what a crash left behind its end is read here.
    let length = file.metadata()?.len().saturating_sub(offset);
    let mut rest = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let got = source::read_up_to(file, &mut rest, offset)?;
    rest.truncate(got);
    let used = rest
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    rest.truncate(used);
    Ok((used > 0).then_some(rest))
}

/// Whether a later batch says that the record after `head` was synced. Batches between two syncs
/// may reach the disk in any order, so that a whole one after a torn one proves nothing by itself.
fn was_synced(rest: &[u8], head: &Head) -> bool {
    rest.windows(frame::BATCH_HEADER_BYTES)
        .skip(1)
        .any(|window| {
            let raw: [u8; frame::BATCH_HEADER_BYTES] = frame::array(window, 0);
            let first = u64::from_le_bytes(frame::array(window, 8));
            let near = first > head.seq && first - head.seq <= rest.len() as u64;
            near && frame::BatchHeader::decode(&raw).is_ok_and(|header| header.synced > head.seq)
        })
}

/// Keeps what is cut, beside the segment: should it be wanted after all, it is there.
fn keep(path: &Path, rest: &[u8], offset: u64) -> io::Result<()> {
    let cut: PathBuf = path.with_extension(format!("cut-{offset}"));
    let mut file = fresh(&cut)?;
    file.write_all(rest)?;
    file.sync_all()
}
