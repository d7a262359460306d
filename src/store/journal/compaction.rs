//! Dropping segments that nobody needs any more. A sealed summary takes their place; the chain runs
//! through it.
//!
//! A crash leaves the old state or the new one: the summary is whole, synced and vouched for before
//! it takes its name, and from then on what it stands for is not looked at, whether it is removed
//! yet or not.

use super::error::JournalError;
use super::item::RecordGroup;
use super::summary::{self, Summary, SummaryHeader};
use super::walk::{JournalWalk, WalkStep};
use super::{Journal, archive, data_dir, segment};
use crate::model::clock::Clock;
use crate::model::long_work::{LongWork, WorkUnit};
use jiff::Timestamp;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What may be dropped.
#[derive(Debug, Clone, Copy)]
pub struct Retention<'a> {
    /// Records up to this one are in the state that is carried, and nobody needs to read them.
    pub upto: u64,
    /// How long after its last write a segment is kept.
    pub age: Duration,
    /// Where segments go then; none: they are removed.
    pub archive: Option<&'a Path>,
}

/// What was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedSegments {
    /// The last record that is gone.
    pub last: u64,
    /// Segments that are gone.
    pub segments: u64,
    /// Bytes of them, as they were written.
    pub bytes: u64,
    /// Records that are gone before their age, because there were more bytes than may be.
    pub early: u64,
}

/// Segments to be dropped, and the summary that is to stand for them and all that were dropped
/// before.
struct CompactionPlan {
    header: SummaryHeader,
    dropped: DroppedSegments,
    /// The first records of the segments.
    segments: Vec<u64>,
}

impl Journal {
    /// Drops closed segments that `retention` lets go, and puts a summary in their place. `carried`
    /// is the state after record `retention.upto`, as events:
    /// `JournalReader::replay` gives them first. None when there is nothing to
    /// drop; `carried` is not asked then.
    ///
    /// What is to go is read and checked first: a damaged segment is not dropped. Does its file
    /// work where it is awaited, which should be a thread of its own; one at a time.
    pub async fn compact(
        &self,
        retention: Retention<'_>,
        carried: impl Iterator<Item = Result<Vec<u8>, JournalError>>,
    ) -> Result<Option<DroppedSegments>, JournalError> {
        let dir = &self.0.dir;
        let state = retention.upto;
        self.wait_durable(state).await?;
        let found = droppable(dir, state, retention.age, self.0.sizes.most)?;
        let Some(Droppable { last, early, bytes }) = found else {
            return Ok(None);
        };
        if let Some(to) = retention.archive {
            archive::can_keep(to)?;
        }
        let what = "dropping old segments of the ledger";
        let mut work = LongWork::behind(what, WorkUnit::Bytes, bytes);
        let mut plan = plan(&self.0.data, last, retention, &mut work)?;
        plan.dropped.early = early;
        // Before anything says that they are gone: what a crash leaves in the archive is there once
        // more, and the same.
        if let Some(to) = retention.archive {
            archive::take(dir, to, &plan.segments)?;
        }
        let seal = summary::prepare(dir, &plan.header, self.0.keys.current.as_ref(), carried)?;
        let last = self.0.queue.push(
            &RecordGroup::of(super::frame::SUMMARY_SEAL_RECORD, &seal),
            true,
        )?;
        self.wait_durable(last).await?;
        summary::publish(dir, &plan.header)?;
        sweep(dir)?;
        work.reach(bytes);
        plan.dropped.log_dropped(retention.archive);
        self.0.queue.dropped_early(early);
        Ok(Some(plan.dropped))
    }
}

impl DroppedSegments {
    /// Says what is gone, and where to: what goes before its age is more than a note.
    fn log_dropped(self, archive: Option<&Path>) {
        let Self {
            last,
            segments,
            bytes,
            early,
        } = self;
        match archive.map(Path::display) {
            Some(to) if early > 0 => tracing::error!(
                last, segments, bytes, early, %to,
                "the ledger has more than `ledger.max_bytes`: old segments of the ledger are archived before their age"
            ),
            Some(to) => {
                tracing::info!(last, segments, bytes, %to, "old segments of the ledger are archived");
            }
            None if early > 0 => tracing::error!(
                last,
                segments,
                bytes,
                early,
                "the ledger has more than `ledger.max_bytes`: old segments of the ledger are dropped before their age; these \
                 records are gone"
            ),
            None => {
                tracing::info!(
                    last,
                    segments,
                    bytes,
                    "old segments of the ledger are dropped; these records are gone"
                );
            }
        }
    }
}

/// Closed segments that may go.
struct Droppable {
    /// Their last record.
    last: u64,
    /// How many of their records go before their age.
    early: u64,
    /// Bytes of them.
    bytes: u64,
}

