//! What comes after its call was given up: an answer, or the proof that it did not run, is the
//! truth about the effect, and ends an unknown outcome (guarantees §4). Nothing is sent here.

use crate::gate::call::Call;
use crate::gate::steps::proof;
use crate::gate::steps::proof::Broken;
use crate::gate::steps::proof::Named;
use crate::gate::steps::proof::Proof;
use crate::gate::steps::shaper::Shaper;
use crate::gate::steps::undo_kept;
use crate::guards::ToolRules;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::model::reply::{Fault, Sent};
use crate::store::claims::{Store, StoreError};
use crate::store::state::StoreKeys;
use crate::store::state::claim::{ClaimPhase, Stored};
use crate::store::state::command::{Settle, Spend, StoreCommand};
use crate::store::state::settlement::{Charge, Evidence};
use crate::store::state::undo::AnswerWorth;
use crate::telemetry::tasks;
use crate::upstream::parked_tasks::{MAX_TASK_TIME, TaskEnding, TaskSettling};
use bytes::Bytes;
use serde_json::json;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How long after its deadline an answer is still listened for.
pub(in crate::gate) const LATE_ANSWER_TIMEOUT: Duration = Duration::from_mins(10);
/// The same for a read whose answer says what it has cost.
pub(in crate::gate) const LATE_COST_TIMEOUT: Duration = Duration::from_mins(1);
/// Such reads on their way at once, each from when it is sent: the answer to one too many is not
/// listened for after its deadline, and it costs what was reserved for it.
pub(in crate::gate) const MAX_LATE_COSTS: usize = 64;
/// How long between two tries to record it.
const RECORD_RETRY_DELAY: Duration = Duration::from_millis(500);

/// A call on its way.
pub(in crate::gate) type LateExchange =
    Pin<Box<dyn Future<Output = Result<Message, Broken>> + Send>>;

/// A call whose deadline has passed and whose answer may still come.
pub(in crate::gate) struct Late {
    /// The rest of the exchange.
    pub(in crate::gate) exchange: LateExchange,
    /// What the attempts before it have proven.
    pub(in crate::gate) before: Proof,
    /// What its agent speaks.
    pub(in crate::gate) era: Era,
    /// Which round of input it brought.
    pub(in crate::gate) round: u32,
    /// What was called, and what its contract says of errors and results.
    pub(in crate::gate) shaper: Shaper,
    /// Its claim waits for input meanwhile: the call has become a task of toolgate's own, whose end
    /// its agent reads once it is durable.
    pub(in crate::gate) parked: Option<TaskSettling>,
}

/// A call without a claim whose deadline has passed, and whose answer may still say what it has cost.
pub(in crate::gate) struct LateCost {
    /// The rest of the exchange.
    pub(in crate::gate) exchange: LateExchange,
    /// Its contract.
    pub(in crate::gate) rules: Arc<ToolRules>,
    /// Its room among [`MAX_LATE_COSTS`]; none of what changes something, which has all the time that
    /// a write has.
    pub(in crate::gate) room: Option<Box<OwnedSemaphorePermit>>,
}

/// The rest of a call that has become a task of toolgate's own.
pub(in crate::gate) struct ParkedRest {
    /// Until its end.
    pub(in crate::gate) exchange: LateExchange,
    /// To be held until that is durable.
    pub(in crate::gate) settling: TaskSettling,
}

/// The rest of a call that waits for its agent's answers as a task of toolgate's own, if this one
/// does (protocol §4.3).
pub(in crate::gate) fn of_parked_task(
    call: &Call,
    ended: &Result<Message, Broken>,
    shaper: impl FnOnce() -> Shaper,
) -> Option<ParkedRest> {
    let answer = ended.as_ref().ok()?;
    if call.origin.era == Era::Legacy {
        return None;
    }
    let tasks = call.origin.links.servers().parked_tasks();
    let TaskEnding { ended, settling } = tasks.ending_of(answer)?;
    let shaper = shaper();
    let exchange = Box::pin(async move {
        let lost = |_| Err(Fault::after_sending("toolgate itself lost the task"));
        let answer = ended.await.unwrap_or_else(lost).map_err(Broken::Fault)?;
        shaper.readable(&answer)?;
        Ok(answer)
    });
    Some(ParkedRest { exchange, settling })
}

/// The rest of a call whose deadline has passed, also where it becomes such a task in that moment:
/// its agent reads of no task any more.
pub(in crate::gate) fn to_the_end(
    call: Arc<Call>,
    exchange: LateExchange,
    shaper: Shaper,
) -> LateExchange {
    Box::pin(async move {
        let ended = exchange.await;
        match of_parked_task(&call, &ended, || shaper) {
            // After a question no error says that nothing was done.
            Some(rest) => match rest.exchange.await {
                Ok(error) if error.is_error => {
                    let words = "an error after a question proves nothing";
                    Err(Broken::Fault(Fault::after_sending(words)))
                }
                rest => rest,
            },
            None => ended,
        }
    })
}

