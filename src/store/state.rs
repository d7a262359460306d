//! The state machine of a call with side effects (guarantees §3–§6), pure: [`decide`] says what a
//! command does to what is known, as an event or a refusal; [`apply()`] is what the event does. No
//! I/O, no clock, nothing asynchronous. Stores are shells around it: they load the [`StoreView`] a
//! command names, decide, make the event durable and keep what was applied.

pub mod account;
mod apply;
pub mod budget;
pub mod claim;
pub mod command;
pub(crate) mod event;
pub(crate) mod fence;
pub mod grant;
mod granting;
pub mod hold;
mod holding;
pub mod kept_text;
pub mod kinship;
pub mod settlement;
mod spending;
pub mod tally;
pub mod undo;
mod undoing;

pub use apply::apply;
pub(crate) use apply::{apply_to_grant, apply_to_undo};
pub(crate) use spending::count_reads;

use crate::model::digest::Digest;
use crate::model::task::{TaskOrigin, TaskState, TaskStopped};
use account::{AccountDemand, AccountShare};
use budget::{BudgetLimits, Exceeded, Price, TaskUsage};
use claim::{Claim, ClaimPhase, ClaimStatus};
use command::{EnterState, Intent, PlanCall, Reserve, Settle, SteerTask, StoreCommand};
use event::{BudgetReserved, Intended, Settled, StoreEvent, TaskSteered};
use fence::SessionFence;
use grant::{Grant, GrantBound, GrantEnd, LiveGrants};
use hold::{Hold, HoldBound, HoldStatus, Undecided, WaitingHolds};
use settlement::Charge;
use undo::{OpenUndo, UndoBar};

/// Time as stores keep it: milliseconds since 1970, never going back within a store
/// (threat-model §12, clock).
pub type Millis = u64;

/// What a command or an event is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreKeys {
    /// The call key.
    pub call: Option<Digest>,
    /// The task that pays.
    pub task: Option<Digest>,
    /// The account of the user that pays beside it.
    pub account: Option<Digest>,
    /// The session whose fence counts.
    pub session: Option<Digest>,
    /// The key under which a call is held.
    pub hold: Option<Digest>,
    /// The key of a standing grant.
    pub grant: Option<Digest>,
    /// The key of an undo.
    pub undo: Option<Digest>,
}

/// What is known of a [`StoreKeys`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreView {
    /// The claim of the call key.
    pub claim: Option<Claim>,
    /// The task.
    pub task: Option<TaskUsage>,
    /// The user's account.
    pub account: Option<TaskUsage>,
    /// The session.
    pub session: Option<SessionFence>,
    /// What is held.
    pub hold: Option<Hold>,
    /// The standing grant.
    pub grant: Option<Grant>,
    /// The undo.
    pub undo: Option<OpenUndo>,
    /// What waits for operators besides; counted for the command `StoreCommand::Hold` only.
    pub waiting: WaitingHolds,
    /// Which grants there are besides; counted for the command `StoreCommand::Mint` only.
    pub grants: LiveGrants,
}

impl StoreView {
    /// Whether a caller is told of it what has to be so for good: an answer, or what operators
    /// decided. What runs or is refused harms nobody if it is forgotten.
    pub fn is_told(&self) -> bool {
        let is_decided = self
            .hold
            .as_ref()
            .is_some_and(|hold| hold.phase != hold::HoldPhase::Pending);
        is_decided
            || self.undo.is_some()
            || self
                .claim
                .as_ref()
                .is_some_and(|claim| claim.phase.stored().is_some())
    }
}

