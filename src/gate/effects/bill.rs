//! Who pays for a call and whose turn it takes, and what that leaves to spend (guarantees §5, §6).

use crate::gate::call::Call;
use crate::gate::effects::{Effects, exceed, of_task, told, unavailable};
use crate::gate::record;
use crate::gate::steps::late::LateCost;
use crate::guards::budget::{BudgetDemand, UsedBudget, shown};
use crate::guards::idempotency::CallPlace;
use crate::guards::task::{Belonging, plan_full, stopped_by};
use crate::mcp::canonical;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::model::task::{TaskOrigin, TaskSource};
use crate::policy::Policy;
use crate::store::read_counts::Reader;
use crate::store::state::CommandRefusal;
use crate::store::state::account::AccountDemand;
use crate::store::state::budget::{BudgetLimits, Dimension, SeenCall, TaskUsage};
use crate::store::state::command::{PlanCall, Reserve, Spend, StoreCommand};
use crate::store::state::settlement::Charge;
use crate::store::state::{Millis, StoreKeys};
use futures_util::future::Either;
use serde_json::Value;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

/// How often within its idle time a task that is only refused is noted.
const REFUSED_NOTES_PER_IDLE: u64 = 8;

/// What steps 7 to 12 need to know of a call's surroundings.
pub(in crate::gate) struct Bill {
    /// Who pays.
    pub(in crate::gate) task: Digest,
    /// Whose turn it takes.
    pub(in crate::gate) session: Digest,
    /// Which calls it can follow.
    pub(in crate::gate) place: CallPlace,
    /// What it asks of the task, and what the task may use.
    pub(in crate::gate) asked: BudgetDemand,
    /// The task so far, when that can matter.
    pub(in crate::gate) before: Option<Arc<TaskUsage>>,
    /// The account of its user, where that is limited.
    pub(in crate::gate) account: Option<Digest>,
    /// Does the loop detector watch?
    pub(in crate::gate) watched: bool,
    /// Is it a read that nothing written limits? It is counted once it has ended.
    pub(in crate::gate) is_only_counted: bool,
    /// Whose the task is: the caller's of this call.
    pub(in crate::gate) call: Arc<Call>,
    /// What named the task.
    pub(in crate::gate) source: TaskSource,
    /// The limit that the call would go over, where a person may let it.
    pub(in crate::gate) over: Option<Dimension>,
    /// Was another call begun lately that is much like this one? Then a person is asked, too.
    pub(in crate::gate) is_alike: bool,
}

/// What was used before a call: by its task, and by all tasks of its user where that is limited.
#[derive(Default)]
pub(in crate::gate) struct UsedBefore {
    pub(in crate::gate) task: Option<Arc<TaskUsage>>,
    pub(in crate::gate) account: Option<Arc<TaskUsage>>,
}

impl UsedBefore {
    pub(in crate::gate) fn budget(&self) -> UsedBudget<'_> {
        UsedBudget {
            task: self.task.as_deref(),
            account: self.account.as_deref(),
        }
    }

    /// That a task or an account which goes on at `now` was stopped by an operator.
    pub(in crate::gate) fn stopped(&self, asked: &BudgetDemand, now: Millis) -> Option<Refusal> {
        let task = asked.limits.current(self.task.as_deref(), now);
        let account = asked.account.as_ref();
        let account = account.and_then(|asked| asked.limits.current(self.account.as_deref(), now));
        let stopped = |task: &TaskUsage| task.stopped.as_ref().map(stopped_by);
        task.and_then(stopped).or_else(|| account.and_then(stopped))
    }
}

impl Bill {
    /// The task that the call belongs to, as operators know it. It is written out where it is kept: most
    /// reads keep nothing of it.
    pub(in crate::gate) fn origin(&self) -> TaskOrigin {
        origin(&self.call, self.source)
    }

    /// Whether anything has to know what it uses.
    pub(in crate::gate) fn is_counted(&self) -> bool {
        self.watched || self.asked.is_limited()
    }

    /// Who pays for it.
    pub(in crate::gate) fn payers(&self) -> StoreKeys {
        StoreKeys {
            task: Some(self.task),
            account: self.account,
            ..StoreKeys::default()
        }
    }

    /// The limits that hold for it: where a person is asked, all but those at which one is.
    pub(in crate::gate) fn limits(&self) -> &BudgetLimits {
        self.limits_of(&self.asked)
    }