impl Late {
    fn patience(&self) -> Duration {
        if self.parked.is_some() {
            MAX_TASK_TIME + LATE_ANSWER_TIMEOUT
        } else {
            LATE_ANSWER_TIMEOUT
        }
    }

    /// Listens on; the call's claim is unknown until then.
    pub(in crate::gate) fn listen(self, store: Arc<dyn Store>, key: Digest, action: ActionId) {
        tasks::spawn("late answer", async move {
            let (patience, is_parked) = (self.patience(), self.parked.is_some());
            let Ok(ended) = tokio::time::timeout(patience, self.exchange).await else {
                return;
            };
            let Some(rule) = &self.shaper.rules.idempotency else {
                return;
            };
            let (rules, not_executed) = (
                &*self.shaper.rules,
                &*self.shaper.tool.server.settings.not_executed,
            );
            let proof = proof::of(
                &ended,
                Named {
                    rules,
                    rule,
                    not_executed,
                },
            )
            .after(self.before);
            let cost = spent(rules, &ended);
            let worth = undo_kept::worth(&*store, action, &self.shaper, &ended);
            let phase = match (proof, readable(ended, self.era)) {
                (Proof::NotSent, _) if !is_parked => ClaimPhase::NotSent,
                (Proof::NotRun { again: true }, _) if !is_parked => ClaimPhase::Failed {
                    answer: None,
                    again: true,
                },
                // Nothing waits any more.
                (_, Err(Broken::Fault(fault))) if is_parked => {
                    ClaimPhase::Unknown { why: fault.what }
                }
                (Proof::Unknown, Ok(_)) if is_parked => ClaimPhase::Unknown {
                    why: "the answer proves nothing".to_owned(),
                },
                // What is no answer proves nothing else.
                (Proof::Unknown | Proof::NotSent, _) | (_, Err(_)) => return,
                (
                    Proof::Answered
                    | Proof::Erred
                    | Proof::Asked
                    | Proof::AskedAsTask
                    | Proof::NotRun { .. },
                    Ok(answer),
                ) => {
                    let answer = self.shaper.answer(answer).await;
                    let body = answer.body.as_ref().map_or_else(Bytes::new, Text::bytes);
                    match keep(&*store, answer.is_error, body).await {
                        // After a question no error says that nothing was done.
                        Ok(stored) if is_parked => ClaimPhase::Completed(stored),
                        Ok(stored) => ended_with(proof, self.round, stored),
                        Err(error) => return stays_unknown(action, &error),
                    }
                }
            };
            let ending = LateEnding { phase, cost, worth };
            let is_kept = Box::pin(settle(&*store, key, action, ending)).await;
            if let Some(settling) = self.parked.filter(|_| is_kept) {
                settling.keeps();
            }
        });
    }
}

impl LateCost {
    /// Listens on, and replaces what `held` keeps of its task's budget by what the call has cost.
    pub(in crate::gate) fn listen(self, store: Arc<dyn Store>, held: Spend) {
        tasks::spawn("late cost", async move {
            let patience = match self.room {
                Some(_) => LATE_COST_TIMEOUT,
                None => LATE_ANSWER_TIMEOUT,
            };
            let ended = tokio::time::timeout(patience, self.exchange).await;
            drop(self.room);
            let cost = ended.ok().and_then(|ended| spent(&self.rules, &ended));
            let (Some(cost), Some((reserved, _))) = (cost, held.charge) else {
                return;
            };
            let spend = Spend {
                charge: Some((reserved, Charge::Settle(cost))),
                failed: false,
                seen: None,
                is_past: true,
                ..held
            };
            if let Err(error) = store.run(StoreCommand::Spend(spend), None).await {
                tracing::warn!(%error, "what a late answer has cost is not counted");
            }
        });
    }
}

/// Lets a call go on that changes something and has no claim: nobody counts what comes of it, and its
/// server is not told to stop (guarantees §4).
pub(in crate::gate) fn finish(exchange: LateExchange) {
    let ends = tokio::time::timeout(LATE_ANSWER_TIMEOUT, exchange);
    drop(tasks::spawn("late write", ends));
}

/// What the agent reads in place of an answer that came and cannot be read. A result, as that was:
/// a contract that names errors does not mean this one.
pub(in crate::gate) fn readable(
    ended: Result<Message, Broken>,
    era: Era,
) -> Result<Message, Broken> {
    match ended {
        Err(Broken::Fault(fault)) if fault.sent == Sent::Answered => {
            tracing::warn!(%fault, "an answer is withheld");
            let words = format!(
                "The tool server has answered this call, so it has run or tried to. Its answer is withheld: it is no JSON that \
                 everybody reads alike ({fault}). Don't send the call again; look for what it has done."
            );
            let mut result =
                json!({ "content": [{ "type": "text", "text": words }], "isError": true });
            if era == Era::Modern {
                result["resultType"] = json!("complete");
            }
            Ok(Message::response(None, Text::of(&result), false))
        }
        ended => ended,
    }
}

