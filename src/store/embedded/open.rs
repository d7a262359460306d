//! Opening: an index that can be trusted is brought up to the journal; any other is set aside and
//! made anew.

use super::super::claims::StoreError;
use super::super::hold_news::HoldFeed;
use super::super::journal::Journal;
use super::super::results::Results;
use super::super::sent_flags::SentFlags;
use super::super::state::Millis;
use super::super::state::claim::ClaimPhase;
use super::super::state::command::{Settle, StoreCommand};
use super::super::state::settlement::Evidence;
use super::super::table::{StateTable, Versioned};
use super::super::time::Time;
use super::super::waiters::Waiters;
use super::SegmentRetention;
use super::errors::{unkept, unwritten};
use super::index::{Index, IndexProgress};
use super::inner::EmbeddedInner;
use super::lookup::Lookup;
use super::mark::{
    BROKEN_MARK, CLEAN_MARK, IndexCloser, NO_BOOT_ID, OPENING_MARK, boot_id, index_path, last_mark,
    unmarked, write_mark,
};
use super::pace::IndexerPace;
use super::park::block_on;
use super::replay::IndexReplay;
use crate::model::clock::Clock;
use crate::model::long_work::{LongWork, WorkUnit};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Claims in flight that are settled at a start; there are never more than calls in flight.
const MAX_CLAIMS_SETTLED: usize = 1 << 16;

/// Opens everything and settles what a crash left in flight.
pub(super) fn open(
    data: &Path,
    journal: Journal,
    clock: Clock,
    keeping: Option<SegmentRetention>,
) -> Result<EmbeddedInner, StoreError> {
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
    write_mark(data, OPENING_MARK, before, anchor).map_err(|error| unmarked(&error))?;
    let closing = IndexCloser::new(data, boot, anchor);
    let (index, applied) = up_to_date(data, journal.health().head.seq)?;
    let results = Results::open(data).map_err(|error| unkept(&error))?;
    let (marks, sent) = SentFlags::open(data)
        .map_err(|error| StoreError::Broken(format!("the marks cannot be read: {error}")))?;
    let time = match anchor {
        Some(anchor) => Time::continuing(clock, applied.seen, anchor),
        None => Time::starting(clock, applied.seen),
    };
    let mut shared = EmbeddedInner {
        table: Mutex::new(table_of(&index, &applied, time.now())?),
        lookup: Lookup::new(index),
        journal,
        results,
        marks,
        waiters: Waiters::default(),
        feed: HoldFeed::default(),
        time,
        pace: IndexerPace::default(),
        keeping,
        closing,
    };
    shared.settle_crashed(sent.as_ref().filter(|_| same_boot))?;
    shared
        .marks
        .begin()
        .map_err(|error| StoreError::Broken(format!("the marks cannot be begun: {error}")))?;
    shared.closing.anchor = Some(shared.time.anchor());
    shared.closing.trust()?;
    Ok(shared)
}

/// What is kept in memory of an index that ends with `applied`: the calls that are held at `now`, and
/// the grants that can cover one.
fn table_of(index: &Index, applied: &IndexProgress, now: Millis) -> Result<StateTable, StoreError> {
    let open = index.holds(|hold| hold.is_open(now))?;
    let holds = open
        .into_iter()
        .map(|(key, value)| (key, Versioned { value, change: 0 }))
        .collect();
    let live = index.grants(|grant| grant.ended(now).is_none())?;
    let grants = live
        .into_iter()
        .map(|(key, value)| (key, Versioned { value, change: 0 }))
        .collect();
    Ok(StateTable {
        grants,
        token: applied.token,
        last: applied.seq,
        indexed: applied.seq,
        holds,
        ..StateTable::default()
    })
}

/// The index of `data`, up to the journal, whose end is record `head`.
fn up_to_date(data: &Path, head: u64) -> Result<(Index, IndexProgress), StoreError> {
    let dir = index_path(data);
    sweep_halves(&dir);
    match Index::open(&dir) {
        Ok((index, applied)) if applied.seq <= head => {
            if let Some(applied) = replay(data, &index, applied, head)? {
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
    let (index, applied) = Index::open(&dir)?;
    let applied = replay(data, &index, applied, head)?;
    applied
        .map(|applied| (index, applied))
        .ok_or_else(|| StoreError::Broken("a new index is not empty".to_owned()))
}

/// Brings `index` up to record `head`, the end of the journal; none when it has to be made anew for that.
fn replay(
    data: &Path,
    index: &Index,
    applied: IndexProgress,
    head: u64,
) -> Result<Option<IndexProgress>, StoreError> {
    let Some(mut replay) = IndexReplay::begin(data, index, applied)? else {
        return Ok(None);
    };
    let missing = head.saturating_sub(applied.seq);
    let mut work = LongWork::of(
        "bringing the index up to the journal",
        WorkUnit::Records,
        missing,
    );
    while replay.step(u64::MAX)? {
        work.reach(replay.applied().seq.saturating_sub(applied.seq));
    }
    work.reach(missing);
    drop(work);
    tracing::info!(
        replayed = replay.replayed(),
        "the index is up to the journal"
    );
    Ok(Some(replay.applied()))
}

impl EmbeddedInner {
    /// Settles what was in flight when the last process ended: without the mark that a byte may
    /// have left, under a kernel that has not died since, nothing was sent (guarantees §4).
    /// `sent`: the marks, where they can be relied on.
    fn settle_crashed(&self, sent: Option<&HashSet<[u8; 16]>>) -> Result<(), StoreError> {
        let mut last = None;
        for (key, claim) in self.unsettled(MAX_CLAIMS_SETTLED)? {
            if !matches!(claim.phase, ClaimPhase::Dispatching) {
                continue;
            }
            let phase = if sent.is_some_and(|sent| !sent.contains(claim.action.as_bytes())) {
                ClaimPhase::NotSent
            } else {
                ClaimPhase::Unknown {
                    why: "toolgate ended while the call was in flight".to_owned(),
                }
            };
            tracing::warn!(action = %claim.action, tool = %claim.tool, became = phase.word(), "a call was in flight when toolgate ended");
            let settle = Settle {
                key,
                action: claim.action,
                failed: matches!(phase, ClaimPhase::Unknown { .. }),
                phase,
                evidence: Evidence::Restart,
                cost: None,
                seen: None,
            };
            if let Ok((_, ticket)) = self.decide(&StoreCommand::Settle(settle), None)? {
                last = Some(ticket.seq());
            }
        }
        // The marks' slots are used again from now on.
        last.map_or(Ok(()), |last| {
            block_on(self.journal.wait_durable(last))
                .map(drop)
                .map_err(unwritten)
        })
    }
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
