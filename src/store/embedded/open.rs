//! Opening: an index that can be trusted is brought up to the journal; any other is set aside and made anew.

use super::super::claims::Error;
use super::super::journal::{Journal, Reader, replace};
use super::super::marks::Marks;
use super::super::results::Results;
use super::super::state::claim::Phase;
use super::super::state::command::{Command, Settle};
use super::super::state::event::{Event, Evidence};
use super::super::table::Table;
use super::super::time::{Anchor, Time};
use super::super::waiters::Waiters;
use super::Shared;
use super::index::{Applied, Index};
use super::indexer::{Pace, block_on};
use crate::model::clock::Clock;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The mark of an index in use.
const RUNNING: &str = "running";
/// The mark while it is brought up to the journal: it still names the boot before.
const OPENING: &str = "opening";
/// Stands where no boot is known.
const NO_BOOT: &str = "-";
/// The mark of an index that was closed and synced.
const CLEAN: &str = "clean";
/// Changes that are replayed before they go into the index.
const PORTION: usize = 8192;
/// Claims in flight that are settled at a start; there are never more than calls in flight.
const IN_FLIGHT: usize = 1 << 16;

/// Opens everything and settles what a crash left in flight.
pub(super) fn open(data: &Path, journal: Journal, clock: Clock, retention: Duration) -> Result<Shared, Error> {
    let (dir, boot) = (index_path(data), boot_id());
    let last = last_mark(data);
    let same_boot = last.as_ref().is_some_and(|last| last.boot == boot && !boot.is_empty());
    let clean = last.as_ref().is_some_and(|last| last.how == CLEAN);
    let anchor = last.as_ref().and_then(|last| last.anchor).filter(|_| same_boot);
    // Not clean any more; but not of this boot either, until nothing is left of the last one.
    let before = last.as_ref().map_or(NO_BOOT, |last| last.boot.as_str());
    write_mark(data, OPENING, before, anchor).map_err(|error| unmarked(&error))?;
    let closing = Closing { data: data.to_owned(), boot, anchor, ended_well: AtomicBool::new(false) };
    let (mut index, mut applied) = open_index(&dir, same_boot || clean, journal.health().head.seq)?;
    let mut reader = Reader::replay(data, applied.seq).map_err(super::unwritten)?;
    if reader.is_anew() && applied != Applied::default() {
        drop(index);
        set_aside(&dir)?;
        (index, applied) = Index::open(&dir)?;
        reader = Reader::replay(data, 0).map_err(super::unwritten)?;
    }
    let results = Results::open(data).map_err(|error| super::unkept(&error))?;
    let (marks, sent) =
        Marks::open(data).map_err(|error| Error::Broken(format!("the marks cannot be read: {error}")))?;
    let table = Table { token: applied.token, last: applied.seq, indexed: applied.seq, ..Table::default() };
    let time = Time::starting(clock, applied.seen);
    let (table, waiters, pace) = (Mutex::new(table), Waiters::default(), Pace::default());
    let mut shared = Shared { table, index, journal, results, marks, waiters, time, pace, retention, closing };
    let seen = shared.replay(reader, applied)?;
    shared.time = match anchor {
        Some(anchor) => Time::continuing(clock, seen, anchor),
        None => Time::starting(clock, seen),
    };
    shared.settle_crashed(sent.as_ref().filter(|_| same_boot))?;
    shared.closing.anchor = Some(shared.time.anchor());
    shared.closing.mark(RUNNING).map_err(|error| unmarked(&error))?;
    Ok(shared)
}

/// Says, once the index is closed, whether the next start may trust it.
pub(super) struct Closing {
    data: PathBuf,
    boot: String,
    /// How the store's time goes with the machine's.
    anchor: Option<Anchor>,
    ended_well: AtomicBool,
}

impl Closing {
    /// Everything is in the index.
    pub(super) fn in_good_order(&self) {
        self.ended_well.store(true, Ordering::Relaxed);
    }

