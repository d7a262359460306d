//! Steps 8 to 12: what a call with side effects asks of the store before it may be sent. Judged
//! first from what is known, so that the earlier step always wins, then once more in one durable
//! transaction (guarantees §2).

pub(in crate::gate) mod alike;
pub(in crate::gate) mod bill;
pub(in crate::gate) mod caller_rows;
pub(in crate::gate) mod cancelled_holds;
pub(in crate::gate) mod client_limits;
pub(in crate::gate) mod inquiries;
pub(in crate::gate) mod kin;
pub(in crate::gate) mod listened;
pub(in crate::gate) mod looks;
mod not_begun;
pub(in crate::gate) mod observed;
pub(in crate::gate) mod own_undos;
pub(in crate::gate) mod progress;
pub mod refusal_streaks;
pub(in crate::gate) mod repeated_asks;
pub(in crate::gate) mod replays;
pub mod slots;
pub(in crate::gate) mod standing;
pub(in crate::gate) mod taken;
pub(in crate::gate) mod told;

use crate::gate::call::Call;
use crate::gate::case::Subject;
use crate::gate::effects::alike::AlikeCalls;
use crate::gate::effects::bill::{Bill, Reserved, UsedBefore, read, reservation};
use crate::gate::effects::caller_rows::CallerRows;
use crate::gate::effects::cancelled_holds::CancelledHolds;
use crate::gate::effects::client_limits::ClientLimits;
use crate::gate::effects::inquiries::OpenInquiries;
use crate::gate::effects::kin::{HeldKeys, KinStand, kinship};
use crate::gate::effects::not_begun::{exceed, not_begun};
use crate::gate::effects::observed::ObservedCalls;
use crate::gate::effects::progress::Progress;
use crate::gate::effects::repeated_asks::RepeatedAsks;
use crate::gate::record::findings::Findings;
use crate::gate::record::findings::Usage;
use crate::gate::steps::cleared::Claimed;
use crate::gate::steps::late::MAX_LATE_COSTS;
use crate::guards::approval::Approved;
use crate::guards::budget::{BudgetDemand, UsedBudget, shown};
use crate::guards::confirms::Confirmed;
use crate::guards::idempotency::{CallPlace, Keyed};
use crate::guards::task::{Belonging, account_of, stopped_by};
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
use crate::store::state::claim::inquiry::Inquiry;
use crate::store::state::command::{Intent, StoreCommand};
use crate::store::state::event::StoreEvent;
use crate::store::state::hold::EditedCall;
use crate::store::state::undo::UndoTerms;
use crate::store::state::{CommandRefusal, StoreKeys, StoreView};
use futures_util::future::Either;
use serde_json::Value;
use std::future::ready;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Bytes of answers that may wait for room on the disk; the outcome of a call beyond that stays
/// unknown.
const UNKEPT: usize = 64 << 20;

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
    /// Room for reads whose late answers say what they have cost.
    pub(in crate::gate) late_costs: Arc<Semaphore>,
    /// From which calls agents have gone on.
    pub(in crate::gate) progress: Arc<Progress>,
    /// Which keys were held by calls that equal theirs.
    held: HeldKeys,
    /// What was begun lately, by what makes others much like it.
    pub(in crate::gate) alike: AlikeCalls,
    /// What was observed where nothing is enforced.
    observed: ObservedCalls,
    /// Equal calls of each caller, whatever tasks it names.
    pub(in crate::gate) caller_rows: CallerRows,
    /// Which agents' programs hang up on held calls, and when.
    pub(in crate::gate) client_limits: ClientLimits,
    /// How often held calls are sent again.
    pub(in crate::gate) repeats: RepeatedAsks,
    /// How many held calls agents have cancelled.
    pub(in crate::gate) cancelled: CancelledHolds,
    /// What is under way to find out about calls of unknown outcome.
    pub(in crate::gate) inquiries: OpenInquiries,
}

/// What step 12 writes, as the steps before have found it.
pub(in crate::gate) struct Beginning<'a> {
    pub(in crate::gate) keyed: &'a Keyed,
    pub(in crate::gate) confirmed: Confirmed,
    pub(in crate::gate) approved: Approved,
    pub(in crate::gate) bill: &'a Bill,
    pub(in crate::gate) lease: Lease,
    /// The ended call of this key that it is not.
    pub(in crate::gate) past: Option<ActionId>,
    /// How it can be found out what becomes of it.
    pub(in crate::gate) inquiry: Option<Box<Inquiry>>,
    /// How it is taken back.
    pub(in crate::gate) undo: Option<Box<UndoTerms>>,
    pub(in crate::gate) entry: Entry,
    /// What the budget leaves, as agents read it.
    pub(in crate::gate) left: &'a mut Option<Box<Value>>,
}

