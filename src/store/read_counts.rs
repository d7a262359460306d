//! Counts the reads of tasks that nothing written limits in memory, and has the store count them once
//! in a while: a read then writes nothing itself. A gate or an operator that asks for a task is told
//! of what is counted here, too, and what changes a task comes after its reads. A crash loses the
//! counts of [`WRITE_INTERVAL`] at most; what a policy file limits is never counted here.

use super::claims::{ClaimPage, Store, StoreError, TaskSearch, UndoSearch};
use super::hold_news::HoldNews;
use super::opening::StoreOpening;
use super::state::budget::TaskUsage;
use super::state::claim::{Claim, Stored};
use super::state::command::{StoreCommand, TaskTally};
use super::state::event::StoreEvent;
use super::state::grant::Grant;
use super::state::hold::Hold;
use super::state::kept_text::KeptText;
use super::state::tally::{EndedRead, ReadTally};
use super::state::undo::OpenUndo;
use super::state::{CommandRefusal, Millis, StoreKeys, StoreView, count_reads};
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use crate::model::task::TaskOrigin;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

mod unread;

/// How often what is counted is written.
pub(crate) const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Tasks whose reads are counted in memory at once; those of others are written one by one.
pub(super) const MAX_COUNTED_TASKS: usize = 4096;

/// A store, and the reads that it does not know of yet.
pub struct ReadCounts {
    store: Arc<dyn Store>,
    tasks: Mutex<Counts>,
    /// How the store's opening stands, where it goes on beside the reads.
    opening: Option<Arc<StoreOpening>>,
}

#[derive(Default)]
struct Counts {
    tasks: HashMap<Digest, CountedTask>,
    /// One more with each thing that makes some task's `known` untrue.
    changes: u64,
}

/// A task that reads.
#[derive(Default)]
struct CountedTask {
    /// All that is known of it, with what is counted here.
    known: KnownTask,
    /// The change that came last when `known` was last untrue.
    changed: u64,
    /// What the store does not know of.
    reads: Option<TaskTally>,
}

/// What a store has said of a task.
#[derive(Default)]
enum KnownTask {
    /// It has to be asked again.
    #[default]
    Unasked,
    /// There is none.
    Unused,
    Used(Arc<TaskUsage>),
}

/// Whose a read is.
#[derive(Debug, Clone)]
pub struct Reader {
    /// The task.
    pub task: Digest,
    /// Milliseconds without a call after which the task has ended.
    pub idle: Option<u64>,
    /// Whose the task is, should it begin.
    pub origin: TaskOrigin,
}

