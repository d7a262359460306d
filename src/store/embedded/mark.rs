//! The mark beside the index: whether the next start may trust it.

use crate::model::digest::Digest;
use crate::store::claims::StoreError;
use crate::store::journal::replace;
use crate::store::stopped_tasks::StoppedTasks;
use crate::store::time::Anchor;
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The mark of an index in use.
pub(super) const RUNNING_MARK: &str = "running";
/// The mark while it is brought up to the journal: it still names the boot before.
pub(super) const OPENING_MARK: &str = "opening";
/// Stands where no boot is known.
pub(super) const NO_BOOT_ID: &str = "-";
/// The mark of an index that was closed and synced.
pub(super) const CLEAN_MARK: &str = "clean";
/// The mark of an index that broke and is not made anew yet.
pub(super) const BROKEN_MARK: &str = "broken";

/// Says, once the index is closed, whether the next start may trust it.
pub(super) struct IndexCloser {
    data: PathBuf,
    boot: String,
    now: Mutex<MarkNow>,
    ended_well: AtomicBool,
}

/// What the mark says beside the boot.
struct MarkNow {
    how: &'static str,
    /// How the store's time goes with the machine's.
    anchor: Option<Anchor>,
    /// Tasks that an operator may have stopped.
    stopped: StoppedTasks,
}

impl MarkNow {
    fn write(&self, data: &Path, boot: &str) -> io::Result<()> {
        write_mark(data, self.how, boot, self.anchor, &self.stopped)
    }
}

impl IndexCloser {
    /// For the index of `data`, under the run `boot` of the kernel.
    pub(super) fn new(data: &Path, boot: String) -> Self {
        Self {
            data: data.to_owned(),
            boot,
            now: Mutex::new(MarkNow {
                how: BROKEN_MARK,
                anchor: None,
                stopped: StoppedTasks::read(None),
            }),
            ended_well: AtomicBool::new(false),
        }
    }

    /// Everything is in the index.
    pub(super) fn in_good_order(&self) {
        self.ended_well.store(true, Ordering::Relaxed);
    }

    /// From now on the store's time goes so with the machine's, and these tasks are stopped.
    pub(super) fn opened(&self, anchor: Anchor, stopped: StoppedTasks) {
        let mut now = self.now.lock();
        (now.anchor, now.stopped) = (Some(anchor), stopped);
    }

    /// An operator is about to stop `task`: a start that has no index to ask knows of it from now on. A task
    /// that goes on again is not taken out, before the next start asks its index.
    pub(super) fn stops(&self, task: &Digest) {
        let mut now = self.now.lock();
        // A start that finds no mark takes any task for stopped.
        if now.stopped.add(task)
            && now.write(&self.data, &self.boot).is_err()
            && let Err(error) = std::fs::remove_file(mark_path(&self.data))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::error!(%error, "that a task is stopped cannot be noted beside the index; remove its mark before toolgate is started again");
        }
    }

    /// Whether an operator may have stopped `task`.
    pub(super) fn may_have_stopped(&self, task: &Digest) -> bool {
        self.now.lock().stopped.may_hold(task)
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
    fn mark(&self, how: &'static str) -> io::Result<()> {
        let mut now = self.now.lock();
        now.how = how;
        now.write(&self.data, &self.boot)
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

pub(super) fn write_mark(
    data: &Path,
    how: &str,
    boot: &str,
    anchor: Option<Anchor>,
    stopped: &StoppedTasks,
) -> io::Result<()> {
    let anchor = anchor
        .map(|anchor| format!(" {} {}", anchor.at, anchor.steady))
        .unwrap_or_default();
    // Who does not know the second line reads the first.
    let text = format!("{how} {boot}{anchor}\n{}", stopped.line());
    replace(data, &mark_path(data), &text)
}

/// Which run of the kernel this is; changes with every boot.
pub(super) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// How the index stood when it was last marked.
pub(super) struct IndexMark {
    pub(super) how: String,
    /// Under which run of the kernel.
    pub(super) boot: String,
    pub(super) anchor: Option<Anchor>,
    /// Tasks that an operator may have stopped.
    pub(super) stopped: StoppedTasks,
}

pub(super) fn last_mark(data: &Path) -> Option<IndexMark> {
    let text = std::fs::read_to_string(mark_path(data)).ok()?;
    let mut lines = text.lines();
    let mut words = lines.next()?.split_whitespace();
    let (how, boot) = (words.next()?.to_owned(), words.next()?.to_owned());
    let anchor = words.next().zip(words.next());
    let anchor = anchor.and_then(|(at, steady)| {
        Some(Anchor {
            at: at.parse().ok()?,
            steady: steady.parse().ok()?,
        })
    });
    let stopped = StoppedTasks::read(lines.next());
    Some(IndexMark {
        how,
        boot,
        anchor,
        stopped,
    })
}

pub(super) fn unmarked(error: &io::Error) -> StoreError {
    StoreError::Broken(format!("the index cannot be marked: {error}"))
}

/// Where the index of `data` lies.
pub(super) fn index_path(data: &Path) -> PathBuf {
    data.join("index")
}

pub(super) fn mark_path(data: &Path) -> PathBuf {
    data.join("index.mark")
}