    /// The same of what is `asked` of its task, or of its user's account.
    pub(in crate::gate) fn limits_of<'a>(&self, asked: &'a BudgetDemand) -> &'a BudgetLimits {
        if self.over.is_some() {
            &asked.firm
        } else {
            &asked.limits
        }
    }

    /// What it asks of its user's account within its `limits`.
    pub(in crate::gate) fn account_demand(
        &self,
        limits: impl FnOnce(&BudgetDemand) -> BudgetLimits,
    ) -> Option<Box<AccountDemand>> {
        let (key, asked) = self.account.zip(self.asked.account.as_ref())?;
        let origin = TaskOrigin {
            named_by: "user".to_owned(),
            name: None,
            ..self.origin()
        };
        let limits = limits(asked);
        Some(Box::new(AccountDemand {
            key,
            limits,
            origin,
        }))
    }

    /// How long the task may go on at `now`, where that is limited.
    pub(in crate::gate) fn time_left(&self, now: Millis) -> Option<Duration> {
        let began = self.before.as_ref().map_or(now, |task| task.began);
        let most = self.limits().duration?;
        let left = most.saturating_sub(now.saturating_sub(began));
        Some(Duration::from_millis(left))
    }

    /// The task's last calls, oldest first.
    pub(in crate::gate) fn history(&self) -> &[SeenCall] {
        self.before.as_deref().map_or(&[], |task| &task.history)
    }
}

impl Effects {
    /// Step 9, before anything is taken: does one more call fit? `left`: what that leaves, as
    /// agents read it. Gives the limit that it would go over, where a person may let it.
    pub(in crate::gate) fn afford<'a>(
        &'a self,
        bill: &'a Bill,
        left: &'a mut Option<Box<Value>>,
    ) -> impl Future<Output = Result<Option<Dimension>, Refusal>> + Send + 'a {
        match self.afford_at_once(bill) {
            Some(known) => Either::Left(ready(known)),
            None => Either::Right(Box::pin(self.afford_within_limits(bill, left))),
        }
    }

    /// The same for a read that nothing limits, of which all is known: most calls need no more memory
    /// than that takes.
    fn afford_at_once(&self, bill: &Bill) -> Option<Result<Option<Dimension>, Refusal>> {
        if !bill.is_only_counted || bill.asked.is_limited() {
            return None;
        }
        let known = UsedBefore {
            task: bill.before.clone(),
            account: None,
        };
        let stopped = known.stopped(&bill.asked, self.store.now());
        Some(stopped.map_or(Ok(None), Err))
    }

    async fn afford_within_limits(
        &self,
        bill: &Bill,
        left: &mut Option<Box<Value>>,
    ) -> Result<Option<Dimension>, Refusal> {
        let now = self.store.now();
        let known = if bill.is_only_counted {
            UsedBefore {
                task: bill.before.clone(),
                account: None,
            }
        } else {
            self.known(bill.payers(), false).await?
        };
        if let Some(stopped) = known.stopped(&bill.asked, now) {
            return Err(stopped);
        }
        if !bill.asked.is_limited() {
            return Ok(None);
        }
        let used = known.budget();
        match bill.asked.admit(used, now) {
            Ok(before) => {
                *left = Some(Box::new(shown(&before.after(&bill.asked.price))));
                Ok(None)
            }
            Err(exceeded) => {
                // A limit at which a person is asked is not what the call is refused for.
                let Err(firm) = bill.asked.admit_firmly(used, now) else {
                    *left = Some(Box::new(shown(&exceeded.remaining)));
                    return Ok(Some(exceeded.dimension));
                };
                let idle = bill.asked.limits.idle;
                self.refused(bill.task, &bill.asked.price.tool, idle, used.task)
                    .await;
                Err(exceed(bill, &firm, left))
            }
        }
    }

    /// A task that goes on asking is not idle, though it gets nothing (003-119). Noted now and then:
    /// a refusal costs no write each.
    async fn refused(
        &self,
        task: Digest,
        tool: &ToolName,
        idle: Option<u64>,
        known: Option<&TaskUsage>,
    ) {
        let (Some(idle), Some(known)) = (idle, known) else {
            return;
        };
        if self.store.now().saturating_sub(known.last) < idle / REFUSED_NOTES_PER_IDLE {
            return;
        }
        let spend = Spend {
            is_refused: true,
            ..Spend::nothing(task, tool.clone())
        };
        if let Err(error) = self.store.run(StoreCommand::Spend(spend), None).await {
            told::unnoted(&error, "a refused call is not noted");
        }
    }

    /// The same for a call that was refused before step 9, for its task.
    pub(in crate::gate) async fn refused_before(&self, policy: &Policy, call: &Call) {
        let Ok(Belonging { task, .. }) = Belonging::of(&call.origin.caller, &call.judged) else {
            return;
        };
        let idle = policy.tasks.idle(task.source);
        if let Ok(known) = self.known(of_task(task.key), false).await {
            self.refused(task.key, &call.judged.tool, idle, known.task.as_deref())
                .await;
        }
    }

    /// Keeps in mind for the loop detector that a call was answered again, in a task that goes on. It
    /// says nothing of how the task fares: what it tells of has been counted.
    pub(in crate::gate) async fn replayed_in_task(
        &self,
        policy: &Policy,
        call: &Call,
        seen: SeenCall,
    ) {
        let Ok(Belonging { task, .. }) = Belonging::of(&call.origin.caller, &call.judged) else {
            return;
        };
        let known = self.known(of_task(task.key), false).await;
        let Some(known) = known.ok().and_then(|known| known.task) else {
            return;
        };
        let idle = policy.tasks.idle(task.source);
        if idle.is_some_and(|idle| known.last.saturating_add(idle) <= self.store.now()) {
            return;
        }
        let spend = Spend {
            seen: Some(seen),
            is_past: true,
            ..Spend::nothing(task.key, call.judged.tool.clone())
        };
        if let Err(error) = self.store.run(StoreCommand::Spend(spend), None).await {
            told::unnoted(&error, "an answer that was given again is not noted");
        }
    }

    /// Step 9 for a call that is only planned: it is one of the task's plan now (003-11).
    pub(in crate::gate) async fn plan(&self, bill: &Bill, call: &Call) -> Refusal {
        let plan = PlanCall {
            task: bill.task,
            call: planned_call(call),
            idle: bill.asked.limits.idle,
            origin: Some(bill.origin()),
        };
        let noted = self.store.run(StoreCommand::Plan(plan), None).await;
        match noted {
            Ok(Ok(_)) => Refusal::Planned,
            Ok(Err(CommandRefusal::PlanFull)) => plan_full(),
            Ok(Err(_)) => Refusal::InternalError,
            Err(error) => unavailable(error),
        }
    }
}