/// What the claim becomes with an answer that is kept.
pub(in crate::gate) fn ended_with(proof: Proof, round: u32, stored: Stored) -> ClaimPhase {
    match proof {
        Proof::Asked | Proof::AskedAsTask => ClaimPhase::AwaitingInput {
            round: round + 1,
            asked: stored,
            is_task: proof == Proof::AskedAsTask,
        },
        Proof::NotRun { again } => ClaimPhase::Failed {
            answer: Some(stored),
            again,
        },
        Proof::Answered | Proof::Erred | Proof::NotSent | Proof::Unknown => {
            ClaimPhase::Completed(stored)
        }
    }
}

/// Keeps an answer that came late, or for which there was no room; while there is none, for as long
/// as [`LATE_ANSWER_TIMEOUT`].
pub(in crate::gate) async fn keep(
    store: &dyn Store,
    is_error: bool,
    body: Bytes,
) -> Result<Stored, StoreError> {
    let kept = tokio::time::timeout(LATE_ANSWER_TIMEOUT, async {
        loop {
            match store.keep(is_error, body.clone()).await {
                Err(error) if error.ends_by_itself() => {
                    tokio::time::sleep(RECORD_RETRY_DELAY).await;
                }
                kept => return kept,
            }
        }
    });
    kept.await.unwrap_or_else(|_| {
        Err(StoreError::Full(
            "there was no room for too long".to_owned(),
        ))
    })
}

/// Waits until what is queued for this key is written, for so long.
pub(in crate::gate) async fn written(
    store: &dyn Store,
    key: Digest,
    patience: Duration,
) -> Result<(), StoreError> {
    let place = StoreKeys {
        call: Some(key),
        ..StoreKeys::default()
    };
    let durable = async {
        loop {
            match store.load_view(place).await {
                Err(error) if error.ends_by_itself() => {
                    tokio::time::sleep(RECORD_RETRY_DELAY).await;
                }
                other => return other.map(drop),
            }
        }
    };
    Box::pin(tokio::time::timeout(patience, durable))
        .await
        .unwrap_or_else(|_| Err(StoreError::Full("the outcome waits for room".to_owned())))
}

/// What a call has really cost, in millionths, when its answer says so.
pub(in crate::gate) fn spent(rules: &ToolRules, ended: &Result<Message, Broken>) -> Option<u64> {
    let answer = ended.as_ref().ok().filter(|answer| answer.odd.is_none());
    let structured = answer?.body.as_ref()?.get("structuredContent")?;
    rules.budget.spent(&structured.value())
}

/// What is known of a call after all.
pub(in crate::gate) struct LateEnding {
    /// What its claim becomes.
    pub(in crate::gate) phase: ClaimPhase,
    /// What it cost, in millionths, when its answer says so.
    pub(in crate::gate) cost: Option<u64>,
    /// What its answer leaves for an undo.
    pub(in crate::gate) worth: AnswerWorth,
}

/// Ends an unknown outcome with what is known after all; whether that is durable.
pub(in crate::gate) async fn settle(
    store: &dyn Store,
    key: Digest,
    action: ActionId,
    ending: LateEnding,
) -> bool {
    let LateEnding { phase, cost, worth } = ending;
    let became = phase.word();
    let settle = Settle {
        key,
        action,
        phase,
        evidence: Evidence::Late,
        cost,
        failed: false,
        seen: None,
        worth,
    };
    let settled = tokio::time::timeout(LATE_ANSWER_TIMEOUT, async {
        loop {
            match store.run(StoreCommand::Settle(settle.clone()), None).await {
                Err(StoreError::Away(_)) => tokio::time::sleep(RECORD_RETRY_DELAY).await,
                settled => return settled,
            }
        }
    });
    match settled.await.unwrap_or_else(|_| {
        Err(StoreError::Away(
            "the store was away for too long".to_owned(),
        ))
    }) {
        Ok(Ok(_)) => {
            tracing::info!(%action, became, "an unknown outcome has ended");
            true
        }
        // It is queued.
        Err(StoreError::Full(_)) => Box::pin(written(store, key, LATE_ANSWER_TIMEOUT))
            .await
            .is_ok(),
        // An operator or a probe has said meanwhile what became of it, and may have been wrong.
        Ok(Err(_)) => {
            tracing::error!(%action, "a late answer came to a call that was settled without it");
            true
        }
        Err(error) => {
            stays_unknown(action, &error);
            false
        }
    }
}

fn stays_unknown(action: ActionId, error: &StoreError) {
    tracing::error!(%action, %error, "a late answer cannot be recorded; the outcome stays unknown");
}

#[cfg(test)]
mod tests;
