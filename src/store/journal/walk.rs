//! The way through a journal, batch by batch and segment by segment, checking everything on the
//! way. Takes no lock and goes on where it ended, so it can follow a running writer.

use super::chain::{Head, short};
use super::error::{Error, Problem};
use super::frame::{self, Batch, Found};
use super::summary::{self, Summary};
use super::{archive, place, segment};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a place that looks wrong is looked at, in case it is being written.
const LOOKS: u32 = 6;
/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// One step of the way.
#[derive(Debug)]
pub(super) enum Step {
    /// A segment begins.
    Segment(segment::Header),
    /// A batch.
    Batch(Batch),
    /// The end, for now; `unfinished` when a batch was begun there.
    End { unfinished: bool },
}

/// A way through the journal, up to some batch.
pub(super) struct Walk {
    dir: PathBuf,
    /// Where segments are that were dropped.
    archive: Option<PathBuf>,
    at: Option<At>,
    /// The summary of what was dropped before.
    pub(super) base: Option<summary::Header>,
    /// Where the journal stands after the last step.
    pub(super) head: Head,
}

struct At {
    file: File,
    path: PathBuf,
    number: u64,
    first: u64,
    offset: u64,
}

/// What a look at the end of the way has shown.
enum Look {
    Step(Step),
    Wrong(Problem),
}

#[cfg(not(test))]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[cfg(test)]
fn pause() {
    if PAUSES.get() {
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
thread_local! {
    static PAUSES: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

/// Runs `check` on journals nobody writes to: looking again shows the same.
#[cfg(test)]
pub(super) fn without_pauses<T>(check: impl FnOnce() -> T) -> T {
    PAUSES.set(false);
    let checked = check();
    PAUSES.set(true);
    checked
}

impl Walk {
    /// Begins at the oldest segment of the data directory `data`.
    pub(super) fn begin(data: &Path) -> Result<Self, Error> {
        Self::begin_before(data, None, 0)
    }

    /// Begins at the segment in which record `seq` stands, or would stand; at the oldest when that
    /// is gone. What was dropped may be in the `archive`.
    pub(super) fn begin_before(
        data: &Path,
        archive: Option<&Path>,
        seq: u64,
    ) -> Result<Self, Error> {
        let (dir, archive) = (place::journal_dir(data), archive.map(Path::to_owned));
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
            return Err(Error::NoJournal(data.to_owned()));
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
    fn segments(&self) -> Result<Vec<u64>, Error> {
        let live = segment::list(&self.dir).map_err(|source| {
            if source.kind() == std::io::ErrorKind::NotFound {
                return Error::NoJournal(self.dir.clone());
            }
            Error::io("read the journal directory", &self.dir, source)
        })?;
        let Some(dir) = &self.archive else {
            return Ok(live);
        };
        let mut all =
            archive::list(dir).map_err(|source| Error::io("read the archive", dir, source))?;
        all.retain(|first| live.first().is_none_or(|oldest| first < oldest));
        all.extend(live);
        Ok(all)
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
            .and_then(|at| at.file.metadata().ok())
            .map_or(0, |about| about.len());
        length.saturating_sub(self.position().1)
    }

    /// What is wrong here.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Problem {
        let (segment, offset) = self.position();
        Problem {
            segment,
            offset,
            seq: self.head.seq + 1,
            what: what.into(),
        }
    }

    /// Goes on by a batch, or into the next segment. [`Error::Damaged`] stays at the same place.
    pub(super) fn step(&mut self) -> Result<Step, Error> {
        let mut looks = 1;
        loop {
            match self.look()? {
                Look::Step(step) => return Ok(step),
                Look::Wrong(problem) if looks >= LOOKS => return Err(Error::Damaged(problem)),
                Look::Wrong(_) => pause(),
            }
            looks += 1;
        }
    }

    fn look(&mut self) -> Result<Look, Error> {
        let Some(at) = &mut self.at else {
            return self.enter();
        };
        let found = frame::read(&at.file, at.offset, &self.head);
        match found.map_err(|source| Error::io("read", &at.path, source))? {
            Found::Whole(batch) => {
                at.offset += batch.size;
                self.head = batch.head;
                Ok(Look::Step(Step::Batch(batch)))
            }
            Found::Bad(what) => Ok(Look::Wrong(self.wrong(what))),
            Found::Partial => self.end(true),
            Found::Nothing => self.end(false),
        }
    }

    /// No whole batch stands here: the journal's end, a segment's end, or something is missing.
    fn end(&mut self, unfinished: bool) -> Result<Look, Error> {
        let Some(at) = &self.at else {
            return self.enter();
        };
        let next = self.segments()?.into_iter().find(|first| *first > at.first);
        match next {
            None if unfinished || self.only_zeros()? => Ok(Look::Step(Step::End { unfinished })),
            None => Ok(Look::Wrong(
                self.wrong("there is something after the last batch that is none"),
            )),
            Some(next) if next != self.head.seq + 1 => {
                let what = format!(
                    "the next segment begins with record {next}; what is before it is missing"
                );
                Ok(Look::Wrong(self.wrong(what)))
            }
            Some(_) if self.remaining() > 0 => Ok(Look::Wrong(
                self.wrong("there is something after the last batch of a closed segment"),
            )),
            Some(_) => self.enter(),
        }
    }

    /// Opens the segment that begins after the head.
    fn enter(&mut self) -> Result<Look, Error> {
        let mut path = self.dir.join(segment::name(self.head.seq + 1));
        let wrong = |what: String| {
            let segment = segment::name(self.head.seq + 1);
            Ok(Look::Wrong(Problem {
                segment,
                offset: 0,
                seq: self.head.seq + 1,
                what,
            }))
        };
        let is_missing = |opened: &std::io::Result<File>| {
            opened
                .as_ref()
                .is_err_and(|source| source.kind() == std::io::ErrorKind::NotFound)
        };
        let mut opened = segment::open(&path, false);
        if let Some(archive) = self.archive.as_ref().filter(|_| is_missing(&opened)) {
            path = archive.join(segment::name(self.head.seq + 1));
            opened = segment::open(&path, false);
        }
        if is_missing(&opened) {
            return wrong("the segment is missing".to_owned());
        }
        let file = opened.map_err(|source| Error::io("read", &path, source))?;
        let header =
            match segment::read_header(&file).map_err(|source| Error::io("read", &path, source))? {
                Ok(header) => header,
                Err(what) => return wrong(what.to_owned()),
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
        self.at = Some(At {
            file,
            path,
            number: header.number,
            first: header.first,
            offset: segment::HEADER,
        });
        Ok(Look::Step(Step::Segment(header)))
    }

    /// Whether nothing but reserved space is left of the segment.
    fn only_zeros(&self) -> Result<bool, Error> {
        let Some(at) = &self.at else { return Ok(true) };
        let mut buffer = vec![0; 64 << 10];
        let mut offset = at.offset;
        loop {
            let got = frame::read_up_to(&at.file, &mut buffer, offset)
                .map_err(|source| Error::io("read", &at.path, source))?;
            if got == 0 {
                return Ok(true);
            }
            if buffer[..got].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            offset += got as u64;
        }
    }
}