/// Why a command does nothing. The gate's steps in their order (guarantees §2): the earlier one
/// wins.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandRefusal {
    /// Step 8: the key is taken; how it stands tells the agent what to do.
    Taken(ClaimStatus),
    /// Step 9: a budget is used up.
    Budget(Box<Exceeded>),
    /// Step 9: an operator has stopped the task.
    Stopped(TaskStopped),
    /// There is no such task.
    NoTask,
    /// The plan of the task has no room for one more call.
    PlanFull,
    /// Step 10: it is held already, or is not allowed.
    Held(HoldStatus),
    /// Step 10: too many calls are held, of those that are counted so.
    TooManyHolds(HoldBound),
    /// An operator's word changes nothing.
    Undecided(Undecided),
    /// Step 10: the grant covers nothing any more.
    Granted(GrantEnd),
    /// There are too many grants, of those that are counted so.
    TooManyGrants(GrantBound),
    /// A call cannot be taken back.
    NotUndone(UndoBar),
    /// Step 11: an agent with a newer token has been here.
    Fenced {
        /// The newest token that was used.
        current: u64,
    },
    /// Step 7: the task cannot come to that state from where it is.
    State {
        /// Where it is.
        before: Option<TaskState>,
    },
    /// A settlement for a claim that does not exist or is settled, or by evidence that says nothing
    /// about it.
    Settled,
}

/// What `command` does, given what is known at `now`. The event still has to be made durable and
/// applied.
pub fn decide(
    command: &StoreCommand,
    view: &StoreView,
    now: Millis,
) -> Result<StoreEvent, CommandRefusal> {
    match command {
        StoreCommand::Begin(intent) => {
            begin(intent, view, now).map(|intended| StoreEvent::Intended(Box::new(intended)))
        }
        StoreCommand::Settle(settle) => settled(settle, view, now).map(StoreEvent::Settled),
        StoreCommand::Reserve(reserve) => reserved(reserve, view, now).map(StoreEvent::Reserved),
        StoreCommand::Spend(spend) => Ok(StoreEvent::Spent(spending::spent(spend, now))),
        StoreCommand::Tally(tally) => Ok(StoreEvent::Tallied(spending::tallied(tally, view, now))),
        StoreCommand::Enter(enter) => entered(enter, view, now),
        StoreCommand::Plan(plan) => planned(plan, view, now),
        StoreCommand::Steer(steer) => {
            let SteerTask {
                task,
                act,
                who,
                why,
            } = steer.clone();
            let at = now;
            view.task.as_ref().ok_or(CommandRefusal::NoTask)?;
            Ok(StoreEvent::Steered(TaskSteered {
                task,
                act,
                who,
                why,
                at,
            }))
        }
        StoreCommand::Hold(ask) => {
            let held = holding::open_hold(ask, view.hold.as_ref(), view.waiting, now)?;
            Ok(StoreEvent::Held(Box::new(held)))
        }
        StoreCommand::Decide(decide) => holding::decided(decide, view, now)
            .map(StoreEvent::Decided)
            .map_err(CommandRefusal::Undecided),
        StoreCommand::Edit(edit) => holding::edited(edit, view, now)
            .map(|edited| StoreEvent::Edited(Box::new(edited)))
            .map_err(CommandRefusal::Undecided),
        StoreCommand::Extend(extend) => holding::extended(extend, view, now)
            .map(StoreEvent::Extended)
            .map_err(CommandRefusal::Undecided),
        StoreCommand::Withdraw(withdraw) => holding::withdrawn(withdraw, view.hold.as_ref(), now)
            .map(StoreEvent::Decided)
            .map_err(CommandRefusal::Undecided),
        StoreCommand::Mint(mint) => granting::minted(mint, view, now),
        StoreCommand::Revoke(revoke) => granting::revoked(revoke, view.grant.as_ref(), now),
        StoreCommand::AskUndo(ask) => undoing::asked(ask, view, now).map(StoreEvent::UndoAsked),
        StoreCommand::Fence { session, token } => {
            fence::admit(view.session.as_ref(), *token)?;
            Ok(StoreEvent::Fenced {
                session: *session,
                token: *token,
                at: now,
            })
        }
    }
}

fn entered(
    enter: &EnterState,
    view: &StoreView,
    now: Millis,
) -> Result<StoreEvent, CommandRefusal> {
    let EnterState {
        task,
        state,
        idle,
        origin,
    } = enter;
    let known = going_on(view, *idle, now);
    let before = known.and_then(|task| task.state);
    if !state.may_follow(before) {
        return Err(CommandRefusal::State { before });
    }
    Ok(StoreEvent::Entered {
        task: *task,
        state: *state,
        begins: begins(known, origin.as_ref()),
        at: now,
    })
}

