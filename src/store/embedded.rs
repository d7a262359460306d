//! The embedded store: the journal is the truth, an index on sled answers from it (guarantees §8).
//!
//! A decision is made under one lock, from what is in memory and what is indexed; its event is
//! queued in the journal under the same lock, so that the journal's order is the decisions' order.
//! Then its caller waits for the disk. What was decided stays in memory until the index has it, and
//! a call in flight until it is settled; the index runs behind, in one atomic batch at a time. One
//! that breaks is made anew from the journal meanwhile.

use super::claims::{ClaimPage, Store, StoreError, TaskSearch, UndoSearch};
use super::content_key::ContentKeys;
use super::hold_news::HoldNews;
use super::journal::Journal;
use super::memory::is_in_flight;
use super::opening::StoreOpening;
use super::state::budget::TaskUsage;
use super::state::claim::{Claim, Stored};
use super::state::command::StoreCommand;
use super::state::event::StoreEvent;
use super::state::grant::Grant;
use super::state::hold::{self, Hold};
use super::state::kept_text::KeptText;
use super::state::undo::OpenUndo;
use super::state::{CommandRefusal, Millis, StoreKeys, StoreView};
use crate::failpoint;
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use async_trait::async_trait;
use bytes::Bytes;
use errors::unwritten;
use inner::{EmbeddedInner, MAX_UNINDEXED};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

mod answers;
mod decoded;
mod errors;
mod heal;
mod index;
mod index_work;
mod indexer;
mod inner;
mod key_filter;
mod lookup;
mod mark;
mod open;
mod opening;
mod pace;
mod packed;
mod park;
mod past_holds;
mod replay;
mod room;
mod stopping;
mod undone;
mod without_room;

/// Fail points before an event is durable, and after.
const FAILPOINTS_BEFORE_SYNC: [Option<&str>; 4] = [
    Some("intent-before-fsync"),
    Some("outcome-before-fsync"),
    None,
    None,
];
const FAILPOINTS_AFTER_SYNC: [Option<&str>; 4] = [
    Some("intent-after-fsync"),
    Some("outcome-after-fsync"),
    Some("approval-pending"),
    Some("approval-approved"),
];

/// Claims, tasks, sessions and held calls that outlive the process and the machine.
pub struct EmbeddedStore {
    shared: Arc<EmbeddedInner>,
    indexer: Option<std::thread::JoinHandle<()>>,
    /// What encrypts the answers that are kept, if anything does.
    content_keys: Arc<ContentKeys>,
}

/// How long closed segments of the journal are kept.
#[derive(Debug, Clone)]
pub struct SegmentRetention {
    /// After their last write.
    pub age: Duration,
    /// Where they go then; none: they are removed.
    pub archive: Option<PathBuf>,
}

impl EmbeddedStore {
    /// Opens the store of the data directory `data`, whose journal is `journal`: brings the index
    /// up to the journal, or makes it anew. Calls that were in flight when the last process
    /// ended come to rest (guarantees §4). Blocks.
    ///
    /// Nothing of the journal is dropped: who opens it so does one thing, or looks.
    pub fn open(data: &Path, journal: Journal, clock: Clock) -> Result<Self, StoreError> {
        Self::with(data, journal, clock, None)
    }

    /// As `open`, with closed segments of the journal kept as `keeping` says, and no longer. Where much of the
    /// journal has to be read for it, that goes on when this returns ([`Store::opening`]): until it has
    /// ended, all that is asked of the store is [`StoreError::Opening`].
    pub fn keeping(
        data: &Path,
        journal: Journal,
        clock: Clock,
        keeping: SegmentRetention,
    ) -> Result<Self, StoreError> {
        Self::with(data, journal, clock, Some(keeping))
    }

    fn with(
        data: &Path,
        journal: Journal,
        clock: Clock,
        keeping: Option<SegmentRetention>,
    ) -> Result<Self, StoreError> {
        // Who does one thing, or looks, waits.
        let may_wait = keeping.is_none();
        let (shared, job) = open::open(data, journal, clock, keeping)?;
        let beside = if may_wait || !job.is_long(&shared) {
            let work = job.work(&shared);
            job.run(&shared, work)?;
            None
        } else {
            Some(job)
        };
        let shared = Arc::new(shared);
        let behind = Arc::clone(&shared);
        let indexer = std::thread::Builder::new()
            .name("index".to_owned())
            .spawn(move || indexer::run(&behind, beside))
            .map_err(|error| StoreError::Broken(format!("cannot start the indexer: {error}")))?;
        Ok(Self {
            shared,
            indexer: Some(indexer),
            content_keys: Arc::default(),
        })
    }

    /// The same, with answers encrypted and read as `content_keys` do.
    #[must_use]
    pub fn with_content_keys(mut self, content_keys: Arc<ContentKeys>) -> Self {
        self.content_keys = content_keys;
        self
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.shared.pace.stop();
        if let Some(indexer) = self.indexer.take() {
            drop(indexer.join());
        }
    }
}

