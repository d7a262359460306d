//! What a store can be asked to do. Domain commands, so that each shell makes one transaction of
//! each.

use super::StoreKeys;
use super::account::AccountDemand;
use super::budget::{BudgetLimits, Price, SeenCall};
use super::claim::ClaimPhase;
use super::claim::inquiry::Inquiry;
use super::grant::{Grant, GrantUse};
use super::hold::{EditedCall, HoldQuestion};
use super::kinship::Kinship;
use super::settlement::{Charge, Evidence};
use super::tally::ReadTally;
use super::undo::{AnswerWorth, AskUndo, OpenUndo, UndoTerms};
use crate::model::absence::DecidingRight;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use crate::model::task::{TaskOrigin, TaskState};
use crate::store::state::Millis;
use crate::store::state::event::TaskAct;
use serde_json::Value;

/// A command.
#[derive(Debug, Clone)]
pub enum StoreCommand {
    /// Step 12: claim the key, reserve, and use the token, or do nothing.
    Begin(Box<Intent>),
    /// Step 15, or what comes later: what became of a claim.
    Settle(Settle),
    /// Step 9 for a call without a claim.
    Reserve(Reserve),
    /// What became of a call without a claim.
    Spend(Spend),
    /// Count reads that took no part of a budget.
    Tally(TaskTally),
    /// A task comes to another state, as its agent says.
    Enter(EnterState),
    /// A call that the task has planned (003-11); with the first, the task comes to its plan.
    Plan(PlanCall),
    /// An operator's word on a task.
    Steer(SteerTask),
    /// Step 10: hold a call until operators decide.
    Hold(Box<HoldRequest>),
    /// An operator's word on a held call.
    Decide(Decide),
    /// An operator changes the arguments of a held call.
    Edit(Box<EditHold>),
    /// An operator gives a held call more time.
    Extend(ExtendHold),
    /// The agent cancels a held call, or an incident voids it.
    Withdraw(Withdraw),
    /// An operator's word on calls like one.
    Mint(Box<MintGrant>),
    /// An operator takes such a word back.
    Revoke(RevokeGrant),
    /// An operator asks for the undo of a call.
    AskUndo(AskUndo),
    /// A session begins anew: `token` and every token before it are stale.
    Fence {
        /// The session.
        session: Digest,
        /// The token.
        token: u64,
    },
}

/// A task comes to another state.
#[derive(Debug, Clone)]
pub struct EnterState {
    /// The task.
    pub task: Digest,
    /// Where it says it is.
    pub state: TaskState,
    /// Milliseconds without a call after which it has ended.
    pub idle: Option<u64>,
    /// Whose it is, should it begin.
    pub origin: Option<TaskOrigin>,
}

/// A task plans a call.
#[derive(Debug, Clone)]
pub struct PlanCall {
    /// The task.
    pub task: Digest,
    /// Tool and arguments.
    pub call: Digest,
    /// Milliseconds without a call after which the task has ended.
    pub idle: Option<u64>,
    /// Whose it is, should it begin.
    pub origin: Option<TaskOrigin>,
}

/// What an operator makes of a task.
#[derive(Debug, Clone)]
pub struct SteerTask {
    /// The task.
    pub task: Digest,
    /// What.
    pub act: TaskAct,
    /// The operator.
    pub who: String,
    /// Why.
    pub why: String,
}

/// A call with side effects that is about to be sent.
#[derive(Debug, Clone)]
pub struct Intent {
    /// The call key.
    pub key: Digest,
    /// SHA-256 over (server, tool, final arguments).
    pub fingerprint: Digest,
    /// The call.
    pub action: ActionId,
    /// SHA-256 of what a server asked for, when the call brings that. Each round is sent once: the
    /// same answers again get what they got.
    pub round: Option<Digest>,
    /// For how many milliseconds after its end it is replayed.
    pub ttl: u64,
    /// For how many milliseconds after that its key stays used.
    pub keep: u64,
    /// Who pays.
    pub task: Digest,
    /// Who pays beside it.
    pub account: Option<Box<AccountDemand>>,
    /// Whose fence.
    pub session: Digest,
    /// The token, from the store's counter.
    pub fence: u64,
    /// The key under which the call was held, when it needs to be allowed: it is used up with
    /// this.
    pub hold: Option<Digest>,
    /// What it carries of that, where an operator has changed its arguments.
    pub edited: Option<EditedCall>,
    /// What it takes of the standing grant that covers it, where nobody was asked.
    pub grant: Option<GrantUse>,
    /// What the task may use.
    pub limits: BudgetLimits,
    /// What the call asks for.
    pub price: Price,
    /// Whose the task is, should it begin.
    pub origin: Option<TaskOrigin>,
    /// What the ledger knows so far.
    pub entry: Entry,
    /// Which other calls it equals, and which of them it is not.
    pub kinship: Kinship,
    /// How it can be found out what became of it.
    pub inquiry: Option<Box<Inquiry>>,
    /// How it is taken back, where another call does that.
    pub undo: Option<Box<UndoTerms>>,
    /// The call that it takes back, if it takes one back.
    pub undoes: Option<ActionId>,
    /// As [`PossibleUndo::call`](super::claim::PossibleUndo::call), where it may be one.
    pub may_undo: Option<Digest>,
}

