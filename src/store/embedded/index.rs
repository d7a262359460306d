//! The index: sled, holding what the journal says in a form that can be looked up. Never the truth:
//! it is never synced for a call, and whenever it cannot be trusted it is set aside and made again
//! from the journal (guarantees §8).
//!
//! ```text
//! m                      how far the journal is indexed
//! c <call key>           a claim: JSON on a line, packed, then the answer
//! t <task>, s <session>  JSON
//! h <key>                a held call: JSON on a line, then its arguments
//! d <time> <key>         when it changed last: a digest of its tool and agent
//! p <key>                a standing grant: JSON on a line, then its constraints
//! u <key>                an undo: JSON
//! w <key>                the undo is wanted, and not done
//! l <call> <time> <key>  the call that is known so makes the undo, the newest first
//! e <call> <time> <key>  the call that is known so may take another one back, the newest first
//! v <tool>               it takes calls back
//! a <action id>          the call key it holds; not for a call that had ended before it came here
//! o <call key>           the claim has not come to an end
//! k <kin> <call key>     the claim holds the calls that equal it
//! x <time> <c|t|s|h|p|u> <key> something may be forgotten from then on
//! x <time> g <seq> <key> so may these claims: their call keys
//! r <digest> <call key>  the claim's answer lies in that file
//! ```

use super::super::claims::{ClaimPage, StoreError, TaskSearch};
use super::super::state::budget::TaskUsage;
use super::super::state::claim::Claim;
use super::super::state::event::{Carried, StoreEvent};
use super::super::state::fence::SessionFence;
use super::super::state::{Millis, StoreKeys, StoreView};
use super::key_filter::KeyFilter;
use super::park::block_on_for;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use anew::unkept_run;
use claims::{put_claim, put_ends};
use names::{
    CLAIM_PREFIX, GRANT_PREFIX, HOLD_PREFIX, KIN_PREFIX, META_KEY, OPEN_PREFIX, RESULT_PREFIX,
    SESSION_PREFIX, TASK_PREFIX, UNDO_PREFIX, acting, behind, expiring, idle_since, named,
    named_by,
};
use own_calls::UndoingTools;
use parking_lot::Mutex;
use rows::IndexRows;
use runs::IndexRuns;
use serde::{Deserialize, Serialize};
use sled::Db;
use std::cmp::Reverse;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use values::{read, read_claim, read_grant, read_hold, text, unreadable};

mod anew;
mod changes;
mod claims;
mod grants;
mod holds;
mod kin;
mod merge_ahead;
mod names;
mod own_calls;
mod rows;
mod runs;
mod stopped;
mod sweep;
mod undos;
mod values;

pub(super) use changes::IndexChanges;

/// How long sled may take to hand everything to the kernel.
const FLUSH_TIMEOUT: Duration = Duration::from_mins(1);
/// Bytes of pages sled keeps in memory.
const CACHE_BYTES: u64 = 16 << 20;
/// Keys learned at once.
const KEYS_PER_PORTION: usize = 4096;

/// How far the journal is indexed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexProgress {
    /// Number of the journal's last record that is in the index.
    pub(super) seq: u64,
    /// The newest fencing token used.
    pub(super) token: u64,
    /// The latest time seen.
    pub(super) seen: Millis,
}

/// The index, open.
pub(super) struct Index {
    db: Db,
    /// sled did not end what it was asked for.
    hangs: AtomicBool,
    /// Which claims it may hold. Changed only by the thread that writes the index.
    known: Mutex<KeyFilter>,
    /// Whether a claim may hold the calls that equal it: few ever do.
    holds: AtomicBool,
    /// Which tools take back what it holds.
    undoing: Mutex<UndoingTools>,
    /// Where it lies.
    dir: PathBuf,
    /// All that is known, while it is made anew.
    runs: Mutex<Option<IndexRuns>>,
}

