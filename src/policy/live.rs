//! The policy in force. A change of the files is compiled whole: what is valid replaces it at once,
//! what is not leaves it in force and says so.

use super::Policy;
use super::sources::{PackTerms, PolicySources};
use crate::failpoint;
use crate::model::clock::Clock;
use crate::model::diagnostic::{Diagnostic, Severity, foremost};
use crate::model::disabled::{Disabled, FrozenScope, TakenAway};
use crate::telemetry::metrics::{Metrics, ReloadLabel};
use arc_swap::ArcSwap;
use jiff::Timestamp;
use keeping::PolicyKeeper;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecursiveMode, Watcher};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};

mod along;
pub mod keeping;
mod proof;
mod report;

pub use along::AlongWithPolicy;
pub use report::ReloadReport;

/// Editors and deployments write in several steps: a reading waits until nothing happens for this
/// long …
const RELOAD_SETTLE_TIME: Duration = Duration::from_millis(50);
/// … but not for ever: at most this many times.
const MAX_SETTLE_WAITS: usize = 20;

/// Problems that a reload logs.
const LOGGED_AT_MOST: usize = 30;

/// One reading of all files.
#[derive(Debug)]
pub struct LoadResult {
    /// The policy; none if there is an error.
    pub policy: Option<Policy>,
    /// Everything there is to say.
    pub diagnostics: Vec<Diagnostic>,
    /// Over the bytes of all files: equal if nothing changed.
    pub fingerprint: [u8; 32],
    /// Directories in which a change may matter; `true`: with everything below.
    pub watched: BTreeSet<(PathBuf, bool)>,
    /// The files that are named, as they are named: writes to others beside them do not matter.
    pub files: BTreeSet<PathBuf>,
    /// Whether the test packs beside the policies have to pass.
    pub packs: PackTerms,
    /// What the policy was made of.
    pub sources: PolicySources,
    /// What takes effect with the policy, and not before it.
    pub along: AlongWithPolicy,
}

/// What became of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// The new policy is in force.
    Swapped,
    /// The files say what they said before.
    Unchanged,
    /// The files have errors; the last good policy stays in force.
    KeptLastGood,
}

/// How the policy in force came to be.
#[derive(Debug, Clone)]
pub struct LiveStatus {
    /// The version in force.
    pub version: String,
    /// Since when.
    pub since: Timestamp,
    /// What the last reading said: with an error among it, the files say something else than what
    /// is in force.
    pub diagnostics: Vec<Diagnostic>,
    /// Reloads that swapped the policy.
    pub swapped: u64,
    /// Reloads that failed.
    pub failed: u64,
    /// Reloads that changed what takes effect with a policy.
    pub beside: u64,
}

