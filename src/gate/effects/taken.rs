//! What a call has taken, given back in one place on every path, in a task that outlives the
//! agent's connection. Three endings: answered; refused or never sent; sent with no answer known.

use crate::gate::effects::Effects;
use crate::gate::effects::bill::Reserved;
use crate::gate::effects::looks::DoneCall;
use crate::gate::effects::progress::EndedAt;
use crate::gate::effects::slots::Slot;
use crate::gate::effects::told;
use crate::gate::steps::cleared::Claimed;
use crate::gate::steps::cleared::Cleared;
use crate::gate::steps::cleared::Stamp;
use crate::gate::steps::late;
use crate::gate::steps::late::Late;
use crate::gate::steps::late::LateEnding;
use crate::gate::steps::proof::Proof;
use crate::guards::idempotency::{self, Keyed};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::outlet::receipt::Receipt;
use crate::store::claims::StoreError;
use crate::store::state::budget::SeenCall;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{Settle, Spend, StoreCommand};
use crate::store::state::settlement::{Charge, Evidence};
use crate::store::state::tally::EndedRead;
use crate::store::state::undo::AnswerWorth;
use crate::telemetry::tasks;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of a call waits for room on the disk before its agent is told that it could not
/// be recorded.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything a call holds while it runs.
#[derive(Default)]
pub(in crate::gate) struct Taken {
    /// Its room among the calls in flight.
    pub(in crate::gate) slot: Option<Slot>,
    /// Its key, its turn and its part of the budget.
    pub(in crate::gate) claim: Option<Box<HeldClaim>>,
    /// Its part of the budget, when it has no claim.
    pub(in crate::gate) reserved: Option<Box<Reserved>>,
}

/// A claim, and what is known of its call so far.
pub(in crate::gate) struct HeldClaim {
    pub(in crate::gate) claimed: Claimed,
    /// What is proven if the call ends now.
    pub(in crate::gate) proof: Proof,
    /// An answer that may still come.
    pub(in crate::gate) late: Option<Late>,
    /// What it cost, when the result says so, in millionths.
    pub(in crate::gate) cost: Option<u64>,
    /// What its answer leaves for an undo.
    pub(in crate::gate) worth: AnswerWorth,
    /// Where calls follow it, and whether its answer was read, where that counts.
    pub(in crate::gate) answer: Option<AwaitedAnswer>,
}

/// The answer to a call that an equal one may follow.
pub(in crate::gate) struct AwaitedAnswer {
    pub(in crate::gate) place: Digest,
    pub(in crate::gate) caller: Arc<Caller>,
    pub(in crate::gate) receipt: Arc<Receipt>,
}

impl AwaitedAnswer {
    fn remember(&self, effects: &Effects, ended: DoneCall) {
        let (place, caller) = (self.place, &*self.caller);
        let at = EndedAt { place, caller };
        effects.progress.remember(at, ended, &self.receipt);
    }
}

/// How a call ended, for its task's budget and for the loop detector.
#[derive(Debug, Clone, Copy)]
pub(in crate::gate) struct Ended {
    pub(in crate::gate) failed: bool,
    /// None where nothing is counted of it: hashing it would be for nobody.
    pub(in crate::gate) seen: Option<SeenCall>,
}