impl Index {
    /// Opens the index in `dir`; with how far it is. An error means that it has to be made again.
    pub(super) fn open(dir: &Path) -> Result<(Self, IndexProgress), StoreError> {
        // Whatever the umask says: what is held stands in there.
        let made = DirBuilder::new()
            .recursive(true)
            .mode(crate::owners::private::PRIVATE_DIRECTORY_MODE)
            .create(dir);
        made.map_err(|error| {
            StoreError::Broken(format!("{} cannot be made: {error}", dir.display()))
        })?;
        let db = calmly(|| {
            sled::Config::new()
                .path(dir)
                .cache_capacity(CACHE_BYTES)
                .flush_every_ms(None)
                .print_profile_on_drop(false)
                .open()
        })?;
        let index = Self {
            db,
            hangs: AtomicBool::new(false),
            known: Mutex::new(KeyFilter::new()),
            holds: AtomicBool::new(false),
            undoing: Mutex::default(),
            dir: dir.to_owned(),
            runs: Mutex::new(None),
        };
        let applied = index
            .get(META_KEY)?
            .map(|meta| read(&meta))
            .transpose()?
            .unwrap_or_default();
        index.learn()?;
        index.learn_undoing()?;
        index.name_holds()?;
        let first = calmly(|| index.db.scan_prefix([KIN_PREFIX]).next().transpose())?;
        index.holds.store(first.is_some(), Ordering::Release);
        Ok((index, applied))
    }

    /// Adds to `view` what it lacks of `place`.
    pub(super) fn complete(
        &self,
        view: &mut StoreView,
        place: StoreKeys,
    ) -> Result<(), StoreError> {
        if let (None, Some(key)) = (&view.claim, place.call) {
            view.claim = self.claim(&key)?;
        }
        if let (None, Some(key)) = (&view.task, place.task) {
            view.task = self.task(&key)?;
        }
        if let (None, Some(key)) = (&view.account, place.account) {
            view.account = self.task(&key)?;
        }
        if let (None, Some(key)) = (&view.session, place.session) {
            view.session = self.session(&key)?;
        }
        if let (None, Some(key)) = (&view.hold, place.hold) {
            view.hold = self.hold(&key)?;
        }
        if let (None, Some(key)) = (&view.grant, place.grant) {
            view.grant = self.grant(&key)?;
        }
        if let (None, Some(key)) = (&view.undo, place.undo) {
            view.undo = self.undo(&key)?;
        }
        Ok(())
    }

    /// Learns some more of the keys it holds, if there are any left to learn.
    pub(super) fn learn(&self) -> Result<(), StoreError> {
        let Some(next) = self.known.lock().next() else {
            return Ok(());
        };
        let range = named(CLAIM_PREFIX, &next)..vec![CLAIM_PREFIX + 1];
        let names = calmly(|| {
            self.db
                .range(range)
                .keys()
                .take(KEYS_PER_PORTION)
                .collect::<sled::Result<Vec<_>>>()
        })?;
        let keys: Vec<_> = names.iter().filter_map(|name| named_by(name)).collect();
        self.known
            .lock()
            .learn(&keys, names.len() < KEYS_PER_PORTION);
        Ok(())
    }

    /// The claim of `key`.
    pub(super) fn claim(&self, key: &Digest) -> Result<Option<Claim>, StoreError> {
        if !self.known.lock().may_hold(key) {
            return Ok(None);
        }
        self.get(&named(CLAIM_PREFIX, key))?
            .map(|value| read_claim(&value))
            .transpose()
    }

    /// The task of that name.
    pub(super) fn task(&self, key: &Digest) -> Result<Option<TaskUsage>, StoreError> {
        self.get(&named(TASK_PREFIX, key))?
            .map(|value| read(&value))
            .transpose()
    }

    /// Up to `most` tasks whose key begins with the hex digits `prefix`, those that did something
    /// last. Looks through all of them, and keeps few.
    pub(super) fn latest_tasks(
        &self,
        search: &TaskSearch,
        most: usize,
    ) -> Result<Vec<(Digest, TaskUsage)>, StoreError> {
        let (mut tasks, mut found) = (self.db.scan_prefix([TASK_PREFIX]), Vec::new());
        while let Some((name, value)) = calmly(|| tasks.next().transpose())? {
            let Some(key) = named_by(&name).filter(|key| search.names(key)) else {
                continue;
            };
            let task = read::<TaskUsage>(&value)?;
            if search.fits(&key, &task) {
                found.push((key, task));
            }
            if found.len() > 2 * most {
                found.sort_by_key(|(_, task)| Reverse(task.last));
                found.truncate(most);
            }
        }
        Ok(found)
    }