/// What a call asks of its task within `limits`, and what it then holds.
pub(in crate::gate) fn reservation(
    bill: &Bill,
    limits: impl Fn(&BudgetDemand) -> BudgetLimits,
) -> (Reserve, Reserved) {
    let (task, price) = (bill.task, bill.asked.price.clone());
    let account = bill.account_demand(&limits);
    let reserved = Reserved {
        task,
        account: bill.account,
        tool: price.tool.clone(),
        cost: price.cost,
        charge: Charge::Release,
        since: 0,
        reader: None,
        late: None,
    };
    let reserve = Reserve {
        task,
        account,
        limits: limits(&bill.asked),
        price,
        origin: Some(bill.origin()),
        hold: None,
        edited: None,
    };
    (reserve, reserved)
}

/// What a read holds that is only counted, when it has ended: nothing is kept free for it before.
pub(in crate::gate) fn read(bill: &Bill) -> Reserved {
    let price = &bill.asked.price;
    let reader = Reader {
        task: bill.task,
        idle: bill.asked.limits.idle,
        origin: bill.origin(),
    };
    Reserved {
        task: bill.task,
        account: bill.account,
        tool: price.tool.clone(),
        cost: price.cost,
        charge: Charge::Release,
        since: 0,
        reader: Some(Box::new(reader)),
        late: None,
    }
}

/// A call as its task's plan has it: tool and arguments.
pub(in crate::gate) fn planned_call(call: &Call) -> Digest {
    let judged = &call.judged;
    let arguments = canonical::exact(&judged.arguments);
    Digest::of_parts(
        "planned call",
        &[judged.tool.as_str().as_bytes(), &arguments],
    )
}

/// The task that a call belongs to, as operators know it.
fn origin(call: &Call, source: TaskSource) -> TaskOrigin {
    let (judged, caller) = (&call.judged, &call.origin.caller);
    let said = &judged.said;
    let name = match source {
        TaskSource::Task => record::said(said.task.as_ref()),
        TaskSource::Wire | TaskSource::Meta => record::session(judged),
        TaskSource::Header => said.session_header.clone(),
        TaskSource::Trace => said.trace.clone(),
        TaskSource::Agent => None,
    };
    TaskOrigin {
        agent: caller.agent.as_str().to_owned(),
        tenant: caller.tenant.as_ref().map(ToString::to_string),
        user: caller.user.as_ref().map(ToString::to_string),
        named_by: source.word().to_owned(),
        name,
    }
}

/// A reservation without a claim.
pub(in crate::gate) struct Reserved {
    pub(in crate::gate) task: Digest,
    /// The account of its user, where that pays, too.
    pub(in crate::gate) account: Option<Digest>,
    pub(in crate::gate) tool: ToolName,
    pub(in crate::gate) cost: u64,
    /// What becomes of it if the call ends now: given back until something of the call may have
    /// left.
    pub(in crate::gate) charge: Charge,
    /// When it was reserved.
    pub(in crate::gate) since: Millis,
    /// Whose it is, where nothing was reserved and it is only counted.
    pub(in crate::gate) reader: Option<Box<Reader>>,
    /// An answer that may still say what the call has cost.
    pub(in crate::gate) late: Option<Box<LateCost>>,
}
