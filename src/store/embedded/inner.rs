//! What callers and the indexer share: decisions are made here, under one lock.

use super::SegmentRetention;
use super::errors::{crowded, unwritable, unwritten};
use super::lookup::Lookup;
use super::mark::IndexCloser;
use super::pace::IndexerPace;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::store::claims::{ClaimPage, StoreError};
use crate::store::hold_news::HoldFeed;
use crate::store::journal::{Extent, Item, Journal, Ticket};
use crate::store::opening::StoreOpening;
use crate::store::results::Results;
use crate::store::sent_flags::SentFlags;
use crate::store::state::claim::Claim;
use crate::store::state::command::StoreCommand;
use crate::store::state::event::StoreEvent;
use crate::store::state::hold::Hold;
use crate::store::state::undo::OpenUndo;
use crate::store::state::{CommandRefusal, StoreKeys, StoreView, decide};
use crate::store::table::StateTable;
use crate::store::time::RaisedTime;
use crate::store::waiters::Waiters;
use parking_lot::Mutex;
use std::sync::Arc;

/// Things in memory that the index does not have yet; a decision waits while there are more.
pub(super) const MAX_UNINDEXED: usize = 1 << 16;
/// Things in memory at all; while the index takes nothing, only what is in flight is settled beyond
/// that.
const MAX_IN_MEMORY: usize = 2 * MAX_UNINDEXED;

/// What was decided and queued; or refused, with the number of the last record that was decided
/// from.
pub(super) type CommandResult = Result<(StoreEvent, Ticket), (CommandRefusal, u64)>;

/// What callers and the indexer share.
pub(super) struct EmbeddedInner {
    pub(super) table: Mutex<StateTable>,
    pub(super) lookup: Lookup,
    pub(super) opening: Arc<StoreOpening>,
    pub(super) journal: Journal,
    pub(super) results: Results,
    pub(super) marks: SentFlags,
    pub(super) waiters: Waiters,
    pub(super) feed: HoldFeed,
    pub(super) time: RaisedTime,
    pub(super) pace: IndexerPace,
    /// How long closed segments of the journal are kept, and where they go; none: nothing is
    /// dropped.
    pub(super) keeping: Option<SegmentRetention>,
    /// Behind `lookup`, which is closed first.
    pub(super) closing: IndexCloser,
}

impl EmbeddedInner {
    /// All that is known of `place`: what is in memory is newer than what is indexed.
    pub(super) fn view(
        &self,
        table: &StateTable,
        place: StoreKeys,
    ) -> Result<StoreView, StoreError> {
        let mut view = table.view(place);
        let lacks_claim = place.call.is_some() && view.claim.is_none();
        let lacks_task = place.task.is_some() && view.task.is_none()
            || place.account.is_some() && view.account.is_none();
        let lacks_hold = place.hold.is_some() && view.hold.is_none();
        let lacks_grant = place.grant.is_some() && view.grant.is_none();
        let lacks_undo = place.undo.is_some() && view.undo.is_none();
        if lacks_claim
            || lacks_task
            || lacks_hold
            || lacks_grant
            || lacks_undo
            || place.session.is_some() && view.session.is_none()
        {
            self.lookup.ask(|index| index.complete(&mut view, place))?;
        }
        Ok(view)
    }

    /// An error while it opens: until all that was in flight has come to rest, nobody else decides or
    /// looks anything up.
    pub(super) fn is_open(&self) -> Result<(), StoreError> {
        StoreError::of(&self.opening).map_or(Ok(()), Err)
    }

    /// Why nothing can be begun; the last room is for the outcomes of what has begun.
    pub(super) fn refuses(&self) -> Option<StoreError> {
        if !self.journal.is_writing() {
            return Some(unwritable(self.journal.health().state));
        }
        if self.journal.extent() == Extent::FarBeyond {
            return Some(StoreError::Full(
                "the ledger has far more than `ledger.max_bytes`".to_owned(),
            ));
        }
        if self.opening.is_on() || !self.lookup.is_whole() {
            return Some(self.lookup.away());
        }
        self.pace.is_stuck(MAX_UNINDEXED).then(crowded)
    }

    /// The place of `command`, with what only the claim or the hold knows of it.
    pub(super) fn place(
        &self,
        table: &StateTable,
        command: &StoreCommand,
    ) -> Result<StoreKeys, StoreError> {
        let place = command.place();
        if let (Some(_), None, None) = (place.hold, place.call, place.undo) {
            let undo = self
                .view(table, place)?
                .hold
                .as_ref()
                .and_then(OpenUndo::key_of_held);
            return Ok(StoreKeys { undo, ..place });
        }
        let (Some(key), None) = (place.call, place.task) else {
            return Ok(place);
        };
        let claim = self
            .view(
                table,
                StoreKeys {
                    call: Some(key),
                    ..StoreKeys::default()
                },
            )?
            .claim;
        Ok(StoreKeys {
            task: claim.as_ref().map(|claim| claim.task),
            account: claim.as_ref().and_then(|claim| claim.account),
            undo: place.undo.or(claim
                .as_ref()
                .and_then(|claim| claim.undoes)
                .map(OpenUndo::key_of)),
            grant: claim.and_then(|claim| claim.grant).map(|used| used.key),
            ..place
        })
    }