impl ReadCounts {
    /// On `store`, which is asked through this from now on.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let opening = store.opening().filter(|opening| opening.is_on());
        Self {
            store,
            tasks: Mutex::default(),
            opening,
        }
    }

    /// The task as it stands. Asks the store when its reads are not counted here yet.
    pub async fn usage(&self, task: Digest) -> Result<Option<Arc<TaskUsage>>, StoreError> {
        let changed = {
            let mut counts = self.tasks.lock();
            let changes = counts.changes;
            let is_room = counts.tasks.len() < MAX_COUNTED_TASKS;
            let counted = if is_room {
                Some(counts.tasks.entry(task).or_insert_with(|| CountedTask {
                    changed: changes,
                    ..CountedTask::default()
                }))
            } else {
                counts.tasks.get_mut(&task)
            };
            match counted.as_ref().map(|counted| &counted.known) {
                Some(KnownTask::Used(known)) => return Ok(Some(known.clone())),
                Some(KnownTask::Unused) => return Ok(None),
                Some(KnownTask::Unasked) | None => counted.map(|counted| counted.changed),
            }
        };
        let place = StoreKeys {
            task: Some(task),
            ..StoreKeys::default()
        };
        if let Some(view) = self.since_start(task) {
            return Ok(view.task.map(Arc::new));
        }
        let view = match self.store.load_view(place).await {
            Err(error) => return self.unasked(task, error),
            Ok(view) => view,
        };
        let mut counts = self.tasks.lock();
        let Some(counted) = counts.tasks.get_mut(&task) else {
            return Ok(view.task.map(Arc::new));
        };
        let known = counted.told_of(view, self.store.now()).task.map(Arc::new);
        if changed == Some(counted.changed) {
            counted.known = KnownTask::of(known.clone());
        }
        Ok(known)
    }

    /// Counts `read`, which has ended.
    pub async fn count(&self, reader: Reader, read: EndedRead) -> Result<(), StoreError> {
        let now = self.store.now();
        let task = reader.task;
        let one = tally(reader, ReadTally::of(read), now);
        let counted = {
            let mut counts = self.tasks.lock();
            match self.counted_mut(&mut counts, task) {
                Some(counted) => Ok(counted.count(one, now)),
                None => Err(Box::new(one)),
            }
        };
        match counted {
            Err(one) => Box::pin(self.write_one(*one)).await,
            Ok(true) => Box::pin(self.write_reads(task)).await,
            Ok(false) => Ok(()),
        }
    }

    /// Has the store count the reads of all tasks, and forgets those that do not read any more.
    pub async fn write_all(&self) {
        let tasks: Vec<Digest> = {
            let mut counts = self.tasks.lock();
            counts.tasks.retain(|_, counted| counted.reads.is_some());
            counts.tasks.keys().copied().collect()
        };
        let mut failed = None;
        for task in tasks {
            if let Err(error) = self.write_reads(task).await {
                failed = Some(error);
            }
            self.changed(task);
        }
        if let Some(error) = failed {
            tracing::warn!(%error, "reads are not counted yet");
        }
    }

    /// Tasks that are counted here.
    #[cfg(test)]
    pub(super) fn counted(&self) -> usize {
        self.tasks.lock().tasks.len()
    }

    /// Has the store count what `task` has read.
    async fn write_reads(&self, task: Digest) -> Result<(), StoreError> {
        if self.is_opening() {
            return Ok(());
        }
        let reads = {
            let mut counts = self.tasks.lock();
            let counted = counts.tasks.get_mut(&task);
            counted.and_then(|counted| counted.reads.take())
        };
        let Some(reads) = reads else { return Ok(()) };
        let written = self.write(reads.clone()).await;
        if written.is_err() {
            let mut counts = self.tasks.lock();
            let counted = counts.tasks.entry(task).or_default();
            let later = counted.reads.replace(reads);
            if let (Some(reads), Some(later)) = (&mut counted.reads, later) {
                reads.reads.extend(later.reads);
            }
        }
        written
    }

    async fn write(&self, reads: TaskTally) -> Result<(), StoreError> {
        self.store
            .run(StoreCommand::Tally(reads), None)
            .await
            .map(drop)
    }

    /// What is known of `task` here has to be asked again.
    fn changed(&self, task: Digest) {
        let mut counts = self.tasks.lock();
        counts.changes += 1;
        let changed = counts.changes;
        if let Some(counted) = counts.tasks.get_mut(&task) {
            (counted.known, counted.changed) = (KnownTask::Unasked, changed);
        }
    }
}

impl KnownTask {
    fn of(task: Option<Arc<TaskUsage>>) -> Self {
        task.map_or(Self::Unused, Self::Used)
    }
}

impl CountedTask {
    /// What the store knows, and what is counted here.
    fn told_of(&self, mut view: StoreView, now: Millis) -> StoreView {
        if let Some(reads) = &self.reads {
            count_reads(reads, &mut view, now);
        }
        view
    }

    /// Counts `read`; says whether the store has to know before the next.
    fn count(&mut self, one: TaskTally, now: Millis) -> bool {
        let known = match std::mem::take(&mut self.known) {
            KnownTask::Unasked => None,
            KnownTask::Unused => Some(None),
            KnownTask::Used(known) => Some(Some(Arc::unwrap_or_clone(known))),
        };
        if let Some(task) = known {
            let mut view = StoreView {
                task,
                ..StoreView::default()
            };
            count_reads(&one, &mut view, now);
            self.known = KnownTask::of(view.task.map(Arc::new));
        }
        match &mut self.reads {
            Some(reads) => reads.reads.extend(one.reads),
            None => self.reads = Some(one),
        }
        let reads = self.reads.as_ref();
        reads.is_some_and(|reads| reads.reads.is_full())
    }
}

fn tally(reader: Reader, reads: ReadTally, since: Millis) -> TaskTally {
    let Reader { task, idle, origin } = reader;
    TaskTally {
        task,
        reads,
        since,
        idle,
        origin,
    }
}

