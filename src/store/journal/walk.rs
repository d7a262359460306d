//! The way through a journal, batch by batch and segment by segment, checking everything on the
//! way. Takes no lock and goes on where it ended, so it can follow a running writer.

use super::chain::{Head, short};
use super::error::{JournalDamage, JournalError};
use super::frame::{self, Batch, BatchScan};
use super::segment_file::SegmentFile;
use super::source::{FrameSource as _, ReadFault};
use super::summary::{self, Summary};
use super::{archive, data_dir, segment};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a place that looks wrong is looked at, in case it is being written.
const MAX_LOOKS: u32 = 6;
/// How long between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);

/// One step of the way.
#[derive(Debug)]
pub(super) enum WalkStep {
    /// A segment begins.
    Segment(segment::SegmentHeader),
    /// A batch.
    Batch(Batch),
    /// The end, for now; `unfinished` when a batch was begun there.
    End { unfinished: bool },
}

/// A way through the journal, up to some batch.
pub(super) struct JournalWalk {
    dir: PathBuf,
    /// Where segments are that were dropped.
    archive: Option<PathBuf>,
    at: Option<SegmentCursor>,
    /// The summary of what was dropped before.
    pub(super) base: Option<summary::SummaryHeader>,
    /// Where the journal stands after the last step.
    pub(super) head: Head,
}

struct SegmentCursor {
    file: SegmentFile,
    path: PathBuf,
    number: u64,
    first: u64,
    offset: u64,
}

/// What a look at the end of the way has shown.
enum WalkLook {
    Step(WalkStep),
    Wrong(JournalDamage),
}

#[cfg(not(test))]
fn pause() {
    std::thread::sleep(LOOK_INTERVAL);
}

#[cfg(test)]
fn pause() {
    if PAUSES_ENABLED.get() {
        std::thread::sleep(LOOK_INTERVAL);
    }
}

