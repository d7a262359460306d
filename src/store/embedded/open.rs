//! Opening, its first half: finds what there is. An index that cannot be trusted is set aside, and
//! another is begun; `opening` brings it up to the journal.

use super::super::claims::StoreError;
use super::super::hold_news::HoldFeed;
use super::super::journal::Journal;
use super::super::opening::StoreOpening;
use super::super::results::Results;
use super::super::sent_flags::SentFlags;
use super::super::stopped_tasks::StoppedTasks;
use super::super::time::RaisedTime;
use super::super::waiters::Waiters;
use super::SegmentRetention;
use super::errors::unkept;
use super::index::{Index, IndexProgress};
use super::inner::EmbeddedInner;
use super::lookup::Lookup;
use super::mark::{
    BROKEN_MARK, CLEAN_MARK, IndexCloser, NO_BOOT_ID, OPENING_MARK, boot_id, index_path, last_mark,
    unmarked, write_mark,
};
use super::opening::OpeningJob;
use super::pace::IndexerPace;
use super::replay::IndexReplay;
use crate::model::clock::Clock;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens everything; with what is left to be done before anything can be looked up or decided.
pub(super) fn open(
    data: &Path,
    journal: Journal,
    clock: Clock,
    keeping: Option<SegmentRetention>,
) -> Result<(EmbeddedInner, OpeningJob), StoreError> {
    let (dir, boot) = (index_path(data), boot_id());
    let last = last_mark(data);
    let same_boot = last
        .as_ref()
        .is_some_and(|last| last.boot == boot && !boot.is_empty());
    let how = last.as_ref().map_or("", |last| last.how.as_str());
    let trusted = how == CLEAN_MARK || same_boot && how != BROKEN_MARK;
    let anchor = last
        .as_ref()
        .and_then(|last| last.anchor)
        .filter(|_| same_boot);
    if !trusted {
        set_aside(&dir)?;
    }
    // Not clean any more; but not of this boot either, until nothing is left of the last one.
    let before = last.as_ref().map_or(NO_BOOT_ID, |last| last.boot.as_str());
    let stopped = last.as_ref().map(|last| last.stopped.clone());
    let stopped = stopped.unwrap_or_else(|| StoppedTasks::read(None));
    let marked = write_mark(data, OPENING_MARK, before, anchor, &stopped);
    marked.map_err(|error| unmarked(&error))?;
    let closing = IndexCloser::new(data, boot);
    let (index, applied) = usable(data, journal.health().head.seq)?;
    let results = Results::open(data).map_err(|error| unkept(&error))?;
    let (marks, sent) = SentFlags::open(data)
        .map_err(|error| StoreError::Broken(format!("the marks cannot be read: {error}")))?;
    let job = OpeningJob {
        index,
        applied,
        sent: sent.filter(|_| same_boot),
        clock,
        anchor,
        stopped: stopped.clone(),
    };
    let opening = Arc::new(StoreOpening::new(stopped));
    let shared = EmbeddedInner {
        table: Mutex::default(),
        lookup: Lookup::new(opening.clone()),
        opening,
        journal,
        results,
        marks,
        waiters: Waiters::default(),
        feed: HoldFeed::default(),
        time: RaisedTime::new(job.time(0)),
        pace: IndexerPace::default(),
        keeping,
        closing,
    };
    Ok((shared, job))
}

/// The index of `data`, as far as it goes. One that cannot be brought up to record `head`, the end of
/// the journal, is set aside, and another is begun.
fn usable(data: &Path, head: u64) -> Result<(Index, IndexProgress), StoreError> {
    let dir = index_path(data);
    sweep_halves(&dir);
    match Index::open(&dir) {
        Ok((index, applied)) if applied.seq <= head => {
            if IndexReplay::begin(data, &index, applied)?.is_some() {
                return Ok((index, applied));
            }
            tracing::warn!("the journal does not go back to where the index ends");
        }
        Ok((_, applied)) if applied.is_unfinished() => {
            tracing::warn!("the index was not made anew to its end");
        }
        Ok(_) => tracing::warn!("the index knows more than the journal"),
        Err(error) => tracing::warn!(%error, "the index cannot be opened"),
    }
    set_aside(&dir)?;
    Index::open(&dir)
}

/// Where an index is moved that is not trusted.
pub(super) fn aside(dir: &Path) -> PathBuf {
    dir.with_extension("aside")
}

/// Moves an index that is not trusted out of the way; the one before it is given up.
pub(super) fn set_aside(dir: &Path) -> Result<(), StoreError> {
    let aside = aside(dir);
    let _ = std::fs::remove_dir_all(&aside);
    match std::fs::rename(dir, &aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::Broken(
            format!("{} cannot be moved away: {error}", dir.display()),
        )),
        Ok(()) => {
            tracing::warn!(aside = %aside.display(), "the index is made anew from the journal");
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

/// A kill while sled opens leaves half a snapshot behind that it then refuses to open
/// (spacejam/sled #1527).
fn sweep_halves(dir: &Path) {
    let halves = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for half in halves.filter(|file| file.file_name().to_string_lossy().ends_with(".generating")) {
        let _ = std::fs::remove_file(half.path());
    }
}