/// What became of a claim.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The call key.
    pub key: Digest,
    /// The call that holds it.
    pub action: ActionId,
    /// What it becomes.
    pub phase: ClaimPhase,
    /// How we know.
    pub evidence: Evidence,
    /// What it really cost, in millionths; absent: what was reserved.
    pub cost: Option<u64>,
    /// Does it count as a failure of its task?
    pub failed: bool,
    /// For the loop detector.
    pub seen: Option<SeenCall>,
    /// What the answer leaves for an undo.
    pub worth: AnswerWorth,
}

/// A call without a claim that a budget counts.
#[derive(Debug, Clone)]
pub struct Reserve {
    /// Who pays.
    pub task: Digest,
    /// Who pays beside it.
    pub account: Option<Box<AccountDemand>>,
    /// What the task may use.
    pub limits: BudgetLimits,
    /// What the call asks for.
    pub price: Price,
    /// Whose the task is, should it begin.
    pub origin: Option<TaskOrigin>,
    /// The key under which the call was held, when it needs to be allowed, and the call: it is used
    /// up with this.
    pub hold: Option<(Digest, ActionId)>,
    /// What it carries of that, where an operator has changed its arguments.
    pub edited: Option<EditedCall>,
}

/// What became of a call without a claim: a read, or one that was refused.
#[derive(Debug, Clone)]
pub struct Spend {
    /// Who pays.
    pub task: Digest,
    /// The account that pays beside it.
    pub account: Option<Digest>,
    /// `server__tool`.
    pub tool: ToolName,
    /// What was reserved for it, if anything, and what becomes of that.
    pub charge: Option<(u64, Charge)>,
    /// Does it count as a failure?
    pub failed: bool,
    /// For the loop detector.
    pub seen: Option<SeenCall>,
    /// Since when it was reserved.
    pub since: Option<Millis>,
    /// Was it refused, and nothing reserved?
    pub is_refused: bool,
    /// Is it of a call that has ended before? It says nothing of how the task fares now.
    pub is_past: bool,
}

/// Reads of a task that nothing written limits.
#[derive(Debug, Clone)]
pub struct TaskTally {
    /// Whose they are.
    pub task: Digest,
    /// The reads.
    pub reads: ReadTally,
    /// When the first of them ended.
    pub since: Millis,
    /// Milliseconds without a call after which the task has ended.
    pub idle: Option<u64>,
    /// Whose the task is, should it begin.
    pub origin: TaskOrigin,
}

/// A call that needs a person.
#[derive(Debug, Clone)]
pub struct HoldRequest {
    /// A digest over what the decision is bound to.
    pub key: Digest,
    /// The call.
    pub id: ActionId,
    /// For how many milliseconds operators may decide.
    pub approve_for: u64,
    /// For how many milliseconds after that the call may run.
    pub execute_for: u64,
    /// How many operators have to allow it, 1 to 5.
    pub needed: u32,
    /// Which roles may decide.
    pub roles: Vec<String>,
    /// May an operator decide who is named like the agent?
    pub self_approval: bool,
    /// What operators are shown.
    pub question: HoldQuestion,
    /// How many calls may be held at once.
    pub bounds: HoldBounds,
}

/// How many calls may wait for operators at once.
#[derive(Debug, Clone, Copy)]
pub struct HoldBounds {
    /// Of all agents.
    pub all: usize,
    /// Of one agent of one tenant, whichever people are behind it.
    pub agent: usize,
    /// Of one of these people; of an agent that names none.
    pub caller: usize,
}

/// What an operator says of a held call.
#[derive(Debug, Clone)]
pub struct Decide {
    /// The key under which it is held.
    pub key: Digest,
    /// The hold that is meant.
    pub id: ActionId,
    /// The operator.
    pub who: String,
    /// By whose right.
    pub right: DecidingRight,
    /// Is it allowed? Otherwise denied.
    pub allow: bool,
    /// The operator's reason.
    pub why: String,
    /// Where it is said.
    pub surface: Option<String>,
    /// How often its arguments had been changed when the operator looked at it.
    pub edits: usize,
}

/// An operator changes the arguments of a held call, as the gate has judged them.
#[derive(Debug, Clone)]
pub struct EditHold {
    /// The key under which it is held.
    pub key: Digest,
    /// The hold that is meant.
    pub id: ActionId,
    /// The operator.
    pub who: String,
    /// By whose right.
    pub right: DecidingRight,
    /// The operator's reason.
    pub why: String,
    /// Where it is done.
    pub surface: Option<String>,
    /// How often they had been changed when the operator looked at it.
    pub edits: usize,
    /// JSON pointers to what is changed.
    pub pointers: Vec<String>,
    /// All arguments, as they are then.
    pub arguments: Value,
}