    /// The next start makes the index anew.
    pub(super) fn distrust(&self) {
        if let Err(error) = write_mark(&self.data, OPENING, NO_BOOT, self.anchor) {
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
        self.mark(CLEAN)
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if self.ended_well.load(Ordering::Relaxed)
            && let Err(error) = self.sync()
        {
            tracing::warn!(%error, "the index is not closed well; it is checked when toolgate starts again");
        }
    }
}

fn write_mark(data: &Path, how: &str, boot: &str, anchor: Option<Anchor>) -> io::Result<()> {
    let anchor = anchor.map(|anchor| format!(" {} {}", anchor.at, anchor.steady)).unwrap_or_default();
    replace(data, &mark_path(data), &format!("{how} {boot}{anchor}\n"))
}

/// The index, if it can be `trusted` and knows nothing that the journal, at `head`, does not; otherwise an empty one.
fn open_index(dir: &Path, trusted: bool, head: u64) -> Result<(Index, Applied), Error> {
    sweep_halves(dir);
    if trusted {
        match Index::open(dir) {
            Ok(opened) if opened.1.seq <= head => return Ok(opened),
            Ok(_) => tracing::warn!("the index knows more than the journal"),
            Err(error) => tracing::warn!(%error, "the index cannot be opened"),
        }
    }
    set_aside(dir)?;
    Index::open(dir)
}

impl Shared {
    /// Applies what the journal holds after `applied`; gives the latest time seen.
    fn replay(&self, reader: Reader, applied: Applied) -> Result<u64, Error> {
        let mut seen = applied.seen;
        let mut replayed = 0_u64;
        for record in reader {
            let record = record.map_err(super::unwritten)?;
            let Some(bytes) = record.event() else { continue };
            let event = Event::decode(bytes).map_err(|error| {
                Error::Broken(format!("record {} of the journal cannot be read: {error}", record.seq))
            })?;
            seen = seen.max(event.at());
            replayed += 1;
            let many = {
                let mut table = self.table.lock();
                let view = self.view(&table, event.place())?;
                table.apply(&event, view, record.seq);
                table.len() >= PORTION
            };
            if many {
                self.catch_up()?;
            }
        }
        tracing::info!(replayed, "the index is up to the journal");
        Ok(seen)
    }

    /// Settles what was in flight when the last process ended: without the mark that a byte may have left, under a kernel
    /// that has not died since, nothing was sent (SEMANTICS §4).
    /// `sent`: the marks, where they can be relied on.
    fn settle_crashed(&self, sent: Option<&HashSet<[u8; 16]>>) -> Result<(), Error> {
        let mut last = None;
        for (key, claim) in self.unsettled(IN_FLIGHT)? {
            if !matches!(claim.phase, Phase::Dispatching) {
                continue;
            }
            let phase = if sent.is_some_and(|sent| !sent.contains(claim.action.as_bytes())) {
                Phase::NotSent
            } else {
                Phase::Unknown { why: "toolgate ended while the call was in flight".to_owned() }
            };
            tracing::warn!(action = %claim.action, tool = %claim.tool, became = phase.word(), "a call was in flight when toolgate ended");
            let settle = Settle {
                key,
                action: claim.action,
                failed: matches!(phase, Phase::Unknown { .. }),
                phase,
                evidence: Evidence::Restart,
                cost: None,
                seen: None,
            };
            if let Ok((_, ticket)) = self.decide(&Command::Settle(settle), None)? {
                last = Some(ticket.seq());
            }
        }
        // The marks' slots are used again from now on.
        last.map_or(Ok(()), |last| block_on(self.journal.until(last)).map(drop).map_err(super::unwritten))
    }
}

/// Which run of the kernel this is; changes with every boot.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// How the index stood when it was last marked.
struct Mark {
    how: String,
    /// Under which run of the kernel.
    boot: String,
    anchor: Option<Anchor>,
}

fn last_mark(data: &Path) -> Option<Mark> {
    let text = std::fs::read_to_string(mark_path(data)).ok()?;
    let mut words = text.split_whitespace();
    let (how, boot) = (words.next()?.to_owned(), words.next()?.to_owned());
    let anchor = words.next().zip(words.next());
    let anchor = anchor.and_then(|(at, steady)| Some(Anchor { at: at.parse().ok()?, steady: steady.parse().ok()? }));
    Some(Mark { how, boot, anchor })
}

fn unmarked(error: &io::Error) -> Error {
    Error::Broken(format!("the index cannot be marked: {error}"))
}

fn index_path(data: &Path) -> PathBuf {
    data.join("index")
}

fn mark_path(data: &Path) -> PathBuf {
    data.join("index.mark")
}

/// Moves an index that is not trusted out of the way; the one before it is given up.
fn set_aside(dir: &Path) -> Result<(), Error> {
    let aside = dir.with_extension("aside");
    let _ = std::fs::remove_dir_all(&aside);
    match std::fs::rename(dir, &aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Broken(format!("{} cannot be moved away: {error}", dir.display())))
        }
        Ok(()) => {
            tracing::warn!(aside = %aside.display(), "the index is made anew from the journal");
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

/// A kill while sled opens leaves half a snapshot behind that it then refuses to open (spacejam/sled #1527).
fn sweep_halves(dir: &Path) {
    let halves = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for half in halves.filter(|file| file.file_name().to_string_lossy().ends_with(".generating")) {
        let _ = std::fs::remove_file(half.path());
    }
}
