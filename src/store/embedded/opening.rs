//! Opening, its second half: the index is brought up to the journal, and calls that were in flight
//! when the last process ended come to rest.

use super::errors::unwritten;
use super::index::{Index, IndexProgress};
use super::inner::EmbeddedInner;
use super::park::block_on;
use crate::model::clock::Clock;
use crate::model::long_work::{LongWork, WorkUnit};
use crate::store::claims::StoreError;
use crate::store::state::Millis;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{Settle, StoreCommand};
use crate::store::state::settlement::Evidence;
use crate::store::table::{StateTable, Versioned};
use crate::store::time::{Anchor, Time};
use std::collections::HashSet;

/// Claims in flight that are settled at a start; there are never more than calls in flight.
const MAX_CLAIMS_SETTLED: usize = 1 << 16;

/// What is left to be done.
pub(super) struct OpeningJob {
    pub(super) index: Index,
    /// How far it is.
    pub(super) applied: IndexProgress,
    /// The marks that a byte may have left, where they can be relied on.
    pub(super) sent: Option<HashSet<[u8; 16]>>,
    pub(super) clock: Clock,
    /// How the store's time went with the machine's, if the machine has not started again since.
    pub(super) anchor: Option<Anchor>,
}

impl OpeningJob {
    /// The time of a store that has seen `seen`.
    pub(super) fn time(&self, seen: Millis) -> Time {
        match self.anchor {
            Some(anchor) => Time::continuing(self.clock, seen, anchor),
            None => Time::starting(self.clock, seen),
        }
    }

    /// Does it; from then on everything can be looked up and decided.
    pub(super) fn run(self, shared: &EmbeddedInner) -> Result<(), StoreError> {
        let before = self.applied.seq;
        let missing = shared.journal.durable_seq().saturating_sub(before);
        let mut work = LongWork::of(
            "bringing the index up to the journal",
            WorkUnit::Records,
            missing,
        );
        let brought = shared.bring_up(&self.index, self.applied, |replay| {
            work.reach(replay.applied().seq.saturating_sub(before));
        })?;
        drop(work);
        let (applied, replayed) = (brought.applied(), brought.replayed());
        drop(brought);
        tracing::info!(replayed, "the index is up to the journal");
        self.end(applied, shared)
    }

    /// The index, which is as far as `applied` and no event of the journal is missing in it, is asked from now on.
    fn end(self, applied: IndexProgress, shared: &EmbeddedInner) -> Result<(), StoreError> {
        shared.time.raise(self.time(applied.seen).now());
        *shared.table.lock() = table_of(&self.index, &applied, shared.time.now())?;
        shared.lookup.put(self.index);
        shared.settle_crashed(self.sent.as_ref())?;
        shared
            .marks
            .begin()
            .map_err(|error| StoreError::Broken(format!("the marks cannot be begun: {error}")))?;
        shared.closing.anchored(shared.time.anchor());
        shared.closing.trust()
    }
}

/// What is kept in memory of an index that ends with `applied`: the calls that are held at `now`, and
/// the grants that can cover one.
fn table_of(index: &Index, applied: &IndexProgress, now: Millis) -> Result<StateTable, StoreError> {
    let open = index.holds(|hold| hold.is_open(now))?;
    let holds = open
        .into_iter()
        .map(|(key, value)| (key, Versioned { value, change: 0 }))
        .collect();
    let live = index.grants(|grant| grant.ended(now).is_none())?;
    let grants = live
        .into_iter()
        .map(|(key, value)| (key, Versioned { value, change: 0 }))
        .collect();
    Ok(StateTable {
        grants,
        token: applied.token,
        last: applied.seq,
        indexed: applied.seq,
        holds,
        ..StateTable::default()
    })
}

impl EmbeddedInner {
    /// Settles what was in flight when the last process ended: without the mark that a byte may
    /// have left, under a kernel that has not died since, nothing was sent (guarantees §4).
    /// `sent`: the marks, where they can be relied on.
    fn settle_crashed(&self, sent: Option<&HashSet<[u8; 16]>>) -> Result<(), StoreError> {
        let mut last = None;
        for (key, claim) in self.unsettled(MAX_CLAIMS_SETTLED)? {
            if !matches!(claim.phase, ClaimPhase::Dispatching) {
                continue;
            }
            let phase = if sent.is_some_and(|sent| !sent.contains(claim.action.as_bytes())) {
                ClaimPhase::NotSent
            } else {
                ClaimPhase::Unknown {
                    why: "toolgate ended while the call was in flight".to_owned(),
                }
            };
            tracing::warn!(action = %claim.action, tool = %claim.tool, became = phase.word(), "a call was in flight when toolgate ended");
            let settle = Settle {
                key,
                action: claim.action,
                failed: matches!(phase, ClaimPhase::Unknown { .. }),
                phase,
                evidence: Evidence::Restart,
                cost: None,
                seen: None,
            };
            if let Ok((_, ticket)) = self.decide(&StoreCommand::Settle(settle), None)? {
                last = Some(ticket.seq());
            }
        }
        // The marks' slots are used again from now on.
        last.map_or(Ok(()), |last| {
            block_on(self.journal.wait_durable(last))
                .map(drop)
                .map_err(unwritten)
        })
    }
}
