//! A store that lives as long as its process: for observing, for tests, and as the plainest form of
//! the promises.

use super::claims::{ClaimPage, Store, StoreError, TaskSearch, UndoSearch};
use super::hold_news::{HoldFeed, HoldNews};
use super::state::budget::TaskUsage;
use super::state::claim::{Claim, ClaimPhase, Stored};
use super::state::command::StoreCommand;
use super::state::event::StoreEvent;
use super::state::grant::Grant;
use super::state::hold::{self, Hold};
use super::state::undo::OpenUndo;
use super::state::{CommandRefusal, Millis, StoreKeys, StoreView, decide};
use super::table::{StateTable, undos::newest_undos};
use super::time::Time;
use super::waiters::Waiters;
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::broadcast;

/// Claims, tasks, sessions and held calls in memory.
#[derive(Debug)]
pub struct MemoryStore {
    table: Mutex<StateTable>,
    waiters: Waiters,
    feed: HoldFeed,
    time: Time,
}

impl MemoryStore {
    /// Knows nothing yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            table: Mutex::default(),
            waiters: Waiters::default(),
            feed: HoldFeed::default(),
            time: Time::starting(clock, 0),
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn load_view(&self, place: StoreKeys) -> Result<StoreView, StoreError> {
        Ok(self.table.lock().view(place))
    }

    async fn run(
        &self,
        command: StoreCommand,
        _: Option<Entry>,
    ) -> Result<Result<StoreEvent, CommandRefusal>, StoreError> {
        let decided = {
            let mut table = self.table.lock();
            let mut place = command.place();
            if let Some(claim) = table.view(place).claim {
                place.account = place
                    .account
                    .or(claim.account.filter(|_| place.task.is_none()));
                place.task = place.task.or(Some(claim.task));
                place.grant = place.grant.or(claim.grant.map(|used| used.key));
                place.undo = place.undo.or(claim.undoes.map(OpenUndo::key_of));
            }
            let held = table.view(place).hold;
            place.undo = place.undo.or(held.as_ref().and_then(OpenUndo::key_of_held));
            let now = self.time.now();
            let view = StoreView {
                waiting: table.waiting(&command, now),
                grants: table.live(&command, now),
                ..table.view(place)
            };
            decide(&command, &view, now).inspect(|event| {
                let change = table.last + 1;
                table.apply(event, view, change);
            })
        };
        if let Ok(event) = &decided {
            self.waiters.wake_for(event);
            self.feed.tell(event, |key| self.table.lock().hold(key));
        }
        Ok(decided)
    }

    fn sent(&self, _: ActionId) -> Result<(), StoreError> {
        Ok(())
    }

    async fn wait_ended(&self, key: Digest, action: ActionId) {
        self.waiters
            .wait(key, || {
                !is_in_flight(
                    self.table.lock().claims.get(&key).map(|kept| &kept.value),
                    action,
                )
            })
            .await;
    }

    async fn find(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, StoreError> {
        let table = self.table.lock();
        let found = table
            .claims
            .iter()
            .find(|(_, kept)| kept.value.action == action);
        Ok(found.map(|(key, kept)| (*key, kept.value.clone())))
    }

    async fn unsettled_in(&self, page: ClaimPage) -> Result<Vec<(Digest, Claim)>, StoreError> {
        Ok(self.table.lock().unsettled(page))
    }

    async fn held(&self, kin: Digest) -> Result<Option<(Digest, Claim)>, StoreError> {
        Ok(self.table.lock().held(kin))
    }

    async fn own_calls(
        &self,
        made: Digest,
        most: usize,
    ) -> Result<Vec<(Digest, Claim)>, StoreError> {
        Ok(self.table.lock().own_calls(made, most))
    }

    fn takes_back(&self, tool: &ToolName) -> bool {
        self.table.lock().takes_back(tool)
    }

    async fn holds(&self, most: usize) -> Result<Vec<(Digest, Hold)>, StoreError> {
        Ok(self.table.lock().open_holds(self.time.now(), most))
    }

    async fn find_hold(&self, id: ActionId) -> Result<Option<(Digest, Hold)>, StoreError> {
        let found = self.table.lock().find_hold(id);
        Ok(found.or_else(|| self.feed.used(id, self.time.now())))
    }

    async fn past_holds(
        &self,
        kind: Option<Digest>,
        most: usize,
    ) -> Result<Vec<(Digest, Hold)>, StoreError> {
        let now = self.time.now();
        Ok(self.table.lock().past_holds(kind, now, most))
    }

    fn look_on(&self) -> broadcast::Receiver<HoldNews> {
        self.feed.look_on()
    }

    async fn grants_of(&self, tool: &ToolName) -> Result<Vec<Grant>, StoreError> {
        Ok(self.table.lock().grants_of(tool, self.time.now()))
    }

    async fn grants(&self, most: usize) -> Result<Vec<Grant>, StoreError> {
        Ok(self.table.lock().newest_grants(Vec::new(), most))
    }

    async fn tasks(
        &self,
        search: TaskSearch,
        most: usize,
    ) -> Result<Vec<(Digest, TaskUsage)>, StoreError> {
        Ok(self.table.lock().latest_tasks(Vec::new(), &search, most))
    }

    async fn undos(&self, search: UndoSearch, most: usize) -> Result<Vec<OpenUndo>, StoreError> {
        let found = self.table.lock().found_undos(search, most);
        Ok(newest_undos(found, most))
    }

    async fn decided(&self, key: Digest) {
        let is_over = || {
            !self
                .table
                .lock()
                .holds
                .get(&key)
                .is_some_and(|kept| kept.value.phase == hold::HoldPhase::Pending)
        };
        self.waiters.wait(key, is_over).await;
    }

    async fn keep(&self, is_error: bool, body: Bytes) -> Result<Stored, StoreError> {
        Ok(Stored::inline(is_error, body))
    }

    async fn body(&self, stored: &Stored) -> Result<Bytes, StoreError> {
        Ok(stored.body.clone())
    }

    fn token(&self) -> u64 {
        self.table.lock().next_token()
    }

    fn refuses(&self) -> Option<StoreError> {
        None
    }

    fn now(&self) -> Millis {
        self.time.now()
    }
}

/// Whether `claim` is `action`'s and runs.
pub(super) fn is_in_flight(claim: Option<&Claim>, action: ActionId) -> bool {
    claim.is_some_and(|claim| {
        claim.action == action && matches!(claim.phase, ClaimPhase::Dispatching)
    })
}
