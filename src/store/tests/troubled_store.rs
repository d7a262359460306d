//! A store that at times cannot write, or cannot say whose a call is; else it is the one within.

use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::{ClaimPage, Store, StoreError, TaskSearch, UndoSearch};
use crate::store::hold_news::HoldNews;
use crate::store::memory::MemoryStore;
use crate::store::state::budget::TaskUsage;
use crate::store::state::claim::{Claim, Stored};
use crate::store::state::command::StoreCommand;
use crate::store::state::event::StoreEvent;
use crate::store::state::grant::Grant;
use crate::store::state::hold::Hold;
use crate::store::state::undo::OpenUndo;
use crate::store::state::{CommandRefusal, Millis, StoreKeys, StoreView};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::broadcast;

/// Has one call more than the store within, if it is given one.
pub(crate) struct TroubledStore {
    within: MemoryStore,
    known: Option<Claim>,
    /// It writes nothing.
    pub(crate) is_full: AtomicBool,
    /// It finds no call.
    pub(crate) is_mute: AtomicBool,
}

impl TroubledStore {
    /// Without any trouble so far.
    pub(crate) fn with(known: Option<Claim>) -> Self {
        Self {
            within: MemoryStore::new(Clock),
            known,
            is_full: AtomicBool::new(false),
            is_mute: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl Store for TroubledStore {
    async fn load_view(&self, place: StoreKeys) -> Result<StoreView, StoreError> {
        self.within.load_view(place).await
    }

    async fn run(
        &self,
        command: StoreCommand,
        entry: Option<Entry>,
    ) -> Result<Result<StoreEvent, CommandRefusal>, StoreError> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(StoreError::Full("no room".to_owned()));
        }
        self.within.run(command, entry).await
    }

    fn sent(&self, action: ActionId) -> Result<(), StoreError> {
        self.within.sent(action)
    }

    async fn wait_ended(&self, key: Digest, action: ActionId) {
        self.within.wait_ended(key, action).await;
    }

    async fn find(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, StoreError> {
        if self.is_mute.load(Ordering::SeqCst) {
            return Err(StoreError::Broken("no answer".to_owned()));
        }
        match self.known.as_ref().filter(|known| known.action == action) {
            Some(known) => Ok(Some((known.fingerprint, known.clone()))),
            None => self.within.find(action).await,
        }
    }

    async fn unsettled_in(&self, page: ClaimPage) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.within.unsettled_in(page).await
    }

    async fn held(&self, kin: Digest) -> Result<Option<(Digest, Claim)>, StoreError> {
        self.within.held(kin).await
    }

    async fn own_calls(
        &self,
        made: Digest,
        most: usize,
    ) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.within.own_calls(made, most).await
    }

    fn takes_back(&self, tool: &ToolName) -> bool {
        self.within.takes_back(tool)
    }

    async fn holds(&self, most: usize) -> Result<Vec<(Digest, Hold)>, StoreError> {
        self.within.holds(most).await
    }

    async fn find_hold(&self, id: ActionId) -> Result<Option<(Digest, Hold)>, StoreError> {
        self.within.find_hold(id).await
    }

    async fn past_holds(
        &self,
        kind: Option<Digest>,
        most: usize,
    ) -> Result<Vec<(Digest, Hold)>, StoreError> {
        self.within.past_holds(kind, most).await
    }

    fn look_on(&self) -> broadcast::Receiver<HoldNews> {
        self.within.look_on()
    }

    async fn grants_of(&self, tool: &ToolName) -> Result<Vec<Grant>, StoreError> {
        self.within.grants_of(tool).await
    }

    async fn grants(&self, most: usize) -> Result<Vec<Grant>, StoreError> {
        self.within.grants(most).await
    }

    async fn tasks(
        &self,
        search: TaskSearch,
        most: usize,
    ) -> Result<Vec<(Digest, TaskUsage)>, StoreError> {
        self.within.tasks(search, most).await
    }

    async fn undos(&self, search: UndoSearch, most: usize) -> Result<Vec<OpenUndo>, StoreError> {
        self.within.undos(search, most).await
    }

    async fn decided(&self, key: Digest) {
        self.within.decided(key).await;
    }

    async fn keep(&self, is_error: bool, body: Bytes) -> Result<Stored, StoreError> {
        self.within.keep(is_error, body).await
    }

    async fn body(&self, stored: &Stored) -> Result<Bytes, StoreError> {
        self.within.body(stored).await
    }

    fn token(&self) -> u64 {
        self.within.token()
    }

    fn refuses(&self) -> Option<StoreError> {
        self.within.refuses()
    }

    fn now(&self) -> Millis {
        self.within.now()
    }
}