impl Taken {
    /// Holds `claimed` from now on; gives what the call carries upstream.
    pub(in crate::gate) fn hold<'a>(
        &mut self,
        claimed: Claimed,
        rule: &'a idempotency::Rule,
        keyed: &Keyed,
    ) -> Cleared<'a> {
        let stamp = Stamp::of(&claimed, rule, keyed);
        self.claim = Some(Box::new(HeldClaim {
            claimed,
            proof: Proof::NotSent,
            late: None,
            cost: None,
            worth: AnswerWorth::Unread,
            answer: None,
        }));
        Cleared::Claimed(stamp)
    }

    /// Whether what it has taken is settled with how the call ended.
    pub(in crate::gate) fn is_counted(&self) -> bool {
        self.claim.is_some() || self.reserved.is_some()
    }

    /// What the agent reads when toolgate itself broke: once the call had its slot, it may have
    /// been sent.
    pub(in crate::gate) fn after_panic(&self) -> Refusal {
        match &self.claim {
            Some(held) if held.proof == Proof::NotSent => Refusal::InternalError,
            Some(_) => Refusal::OutcomeUnknown,
            None if self.slot.is_some() => Refusal::OutcomeUnknown,
            None => Refusal::InternalError,
        }
    }

    /// Gives everything back; with a claim, its outcome is durable when this returns
    /// (guarantees §2, step 15). Gives the entry back when there was no claim to settle with it.
    /// Exhaustive on purpose: a new field does not compile until it is settled here.
    pub(in crate::gate) async fn settle(
        self,
        effects: &Effects,
        entry: Box<Entry>,
        answer: Option<&Message>,
        ended: Ended,
    ) -> Result<Option<Box<Entry>>, StoreError> {
        let Self {
            slot,
            claim,
            reserved,
        } = self;
        let left = match claim {
            Some(held) => Box::pin(held.settle(effects, entry, answer, ended))
                .await
                .map(|()| None),
            None => Ok(Some(entry)),
        };
        if let Some(reserved) = reserved
            && let Err(error) = reserved.settle(effects, ended).await
        {
            told::unnoted(&error, "a call is not counted");
        }
        drop(slot);
        left
    }
}

impl Reserved {
    async fn settle(self, effects: &Effects, ended: Ended) -> Result<(), StoreError> {
        let Self {
            task,
            account,
            tool,
            cost,
            charge,
            since,
            reader,
            late,
        } = self;
        let spend = Spend {
            account,
            charge: Some((cost, charge)),
            failed: ended.failed,
            seen: ended.seen,
            since: Some(since),
            ..Spend::nothing(task, tool.clone())
        };
        let mut held = spend.clone();
        if let (Some(reader), Some(seen)) = (reader, ended.seen) {
            let sent = match charge {
                Charge::Release => None,
                Charge::Hold => Some((tool, cost)),
                Charge::Settle(cost) => Some((tool, cost)),
            };
            let sent_at_all = sent.is_some();
            let read = EndedRead {
                sent,
                failed: ended.failed && sent_at_all,
                seen,
            };
            effects.reads.count(*reader, read).await?;
            // What was only counted was so when it ended.
            held.since = Some(effects.store.now());
        } else {
            effects
                .store
                .run(StoreCommand::Spend(spend), None)
                .await?
                .ok();
        }
        if let Some(late) = late {
            late.listen(effects.store.clone(), held);
        }
        Ok(())
    }
}

/// What becomes of a call whose answer is lost.
fn unkept_answer() -> ClaimPhase {
    ClaimPhase::Unknown {
        why: "the answer could not be kept".to_owned(),
    }
}