fn planned(plan: &PlanCall, view: &StoreView, now: Millis) -> Result<StoreEvent, CommandRefusal> {
    let PlanCall {
        task,
        call,
        idle,
        origin,
    } = plan;
    let known = going_on(view, *idle, now);
    if known.is_some_and(|task| task.is_plan_full(call)) {
        return Err(CommandRefusal::PlanFull);
    }
    Ok(StoreEvent::Planned {
        task: *task,
        call: *call,
        begins: begins(known, origin.as_ref()),
        at: now,
    })
}

/// The task, if it has not ended after `idle` milliseconds without a call.
fn going_on(view: &StoreView, idle: Option<u64>, now: Millis) -> Option<&TaskUsage> {
    let limits = BudgetLimits {
        idle,
        ..BudgetLimits::default()
    };
    limits.current(view.task.as_ref(), now)
}

/// Whose task begins, when none is `known`.
fn begins(known: Option<&TaskUsage>, origin: Option<&TaskOrigin>) -> Option<TaskOrigin> {
    known.is_none().then(|| origin.cloned().unwrap_or_default())
}

/// Step 9: what an operator has stopped goes no further, and what does not fit neither; first the task
/// is asked, then the account of its user. Gives whose task begins, if one does, and the account.
fn admitted(
    asked: &Asked<'_>,
    view: &StoreView,
    now: Millis,
) -> Result<(Option<TaskOrigin>, Option<AccountShare>), CommandRefusal> {
    let of_both = |refusal| of_both(refusal, asked, view, now);
    let known = fitting(asked.limits, view.task.as_ref(), asked.price, now).map_err(of_both)?;
    let task = begins(known, asked.origin);
    let Some(account) = asked.account else {
        return Ok((task, None));
    };
    let known = fitting(&account.limits, view.account.as_ref(), asked.price, now);
    let known = known.map_err(of_both)?;
    let share = AccountShare {
        key: account.key,
        begins: begins(known, Some(&account.origin)),
    };
    Ok((task, Some(share)))
}

/// The same refusal, with what is left of the task and of its user's account: an agent has both.
fn of_both(
    refusal: CommandRefusal,
    asked: &Asked<'_>,
    view: &StoreView,
    now: Millis,
) -> CommandRefusal {
    match (refusal, asked.account) {
        (CommandRefusal::Budget(mut exceeded), Some(account)) => {
            let tool = &asked.price.tool;
            let of_task = asked.limits.left(view.task.as_ref(), tool, now);
            let of_user = account.limits.left(view.account.as_ref(), tool, now);
            exceeded.remaining = of_task.and(of_user);
            CommandRefusal::Budget(exceeded)
        }
        (refusal, _) => refusal,
    }
}

/// What a call asks of who pays for it.
struct Asked<'a> {
    limits: &'a BudgetLimits,
    price: &'a Price,
    origin: Option<&'a TaskOrigin>,
    account: Option<&'a AccountDemand>,
}

/// The task, or the account, as it goes on, if it has room for one more call.
fn fitting<'a>(
    limits: &BudgetLimits,
    task: Option<&'a TaskUsage>,
    price: &Price,
    now: Millis,
) -> Result<Option<&'a TaskUsage>, CommandRefusal> {
    let known = limits.current(task, now);
    if let Some(stopped) = known.and_then(|task| task.stopped.as_ref())
        && !limits.is_only_counted
    {
        return Err(CommandRefusal::Stopped(stopped.clone()));
    }
    limits
        .admit(task, price, now)
        .map_err(CommandRefusal::Budget)?;
    Ok(known)
}

