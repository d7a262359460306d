//! A store that cannot always say whose a call is.

use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::{Store, StoreError, TaskSearch};
use crate::store::hold_news::HoldNews;
use crate::store::memory::MemoryStore;
use crate::store::state::budget::TaskUsage;
use crate::store::state::claim::{Claim, Stored};
use crate::store::state::command::StoreCommand;
use crate::store::state::event::StoreEvent;
use crate::store::state::grant::Grant;
use crate::store::state::hold::Hold;
use crate::store::state::{CommandRefusal, Millis, StoreKeys, StoreView};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::broadcast;

/// Knows one call, and says so when it is not mute.
pub(super) struct MuteStore {
    pub(super) within: MemoryStore,
    pub(super) is_mute: AtomicBool,
    pub(super) claim: Claim,
}

#[async_trait]
impl Store for MuteStore {
    async fn load_view(&self, place: StoreKeys) -> Result<StoreView, StoreError> {
        self.within.load_view(place).await
    }

    async fn run(
        &self,
        command: StoreCommand,
        entry: Option<Entry>,
    ) -> Result<Result<StoreEvent, CommandRefusal>, StoreError> {
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
        Ok((action == self.claim.action).then(|| (self.claim.fingerprint, self.claim.clone())))
    }

    async fn unsettled(&self, most: usize) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.within.unsettled(most).await
    }

    async fn held(&self, kin: Digest) -> Result<Option<(Digest, Claim)>, StoreError> {
        self.within.held(kin).await
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