impl LiveStatus {
    /// Do the files have errors, so that what is in force is older than they are?
    pub fn stale(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

type LoadFiles = dyn Fn() -> LoadResult + Send + Sync;

/// The policy in force, and how to replace it.
pub struct LivePolicy {
    policy: ArcSwap<Policy>,
    read: Box<LoadFiles>,
    /// Taken before the state: one reading at a time, and nobody waits for it who only takes tools away.
    reading: Mutex<()>,
    state: Mutex<LiveState>,
    keeper: OnceLock<Box<dyn PolicyKeeper>>,
    changes: watch::Sender<Arc<Policy>>,
    swaps: watch::Sender<u64>,
    readings: watch::Sender<u64>,
    poke: Notify,
    scope: Mutex<WatchScope>,
}

struct LiveState {
    status: LiveStatus,
    fingerprint: [u8; 32],
    watched: BTreeSet<(PathBuf, bool)>,
    /// What operators and incidents have taken away, whatever the files say.
    away: TakenAway,
}

impl LivePolicy {
    /// Puts the policy of `first` in force; `read` reads the files again. None if `first` has no
    /// policy.
    pub fn start(
        first: LoadResult,
        read: impl Fn() -> LoadResult + Send + Sync + 'static,
    ) -> Option<Arc<Self>> {
        let scope = Mutex::new(WatchScope::of(&first));
        let LoadResult {
            policy,
            diagnostics,
            fingerprint,
            watched,
            ..
        } = first;
        let policy = Arc::new(policy?);
        let version = policy.version.clone();
        let status = LiveStatus {
            version,
            since: Clock.wall(),
            diagnostics,
            swapped: 0,
            failed: 0,
            beside: 0,
        };
        let changes = watch::Sender::new(Arc::clone(&policy));
        let state = Mutex::new(LiveState {
            status,
            fingerprint,
            watched,
            away: TakenAway::default(),
        });
        let policy = ArcSwap::new(policy);
        Some(Arc::new(Self {
            policy,
            read: Box::new(read),
            reading: Mutex::new(()),
            state,
            keeper: OnceLock::new(),
            changes,
            swaps: watch::Sender::default(),
            readings: watch::Sender::default(),
            poke: Notify::new(),
            scope,
        }))
    }

    /// The policy in force. A call takes it once and keeps it.
    pub fn current(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// How often a policy came in force, or what takes effect with one; for those that look anew then, whatever it says.
    pub fn swaps(&self) -> watch::Receiver<u64> {
        self.swaps.subscribe()
    }

    /// How often the files were read again; for who keeps to what else they say, whatever became of the
    /// policy.
    pub fn readings(&self) -> watch::Receiver<u64> {
        self.readings.subscribe()
    }

    /// Tells of each new policy.
    pub fn changes(&self) -> watch::Receiver<Arc<Policy>> {
        self.changes.subscribe()
    }

    /// What is in force, and what the files say.
    pub fn status(&self) -> LiveStatus {
        self.state.lock().status.clone()
    }

    /// Asks `Self::watch` to read the files again soon.
    pub fn ask(&self) {
        self.poke.notify_one();
    }

    /// Reads the files again, now. Reads from disk: not for an async task.
    pub fn reload(&self) -> ReloadOutcome {
        let _alone = self.reading.lock();
        let reading = (self.read)();
        let mut state = self.state.lock();
        *self.scope.lock() = WatchScope::of(&reading);
        let LoadResult {
            policy,
            diagnostics,
            fingerprint,
            watched,
            sources,
            mut along,
            ..
        } = reading;
        state.watched = watched;
        if fingerprint == state.fingerprint {
            return ReloadOutcome::Unchanged;
        }
        state.fingerprint = fingerprint;
        along.takes_away();
        let was_stale = state.status.stale();
        state.status.diagnostics = diagnostics;
        log(&state.status.diagnostics);
        let Some(policy) = policy.map(|policy| policy.without(state.away.clone())) else {
            state.status.failed += 1;
            tracing::error!(
                in_force = state.status.version,
                "the changed files have errors; the last good policy stays in force"
            );
            return ReloadOutcome::KeptLastGood;
        };
        if policy.version == state.status.version {
            if along.takes_effect() {
                state.status.beside += 1;
                self.swaps.send_modify(|count| *count += 1);
            }
            tracing::info!(
                in_force = state.status.version,
                was_stale,
                "the policy files have no errors and say what is in force"
            );
            return ReloadOutcome::Unchanged;
        }
        tracing::info!(
            before = state.status.version,
            now = policy.version,
            was_stale,
            "the policy was reloaded"
        );
        if let Some(keeper) = self.keeper.get() {
            keeper.comes(&sources, &policy.version);
        }
        state.status.swapped += 1;
        failpoint::reached("reload");
        state.status.beside += u64::from(along.takes_effect());
        self.put(&mut state, policy);
        ReloadOutcome::Swapped
    }

    /// Puts the policy in force without these tools, at once, also while the files cannot be used
    /// (003-41). Writes to disk: not for an async task.
    pub fn take_away(&self, disabled: Disabled) {
        self.put_away(|away| away.tools = disabled);
    }

    /// As [`Self::take_away`], of what incidents freeze: all that is frozen from now on.
    pub fn freeze(&self, frozen: Vec<FrozenScope>) {
        self.put_away(|away| away.frozen = frozen);
    }

    fn put_away(&self, change: impl FnOnce(&mut TakenAway)) {
        let mut state = self.state.lock();
        change(&mut state.away);
        let policy = Policy::clone(&self.policy.load()).without(state.away.clone());
        let is_renamed = policy.version != state.status.version;
        self.put(&mut state, policy);
        if is_renamed && let Some(keeper) = self.keeper.get() {
            keeper.renamed(&state.status.version);
        }
    }

    fn put(&self, state: &mut LiveState, policy: Policy) {
        let policy = Arc::new(policy);
        policy.identity.succeed(&self.policy.load().identity);
        if policy.version != state.status.version {
            state.status.since = Clock.wall();
            state.status.version.clone_from(&policy.version);
        }
        self.policy.store(Arc::clone(&policy));
        self.changes.send_replace(policy);
        self.swaps.send_modify(|count| *count += 1);
    }

    /// Follows the files until dropped. Directories are watched, not files, so that a rename over a
    /// file and a swapped `..data` link are seen. Where the system cannot watch, only
    /// `Self::ask` leads to a reload.
    ///
    /// `told` hears of each reload that changed something: what is in force, or whether the files have errors.
    pub async fn watch(
        self: Arc<Self>,
        metrics: Arc<Metrics>,
        told: impl Fn(ReloadReport) + Send + Sync,
    ) {
        let poked = Arc::downgrade(&self);
        let seen = move |event: notify::Result<Event>| {
            let Some(live) = poked.upgrade() else { return };
            if event.map_or(true, |event| live.scope.lock().concerns(&event)) {
                live.poke.notify_one();
            }
        };
        let mut watcher = notify::recommended_watcher(seen)
            .inspect_err(|error| tracing::warn!(%error, "files cannot be watched; send SIGHUP after a change"))
            .ok();
        let mut watching = BTreeSet::new();
        loop {
            if let Some(watcher) = &mut watcher
                && self.follow(watcher, &mut watching)
            {
                // What changed before it was watched is read once more.
                self.poke.notify_one();
            }
            self.poke.notified().await;
            for _ in 0..MAX_SETTLE_WAITS {
                if tokio::time::timeout(RELOAD_SETTLE_TIME, self.poke.notified())
                    .await
                    .is_err()
                {
                    break;
                }
            }
            let (live, before) = (Arc::clone(&self), self.status());
            let reloaded = tokio::task::spawn_blocking(move || live.reload()).await;
            self.readings.send_modify(|count| *count += 1);
            if let Ok(outcome) = reloaded
                && let Some(report) = ReloadReport::of(outcome, &before, &self.status())
            {
                told(report);
            }
            match reloaded {
                Ok(ReloadOutcome::Swapped) => metrics.reload(ReloadLabel::Swapped),
                Ok(ReloadOutcome::KeptLastGood) => metrics.reload(ReloadLabel::Kept),
                // A file that was put back as it was is no longer stale.
                Ok(ReloadOutcome::Unchanged) => metrics.policy_stale(self.status().stale()),
                Err(_) => tracing::error!(
                    "reading the files again panicked; the last good policy stays in force"
                ),
            }
        }
    }

    /// Watches what is wanted, and nothing else; whether there is something that was not watched before.
    fn follow(
        &self,
        watcher: &mut notify::RecommendedWatcher,
        watching: &mut BTreeSet<(PathBuf, bool)>,
    ) -> bool {
        let wanted = self.state.lock().watched.clone();
        for (directory, _) in watching.difference(&wanted) {
            // A directory that is gone is not watched any more.
            drop(watcher.unwatch(directory));
        }
        watching.retain(|known| wanted.contains(known));
        let mut is_new = false;
        for (directory, deep) in wanted {
            let mode = if deep {
                RecursiveMode::Recursive
            } else {
                RecursiveMode::NonRecursive
            };
            if watching.contains(&(directory.clone(), deep)) {
                continue;
            }
            match watcher.watch(&directory, mode) {
                Ok(()) => is_new |= watching.insert((directory, deep)),
                Err(error) => {
                    tracing::warn!(%error, directory = %directory.display(), "cannot be watched");
                }
            }
        }
        is_new
    }
}

/// Logs the foremost of them, and how many more there are.
fn log(diagnostics: &[Diagnostic]) {
    let (told, more) = foremost(diagnostics, LOGGED_AT_MOST);
    for diagnostic in told {
        match diagnostic.severity {
            Severity::Error => tracing::error!("{diagnostic}"),
            Severity::Warning => tracing::warn!("{diagnostic}"),
        }
    }
    if more > 0 {
        tracing::warn!(
            more,
            "the files have more problems; `toolgate check` shows them"
        );
    }
}

/// What may change what the files say.
struct WatchScope {
    /// As they are named, and without links.
    files: BTreeSet<PathBuf>,
    /// Directories in which every file counts, as they are named, and without links.
    deep: Vec<PathBuf>,
}

impl WatchScope {
    fn of(reading: &LoadResult) -> Self {
        let named = reading
            .files
            .iter()
            .flat_map(|file| [file.clone(), Path::new(".").join(file)]);
        let found = reading
            .files
            .iter()
            .filter_map(|file| file.canonicalize().ok());
        let files = named.chain(found).collect();
        let deep = reading
            .watched
            .iter()
            .filter(|(_, deep)| *deep)
            .map(|(directory, _)| directory);
        // The system tells of a directory that is named from here by its whole name.
        let deep =
            deep.flat_map(|directory| [Some(directory.clone()), directory.canonicalize().ok()]);
        Self {
            files,
            deep: deep.flatten().collect(),
        }
    }

    /// Whether it may matter. Reading a file must not lead to reading it again, nor a log that
    /// grows beside one.
    fn concerns(&self, event: &Event) -> bool {
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Data(_)) => {
                event.paths.iter().any(|path| self.counts(path))
            }
            EventKind::Access(_) => false,
            // What is made, moved or removed may be a link on the way to a file.
            EventKind::Any
            | EventKind::Create(_)
            | EventKind::Modify(_)
            | EventKind::Remove(_)
            | EventKind::Other => true,
        }
    }

    fn counts(&self, path: &Path) -> bool {
        let is_below = self
            .deep
            .iter()
            .any(|directory| path.starts_with(directory));
        let is_named = self.files.contains(path);
        is_below
            || is_named
            || path
                .canonicalize()
                .map_or(true, |path| self.files.contains(&path))
    }
}

#[cfg(test)]
mod tests;