/// Step 12: everything that the steps before found is found again, in their order, in one
/// transaction.
fn begin(intent: &Intent, view: &StoreView, now: Millis) -> Result<Intended, CommandRefusal> {
    let before = view.claim.as_ref();
    let standing = claim::claim_status(
        before.filter(|claim| !claim.is_past(intent.kinship.past)),
        &intent.fingerprint,
        intent.round.as_ref(),
        now,
    );
    let ClaimStatus::Open { attempt, round } = standing else {
        return Err(CommandRefusal::Taken(standing));
    };
    // A later round of one call has paid already.
    let paid = view.claim.as_ref().filter(|_| round > 0);
    let (cost, (begins, account)) = if let Some(claim) = paid {
        (claim.reserved, (None, None))
    } else {
        let asked = Asked {
            limits: &intent.limits,
            price: &intent.price,
            origin: intent.origin.as_ref(),
            account: intent.account.as_deref(),
        };
        (intent.price.cost, admitted(&asked, view, now)?)
    };
    if intent.hold.is_some() {
        holding::allowed(view.hold.as_ref(), intent.edited, now)?;
    }
    granting::admit(intent.grant.as_ref(), view.grant.as_ref(), now)?;
    // A later round goes on with what the first one has begun.
    if let Some(of) = intent.undoes.filter(|_| round == 0) {
        undoing::admit_call(of, intent, view, now)?;
    }
    fence::admit(view.session.as_ref(), intent.fence)?;
    Ok(Intended {
        key: intent.key,
        fingerprint: intent.fingerprint,
        action: intent.action,
        attempt,
        round,
        brought: intent.round,
        at: now,
        ttl: intent.ttl,
        keep: intent.keep,
        task: intent.task,
        account,
        session: intent.session,
        fence: intent.fence,
        hold: intent.hold,
        edited: intent.edited.map(|edited| edited.hold),
        grant: intent.grant,
        cost,
        rate: 0,
        window: intent.limits.rate,
        begins,
        counted: (intent.price.tool.as_str() != intent.entry.tool)
            .then(|| intent.price.tool.clone()),
        entry: intent.entry.clone(),
        kinship: intent.kinship.clone(),
        inquiry: intent.inquiry.clone(),
        undo: intent.undo.clone(),
        undoes: intent.undoes,
        may_undo: intent.may_undo,
    })
}

fn settled(settle: &Settle, view: &StoreView, now: Millis) -> Result<Settled, CommandRefusal> {
    let claim = view
        .claim
        .as_ref()
        .filter(|claim| claim.action == settle.action)
        .ok_or(CommandRefusal::Settled)?;
    if !claim.phase.may_become(&settle.phase, &settle.evidence) {
        return Err(CommandRefusal::Settled);
    }
    let charge = match &settle.phase {
        ClaimPhase::NotSent | ClaimPhase::Failed { .. } => Charge::Release,
        ClaimPhase::Unknown { .. } | ClaimPhase::AwaitingInput { .. } | ClaimPhase::Dispatching => {
            Charge::Hold
        }
        ClaimPhase::Completed(_) => Charge::Settle(settle.cost.unwrap_or(claim.reserved)),
        // It may have run, and what is learned of it later is settled against what was reserved.
        ClaimPhase::Abandoned => Charge::Settle(claim.reserved),
    };
    // What an earlier round did is done, and was by the grant.
    let is_given_back = charge == Charge::Release && claim.answered.is_empty();
    Ok(Settled {
        key: settle.key,
        action: settle.action,
        task: claim.task,
        account: claim.account,
        session: claim.session,
        at: now,
        phase: settle.phase.clone(),
        evidence: settle.evidence.clone(),
        charge,
        grant: claim.grant.filter(|_| is_given_back),
        // An unknown outcome has counted as a failure when it became one.
        failed: settle.failed && !matches!(claim.phase, ClaimPhase::Unknown { .. }),
        seen: settle.seen,
        undo: undoing::change(claim, settle, now).map(Box::new),
    })
}

/// Step 9 for a call that needs no claim: exactly as many pass as the limits say, and no disk is
/// waited for.
fn reserved(
    reserve: &Reserve,
    view: &StoreView,
    now: Millis,
) -> Result<BudgetReserved, CommandRefusal> {
    let asked = Asked {
        limits: &reserve.limits,
        price: &reserve.price,
        origin: reserve.origin.as_ref(),
        account: reserve.account.as_deref(),
    };
    let (begins, account) = admitted(&asked, view, now)?;
    if reserve.hold.is_some() {
        holding::allowed(view.hold.as_ref(), reserve.edited, now)?;
    }
    Ok(BudgetReserved {
        task: reserve.task,
        account,
        tool: reserve.price.tool.clone(),
        cost: reserve.price.cost,
        rate: 0,
        window: reserve.limits.rate,
        begins,
        hold: reserve.hold,
        at: now,
    })
}

#[cfg(test)]
pub(super) mod tests;