/// When the call may ask again that found another quicker, in milliseconds.
pub(in crate::gate) const ASK_AGAIN: u64 = 5000;

impl Effects {
    /// On `store`, with nobody in any lane.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let unkept = Arc::new(Semaphore::new(UNKEPT));
        let late_costs = Arc::new(Semaphore::new(MAX_LATE_COSTS));
        let held = HeldKeys::new(store.now());
        let inquiries = OpenInquiries::new(store.now());
        let reads = Arc::new(ReadCounts::new(store));
        Self {
            store: reads.clone(),
            reads,
            lanes: Arc::default(),
            ending: CancellationToken::new(),
            unkept,
            late_costs,
            progress: Arc::default(),
            held,
            alike: AlikeCalls::default(),
            observed: ObservedCalls::default(),
            caller_rows: CallerRows::default(),
            client_limits: ClientLimits::default(),
            repeats: RepeatedAsks::default(),
            cancelled: CancelledHolds::default(),
            inquiries,
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
        let belonging = Belonging::of(&call.origin.caller, &call.judged)?;
        let place = belonging.place(&call.origin.caller);
        let Belonging { task, session } = belonging;
        let task_source = task.source;
        let (task, session) = (task.key, session.key);
        let is_usual = policy.tasks.has_usual_steps(&call.origin.caller);
        let asked = demand(policy, subject, task_source, is_usual);
        let is_only_counted = !rules.side_effect && !asked.has_written_limits(is_usual);
        let payer = &call.origin.caller;
        let account = asked.account.is_some().then(|| account_of(payer));
        let payers = StoreKeys {
            account,
            ..of_task(task)
        };
        let known = self.known(payers, is_only_counted).await?;
        found.task = Some(task.short());
        let now = self.store.now();
        if let Some(stopped) = known.stopped(&asked, now) {
            return Err(stopped);
        }
        if asked.is_limited() {
            found.remaining = Some(Box::new(shown(&asked.left(known.budget(), now))));
        }
        let before = known.task;
        let before = before.filter(|known| asked.limits.current(Some(known), now).is_some());
        let is_counted = asked.is_limited() || policy.repetition.is_watching();
        let so_far = before
            .as_ref()
            .map_or((0, 0), |task| (task.steps, task.cost));
        found.usage = Usage {
            used: is_counted.then_some(so_far),
            cost: asked.price.cost,
        };
        Ok(Bill {
            task,
            session,
            place: CallPlace {
                key: place.key,
                is_named: place.is_named(),
            },
            asked,
            before,
            account,
            watched: policy.repetition.is_watching(),
            is_only_counted,
            call: call.clone(),
            source: task_source,
            over: None,
            is_alike: false,
        })
    }

    /// What the payers have used; of a read that `is_only_counted` mostly without asking the store.
    pub(in crate::gate) async fn known(
        &self,
        payers: StoreKeys,
        is_only_counted: bool,
    ) -> Result<UsedBefore, Refusal> {
        if let Some(task) = payers.task.filter(|_| is_only_counted) {
            let task = self.reads.usage(task).await.map_err(unavailable)?;
            return Ok(UsedBefore {
                task,
                account: None,
            });
        }
        let view = self.look(payers).await?;
        Ok(UsedBefore {
            task: view.task.map(Arc::new),
            account: view.account.map(Arc::new),
        })
    }

    pub(in crate::gate) async fn look(&self, place: StoreKeys) -> Result<StoreView, Refusal> {
        self.store.load_view(place).await.map_err(unavailable)
    }