/// The closed segments that may go; none when none may.
fn droppable(
    dir: &Path,
    upto: u64,
    age: Duration,
    most: u64,
) -> Result<Option<Droppable>, JournalError> {
    let failed = |source| JournalError::io("read", dir, source);
    let segments = segment::list(dir).map_err(failed)?;
    let taken = size(dir).map_err(failed)?;
    // Some more than has to be, so that it is not done again at once, and that the summary has
    // room.
    let mut excess = if taken > most {
        taken - (most - most / 8)
    } else {
        0
    };
    let mut found: Option<Droppable> = None;
    for pair in segments.windows(2) {
        let about = std::fs::metadata(dir.join(segment::name(pair[0]))).map_err(failed)?;
        let written = about.modified().map_err(failed)?;
        // A clock that was set back makes a segment young, and it is kept.
        let is_old = age.is_zero() || age_of(written).is_some_and(|old| old >= age);
        if pair[1] - 1 > upto || !is_old && excess == 0 {
            break;
        }
        excess = excess.saturating_sub(about.len());
        let early = if is_old { 0 } else { pair[1] - pair[0] };
        let before = found.as_ref();
        found = Some(Droppable {
            last: pair[1] - 1,
            early: before.map_or(0, |before| before.early) + early,
            bytes: before.map_or(0, |before| before.bytes) + about.len(),
        });
    }
    Ok(found)
}

/// Bytes of segments and summaries.
pub(super) fn size(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for file in std::fs::read_dir(dir)? {
        match file?.metadata() {
            Ok(about) => bytes += about.len(),
            // One that is dropped meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// How long ago that was; none for what is to come.
fn age_of(written: SystemTime) -> Option<Duration> {
    let written = Timestamp::try_from(written).ok()?;
    Clock.wall().duration_since(written).try_into().ok()
}

/// Reads what is to go, up to record `last`, which `work` is told of.
fn plan(
    data: &Path,
    last: u64,
    retention: Retention<'_>,
    work: &mut LongWork,
) -> Result<CompactionPlan, JournalError> {
    let state = retention.upto;
    let mut walk = JournalWalk::begin(data)?;
    let base = walk.base;
    let mut dropped = DroppedSegments {
        last,
        segments: 0,
        bytes: 0,
        early: 0,
    };
    let mut before = base.map(|base| (base.first, base.before));
    let (mut end, mut gone) = (None, Vec::new());
    loop {
        match walk.step()? {
            WalkStep::Segment(header) if header.first > last => {
                end = Some((header.number - 1, header.chain));
                break;
            }
            WalkStep::Segment(header) => {
                before.get_or_insert((header.first, header.chain));
                gone.push(header.first);
                dropped.segments += 1;
                dropped.bytes += segment::SEGMENT_HEADER_BYTES;
            }
            WalkStep::Batch(batch) => {
                dropped.bytes += batch.size;
                work.reach(dropped.bytes);
            }
            WalkStep::End { .. } => break,
        }
    }
    let (Some((first, before)), Some((segments, after))) = (before, end) else {
        return Err(JournalError::Damaged(
            walk.wrong("the segment after those to be dropped is missing"),
        ));
    };
    let bytes = dropped.bytes + base.map_or(0, |base| base.dropped);
    let archived = match (retention.archive, base) {
        (Some(_), None) => first,
        (Some(_), Some(base)) if base.archived > 0 => base.archived,
        (Some(_), Some(base)) => base.last + 1,
        (None, _) => 0,
    };
    let header = SummaryHeader {
        segments,
        first,
        last,
        state,
        dropped: bytes,
        before,
        after,
        archived,
        sealed: false,
    };
    Ok(CompactionPlan {
        header,
        dropped,
        segments: gone,
    })
}

/// Removes what the newest summary stands for, older summaries, and what was never finished.
pub(super) fn sweep(dir: &Path) -> Result<(), JournalError> {
    let failed = |source| JournalError::io("tidy", dir, source);
    let mut gone = Vec::new();
    if let Some(Summary { header, .. }) = Summary::open(dir)? {
        let stood_for = segment::every(dir)
            .map_err(failed)?
            .into_iter()
            .filter(|first| *first <= header.last);
        gone.extend(stood_for.map(segment::name));
        let older = summary::list(dir)
            .map_err(failed)?
            .into_iter()
            .filter(|last| *last < header.last);
        gone.extend(older.map(summary::name));
    }
    for name in &gone {
        std::fs::remove_file(dir.join(name)).map_err(failed)?;
    }
    if gone.is_empty() {
        Ok(())
    } else {
        data_dir::sync_dir(dir).map_err(failed)
    }
}

/// Removes what was being written when the process ended; only for who opens the journal.
pub(super) fn sweep_unfinished(dir: &Path) -> std::io::Result<()> {
    for item in std::fs::read_dir(dir)? {
        let path = item?.path();
        if path.extension().is_some_and(|extension| extension == "new") {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}