    /// Decides and queues, in one go.
    pub(super) fn decide(
        &self,
        command: &StoreCommand,
        entry: Option<Entry>,
    ) -> Result<CommandResult, StoreError> {
        let mut table = self.table.lock();
        if table.len() >= MAX_IN_MEMORY && !matches!(command, StoreCommand::Settle(_)) {
            return Err(crowded());
        }
        let now = self.time.now();
        let known = self.view(&table, self.place(&table, command)?)?;
        let view = StoreView {
            waiting: table.waiting(command, now),
            grants: table.live(command, now),
            ..known
        };
        let event = match decide(command, &view, now) {
            Ok(event) => event,
            Err(refused) => return Ok(Err((refused, table.last))),
        };
        let before = table.last;
        let ticket = self.append(&event, entry)?;
        table.apply(&event, view, ticket.seq());
        let lag = table.last.saturating_sub(table.indexed);
        self.pace.lags(lag, table.last.saturating_sub(before));
        Ok(Ok((event, ticket)))
    }

    pub(super) fn append(
        &self,
        event: &StoreEvent,
        entry: Option<Entry>,
    ) -> Result<Ticket, StoreError> {
        let record = event
            .encode()
            .map_err(|error| StoreError::Broken(format!("an event cannot be written: {error}")))?;
        let mut items = vec![Item::Event(record)];
        items.extend(entry.map(|entry| Item::Entry(Box::new(entry))));
        // What has begun has to end, however much waits for the disk.
        let appended = if matches!(event, StoreEvent::Settled(_)) {
            self.journal.append(items)
        } else {
            self.journal.append_unless_crowded(items)
        };
        appended.map_err(unwritten)
    }

    /// The claim that `action` holds, if it is in memory or has a name in the index.
    pub(super) fn find(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, StoreError> {
        let table = self.table.lock();
        let held = table
            .claims
            .iter()
            .find(|(_, kept)| kept.value.action == action)
            .map(|(key, _)| *key);
        let indexed = || self.lookup.ask(|index| index.key_of(action));
        let Some(key) = held.map_or_else(indexed, |key| Ok(Some(key)))? else {
            return Ok(None);
        };
        let view = self.view(
            &table,
            StoreKeys {
                call: Some(key),
                ..StoreKeys::default()
            },
        )?;
        Ok(view
            .claim
            .filter(|claim| claim.action == action)
            .map(|claim| (key, claim)))
    }

    /// The held call whose id is `id`, where it is open, or was used lately.
    pub(super) fn hold_in_memory(&self, id: ActionId) -> Option<(Digest, Hold)> {
        let found = self.table.lock().find_hold(id);
        found.or_else(|| self.feed.used(id, self.time.now()))
    }

    /// A claim that holds the calls of `kin`, else one that has held them: what is in memory is newer
    /// than what is indexed.
    pub(super) fn held(&self, kin: Digest) -> Result<Option<(Digest, Claim)>, StoreError> {
        let table = self.table.lock();
        let newest = table.held(kin);
        if newest.as_ref().is_some_and(|(_, claim)| claim.holds_kin()) {
            return Ok(newest);
        }
        let indexed = self
            .lookup
            .ask(|index| index.held(&kin, |key| table.claims.contains_key(key)))?;
        let holds = indexed.as_ref().is_some_and(|(_, claim)| claim.holds_kin());
        Ok(if holds { indexed } else { newest.or(indexed) })
    }

    /// Claims that have not come to an end, in the order of their keys, as callers page by it: those in
    /// memory as they are there, the others as they are indexed.
    pub(super) fn unsettled(&self, page: ClaimPage) -> Result<Vec<(Digest, Claim)>, StoreError> {
        let table = self.table.lock();
        let mut found = table.unsettled(page);
        self.lookup.ask(|index| {
            let (mut from, mut indexed) = (page, 0);
            while indexed < page.most {
                let keys = index.open_keys(from)?;
                for key in &keys {
                    // What is in memory is newer, and may have come to an end.
                    if !table.claims.contains_key(key)
                        && let Some(claim) = index.claim(key)?
                        && !claim.phase.is_final()
                    {
                        found.push((*key, claim));
                        indexed += 1;
                    }
                }
                from.after = keys.last().copied();
                if keys.len() < page.most {
                    break;
                }
            }
            Ok(())
        })?;
        found.sort_by_key(|(key, _)| *key);
        found.truncate(page.most);
        Ok(found)
    }
}