    /// The session of that name.
    pub(super) fn session(&self, key: &Digest) -> Result<Option<SessionFence>, StoreError> {
        self.get(&named(SESSION_PREFIX, key))?
            .map(|value| read(&value))
            .transpose()
    }

    /// The key that `action` holds or held.
    pub(super) fn key_of(&self, action: ActionId) -> Result<Option<Digest>, StoreError> {
        Ok(self
            .get(&acting(action))?
            .and_then(|key| Some(Digest::new(key.as_ref().try_into().ok()?))))
    }

    /// The claim that `action` holds, where no name says so: looks through all of them.
    pub(super) fn search(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, StoreError> {
        let mut claims = self.db.scan_prefix([CLAIM_PREFIX]);
        while let Some((name, value)) = calmly(|| claims.next().transpose())? {
            let claim = read_claim(&value)?;
            if let (true, Some(key)) = (claim.action == action, named_by(&name)) {
                return Ok(Some((key, claim)));
            }
        }
        Ok(None)
    }

    /// The keys of `page` whose claims have not come to an end, in their order.
    pub(super) fn open_keys(&self, page: ClaimPage) -> Result<Vec<Digest>, StoreError> {
        let keys = calmly(|| {
            self.db
                .range(behind(OPEN_PREFIX, page.after))
                .keys()
                .take(page.most)
                .collect::<sled::Result<Vec<_>>>()
        })?;
        Ok(keys.iter().filter_map(|name| named_by(name)).collect())
    }

    /// Writes `changes` and how far they go, all or nothing.
    pub(super) fn write(
        &self,
        changes: &IndexChanges,
        applied: IndexProgress,
    ) -> Result<(), StoreError> {
        let mut rows = IndexRows::default();
        self.put_undoing(&mut rows, changes);
        for (key, claim) in &changes.claims {
            let is_new = self.known.lock().add(key);
            self.drop_past(&mut rows, key, claim)?;
            put_claim(&mut rows, key, claim, is_new)?;
            self.put_own(&mut rows, key, claim, is_new)?;
            self.put_kin(&mut rows, key, claim);
        }
        put_ends(&mut rows, &changes.claims, applied.seq);
        for (key, task) in &changes.tasks {
            rows.insert(named(TASK_PREFIX, key), text(task)?);
            rows.mark(expiring(idle_since(task.last), TASK_PREFIX, key));
        }
        for (key, session) in &changes.sessions {
            rows.insert(named(SESSION_PREFIX, key), text(session)?);
            rows.mark(expiring(idle_since(session.at), SESSION_PREFIX, key));
        }
        self.put_holds(&mut rows, &changes.holds)?;
        grants::put(&mut rows, &changes.grants)?;
        undos::put(&mut rows, &changes.undos)?;
        if let Some(runs) = &mut *self.runs.lock() {
            return runs.add(rows, applied).map_err(|error| unkept_run(&error));
        }
        rows.insert(META_KEY.to_vec(), text(&applied)?);
        calmly(|| self.db.apply_batch(rows.into_batch()))?;
        free(changes.len());
        Ok(())
    }

    /// Hands everything to the kernel, so that a killed process loses little of it.
    pub(super) fn checkpoint(&self) -> Result<(), StoreError> {
        // Where one of its writes fails, sled can forget to tell who waits for it.
        let flushed = calmly(|| block_on_for(self.db.flush_async(), FLUSH_TIMEOUT).transpose())?;
        if flushed.is_none() {
            self.hangs.store(true, Ordering::Relaxed);
            return Err(StoreError::Broken(
                "the index cannot be used: sled does not end what it is at".to_owned(),
            ));
        }
        Ok(())
    }

    /// Closes it, in whatever state it is.
    pub(super) fn close(self) {
        if self.hangs.into_inner() {
            // Closing would hang, too. What it holds is lost until the process ends.
            std::mem::forget(self.db);
            return;
        }
        let closed = calmly(|| {
            drop(self.db);
            Ok(())
        });
        if let Err(error) = closed {
            tracing::warn!(%error, "the index is not closed well");
        }
    }

    /// Whether an answer that may be given again lies in the file `digest`.
    pub(super) fn needs(&self, digest: &Digest) -> Result<bool, StoreError> {
        let prefix = [&[RESULT_PREFIX][..], digest.as_bytes()].concat();
        let keys = calmly(|| {
            self.db
                .scan_prefix(prefix)
                .keys()
                .collect::<sled::Result<Vec<_>>>()
        })?;
        for key in keys
            .iter()
            .filter_map(|key| Some(Digest::new(key.get(33..)?.try_into().ok()?)))
        {
            let claim = self.claim(&key)?;
            if claim.is_some_and(|claim| {
                claim
                    .phase
                    .stored()
                    .is_some_and(|stored| stored.kept_digest() == digest)
            }) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Everything in it, as events that make it anew. The newest fencing token is carried as that
    /// of a session which nobody has, since its own may be forgotten: toolgates from before
    /// that read it, too.
    pub(super) fn carried(&self) -> impl Iterator<Item = Result<Vec<u8>, StoreError>> {
        let newest = std::iter::once_with(|| self.get(META_KEY))
            .filter_map(Result::transpose)
            .map(|meta| {
                let IndexProgress { token, seen, .. } = read(&meta?)?;
                Ok(Carried::newest(token, seen))
            });
        let kinds = [
            CLAIM_PREFIX,
            TASK_PREFIX,
            SESSION_PREFIX,
            HOLD_PREFIX,
            GRANT_PREFIX,
            UNDO_PREFIX,
        ];
        let known = kinds
            .into_iter()
            .flat_map(|kind| self.db.scan_prefix([kind]))
            .map(|entry| {
                let (name, value) = calmly(|| entry)?;
                let (Some(kind), Some(key)) = (name.first(), named_by(&name)) else {
                    return Err(StoreError::Broken(
                        "the index holds a name that is none".to_owned(),
                    ));
                };
                Ok(match *kind {
                    CLAIM_PREFIX => Carried::Claim(key, Box::new(read_claim(&value)?)),
                    TASK_PREFIX => Carried::Task(key, Box::new(read(&value)?)),
                    HOLD_PREFIX => Carried::Hold(key, Box::new(read_hold(&value)?)),
                    GRANT_PREFIX => Carried::Grant(key, Box::new(read_grant(&value)?)),
                    UNDO_PREFIX => Carried::Undo(key, Box::new(read(&value)?)),
                    _ => Carried::Session(key, read(&value)?),
                })
            });
        newest.chain(known).map(|carried| {
            StoreEvent::Carried(carried?)
                .encode()
                .map_err(|error| unreadable(&error))
        })
    }

    fn get(&self, key: &[u8]) -> Result<Option<sled::IVec>, StoreError> {
        if let Some(runs) = &*self.runs.lock() {
            let found = runs.get(key).map_err(|error| unkept_run(&error))?;
            return Ok(found.map(sled::IVec::from));
        }
        calmly(|| self.db.get(key))
    }
}

/// sled says that something is wrong by an error or by a panic; both mean the same here.
fn calmly<T>(work: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(StoreError::Broken(format!(
            "the index cannot be used: {error}"
        ))),
        Err(_) => Err(StoreError::Broken(
            "the index cannot be used: sled panicked".to_owned(),
        )),
    }
}

/// Frees what sled replaced for so many changes. It is left to the threads that touch sled to free,
/// some hundred pieces every 128 touches; a batch is one touch, and replaces a page for each name
/// in it.
fn free(changes: usize) {
    for _ in 0..changes / 64 + 4 {
        crossbeam_epoch::pin().flush();
    }
}

#[cfg(test)]
mod tests;