/// An operator gives a held call as much time again as it had.
#[derive(Debug, Clone)]
pub struct ExtendHold {
    /// The key under which it is held.
    pub key: Digest,
    /// The hold that is meant.
    pub id: ActionId,
    /// The operator.
    pub who: String,
    /// The operator's roles.
    pub roles: Vec<String>,
    /// The operator's reason, if one is given.
    pub why: Option<String>,
}

/// What voids a held call, which nobody's word allows any more.
#[derive(Debug, Clone)]
pub struct HoldVoid {
    /// Where it is said: [`INCIDENT_SURFACE`](super::hold::INCIDENT_SURFACE) or
    /// [`DROP_SURFACE`](super::hold::DROP_SURFACE).
    pub surface: &'static str,
    /// Which incident it is, or who has dropped the undo, and why.
    pub why: String,
}

/// The agent wants a held call no more, or something voids it.
#[derive(Debug, Clone)]
pub struct Withdraw {
    /// The key under which it is held.
    pub key: Digest,
    /// The hold that is meant.
    pub id: ActionId,
    /// The agent; the operator who opened the incident or dropped the undo, or a breaker.
    pub who: String,
    /// What voids it; none: its agent cancels it.
    pub void: Option<HoldVoid>,
}

/// A standing grant that is to begin.
#[derive(Debug, Clone)]
pub struct MintGrant {
    /// What is granted; when it begins and ends is said by the store.
    pub grant: Grant,
    /// For how many milliseconds.
    pub lasts: u64,
    /// The word on the held call that was shown, which it allows, too.
    pub allow: Option<Decide>,
    /// How many grants there may be.
    pub bounds: GrantBounds,
}

/// How many grants there may be that can still cover a call.
#[derive(Debug, Clone, Copy)]
pub struct GrantBounds {
    /// In all.
    pub all: usize,
    /// Of one agent of one tenant.
    pub agent: usize,
}

/// What takes a standing grant back.
#[derive(Debug, Clone)]
pub struct RevokeGrant {
    /// The grant.
    pub id: ActionId,
    /// The operator.
    pub who: String,
    /// Why.
    pub why: String,
}

impl Spend {
    /// A call of `tool` that takes nothing of `task`.
    pub fn nothing(task: Digest, tool: ToolName) -> Self {
        Self {
            task,
            account: None,
            tool,
            charge: None,
            failed: false,
            seen: None,
            since: None,
            is_refused: false,
            is_past: false,
        }
    }
}

/// What is about a held call.
fn of_hold(key: Digest) -> StoreKeys {
    StoreKeys {
        hold: Some(key),
        ..StoreKeys::default()
    }
}

impl StoreCommand {
    /// What it is about. A settlement's task and session stand in its claim.
    pub fn place(&self) -> StoreKeys {
        match self {
            Self::Begin(intent) => StoreKeys {
                call: Some(intent.key),
                task: Some(intent.task),
                account: intent.account.as_ref().map(|account| account.key),
                session: Some(intent.session),
                hold: intent.hold,
                grant: intent.grant.map(|used| used.key),
                undo: intent.undoes.map(OpenUndo::key_of),
            },
            Self::Settle(settle) => StoreKeys {
                call: Some(settle.key),
                ..StoreKeys::default()
            },
            Self::Reserve(reserve) => StoreKeys {
                task: Some(reserve.task),
                account: reserve.account.as_ref().map(|account| account.key),
                hold: reserve.hold.map(|(key, _)| key),
                ..StoreKeys::default()
            },
            Self::Spend(Spend { task, account, .. }) => StoreKeys {
                task: Some(*task),
                account: *account,
                ..StoreKeys::default()
            },
            Self::Tally(TaskTally { task, .. })
            | Self::Enter(EnterState { task, .. })
            | Self::Plan(PlanCall { task, .. })
            | Self::Steer(SteerTask { task, .. }) => StoreKeys {
                task: Some(*task),
                ..StoreKeys::default()
            },
            Self::Hold(ask) => of_hold(ask.key),
            Self::Decide(Decide { key, .. })
            | Self::Extend(ExtendHold { key, .. })
            | Self::Withdraw(Withdraw { key, .. }) => of_hold(*key),
            Self::Edit(edit) => of_hold(edit.key),
            Self::Mint(mint) => StoreKeys {
                hold: mint.allow.as_ref().map(|allow| allow.key),
                grant: Some(Grant::key_of(mint.grant.id)),
                ..StoreKeys::default()
            },
            Self::Revoke(revoke) => StoreKeys {
                grant: Some(Grant::key_of(revoke.id)),
                ..StoreKeys::default()
            },
            Self::AskUndo(ask) => StoreKeys {
                undo: Some(OpenUndo::key_of(ask.of)),
                call: ask.made_by.map(|made_by| made_by.key),
                ..StoreKeys::default()
            },
            Self::Fence { session, .. } => StoreKeys {
                session: Some(*session),
                ..StoreKeys::default()
            },
        }
    }
}
