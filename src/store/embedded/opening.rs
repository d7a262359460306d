//! Opening, its second half: the index is brought up to the journal, and calls that were in flight
//! when the last process ended come to rest. Where that takes long, reads are served meanwhile:
//! nothing is decided, so that what the journal gets behind what is read are entries only.

use super::errors::unwritten;
use super::index::{Index, IndexProgress};
use super::index_work::IndexWork;
use super::inner::EmbeddedInner;
use super::park::block_on;
use crate::failpoint;
use crate::model::clock::Clock;
use crate::store::claims::{ClaimPage, StoreError};
use crate::store::state::Millis;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{Settle, StoreCommand};
use crate::store::state::settlement::Evidence;
use crate::store::state::undo::AnswerWorth;
use crate::store::stopped_tasks::StoppedTasks;
use crate::store::table::{StateTable, Versioned};
use crate::store::time::{Anchor, Time};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Claims in flight that are settled at a start; there are never more than calls in flight.
const MAX_CLAIMS_SETTLED: usize = 1 << 16;
/// Records of the journal that are missing in an index at least, for it to be brought up beside calls: fewer are
/// read in a second or two.
const LONG_OPENING_RECORDS: u64 = 20_000;

/// What is told of it.
const OPENING_WORK: &str = "bringing the index up to the journal";

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
    /// Tasks that an operator may have stopped.
    pub(super) stopped: StoppedTasks,
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
    /// `work` is told of each portion.
    pub(super) fn run(self, shared: &EmbeddedInner, mut work: IndexWork) -> Result<(), StoreError> {
        let before = self.applied.seq;
        let missing = self.missing(shared);
        let is_anew = self.applied == IndexProgress::default();
        let brought = shared.bring_up(&self.index, self.applied, |reach| {
            work.reach(reach);
            let read = reach.read.saturating_sub(before);
            let read = read.saturating_mul(100) / missing.max(1);
            let rows = reach.rows.map(|(came, all)| 50 * came / all.max(1));
            shared.opening.reach(match rows {
                Some(came) => 50 + came,
                None if is_anew => read / 2,
                None => read,
            });
        });
        let brought = brought.map(|replay| (replay.applied(), replay.replayed()));
        if brought.is_ok() {
            work.end();
        }
        drop(work);
        match brought {
            Ok((applied, replayed)) => {
                tracing::info!(replayed, "the index is up to the journal");
                self.end(applied, shared)
            }
            Err(error) => {
                self.index.close();
                Err(error)
            }
        }
    }

    /// What is told of it where a process waits for it.
    pub(super) fn work(&self, shared: &EmbeddedInner) -> IndexWork {
        IndexWork::of(OPENING_WORK, self.applied.seq, shared.journal.durable_seq())
    }

    /// Records of the journal that the index lacks.
    fn missing(&self, shared: &EmbeddedInner) -> u64 {
        shared
            .journal
            .durable_seq()
            .saturating_sub(self.applied.seq)
    }

    /// Whether it takes so long that it goes on beside calls.
    pub(super) fn is_long(&self, shared: &EmbeddedInner) -> bool {
        self.missing(shared) > failpoint::opening_records(LONG_OPENING_RECORDS)
    }

    /// Does it beside the calls. False when it was not ended: the store cannot be opened, or nobody needs it
    /// any more.
    pub(super) fn run_beside(self, shared: &EmbeddedInner) -> bool {
        let records = self.missing(shared);
        tracing::warn!(
            records,
            "the index is brought up to the journal beside the calls: only reads are served until it is"
        );
        failpoint::held("opening");
        let last = shared.journal.durable_seq();
        let work = IndexWork::behind(OPENING_WORK, self.applied.seq, last);
        let done = catch_unwind(AssertUnwindSafe(|| self.run(shared, work)));
        let done = done.unwrap_or_else(|_| Err(StoreError::Broken("a panic".to_owned())));
        match done {
            Ok(()) => tracing::info!("the store is open: everything is served"),
            Err(_) if shared.pace.is_stopping() => return false,
            Err(error) => {
                shared.opening.fail(error.to_string());
                return false;
            }
        }
        true
    }

    /// The index is as far as `applied`, with which no event of the journal is missing in it: from now on it
    /// is asked.
    fn end(self, applied: IndexProgress, shared: &EmbeddedInner) -> Result<(), StoreError> {
        shared.time.raise(self.time(applied.seen).now());
        let stopped = self.index.stopped(&self.stopped)?;
        *shared.table.lock() = table_of(&self.index, &applied, shared.time.now())?;
        shared.lookup.put(self.index);
        shared.settle_crashed(self.sent.as_ref())?;
        shared
            .marks
            .begin()
            .map_err(|error| StoreError::Broken(format!("the marks cannot be begun: {error}")))?;
        failpoint::reached("opened");
        shared.closing.opened(shared.time.anchor(), stopped);
        shared.closing.trust()?;
        shared.opening.end();
        Ok(())
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
        let mut open = self.unsettled(ClaimPage::first(MAX_CLAIMS_SETTLED))?;
        open.sort_by_key(|(_, claim)| claim.began);
        for (key, claim) in open {
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
                worth: AnswerWorth::Unread,
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