impl HeldClaim {
    async fn settle(
        self,
        effects: &Effects,
        entry: Box<Entry>,
        answer: Option<&Message>,
        ended: Ended,
    ) -> Result<(), StoreError> {
        let Self {
            claimed,
            proof,
            late,
            cost,
            worth,
            answer: awaited,
        } = self;
        let (key, action) = (claimed.key, claimed.action);
        // From before its outcome is unknown: until then nothing else asks about it.
        let late = late.map(|mut late| {
            let listened = &effects.inquiries.listened;
            late.exchange = listened.until_end(action, late.exchange);
            late
        });
        let of = claimed.round;
        let round = EndedRound {
            key,
            action,
            round: of,
            proof,
        };
        let (phase, unkept) = match phase(effects, round, answer, &entry).await {
            Ok(phase) => (phase, None),
            Err(error) => (unkept_answer(), Some(error)),
        };
        // The handle of a task and a question are no answers of the tool.
        let is_answered = phase.is_final() && phase.stored().is_some() && answer.is_some();
        let kept_later = unkept.is_some().then(|| worth.clone());
        let settle = Settle {
            key,
            action,
            phase,
            evidence: Evidence::Exchange,
            cost,
            failed: ended.failed,
            seen: ended.seen,
            worth,
        };
        let settle = StoreCommand::Settle(settle);
        let settled = match effects.store.run(settle, Some(*entry)).await {
            // It is queued, and will be written when there is room.
            Err(StoreError::Full(_)) => {
                Box::pin(late::written(&*effects.store, key, PATIENCE)).await
            }
            settled => settled.map(drop),
        };
        if let (Some(awaited), Ok(()), true) = (&awaited, &settled, is_answered) {
            awaited.remember(effects, DoneCall { key, action });
        }
        if let Some(late) = late {
            late.listen(effects.store.clone(), key, action);
        }
        drop(claimed);
        let Some(error) = unkept else { return settled };
        if error.ends_by_itself() {
            let worth = kept_later.unwrap_or_default();
            keep_later(effects, round, answer, LateWorth { cost, worth });
        }
        Err(error)
    }
}

/// The round of a claimed call that an exchange has ended.
#[derive(Clone, Copy)]
struct EndedRound {
    key: Digest,
    action: ActionId,
    /// Its number, from 0.
    round: u32,
    /// What the exchange proves.
    proof: Proof,
}

/// What is known of an answer that is kept later.
struct LateWorth {
    cost: Option<u64>,
    worth: AnswerWorth,
}

/// Goes on trying to keep an answer for which there was no room; its call is unknown until then.
fn keep_later(effects: &Effects, ended: EndedRound, answer: Option<&Message>, left: LateWorth) {
    let LateWorth { cost, worth } = left;
    let EndedRound {
        key,
        action,
        round,
        proof,
    } = ended;
    let (is_error, body) = given(answer);
    let bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let Ok(room) = effects.unkept.clone().try_acquire_many_owned(bytes) else {
        tracing::error!(%action, "too many answers wait for room on the disk; the outcome stays unknown");
        return;
    };
    let store = effects.store.clone();
    tasks::spawn("unkept answer", async move {
        match late::keep(&*store, is_error, body).await {
            Ok(stored) => {
                let phase = late::ended_with(proof, round, stored);
                let ending = LateEnding { phase, cost, worth };
                Box::pin(late::settle(&*store, key, action, ending)).await;
            }
            Err(error) => {
                tracing::error!(%action, %error, "an answer cannot be kept; the outcome stays unknown");
            }
        }
        drop(room);
    });
}

/// What the claim becomes.
async fn phase(
    effects: &Effects,
    ended: EndedRound,
    answer: Option<&Message>,
    entry: &Entry,
) -> Result<ClaimPhase, StoreError> {
    let EndedRound { proof, round, .. } = ended;
    Ok(match proof {
        Proof::Answered
        | Proof::Erred
        | Proof::Asked
        | Proof::AskedAsTask
        | Proof::NotRun { again: false } => {
            let (is_error, body) = given(answer);
            late::ended_with(proof, round, effects.store.keep(is_error, body).await?)
        }
        Proof::NotRun { again: true } => ClaimPhase::Failed {
            answer: None,
            again: true,
        },
        Proof::NotSent => ClaimPhase::NotSent,
        Proof::Unknown => ClaimPhase::Unknown {
            why: entry
                .fault
                .clone()
                .unwrap_or_else(|| "the answer proves nothing".to_owned()),
        },
    })
}

fn given(answer: Option<&Message>) -> (bool, Bytes) {
    let body = answer
        .and_then(|answer| answer.body.as_ref())
        .map_or_else(Bytes::new, Text::bytes);
    (answer.is_some_and(|answer| answer.is_error), body)
}
