//! Steps 8 to 12: what a call with side effects asks of the store before it may be sent. Judged
//! first from what is known, so that the earlier step always wins, then once more in one durable
//! transaction (guarantees §2).

pub(in crate::gate) mod bill;
pub mod refusal_streaks;
pub(in crate::gate) mod replays;
pub mod slots;
pub(in crate::gate) mod taken;

use crate::gate::call::Call;
use crate::gate::case::Subject;
use crate::gate::effects::bill::Bill;
use crate::gate::effects::bill::{Reserved, read, reservation};
use crate::gate::record::findings::Findings;
use crate::gate::record::findings::Usage;
use crate::gate::steps::cleared::Claimed;
use crate::guards::approval::Approved;
use crate::guards::budget::shown;
use crate::guards::confirms::Confirmed;
use crate::guards::idempotency::Keyed;
use crate::guards::task::{Belonging, stopped_by};
use crate::mcp::message::Message;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::task::TaskSource;
use crate::model::times::millis;
use crate::policy::Policy;
use crate::store::claims::{Store, StoreError};
use crate::store::read_counts::ReadCounts;
use crate::store::session_locks::{Lease, SessionLocks};
use crate::store::state::budget::{Exceeded, TaskUsage};
use crate::store::state::claim::{ClaimStatus, claim_status};
use crate::store::state::command::{Intent, StoreCommand};
use crate::store::state::event::StoreEvent;
use crate::store::state::{CommandRefusal, StoreKeys, StoreView};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// How long a call waits for the same call in flight (guarantees §4, §7).
const HOLD: Duration = Duration::from_secs(45);
/// Bytes of answers that may wait for room on the disk; the outcome of a call beyond that stays
/// unknown.
const UNKEPT: usize = 64 << 20;
/// When a call that has waited so long may ask again, in milliseconds.
const ASK_AGAIN: u64 = 5000;

/// The store and the sessions' lanes.
pub struct Effects {
    /// Claims, budgets and fences.
    pub store: Arc<dyn Store>,
    /// The same store; counts reads that nothing written limits.
    pub reads: Arc<ReadCounts>,
    /// Who has the turn in which session.
    pub lanes: Arc<SessionLocks>,
    /// Cancelled when toolgate ends: no call waits for a person any more. What is held stays held.
    pub ending: CancellationToken,
    /// Bytes of answers that may wait for room on the disk.
    pub(in crate::gate) unkept: Arc<Semaphore>,
}

/// How a call's key stands, when the call is not refused for it.
pub(in crate::gate) enum Stand {
    /// Nobody holds it.
    Open {
        /// What the first round of the call has taken of a budget is for this one, too.
        is_paid: bool,
    },
    /// The call has been made; this was its answer.
    Again(Message),
    /// The call may have run.
    Unknown(ActionId),
}

/// What step 12 writes, as the steps before have found it.
pub(in crate::gate) struct Beginning<'a> {
    pub(in crate::gate) keyed: &'a Keyed,
    pub(in crate::gate) confirmed: Confirmed,
    pub(in crate::gate) approved: Approved,
    pub(in crate::gate) bill: &'a Bill,
    pub(in crate::gate) lease: Lease,
    pub(in crate::gate) entry: Entry,
    /// What the budget leaves, as agents read it.
    pub(in crate::gate) left: &'a mut Option<Value>,
}

