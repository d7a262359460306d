//! A store whose disk can lose what was not synced: the embedded store's rules on a list of events,
//! on paused time.

use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::{ClaimPage, Store, StoreError, TaskSearch, UndoSearch};
use crate::store::hold_news::HoldNews;
use crate::store::memory::is_in_flight;
use crate::store::state::claim::{Claim, ClaimPhase, Stored};
use crate::store::state::command::{Settle, StoreCommand};
use crate::store::state::event::{Intended, StoreEvent};
use crate::store::state::grant::Grant;
use crate::store::state::hold::{self, Hold};
use crate::store::state::settlement::Evidence;
use crate::store::state::undo::{AnswerWorth, OpenUndo};
use crate::store::state::{CommandRefusal, Millis, StoreKeys, StoreView, decide};
use crate::store::table::{StateTable, undos::newest_undos};
use crate::store::tests::same::SplitMixRng;
use crate::store::time::{Anchor, Time};
use crate::store::waiters::Waiters;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

/// What outlives a process.
#[derive(Debug)]
pub(crate) struct SimulatedDisk(Mutex<SimulatedDiskState>);

#[derive(Debug)]
struct SimulatedDiskState {
    written: Vec<StoreEvent>,
    /// How many of them would outlive a power cut.
    synced: usize,
    sent: HashSet<ActionId>,
    /// Which record each call's intent is.
    intents: HashMap<ActionId, usize>,
    anchor: Option<Anchor>,
    room: SimulatedSpace,
    dice: SplitMixRng,
}

/// What there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimulatedSpace {
    Enough,
    /// For the outcomes of what has begun.
    Reserve,
    None,
}

/// The store of one process.
#[derive(Debug)]
pub(crate) struct SimulatedStore {
    disk: Arc<SimulatedDisk>,
    table: Mutex<StateTable>,
    waiters: Waiters,
    time: Time,
}

impl SimulatedDisk {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let state = SimulatedDiskState {
            written: Vec::new(),
            synced: 0,
            sent: HashSet::new(),
            intents: HashMap::new(),
            anchor: None,
            room: SimulatedSpace::Enough,
            dice: SplitMixRng::new(seed),
        };
        Arc::new(Self(Mutex::new(state)))
    }

    /// The process is gone; with `power`, the machine is.
    pub(crate) fn crash(&self, power: bool) {
        let mut state = self.0.lock();
        let unsynced = (state.written.len() - state.synced) as u64;
        let kept = state.synced + usize::try_from(state.dice.roll(unsynced + 1)).unwrap();
        state.written.truncate(kept);
        state.intents.retain(|_, record| *record <= kept);
        if power {
            state.sent.clear();
            state.anchor = None;
        }
    }

    /// What was queued meanwhile is written as soon as there is room again.
    pub(crate) fn set_room(&self, room: SimulatedSpace) {
        let mut state = self.0.lock();
        state.room = room;
        if room == SimulatedSpace::Enough {
            state.synced = state.written.len();
        }
    }

    /// Whether the intent of a call would be there after a power cut.
    pub(crate) fn has_intent(&self, action: ActionId) -> bool {
        let state = self.0.lock();
        state
            .intents
            .get(&action)
            .is_some_and(|record| *record <= state.synced)
    }

    fn push(&self, event: &StoreEvent) -> u64 {
        let mut state = self.0.lock();
        state.written.push(event.clone());
        let record = state.written.len();
        if let StoreEvent::Intended(intended) = event {
            state.intents.insert(intended.action, record);
        }
        record as u64
    }

    async fn until(&self, record: u64) -> Result<(), StoreError> {
        let record = usize::try_from(record).unwrap();
        let wait = {
            let mut state = self.0.lock();
            if state.synced >= record {
                return Ok(());
            }
            state.dice.roll(8)
        };
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let mut state = self.0.lock();
        if state.synced < record && state.room == SimulatedSpace::None {
            return Err(StoreError::Full("no room".to_owned()));
        }
        state.synced = state.synced.max(record);
        Ok(())
    }
}

impl SimulatedStore {
    /// Reads what the disk holds, and settles what was in flight (guarantees §4).
    pub(crate) fn open(disk: Arc<SimulatedDisk>, clock: Clock) -> Self {
        let (mut table, mut seen) = (StateTable::default(), 0);
        let anchor = disk.0.lock().anchor;
        for (index, event) in disk.0.lock().written.iter().enumerate() {
            seen = seen.max(event.at());
            let view = table.view(event.place());
            table.apply(event, view, index as u64 + 1);
        }
        let time = anchor.map_or_else(
            || Time::starting(clock, seen),
            |anchor| Time::continuing(clock, seen, anchor),
        );
        let paper = Self {
            disk,
            table: Mutex::new(table),
            waiters: Waiters::default(),
            time,
        };
        for (key, claim) in paper.claims(|claim| matches!(claim.phase, ClaimPhase::Dispatching)) {
            let is_unsent = anchor.is_some() && !paper.disk.0.lock().sent.contains(&claim.action);
            let phase = if is_unsent {
                ClaimPhase::NotSent
            } else {
                ClaimPhase::Unknown {
                    why: "a crash".to_owned(),
                }
            };
            let evidence = Evidence::Restart;
            let settle = Settle {
                key,
                action: claim.action,
                phase,
                evidence,
                cost: None,
                failed: true,
                seen: None,
                worth: AnswerWorth::Unread,
            };
            paper.decide(&StoreCommand::Settle(settle)).unwrap();
        }
        let mut state = paper.disk.0.lock();
        state.synced = state.written.len();
        state.anchor = Some(paper.time.anchor());
        drop(state);
        paper
    }