    /// Step 9 for a call without a claim: its part of the budget, when there is one, and what it
    /// `left`. Where circles are watched for, its task has to know of it without a budget, too.
    pub(in crate::gate) fn reserve<'a>(
        &'a self,
        bill: &'a Bill,
        hold: Option<((Digest, ActionId), Option<EditedCall>)>,
        left: &'a mut Option<Box<Value>>,
    ) -> impl Future<Output = Result<Option<Box<Reserved>>, Refusal>> + Send + 'a {
        if bill.is_counted() && !bill.is_only_counted {
            return Either::Right(Box::pin(self.reserve_part(bill, hold, left)));
        }
        let counted = bill.is_counted().then(|| Box::new(read(bill)));
        Either::Left(ready(Ok(counted)))
    }

    async fn reserve_part(
        &self,
        bill: &Bill,
        hold: Option<((Digest, ActionId), Option<EditedCall>)>,
        left: &mut Option<Box<Value>>,
    ) -> Result<Option<Box<Reserved>>, Refusal> {
        let (mut reserve, mut reserved) = reservation(bill, |asked| bill.limits_of(asked).clone());
        if let Some((hold, edited)) = hold {
            (reserve.hold, reserve.edited) = (Some(hold), edited);
        }
        match self
            .store
            .run(StoreCommand::Reserve(reserve), None)
            .await
            .map_err(unavailable)?
        {
            Ok(event) => {
                reserved.since = event.at();
                self.taken(bill, left).await;
                Ok(Some(Box::new(reserved)))
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
    pub(in crate::gate) async fn count(&self, bill: &Bill) -> Option<Box<Reserved>> {
        if !bill.is_counted() {
            return None;
        }
        if bill.is_only_counted {
            return Some(Box::new(read(bill)));
        }
        let (reserve, mut reserved) = reservation(bill, |asked| asked.limits.only_counted());
        let counted = self.store.run(StoreCommand::Reserve(reserve), None).await;
        let event = counted.ok()?.ok()?;
        reserved.since = event.at();
        Some(Box::new(reserved))
    }

    /// The call has its part: `left` is what there is now, others' parts taken off too, so that
    /// nobody is told of more.
    async fn taken(&self, bill: &Bill, left: &mut Option<Box<Value>>) {
        if let (true, Ok(view)) = (
            bill.asked.is_limited(),
            self.store.load_view(bill.payers()).await,
        ) {
            let used = UsedBudget {
                task: view.task.as_ref(),
                account: view.account.as_ref(),
            };
            *left = Some(Box::new(shown(&bill.asked.left(used, self.store.now()))));
        }
    }

    /// Step 11: the session's lane.
    pub(in crate::gate) async fn enter(&self, call: &Call, bill: &Bill) -> Result<Lease, Refusal> {
        let lease = tokio::select! {
            biased;
            _ = call.origin.gone() => return Err(Refusal::CancelledUnsent { hold: None }),
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
        let (keyed, bill, lease, left) = (begin.keyed, begin.bill, begin.lease, begin.left);
        let approved = begin.approved;
        // While this one waited for a person or for its turn, an equal call may have been lost.
        let kin = self.kin(keyed, call.takes_back());
        if call.round().is_none() && !matches!(kin.await?, KinStand::Free) {
            return Ok(None);
        }
        let confirms = begin.confirmed.draft().map(|draft| draft.to_string());
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
            account: bill.account_demand(|asked| bill.limits_of(asked).clone()),
            session,
            fence,
            hold: approved.hold(),
            edited: approved.edited(),
            grant: approved.grant(),
            limits: bill.limits().clone(),
            price: bill.asked.price.clone(),
            origin: Some(bill.origin()),
            entry: Entry {
                fence: Some(fence),
                confirms,
                ..begin.entry
            },
            kinship: kinship(call, keyed, begin.past),
            inquiry: begin.inquiry,
            undo: begin.undo,
            undoes: call.compensates(),
            may_undo: call.may_undo(),
        };
        let begins = StoreCommand::Begin(Box::new(intent));
        let decided = self.store.run(begins, None).await;
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
            Err(refused) => not_begun(call, refused, bill, left).map(|()| None),
        }
    }
}

pub(in crate::gate) fn of_task(task: Digest) -> StoreKeys {
    StoreKeys {
        task: Some(task),
        ..StoreKeys::default()
    }
}

/// What the call asks of its budgets.
fn demand(
    policy: &Policy,
    subject: &Subject<'_>,
    source: TaskSource,
    is_usual: bool,
) -> BudgetDemand {
    let Subject { call, rules, .. } = subject;
    let (caller, tool) = (&call.origin.caller, &call.judged.tool);
    let asked = rules
        .budget
        .ask(&policy.tasks, caller, tool, rules.side_effect);
    let asked = asked.ending_idle(policy.tasks.idle(source));
    // Where nothing names a task, all that the agent ever does is one: the usual steps of a task
    // would run out in a day's work.
    if source == TaskSource::Agent && is_usual {
        asked.without_steps()
    } else {
        asked
    }
}

/// What the agent reads when the store cannot answer: nothing was sent.
pub(in crate::gate) fn unavailable(error: StoreError) -> Refusal {
    told::refused(error)
}