impl Effects {
    /// On `store`, with nobody in any lane.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let unkept = Arc::new(Semaphore::new(UNKEPT));
        let reads = Arc::new(ReadCounts::new(store));
        Self {
            store: reads.clone(),
            reads,
            lanes: Arc::default(),
            ending: CancellationToken::new(),
            unkept,
        }
    }

    /// What the steps from 7 on need to know. Asks the store only when something is watched or
    /// limited.
    pub(in crate::gate) async fn bill(
        &self,
        policy: &Policy,
        subject: &Subject<'_>,
        found: &mut Findings,
    ) -> Result<Bill, Refusal> {
        let Subject { call, rules, .. } = subject;
        let Belonging { task, session } = Belonging::of(&call.origin.caller, &call.judged)?;
        let task_source = task.source;
        let (origin, idle) = (
            bill::origin(call, task_source),
            policy.tasks.idle(task_source),
        );
        let (task, session) = (task.key, session.key);
        let asked = rules.budget.ask(
            &policy.tasks,
            &call.origin.caller,
            &call.judged.tool,
            rules.side_effect,
        );
        let mut asked = asked.ending_idle(idle);
        // Where nothing names a task, all that the agent ever does is one: the usual steps of a task
        // would run out in a day's work.
        let is_usual = policy.tasks.has_usual_steps(&call.origin.caller);
        if task_source == TaskSource::Agent && is_usual {
            asked = asked.without_steps();
        }
        let is_only_counted = !rules.side_effect && !asked.has_written_limits(is_usual);
        let known = self.known(task, is_only_counted).await?;
        let now = self.store.now();
        let before = known.filter(|known| asked.limits.current(Some(known), now).is_some());
        if let Some(stopped) = before.as_ref().and_then(|task| task.stopped.as_ref()) {
            return Err(stopped_by(stopped));
        }
        if asked.limits.is_limited() {
            let fresh = TaskUsage::new(now);
            let left =
                asked
                    .limits
                    .remaining(before.as_deref().unwrap_or(&fresh), &asked.price.tool, now);
            found.remaining = Some(shown(&left));
        }
        let is_counted = asked.limits.is_limited() || policy.repetition.is_watching();
        found.usage = Usage {
            used: is_counted.then(|| {
                before
                    .as_ref()
                    .map_or((0, 0), |task| (task.steps, task.cost))
            }),
            cost: asked.price.cost,
        };
        Ok(Bill {
            task,
            session,
            asked,
            before,
            watched: policy.repetition.is_watching(),
            is_only_counted,
            origin,
            over: None,
        })
    }

    /// The task as it stands; of a read that `is_only_counted` mostly without asking the store.
    async fn known(
        &self,
        task: Digest,
        is_only_counted: bool,
    ) -> Result<Option<Arc<TaskUsage>>, Refusal> {
        if is_only_counted {
            return self.reads.usage(task).await.map_err(unavailable);
        }
        let known = self.look(of_task(task)).await?.task;
        Ok(known.map(Arc::new))
    }

    /// Step 8: how the key stands, and which call holds it. Waits for the same call in flight,
    /// whose end is this call's answer too.
    pub(in crate::gate) async fn stand(
        &self,
        call: &Call,
        keyed: &Keyed,
        holder: &mut Option<ActionId>,
    ) -> Result<Stand, Refusal> {
        let held = tokio::time::timeout(HOLD, self.settled(call, keyed, holder)).await;
        match held.unwrap_or(Err(Refusal::DuplicateInFlight {
            after_ms: ASK_AGAIN,
        }))? {
            ClaimStatus::Open { round, .. } => Ok(Stand::Open { is_paid: round > 0 }),
            standing @ (ClaimStatus::Ended(_) | ClaimStatus::Asked(_)) => {
                self.replayed(call, &standing).await.map(Stand::Again)
            }
            ClaimStatus::Unknown(action) => Ok(Stand::Unknown(action)),
            ClaimStatus::InFlight(_) => Err(Refusal::OutcomeUnknown),
            ClaimStatus::Conflict => Err(Refusal::IdempotencyConflict),
            ClaimStatus::Expired => Err(Refusal::IdempotencyKeyExpired),
        }
    }

    /// How the key stands once no other call is in flight for it.
    async fn settled(
        &self,
        call: &Call,
        keyed: &Keyed,
        holder: &mut Option<ActionId>,
    ) -> Result<ClaimStatus, Refusal> {
        let (key, fingerprint, round) = (keyed.call_key(), keyed.fingerprint(), call.round());
        loop {
            let view = self
                .look(StoreKeys {
                    call: Some(key),
                    ..StoreKeys::default()
                })
                .await?;
            let mut standing = claim_status(
                view.claim.as_ref(),
                &fingerprint,
                round.as_ref(),
                self.store.now(),
            );
            let asked = view.claim.as_ref().and_then(|claim| claim.phase.stored());
            if let (ClaimStatus::Open { round: 1.., .. }, Some(asked)) = (&standing, asked)
                && Box::pin(self.answers_nothing(call, asked)).await?
            {
                standing = ClaimStatus::Asked(asked.clone());
            }
            *holder = view
                .claim
                .filter(|_| !matches!(standing, ClaimStatus::Open { .. }))
                .map(|claim| claim.action);
            let ClaimStatus::InFlight(action) = standing else {
                return Ok(standing);
            };
            tokio::select! {
                biased;
                () = self.store.wait_ended(key, action) => {}
                () = call.origin.gone() => return Err(Refusal::Cancelled),
            }
        }
    }

    pub(in crate::gate) async fn look(&self, place: StoreKeys) -> Result<StoreView, Refusal> {
        self.store.load_view(place).await.map_err(unavailable)
    }

    /// Step 9 for a call without a claim: its part of the budget, when there is one, and what it
    /// `left`. Where circles are watched for, its task has to know of it without a budget, too.
    pub(in crate::gate) async fn reserve(
        &self,
        bill: &Bill,
        hold: Option<(Digest, ActionId)>,
        left: &mut Option<Value>,
    ) -> Result<Option<Reserved>, Refusal> {
        if !bill.is_counted() {
            return Ok(None);
        }
        if bill.is_only_counted {
            return Ok(Some(read(bill)));
        }
        let (mut reserve, mut reserved) = reservation(bill, bill.limits().clone());
        reserve.hold = hold;
        match self
            .store
            .run(StoreCommand::Reserve(reserve), None)
            .await
            .map_err(unavailable)?
        {
            Ok(_) => {
                reserved.since = self.store.now();
                self.taken(bill, left).await;
                Ok(Some(reserved))
            }
            Err(CommandRefusal::Budget(exceeded)) => Err(exceed(bill, &exceeded, left)),
            Err(CommandRefusal::Stopped(stopped)) => Err(stopped_by(&stopped)),
            // The same call was quicker, and has used up what was allowed.
            Err(CommandRefusal::Held(_)) => Err(Refusal::DuplicateInFlight {
                after_ms: ASK_AGAIN,
            }),
            Err(_) => Err(Refusal::InternalError),
        }
    }

    /// Step 9 where nothing is enforced: what the call uses is counted without a limit, so that the
    /// next one meets the budget as it would be.
    pub(in crate::gate) async fn count(&self, bill: &Bill) -> Option<Reserved> {
        if !bill.is_counted() {
            return None;
        }
        if bill.is_only_counted {
            return Some(read(bill));
        }
        let (reserve, mut reserved) = reservation(bill, bill.asked.limits.only_counted());
        let counted = self.store.run(StoreCommand::Reserve(reserve), None).await;
        reserved.since = self.store.now();
        matches!(counted, Ok(Ok(_))).then_some(reserved)
    }

    /// The call has its part: `left` is what there is now, others' parts taken off too, so that
    /// nobody is told of more.
    async fn taken(&self, bill: &Bill, left: &mut Option<Value>) {
        if let (true, Ok(view)) = (
            bill.asked.limits.is_limited(),
            self.store.load_view(of_task(bill.task)).await,
        ) && let Some(task) = view.task
        {
            *left = Some(shown(&bill.asked.limits.remaining(
                &task,
                &bill.asked.price.tool,
                self.store.now(),
            )));
        }
    }

    /// Step 11: the session's lane.
    pub(in crate::gate) async fn enter(&self, call: &Call, bill: &Bill) -> Result<Lease, Refusal> {
        let lease = tokio::select! {
            biased;
            () = call.origin.gone() => return Err(Refusal::Cancelled),
            lease = self.lanes.enter(bill.session) => lease.map_err(|_| Refusal::SessionBusy)?,
        };
        if let Some(token) = call.fence() {
            let place = StoreKeys {
                session: Some(bill.session),
                ..StoreKeys::default()
            };
            let session = self.look(place).await?.session;
            // An agent's token can only be checked, never raise ours (004-26).
            if session.is_some_and(|session| session.token > token) {
                return Err(Refusal::Fenced);
            }
        }
        Ok(lease)
    }

    /// Step 12: one durable transaction. None: the same call was quicker, and its key has to be
    /// looked at again, or its hold.
    pub(in crate::gate) async fn begin(
        &self,
        call: &Call,
        begin: Beginning<'_>,
    ) -> Result<Option<Claimed>, Refusal> {
        let Beginning {
            keyed,
            confirmed,
            approved,
            bill,
            lease,
            entry,
            left,
        } = begin;
        let confirms = confirmed.draft().map(|draft| draft.to_string());
        let (key, action) = (keyed.call_key(), call.judged.action);
        let (fence, session) = (self.store.token(), lease.session());
        let intent = Intent {
            key,
            fingerprint: keyed.fingerprint(),
            action,
            round: call.round(),
            ttl: millis(keyed.ttl()),
            keep: millis(keyed.keep()),
            task: bill.task,
            session,
            fence,
            hold: approved.hold(),
            limits: bill.limits().clone(),
            price: bill.asked.price.clone(),
            origin: Some(bill.origin.clone()),
            entry: Entry {
                fence: Some(fence),
                confirms,
                ..entry
            },
        };
        let decided = self
            .store
            .run(StoreCommand::Begin(Box::new(intent)), None)
            .await;
        match decided.map_err(unavailable)? {
            Ok(StoreEvent::Intended(intended)) => {
                self.taken(bill, left).await;
                Ok(Some(Claimed {
                    key,
                    action,
                    round: intended.round,
                    session,
                    fence,
                    _lease: lease,
                }))
            }
            Ok(_) => Err(Refusal::InternalError),
            Err(refused) => not_begun(refused, bill, left).map(|()| None),
        }
    }
}

