//! A store that lives as long as its process: for observing, for tests, and as the plainest form of
//! the promises.

use super::claims::{Error, Store};
use super::state::claim::{Claim, Phase, Stored};
use super::state::command::Command;
use super::state::digest::Digest;
use super::state::event::Event;
use super::state::hold::{self, Hold};
use super::state::{Millis, Place, Refused, View, decide};
use super::table::Table;
use super::time::Time;
use super::waiters::Waiters;
use crate::model::clock::Clock;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

/// Claims, tasks, sessions and held calls in memory.
#[derive(Debug)]
pub struct Memory {
    table: Mutex<Table>,
    waiters: Waiters,
    time: Time,
}

impl Memory {
    /// Knows nothing yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            table: Mutex::default(),
            waiters: Waiters::default(),
            time: Time::starting(clock, 0),
        }
    }
}

#[async_trait]
impl Store for Memory {
    async fn look(&self, place: Place) -> Result<View, Error> {
        Ok(self.table.lock().view(place))
    }

    async fn run(
        &self,
        command: Command,
        _: Option<Entry>,
    ) -> Result<Result<Event, Refused>, Error> {
        let decided = {
            let mut table = self.table.lock();
            let mut place = command.place();
            if let Some(claim) = table.view(place).claim {
                place.task = place.task.or(Some(claim.task));
            }
            let now = self.time.now();
            let view = View {
                waiting: table.waiting(&command, now),
                ..table.view(place)
            };
            decide(&command, &view, now).inspect(|event| {
                let change = table.last + 1;
                table.apply(event, view, change);
            })
        };
        if let Ok(event) = &decided {
            self.waiters.told(event);
        }
        Ok(decided)
    }

    fn sent(&self, _: ActionId) -> Result<(), Error> {
        Ok(())
    }

    async fn ended(&self, key: Digest, action: ActionId) {
        self.waiters
            .wait(key, || {
                !is_in_flight(
                    self.table.lock().claims.get(&key).map(|kept| &kept.value),
                    action,
                )
            })
            .await;
    }

    async fn find(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, Error> {
        let table = self.table.lock();
        let found = table
            .claims
            .iter()
            .find(|(_, kept)| kept.value.action == action);
        Ok(found.map(|(key, kept)| (*key, kept.value.clone())))
    }

    async fn unsettled(&self, most: usize) -> Result<Vec<(Digest, Claim)>, Error> {
        let table = self.table.lock();
        let unsettled = table
            .claims
            .iter()
            .filter(|(_, kept)| !kept.value.phase.is_final());
        Ok(unsettled
            .take(most)
            .map(|(key, kept)| (*key, kept.value.clone()))
            .collect())
    }

    async fn holds(&self, most: usize) -> Result<Vec<(Digest, Hold)>, Error> {
        Ok(self.table.lock().open_holds(self.time.now(), most))
    }

    async fn find_hold(&self, id: ActionId) -> Result<Option<(Digest, Hold)>, Error> {
        Ok(self.table.lock().find_hold(id))
    }

    async fn decided(&self, key: Digest) {
        let is_over = || {
            !self
                .table
                .lock()
                .holds
                .get(&key)
                .is_some_and(|kept| kept.value.phase == hold::Phase::Pending)
        };
        self.waiters.wait(key, is_over).await;
    }

    async fn keep(&self, is_error: bool, body: Bytes) -> Result<Stored, Error> {
        Ok(Stored::inline(is_error, body))
    }

    async fn body(&self, stored: &Stored) -> Result<Bytes, Error> {
        Ok(stored.body.clone())
    }

    fn token(&self) -> u64 {
        self.table.lock().next_token()
    }

    fn refuses(&self) -> Option<Error> {
        None
    }

    fn now(&self) -> Millis {
        self.time.now()
    }
}

/// Whether `claim` is `action`'s and runs.
pub(super) fn is_in_flight(claim: Option<&Claim>, action: ActionId) -> bool {
    claim.is_some_and(|claim| claim.action == action && matches!(claim.phase, Phase::Dispatching))
}
