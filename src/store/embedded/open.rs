//! Opening: an index that can be trusted is brought up to the journal; any other is set aside and
//! made anew.

use super::super::claims::StoreError;
use super::super::journal::{Journal, replace};
use super::super::results::Results;
use super::super::sent_flags::SentFlags;
use super::super::state::Millis;
use super::super::state::claim::ClaimPhase;
use super::super::state::command::{Settle, StoreCommand};
use super::super::state::event::Evidence;
use super::super::table::{StateTable, Versioned};
use super::super::time::{Anchor, Time};
use super::super::waiters::Waiters;
use super::index::{Index, IndexProgress};
use super::indexer::IndexerPace;
use super::lookup::Lookup;
use super::park::block_on;
use super::replay::IndexReplay;
use super::{EmbeddedInner, SegmentRetention};
use crate::model::clock::Clock;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The mark of an index in use.
const RUNNING_MARK: &str = "running";
/// The mark while it is brought up to the journal: it still names the boot before.
const OPENING_MARK: &str = "opening";
/// Stands where no boot is known.
const NO_BOOT_ID: &str = "-";
/// The mark of an index that was closed and synced.
const CLEAN_MARK: &str = "clean";
/// The mark of an index that broke and is not made anew yet.
const BROKEN_MARK: &str = "broken";
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
    let closing = IndexCloser {
        data: data.to_owned(),
        boot,
        anchor,
        ended_well: AtomicBool::new(false),
    };
    let (index, applied) = up_to_date(data, journal.health().head.seq)?;
    let results = Results::open(data).map_err(|error| super::unkept(&error))?;
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

/// What is kept in memory of an index that ends with `applied`: the calls that are held at `now`.
fn table_of(index: &Index, applied: &IndexProgress, now: Millis) -> Result<StateTable, StoreError> {
    let open = index.holds(|hold| hold.is_open(now))?;
    let holds = open
        .into_iter()
        .map(|(key, value)| (key, Versioned { value, change: 0 }))
        .collect();
    Ok(StateTable {
        token: applied.token,
        last: applied.seq,
        indexed: applied.seq,
        holds,
        ..StateTable::default()
    })
}

/// Says, once the index is closed, whether the next start may trust it.
pub(super) struct IndexCloser {
    data: PathBuf,
    boot: String,
    /// How the store's time goes with the machine's.
    anchor: Option<Anchor>,
    ended_well: AtomicBool,
}

impl IndexCloser {
    /// Everything is in the index.
    pub(super) fn in_good_order(&self) {
        self.ended_well.store(true, Ordering::Relaxed);
    }

    /// The data directory.
    pub(super) fn data_dir(&self) -> &Path {
        &self.data
    }

    /// The index is whole: if this process is killed, the next one goes on with it.
    pub(super) fn trust(&self) -> Result<(), StoreError> {
        self.mark(RUNNING_MARK).map_err(|error| unmarked(&error))
    }

    /// The next start makes the index anew, unless this process does.
    pub(super) fn distrust(&self) {
        // On a full disk nothing can be written, but removed: an index without a mark is not
        // trusted either.
        if self.mark(BROKEN_MARK).is_err()
            && let Err(error) = std::fs::remove_file(mark_path(&self.data))
        {
            tracing::error!(%error, "the index cannot be marked; remove its directory before toolgate is started again");
        }
    }

    /// Notes durably how the index stands.
    fn mark(&self, how: &str) -> io::Result<()> {
        write_mark(&self.data, how, &self.boot, self.anchor)
    }

    /// sled does not sync its files; after a power cut only synced ones can be trusted.
    fn sync(&self) -> io::Result<()> {
        for file in std::fs::read_dir(index_path(&self.data))? {
            let file = file?;
            if file.file_type()?.is_file() {
                File::open(file.path())?.sync_all()?;
            }
        }
        File::open(index_path(&self.data))?.sync_all()?;
        self.mark(CLEAN_MARK)
    }
}

impl Drop for IndexCloser {
    fn drop(&mut self) {
        if self.ended_well.load(Ordering::Relaxed)
            && let Err(error) = self.sync()
        {
            tracing::warn!(%error, "the index is not closed well; it is checked when toolgate starts again");
        }
    }
}

fn write_mark(data: &Path, how: &str, boot: &str, anchor: Option<Anchor>) -> io::Result<()> {
    let anchor = anchor
        .map(|anchor| format!(" {} {}", anchor.at, anchor.steady))
        .unwrap_or_default();
    replace(data, &mark_path(data), &format!("{how} {boot}{anchor}\n"))
}

/// The index of `data`, up to the journal, whose end is record `head`.
fn up_to_date(data: &Path, head: u64) -> Result<(Index, IndexProgress), StoreError> {
    let dir = index_path(data);
    sweep_halves(&dir);
    match Index::open(&dir) {
        Ok((index, applied)) if applied.seq <= head => {
            if let Some(applied) = replay(data, &index, applied)? {
                return Ok((index, applied));
            }
            tracing::warn!("the journal does not go back to where the index ends");
        }
        Ok(_) => tracing::warn!("the index knows more than the journal"),
        Err(error) => tracing::warn!(%error, "the index cannot be opened"),
    }
    set_aside(&dir)?;
    let (index, applied) = Index::open(&dir)?;
    let applied = replay(data, &index, applied)?;
    applied
        .map(|applied| (index, applied))
        .ok_or_else(|| StoreError::Broken("a new index is not empty".to_owned()))
}

/// Brings `index` up to the journal; none when it has to be made anew for that.
fn replay(
    data: &Path,
    index: &Index,
    applied: IndexProgress,
) -> Result<Option<IndexProgress>, StoreError> {
    let Some(mut replay) = IndexReplay::begin(data, index, applied)? else {
        return Ok(None);
    };
    while replay.step(u64::MAX)? {}
    tracing::info!(
        replayed = replay.replayed(),
        "the index is up to the journal"
    );
    Ok(Some(replay.applied()))
}

impl EmbeddedInner {
    /// Settles what was in flight when the last process ended: without the mark that a byte may
    /// have left, under a kernel that has not died since, nothing was sent (SEMANTICS §4).
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
                .map_err(super::unwritten)
        })
    }
}

/// Which run of the kernel this is; changes with every boot.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// How the index stood when it was last marked.
struct IndexMark {
    how: String,
    /// Under which run of the kernel.
    boot: String,
    anchor: Option<Anchor>,
}

fn last_mark(data: &Path) -> Option<IndexMark> {
    let text = std::fs::read_to_string(mark_path(data)).ok()?;
    let mut words = text.split_whitespace();
    let (how, boot) = (words.next()?.to_owned(), words.next()?.to_owned());
    let anchor = words.next().zip(words.next());
    let anchor = anchor.and_then(|(at, steady)| {
        Some(Anchor {
            at: at.parse().ok()?,
            steady: steady.parse().ok()?,
        })
    });
    Some(IndexMark { how, boot, anchor })
}

fn unmarked(error: &io::Error) -> StoreError {
    StoreError::Broken(format!("the index cannot be marked: {error}"))
}

/// Where the index of `data` lies.
pub(super) fn index_path(data: &Path) -> PathBuf {
    data.join("index")
}

fn mark_path(data: &Path) -> PathBuf {
    data.join("index.mark")
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
