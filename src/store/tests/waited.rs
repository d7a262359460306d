//! A store whose disk takes real time: paused time stands still while it is waited for.

use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::{ClaimPage, Store, StoreError, TaskSearch, UndoSearch};
use crate::store::hold_news::HoldNews;
use crate::store::state::claim::{Claim, Stored};
use crate::store::state::command::StoreCommand;
use crate::store::state::event::StoreEvent;
use crate::store::state::grant::Grant;
use crate::store::state::hold::Hold;
use crate::store::state::undo::OpenUndo;
use crate::store::state::{CommandRefusal, Millis, StoreKeys, StoreView};
use async_trait::async_trait;
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;
use tokio::sync::broadcast;

/// The store within.
pub(crate) struct Waited(pub(crate) Arc<dyn Store>);

/// tokio lets paused time pass only when no blocking task runs.
async fn standing_still<T>(work: impl Future<Output = T>) -> T {
    let (held, done) = mpsc::channel::<()>();
    drop(tokio::task::spawn_blocking(move || done.recv()));
    let output = work.await;
    drop(held);
    output
}

#[async_trait]
impl Store for Waited {
    async fn load_view(&self, place: StoreKeys) -> Result<StoreView, StoreError> {
        standing_still(self.0.load_view(place)).await
    }

    async fn run(
        &self,
        command: StoreCommand,
        entry: Option<Entry>,
    ) -> Result<Result<StoreEvent, CommandRefusal>, StoreError> {
        standing_still(self.0.run(command, entry)).await
    }

    fn sent(&self, action: ActionId) -> Result<(), StoreError> {
        self.0.sent(action)
    }

    async fn wait_ended(&self, key: Digest, action: ActionId) {
        self.0.wait_ended(key, action).await;
    }

    async fn find(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, StoreError> {
        self.0.find(action).await
    }

    async fn unsettled_in(&self, page: ClaimPage) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.0.unsettled_in(page).await
    }

    async fn held(&self, kin: Digest) -> Result<Option<(Digest, Claim)>, StoreError> {
        self.0.held(kin).await
    }

    async fn own_calls(
        &self,
        made: Digest,
        most: usize,
    ) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.0.own_calls(made, most).await
    }

    fn takes_back(&self, tool: &ToolName) -> bool {
        self.0.takes_back(tool)
    }

    async fn holds(&self, most: usize) -> Result<Vec<(Digest, Hold)>, StoreError> {
        self.0.holds(most).await
    }

    async fn find_hold(&self, id: ActionId) -> Result<Option<(Digest, Hold)>, StoreError> {
        self.0.find_hold(id).await
    }

    async fn past_holds(
        &self,
        kind: Option<Digest>,
        most: usize,
    ) -> Result<Vec<(Digest, Hold)>, StoreError> {
        self.0.past_holds(kind, most).await
    }

    fn look_on(&self) -> broadcast::Receiver<HoldNews> {
        self.0.look_on()
    }

    async fn grants_of(&self, tool: &ToolName) -> Result<Vec<Grant>, StoreError> {
        self.0.grants_of(tool).await
    }

    async fn grants(&self, most: usize) -> Result<Vec<Grant>, StoreError> {
        self.0.grants(most).await
    }

    async fn tasks(
        &self,
        search: TaskSearch,
        most: usize,
    ) -> Result<Vec<(Digest, crate::store::state::budget::TaskUsage)>, StoreError> {
        self.0.tasks(search, most).await
    }

    async fn undos(&self, search: UndoSearch, most: usize) -> Result<Vec<OpenUndo>, StoreError> {
        self.0.undos(search, most).await
    }

    async fn decided(&self, key: Digest) {
        self.0.decided(key).await;
    }

    async fn keep(&self, is_error: bool, body: Bytes) -> Result<Stored, StoreError> {
        standing_still(self.0.keep(is_error, body)).await
    }

    async fn body(&self, stored: &Stored) -> Result<Bytes, StoreError> {
        standing_still(self.0.body(stored)).await
    }

    fn token(&self) -> u64 {
        self.0.token()
    }

    fn refuses(&self) -> Option<StoreError> {
        self.0.refuses()
    }

    fn now(&self) -> Millis {
        self.0.now()
    }
}