    /// Takes back an intent that waits for room: nothing was sent, and nothing will be.
    fn take_back(&self, intended: &Intended) {
        let (key, action, evidence) = (intended.key, intended.action, Evidence::Exchange);
        let settle = Settle {
            key,
            action,
            phase: ClaimPhase::NotSent,
            evidence,
            cost: None,
            failed: false,
            seen: None,
            worth: AnswerWorth::Unread,
        };
        self.decide(&StoreCommand::Settle(settle)).unwrap();
        self.waiters.wake(&key);
    }

    /// Calls whose end is not on the disk yet, and whether each has been marked as sent.
    pub(crate) fn flying(&self) -> Vec<(ActionId, bool)> {
        let table = self.table.lock();
        let state = self.disk.0.lock();
        let flying = table.claims.values().filter(|kept| {
            matches!(kept.value.phase, ClaimPhase::Dispatching) || kept.change > state.synced as u64
        });
        flying
            .map(|kept| (kept.value.action, state.sent.contains(&kept.value.action)))
            .collect()
    }

    /// Reads the disk anew, from bytes; it says the same as this process does.
    pub(crate) fn reread(&self) -> Vec<StoreEvent> {
        let (table, state) = (self.table.lock(), self.disk.0.lock());
        let (mut again, mut events) = (StateTable::default(), Vec::new());
        for (index, written) in state.written.iter().enumerate() {
            let event = StoreEvent::decode(&Bytes::from(written.encode().unwrap())).unwrap();
            let view = again.view(event.place());
            again.apply(&event, view, index as u64 + 1);
            events.push(event);
        }
        for event in &events {
            assert_eq!(
                again.view(event.place()),
                table.view(event.place()),
                "the disk says something else"
            );
        }
        events
    }

    /// The claims that are so, in an order that does not depend on the run.
    fn claims(&self, is_so: impl Fn(&Claim) -> bool) -> Vec<(Digest, Claim)> {
        let table = self.table.lock();
        let all = table.claims.iter().filter(|(_, kept)| is_so(&kept.value));
        let mut all: Vec<_> = all.map(|(key, kept)| (*key, kept.value.clone())).collect();
        all.sort_by_key(|(key, _)| *key);
        all
    }

    fn decide(&self, command: &StoreCommand) -> Result<(StoreEvent, u64), (CommandRefusal, u64)> {
        let mut table = self.table.lock();
        let mut place = command.place();
        if let (StoreCommand::Settle(_), Some(claim)) = (command, table.view(place).claim) {
            place.task = Some(claim.task);
            place.grant = claim.grant.map(|used| used.key);
            place.undo = claim.undoes.map(OpenUndo::key_of);
        }
        let held = table.view(place).hold;
        place.undo = place.undo.or(held.as_ref().and_then(OpenUndo::key_of_held));
        let now = self.time.now();
        let view = StoreView {
            waiting: table.waiting(command, now),
            grants: table.live(command, now),
            ..table.view(place)
        };
        let event = decide(command, &view, now).map_err(|refused| (refused, table.last))?;
        let record = self.disk.push(&event);
        table.apply(&event, view, record);
        Ok((event, record))
    }
}

#[async_trait]
impl Store for SimulatedStore {
    async fn load_view(&self, place: StoreKeys) -> Result<StoreView, StoreError> {
        let (view, record) = {
            let table = self.table.lock();
            (table.view(place), table.changed(place))
        };
        if view.is_told() {
            self.disk.until(record).await?;
        }
        Ok(view)
    }

    async fn run(
        &self,
        command: StoreCommand,
        _: Option<Entry>,
    ) -> Result<Result<StoreEvent, CommandRefusal>, StoreError> {
        if let (StoreCommand::Begin(_) | StoreCommand::Hold(_), Some(error)) =
            (&command, self.refuses())
        {
            return Err(error);
        }
        match self.decide(&command) {
            Ok((event, record)) => {
                let is_awaited = !matches!(
                    event,
                    StoreEvent::Reserved(_)
                        | StoreEvent::Spent(_)
                        | StoreEvent::Tallied(_)
                        | StoreEvent::Entered { .. }
                );
                let written = if is_awaited {
                    self.disk.until(record).await
                } else {
                    Ok(())
                };
                if let (StoreEvent::Intended(intended), Err(_)) = (&event, &written) {
                    self.take_back(intended);
                }
                self.waiters.wake_for(&event);
                written.map(|()| Ok(event))
            }
            Err((refused, record)) => self.disk.until(record).await.map(|()| Err(refused)),
        }
    }

    fn sent(&self, action: ActionId) -> Result<(), StoreError> {
        self.disk.0.lock().sent.insert(action);
        Ok(())
    }

    async fn wait_ended(&self, key: Digest, action: ActionId) {
        let is_over = || {
            !is_in_flight(
                self.table.lock().claims.get(&key).map(|kept| &kept.value),
                action,
            )
        };
        self.waiters.wait(key, is_over).await;
    }

    async fn find(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, StoreError> {
        Ok(self.claims(|claim| claim.action == action).pop())
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
        Ok(self.table.lock().find_hold(id))
    }

    async fn past_holds(
        &self,
        kind: Option<Digest>,
        most: usize,
    ) -> Result<Vec<(Digest, Hold)>, StoreError> {
        let now = self.now();
        Ok(self.table.lock().past_holds(kind, now, most))
    }

    fn look_on(&self) -> broadcast::Receiver<HoldNews> {
        // Nobody looks on in a simulation.
        broadcast::Sender::new(1).subscribe()
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
    ) -> Result<Vec<(Digest, crate::store::state::budget::TaskUsage)>, StoreError> {
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
        (self.disk.0.lock().room != SimulatedSpace::Enough)
            .then(|| StoreError::Full("no room".to_owned()))
    }

    fn now(&self) -> Millis {
        self.time.now()
    }
}