pub(in crate::gate) fn of_task(task: Digest) -> StoreKeys {
    StoreKeys {
        task: Some(task),
        ..StoreKeys::default()
    }
}

/// What its agent reads of a call that could not be begun; nothing where the same call was quicker.
fn not_begun(
    refused: CommandRefusal,
    bill: &Bill,
    left: &mut Option<Value>,
) -> Result<(), Refusal> {
    match refused {
        CommandRefusal::Taken(_) | CommandRefusal::Held(_) => Ok(()),
        CommandRefusal::Budget(exceeded) => Err(exceed(bill, &exceeded, left)),
        CommandRefusal::Stopped(stopped) => Err(stopped_by(&stopped)),
        CommandRefusal::Fenced { .. } => Err(Refusal::Fenced),
        CommandRefusal::State { .. }
        | CommandRefusal::NoTask
        | CommandRefusal::PlanFull
        | CommandRefusal::Settled
        | CommandRefusal::TooManyHolds
        | CommandRefusal::Undecided(_) => Err(Refusal::InternalError),
    }
}

/// The refusal of what does not fit, and what there is.
fn exceed(bill: &Bill, exceeded: &Exceeded, left: &mut Option<Value>) -> Refusal {
    *left = Some(shown(&exceeded.remaining));
    bill.asked.refuse(exceeded)
}

/// What the agent reads when the store cannot answer: nothing was sent.
pub(in crate::gate) fn unavailable(error: StoreError) -> Refusal {
    let (StoreError::Full(why) | StoreError::Broken(why) | StoreError::Away(why)) = error;
    tracing::warn!(%why, "the store refuses side effects");
    Refusal::StoreUnavailable
}