#[cfg(test)]
thread_local! {
    static PAUSES_ENABLED: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

/// Runs `check` on journals nobody writes to: looking again shows the same.
#[cfg(test)]
pub(super) fn without_pauses<T>(check: impl FnOnce() -> T) -> T {
    PAUSES_ENABLED.set(false);
    let checked = check();
    PAUSES_ENABLED.set(true);
    checked
}

impl JournalWalk {
    /// Begins at the oldest segment of the data directory `data`.
    pub(super) fn begin(data: &Path) -> Result<Self, JournalError> {
        Self::begin_before(data, None, 0)
    }

    /// Begins at the segment in which record `seq` stands, or would stand; at the oldest when that
    /// is gone. What was dropped may be in the `archive`.
    pub(super) fn begin_before(
        data: &Path,
        archive: Option<&Path>,
        seq: u64,
    ) -> Result<Self, JournalError> {
        let (dir, archive) = (data_dir::journal_dir(data), archive.map(Path::to_owned));
        let mut walk = Self {
            dir,
            archive,
            at: None,
            base: None,
            head: Head {
                seq: 0,
                hash: [0; 32],
            },
        };
        let segments = walk.segments()?;
        walk.base = Summary::open(&walk.dir)?.map(|summary| summary.header);
        let found = segments.iter().rev().find(|first| **first <= seq).copied();
        let after_base = walk.base.map(|base| base.last + 1);
        let oldest = segments.first().copied();
        let oldest = after_base
            .map(|after| oldest.map_or(after, |oldest| oldest.min(after)))
            .or(oldest);
        let Some(first) = found.or(oldest) else {
            return Err(JournalError::NoJournal(data.to_owned()));
        };
        let hash = walk
            .base
            .filter(|_| after_base == Some(first))
            .map_or([0; 32], |base| base.after);
        walk.head = Head {
            seq: first.saturating_sub(1),
            hash,
        };
        Ok(walk)
    }

    /// The first records of all segments, archived ones before the others.
    fn segments(&self) -> Result<Vec<u64>, JournalError> {
        segments(&self.dir, self.archive.as_deref())
    }

    /// The name of the segment the way is in, and how far.
    pub(super) fn position(&self) -> (String, u64) {
        match &self.at {
            Some(at) => (segment::name(at.first), at.offset),
            None => (segment::name(self.head.seq + 1), 0),
        }
    }

    /// Bytes from here to the end of the segment.
    pub(super) fn remaining(&self) -> u64 {
        let length = self
            .at
            .as_ref()
            .and_then(|at| at.file.length().ok())
            .unwrap_or(0);
        length.saturating_sub(self.position().1)
    }

    /// What is wrong here.
    pub(super) fn wrong(&self, what: impl Into<String>) -> JournalDamage {
        let (segment, offset) = self.position();
        JournalDamage {
            segment,
            offset,
            seq: self.head.seq + 1,
            what: what.into(),
        }
    }

    /// Goes on by a batch, or into the next segment. [`JournalError::Damaged`] stays at the same place.
    pub(super) fn step(&mut self) -> Result<WalkStep, JournalError> {
        let mut looks = 1;
        loop {
            match self.look()? {
                WalkLook::Step(step) => return Ok(step),
                WalkLook::Wrong(problem) if looks >= MAX_LOOKS => {
                    return Err(JournalError::Damaged(problem));
                }
                WalkLook::Wrong(_) => pause(),
            }
            looks += 1;
        }
    }

    fn look(&mut self) -> Result<WalkLook, JournalError> {
        let Some(at) = &mut self.at else {
            return self.enter();
        };
        let found = frame::read(&mut at.file, at.offset, &self.head);
        match found.map_err(|source| JournalError::io("read", &at.path, source))? {
            BatchScan::Whole(batch) => {
                at.offset += batch.size;
                self.head = batch.head;
                Ok(WalkLook::Step(WalkStep::Batch(batch)))
            }
            BatchScan::Bad(what) => Ok(WalkLook::Wrong(self.wrong(what))),
            BatchScan::Partial => self.end(true),
            BatchScan::Nothing => self.end(false),
        }
    }

    /// No whole batch stands here: the journal's end, a segment's end, or something is missing.
    fn end(&mut self, unfinished: bool) -> Result<WalkLook, JournalError> {
        let Some(at) = &self.at else {
            return self.enter();
        };
        let next = self.segments()?.into_iter().find(|first| *first > at.first);
        match next {
            None if unfinished => Ok(WalkLook::Step(WalkStep::End { unfinished })),
            None => self.end_of_all(),
            Some(next) if next != self.head.seq + 1 => {
                let what = format!(
                    "the next segment begins with record {next}; what is before it is missing"
                );
                Ok(WalkLook::Wrong(self.wrong(what)))
            }
            Some(_) if self.remaining() > 0 => Ok(WalkLook::Wrong(
                self.wrong("there is something after the last batch of a closed segment"),
            )),
            Some(_) => self.enter(),
        }
    }

    /// Opens the segment that begins after the head.
    fn enter(&mut self) -> Result<WalkLook, JournalError> {
        let wrong = |what: String| {
            let segment = segment::name(self.head.seq + 1);
            Ok(WalkLook::Wrong(JournalDamage {
                segment,
                offset: 0,
                seq: self.head.seq + 1,
                what,
            }))
        };
        let (path, opened) = self.open_next();
        let (header, file) = match opened {
            Ok(opened) => opened,
            Err(ReadFault::Damaged(what)) => return wrong(what.to_owned()),
            Err(ReadFault::Disk(source)) if source.kind() == std::io::ErrorKind::NotFound => {
                return wrong("the segment is missing".to_owned());
            }
            Err(ReadFault::Disk(source)) => return Err(JournalError::io("read", &path, source)),
        };
        if header.first != self.head.seq + 1 {
            return wrong(format!(
                "the segment's name and header differ: it begins with record {}",
                header.first
            ));
        }
        let base = self
            .base
            .filter(|base| base.last == self.head.seq)
            .map(|base| base.segments);
        if let Some(number) = self.at.as_ref().map(|at| at.number).or(base) {
            if header.number != number + 1 {
                return wrong(format!(
                    "segment {} follows on segment {number}",
                    header.number
                ));
            }
            if header.chain != self.head.hash {
                let (is, should) = (short(&header.chain), short(&self.head.hash));
                return wrong(format!(
                    "the segment follows on hash {is}…, what is before it ends with {should}…"
                ));
            }
        }
        self.head = header.head();
        self.at = Some(SegmentCursor {
            file,
            path,
            number: header.number,
            first: header.first,
            offset: segment::SEGMENT_HEADER_BYTES,
        });
        Ok(WalkLook::Step(WalkStep::Segment(header)))
    }

    /// The segment that begins after the head: where it was written, else in the archive.
    fn open_next(
        &self,
    ) -> (
        PathBuf,
        Result<(segment::SegmentHeader, SegmentFile), ReadFault>,
    ) {
        let name = segment::name(self.head.seq + 1);
        let path = self.dir.join(&name);
        match (SegmentFile::open(&path), &self.archive) {
            (Err(ReadFault::Disk(source)), Some(archive))
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                let path = archive.join(name);
                let opened = SegmentFile::open(&path);
                (path, opened)
            }
            (opened, _) => (path, opened),
        }
    }

    /// No segment follows, and no batch was begun: the end, if nothing but reserved space is left of the last one.
    fn end_of_all(&mut self) -> Result<WalkLook, JournalError> {
        let end = WalkStep::End { unfinished: false };
        let Some(at) = &mut self.at else {
            return Ok(WalkLook::Step(end));
        };
        let mut buffer = vec![0; 64 << 10];
        let mut offset = at.offset;
        loop {
            let got = match at.file.read_up_to(&mut buffer, offset) {
                Ok(0) => return Ok(WalkLook::Step(end)),
                Ok(got) => got,
                Err(ReadFault::Damaged(what)) => return Ok(WalkLook::Wrong(self.wrong(what))),
                Err(ReadFault::Disk(source)) => {
                    return Err(JournalError::io("read", &at.path, source));
                }
            };
            if buffer[..got].iter().any(|byte| *byte != 0) {
                let what = "there is something after the last batch that is none";
                return Ok(WalkLook::Wrong(self.wrong(what)));
            }
            offset += got as u64;
        }
    }
}

/// The first records of all segments of the journal in the data directory `data`, the oldest first; with
/// an `archive` also of those that are there.
///
/// # Errors
/// There is no journal, or a directory cannot be read.
pub fn segment_starts(data: &Path, archive: Option<&Path>) -> Result<Vec<u64>, JournalError> {
    segments(&data_dir::journal_dir(data), archive)
}

/// Those of the segments in `dir`, archived ones before the others.
fn segments(dir: &Path, archive: Option<&Path>) -> Result<Vec<u64>, JournalError> {
    let live = segment::list(dir).map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            return JournalError::NoJournal(dir.to_owned());
        }
        JournalError::io("read the journal directory", dir, source)
    })?;
    let Some(archive) = archive else {
        return Ok(live);
    };
    let mut all = archive::list(archive)
        .map_err(|source| JournalError::io("read the archive", archive, source))?;
    all.retain(|first| live.first().is_none_or(|oldest| first < oldest));
    all.extend(live);
    Ok(all)
}