#[async_trait]
impl Store for ReadCounts {
    async fn load_view(&self, place: StoreKeys) -> Result<StoreView, StoreError> {
        let view = self.store.load_view(place).await?;
        let counts = self.tasks.lock();
        let counted = place.task.and_then(|task| counts.tasks.get(&task));
        Ok(match counted {
            Some(counted) => counted.told_of(view, self.store.now()),
            None => view,
        })
    }

    async fn run(
        &self,
        command: StoreCommand,
        entry: Option<Entry>,
    ) -> Result<Result<StoreEvent, CommandRefusal>, StoreError> {
        // What cannot be counted now is counted later, and holds nothing up.
        if let Some(task) = command.place().task
            && let Err(error) = self.write_reads(task).await
        {
            tracing::warn!(%error, "reads are not counted yet");
        }
        let done = self.store.run(command, entry).await;
        if let Ok(Ok(event)) = &done
            && let Some(task) = event.place().task
        {
            self.changed(task);
        }
        done
    }

    fn sent(&self, action: ActionId) -> Result<(), StoreError> {
        self.store.sent(action)
    }

    async fn wait_ended(&self, key: Digest, action: ActionId) {
        self.store.wait_ended(key, action).await;
    }

    async fn find(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, StoreError> {
        self.store.find(action).await
    }

    async fn held(&self, kin: Digest) -> Result<Option<(Digest, Claim)>, StoreError> {
        self.store.held(kin).await
    }

    async fn own_calls(
        &self,
        made: Digest,
        most: usize,
    ) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.store.own_calls(made, most).await
    }

    fn takes_back(&self, tool: &ToolName) -> bool {
        self.store.takes_back(tool)
    }

    async fn unsettled_in(&self, page: ClaimPage) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.store.unsettled_in(page).await
    }

    async fn holds(&self, most: usize) -> Result<Vec<(Digest, Hold)>, StoreError> {
        self.store.holds(most).await
    }

    async fn find_hold(&self, id: ActionId) -> Result<Option<(Digest, Hold)>, StoreError> {
        self.store.find_hold(id).await
    }

    async fn past_holds(
        &self,
        kind: Option<Digest>,
        most: usize,
    ) -> Result<Vec<(Digest, Hold)>, StoreError> {
        self.store.past_holds(kind, most).await
    }

    fn look_on(&self) -> broadcast::Receiver<HoldNews> {
        self.store.look_on()
    }

    async fn grants_of(&self, tool: &ToolName) -> Result<Vec<Grant>, StoreError> {
        self.store.grants_of(tool).await
    }

    async fn grants(&self, most: usize) -> Result<Vec<Grant>, StoreError> {
        self.store.grants(most).await
    }

    async fn tasks(
        &self,
        search: TaskSearch,
        most: usize,
    ) -> Result<Vec<(Digest, TaskUsage)>, StoreError> {
        self.write_all().await;
        self.store.tasks(search, most).await
    }

    async fn undos(&self, search: UndoSearch, most: usize) -> Result<Vec<OpenUndo>, StoreError> {
        self.store.undos(search, most).await
    }

    async fn decided(&self, key: Digest) {
        self.store.decided(key).await;
    }

    async fn keep(&self, is_error: bool, body: Bytes) -> Result<Stored, StoreError> {
        self.store.keep(is_error, body).await
    }

    async fn body(&self, stored: &Stored) -> Result<Bytes, StoreError> {
        self.store.body(stored).await
    }

    fn seal_text(&self, of: ActionId, part: &str, text: &str) -> KeptText {
        self.store.seal_text(of, part, text)
    }

    fn open_text(
        &self,
        of: ActionId,
        part: &str,
        kept: &KeptText,
    ) -> Result<Option<String>, StoreError> {
        self.store.open_text(of, part, kept)
    }

    fn token(&self) -> u64 {
        self.store.token()
    }

    fn refuses(&self) -> Option<StoreError> {
        self.store.refuses()
    }

    fn opening(&self) -> Option<Arc<StoreOpening>> {
        self.store.opening()
    }

    fn may_have_stopped(&self, task: &Digest) -> bool {
        self.store.may_have_stopped(task)
    }

    fn now(&self) -> Millis {
        self.store.now()
    }
}