/// The fail points of an event, by those of an intent, an outcome, a held call and a decision.
fn reached(event: &StoreEvent, [intent, outcome, held, decided]: [Option<&'static str>; 4]) {
    let point = match event {
        StoreEvent::Intended(_) => intent,
        StoreEvent::Settled(_) => outcome,
        StoreEvent::Held(_) => held,
        StoreEvent::Decided(_)
        | StoreEvent::Edited(_)
        | StoreEvent::Extended(_)
        | StoreEvent::Granted(_) => decided,
        StoreEvent::Reserved(_)
        | StoreEvent::Spent(_)
        | StoreEvent::Tallied(_)
        | StoreEvent::Entered { .. }
        | StoreEvent::Planned { .. }
        | StoreEvent::Steered(_)
        | StoreEvent::Fenced { .. }
        | StoreEvent::Revoked(_)
        | StoreEvent::UndoAsked(_)
        | StoreEvent::Carried(_)
        | StoreEvent::Noted(_) => None,
    };
    point.into_iter().for_each(failpoint::reached);
}

/// What waits for the disk before it is told.
fn is_awaited(event: &StoreEvent) -> bool {
    match event {
        StoreEvent::Intended(_)
        | StoreEvent::Settled(_)
        | StoreEvent::Held(_)
        | StoreEvent::Decided(_)
        | StoreEvent::Edited(_)
        | StoreEvent::Extended(_)
        | StoreEvent::Granted(_)
        | StoreEvent::Revoked(_)
        | StoreEvent::UndoAsked(_)
        | StoreEvent::Planned { .. }
        | StoreEvent::Steered(_)
        | StoreEvent::Fenced { .. } => true,
        // A decision that is used up is, before anything is sent.
        StoreEvent::Reserved(reserved) => reserved.hold.is_some(),
        StoreEvent::Spent(_)
        | StoreEvent::Tallied(_)
        | StoreEvent::Entered { .. }
        | StoreEvent::Carried(_)
        | StoreEvent::Noted(_) => false,
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn load_view(&self, place: StoreKeys) -> Result<StoreView, StoreError> {
        self.shared.is_open()?;
        let (view, last) = {
            let table = self.shared.table.lock();
            (self.shared.view(&table, place)?, table.changed(place))
        };
        if view.is_told() {
            let durable = self.shared.journal.wait_durable(last).await;
            durable.map_err(unwritten)?;
        }
        Ok(view)
    }

    async fn run(
        &self,
        command: StoreCommand,
        entry: Option<Entry>,
    ) -> Result<Result<StoreEvent, CommandRefusal>, StoreError> {
        self.shared.is_open()?;
        self.shared.pace.keep_up(MAX_UNINDEXED).await;
        let begins = matches!(
            command,
            StoreCommand::Begin(_) | StoreCommand::Hold(_) | StoreCommand::Mint(_)
        );
        if begins && let Some(error) = self.shared.refuses() {
            return Err(error);
        }
        if let StoreCommand::Steer(steer) = &command {
            Box::pin(stopping::noted(&self.shared, steer)).await?;
        }
        match self.shared.decide(&command, entry)? {
            Ok((event, ticket)) => {
                reached(&event, FAILPOINTS_BEFORE_SYNC);
                let written = if is_awaited(&event) {
                    ticket.durable().await.map(drop)
                } else {
                    Ok(())
                };
                if written.is_ok() {
                    reached(&event, FAILPOINTS_AFTER_SYNC);
                }
                if let (StoreEvent::Settled(settled), Ok(())) = (&event, &written) {
                    self.shared.marks.clear(settled.action);
                }
                let written = written.map_err(|error| self.shared.unwritten(&event, error));
                // Calls that wait have to look again, also when the disk failed.
                self.shared.waiters.wake_for(&event);
                written?;
                let find = |key: &Digest| self.shared.table.lock().hold(key);
                self.shared.feed.tell(&event, find);
                Ok(Ok(event))
            }
            Err((refused, last)) => {
                self.shared
                    .journal
                    .wait_durable(last)
                    .await
                    .map_err(unwritten)?;
                Ok(Err(refused))
            }
        }
    }

    fn sent(&self, action: ActionId) -> Result<(), StoreError> {
        self.shared.marks.set(action).map_err(|error| {
            StoreError::Broken(format!("a call cannot be marked as sent: {error}"))
        })
    }

    async fn wait_ended(&self, key: Digest, action: ActionId) {
        let shared = &self.shared;
        let is_over = || {
            let table = shared.table.lock();
            let view = shared.view(
                &table,
                StoreKeys {
                    call: Some(key),
                    ..StoreKeys::default()
                },
            );
            !view.is_ok_and(|view| is_in_flight(view.claim.as_ref(), action))
        };
        shared.waiters.wait(key, is_over).await;
    }

    async fn find(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, StoreError> {
        if let Some(found) = self.shared.find(action)? {
            return Ok(Some(found));
        }
        // It may have ended long ago, under no name of its own.
        let shared = self.shared.clone();
        let searched =
            tokio::task::spawn_blocking(move || shared.lookup.ask(|index| index.search(action)))
                .await;
        searched.map_err(|error| StoreError::Broken(error.to_string()))?
    }

    async fn unsettled_in(&self, page: ClaimPage) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.shared.unsettled(page)
    }

    async fn held(&self, kin: Digest) -> Result<Option<(Digest, Claim)>, StoreError> {
        self.shared.held(kin)
    }

    async fn holds(&self, most: usize) -> Result<Vec<(Digest, Hold)>, StoreError> {
        self.shared.is_open()?;
        Ok(self
            .shared
            .table
            .lock()
            .open_holds(self.shared.time.now(), most))
    }

    async fn own_calls(
        &self,
        made: Digest,
        most: usize,
    ) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.shared.is_open()?;
        self.shared.own_calls(made, most)
    }

    fn takes_back(&self, tool: &ToolName) -> bool {
        self.shared.takes_back(tool)
    }

    async fn find_hold(&self, id: ActionId) -> Result<Option<(Digest, Hold)>, StoreError> {
        if let Some(found) = self.shared.hold_in_memory(id) {
            return Ok(Some(found));
        }
        // It may be over.
        let shared = self.shared.clone();
        let look = move || shared.lookup.ask(|index| index.holds(|hold| hold.id == id));
        let searched = tokio::task::spawn_blocking(look).await;
        let mut found = searched.map_err(|error| StoreError::Broken(error.to_string()))??;
        Ok(found.pop())
    }

    async fn past_holds(
        &self,
        kind: Option<Digest>,
        most: usize,
    ) -> Result<Vec<(Digest, Hold)>, StoreError> {
        past_holds::newest(&self.shared, kind, most).await
    }

    fn look_on(&self) -> broadcast::Receiver<HoldNews> {
        self.shared.feed.look_on()
    }

    async fn grants_of(&self, tool: &ToolName) -> Result<Vec<Grant>, StoreError> {
        self.shared.is_open()?;
        let now = self.shared.time.now();
        Ok(self.shared.table.lock().grants_of(tool, now))
    }

    async fn grants(&self, most: usize) -> Result<Vec<Grant>, StoreError> {
        let shared = self.shared.clone();
        let look = move || shared.lookup.ask(|index| index.grants(|_| true));
        let searched = tokio::task::spawn_blocking(look).await;
        let found = searched.map_err(|error| StoreError::Broken(error.to_string()))??;
        Ok(self.shared.table.lock().newest_grants(found, most))
    }

    async fn tasks(
        &self,
        search: TaskSearch,
        most: usize,
    ) -> Result<Vec<(Digest, TaskUsage)>, StoreError> {
        let (shared, wanted) = (self.shared.clone(), search.clone());
        let look = move || shared.lookup.ask(|index| index.latest_tasks(&wanted, most));
        let searched = tokio::task::spawn_blocking(look).await;
        let found = searched.map_err(|error| StoreError::Broken(error.to_string()))??;
        Ok(self.shared.table.lock().latest_tasks(found, &search, most))
    }

    async fn undos(&self, search: UndoSearch, most: usize) -> Result<Vec<OpenUndo>, StoreError> {
        self.shared.is_open()?;
        self.shared.undos(search, most)
    }

    async fn decided(&self, key: Digest) {
        let shared = &self.shared;
        let is_over = || {
            let view = shared.view(
                &shared.table.lock(),
                StoreKeys {
                    hold: Some(key),
                    ..StoreKeys::default()
                },
            );
            !view.is_ok_and(|view| {
                view.hold
                    .is_some_and(|hold| hold.phase == hold::HoldPhase::Pending)
            })
        };
        shared.waiters.wait(key, is_over).await;
    }

    async fn keep(&self, is_error: bool, body: Bytes) -> Result<Stored, StoreError> {
        answers::keep(&self.shared, &self.content_keys, is_error, body).await
    }

    async fn body(&self, stored: &Stored) -> Result<Bytes, StoreError> {
        answers::body(&self.shared, &self.content_keys, stored).await
    }

    fn seal_text(&self, of: ActionId, part: &str, text: &str) -> KeptText {
        let sealed = self.content_keys.seal_text(of, part, text);
        sealed.unwrap_or(KeptText::LeftOut {
            bytes: text.len() as u64,
        })
    }

    fn open_text(
        &self,
        of: ActionId,
        part: &str,
        kept: &KeptText,
    ) -> Result<Option<String>, StoreError> {
        let opened = self.content_keys.open_text(of, part, kept);
        opened.map_err(|error| StoreError::Broken(error.to_string()))
    }

    fn token(&self) -> u64 {
        self.shared.table.lock().next_token()
    }

    fn refuses(&self) -> Option<StoreError> {
        self.shared.refuses()
    }

    fn opening(&self) -> Option<Arc<StoreOpening>> {
        Some(self.shared.opening.clone())
    }

    fn may_have_stopped(&self, task: &Digest) -> bool {
        self.shared.closing.may_have_stopped(task)
    }

    fn now(&self) -> Millis {
        self.shared.time.now()
    }
}

#[cfg(test)]
mod tests;
