//! What happened, as the journal keeps it: one JSON object on a line, then the bytes of an answer
//! or of a held call's arguments, where there are any.

mod note;
mod people;
mod shown;

use super::account::AccountShare;
use super::budget::{Rate, SeenCall, TaskUsage};
use super::claim::inquiry::Inquiry;
use super::claim::{Claim, ClaimPhase};
use super::fence::SessionFence;
use super::grant::{Grant, GrantRevoked, GrantUse};
use super::hold::Hold;
use super::kinship::Kinship;
use super::settlement::{Charge, Evidence};
use super::tally::ReadTally;
use super::undo::{OpenUndo, UndoAsked, UndoChange, UndoTerms};
use super::{Millis, StoreKeys};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use crate::model::task::{TaskOrigin, TaskState};
use bytes::Bytes;
pub(crate) use note::{IncidentStep, Note, Noted, PolicyRolledBack};
pub(crate) use people::{CallHeld, GrantMinted, HoldDecided, HoldEdited, HoldExtended};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreEvent {
    /// A key was claimed; the call may be sent from now on.
    Intended(Box<Intended>),
    /// It is known what became of a claim.
    Settled(Settled),
    /// A call without a claim took its part of a budget.
    Reserved(BudgetReserved),
    /// It is known what became of a call without a claim.
    Spent(BudgetSettled),
    /// Reads that took no part of a budget came to their ends.
    Tallied(ReadsTallied),
    /// A task came to another state.
    Entered {
        /// The task.
        task: Digest,
        /// Where it is.
        state: TaskState,
        /// Whose it is, if it began with that.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        begins: Option<TaskOrigin>,
        /// When.
        at: Millis,
    },
    /// A task has planned a call.
    Planned {
        /// The task.
        task: Digest,
        /// Tool and arguments.
        call: Digest,
        /// Whose it is, if it began with that.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        begins: Option<TaskOrigin>,
        /// When.
        at: Millis,
    },
    /// An operator has stopped a task, or given it its budget back.
    Steered(TaskSteered),
    /// A session's older tokens became stale.
    Fenced {
        /// The session.
        session: Digest,
        /// The newest token that is stale.
        token: u64,
        /// When.
        at: Millis,
    },
    /// A call is held until operators decide.
    Held(Box<CallHeld>),
    /// An operator decided on a held call.
    Decided(HoldDecided),
    /// An operator changed the arguments of a held call.
    Edited(Box<HoldEdited>),
    /// An operator gave a held call more time.
    Extended(HoldExtended),
    /// An operator has granted calls like one.
    Granted(Box<GrantMinted>),
    /// An operator has taken that back.
    Revoked(GrantRevoked),
    /// An operator has asked for the undo of a call.
    UndoAsked(UndoAsked),
    /// What was known when the events that made it were dropped.
    Carried(Carried),
    /// Something that changes no call, task or session, and is to be found again.
    Noted(Noted),
}

/// An operator's word on a task (003-09).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSteered {
    /// The task.
    pub task: Digest,
    /// What was done.
    pub act: TaskAct,
    /// The operator.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Millis,
}

/// What an operator makes of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskAct {
    /// Its next calls are refused, until it is reset.
    Stop,
    /// It has used nothing, and is not stopped.
    Reset,
}

/// One thing as it was known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carried {
    /// A claim.
    Claim(Digest, Box<Claim>),
    /// A task.
    Task(Digest, Box<TaskUsage>),
    /// A session.
    Session(Digest, SessionFence),
    /// A held call.
    Hold(Digest, Box<Hold>),
    /// A standing grant.
    Grant(Digest, Box<Grant>),
    /// An undo.
    Undo(Digest, Box<OpenUndo>),
}

impl Carried {
    /// The newest fencing token, as that of a session which nobody has.
    pub fn newest(token: u64, at: Millis) -> Self {
        Self::Session(
            Digest::of_parts("newest fencing token", &[]),
            SessionFence { token, at },
        )
    }

    /// What it is about.
    fn place(&self) -> StoreKeys {
        let mut keys = StoreKeys::default();
        match self {
            Self::Claim(key, _) => keys.call = Some(*key),
            Self::Task(key, _) => keys.task = Some(*key),
            Self::Session(key, _) => keys.session = Some(*key),
            Self::Hold(key, _) => keys.hold = Some(*key),
            Self::Grant(key, _) => keys.grant = Some(*key),
            Self::Undo(key, _) => keys.undo = Some(*key),
        }
        keys
    }
}

/// A claim begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intended {
    /// The call key.
    pub key: Digest,
    /// SHA-256 over (server, tool, final arguments).
    pub fingerprint: Digest,
    /// The call.
    pub action: ActionId,
    /// From 1.
    pub attempt: u32,
    /// Which round of input it brings; 0 for none.
    pub round: u32,
    /// SHA-256 of the input it brings.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub brought: Option<Digest>,
    /// When.
    pub at: Millis,
    /// Milliseconds it is replayed after its end.
    pub ttl: u64,
    /// Milliseconds its key stays used after that.
    pub keep: u64,
    /// Who pays.
    pub task: Digest,
    /// The account that pays beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account: Option<AccountShare>,
    /// Whose fence.
    pub session: Digest,
    /// The token.
    pub fence: u64,
    /// The key under which the call was held and allowed, if it was: it is used up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hold: Option<Digest>,
    /// The hold under which an operator changed its arguments, if one has.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub edited: Option<ActionId>,
    /// What it took of the standing grant that covers it, if one does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grant: Option<GrantUse>,
    /// Reserved, in millionths.
    pub cost: u64,
    /// Milliseconds it takes up of its tool's rate, in records from before rates were counted in a
    /// window; else 0.
    #[serde(default)]
    pub rate: u64,
    /// The rate that it counts for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window: Option<Rate>,
    /// Whose the task is, if it began with this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub begins: Option<TaskOrigin>,
    /// What it counts as, where that is not its tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counted: Option<ToolName>,
    /// What the ledger knows so far.
    pub entry: Entry,
    /// Which other calls it equals, and which of them it is not.
    #[serde(skip_serializing_if = "Kinship::is_empty", default)]
    pub kinship: Kinship,
    /// How it can be found out what became of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inquiry: Option<Box<Inquiry>>,
    /// How the call is taken back, where another call does that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo: Option<Box<UndoTerms>>,
    /// The call that it takes back, if it takes one back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undoes: Option<ActionId>,
    /// As [`PossibleUndo::call`](super::claim::PossibleUndo::call), where it may be one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub may_undo: Option<Digest>,
}

/// A claim comes to another phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// The call key.
    pub key: Digest,
    /// The call.
    pub action: ActionId,
    /// Who pays.
    pub task: Digest,
    /// The account that pays beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account: Option<Digest>,
    /// Whose fence.
    pub session: Digest,
    /// When.
    pub at: Millis,
    /// What it became.
    pub phase: ClaimPhase,
    /// How we know.
    pub evidence: Evidence,
    /// What becomes of the reservation.
    pub charge: Charge,
    /// What its standing grant has again, as nothing ran.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grant: Option<GrantUse>,
    /// Did it count as a failure?
    pub failed: bool,
    /// For the loop detector.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seen: Option<SeenCall>,
    /// What it makes of an undo.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo: Option<Box<UndoChange>>,
}

/// A reservation without a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReserved {
    /// Who pays.
    pub task: Digest,
    /// The account that pays beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account: Option<AccountShare>,
    /// `server__tool`.
    pub tool: ToolName,
    /// In millionths.
    pub cost: u64,
    /// Milliseconds it takes up of its tool's rate, in records from before rates were counted in a
    /// window; else 0.
    #[serde(default)]
    pub rate: u64,
    /// The rate that it counts for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window: Option<Rate>,
    /// Whose the task is, if it began with this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub begins: Option<TaskOrigin>,
    /// The key under which the call was held and allowed, if it was, and the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hold: Option<(Digest, ActionId)>,
    /// When.
    pub at: Millis,
}

/// The end of a call without a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetSettled {
    /// Who pays.
    pub task: Digest,
    /// The account that pays beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account: Option<Digest>,
    /// `server__tool`.
    pub tool: ToolName,
    /// What was reserved, and what becomes of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub charge: Option<(u64, Charge)>,
    /// Did it count as a failure?
    pub failed: bool,
    /// For the loop detector.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seen: Option<SeenCall>,
    /// Since when it was reserved; none in records from before tasks began anew.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<Millis>,
    /// Was it refused, and nothing reserved? Its task is not idle.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_refused: bool,
    /// Is it of a call that has ended before?
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_past: bool,
    /// When.
    pub at: Millis,
}

/// Reads of a task are counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadsTallied {
    /// Whose they are.
    pub task: Digest,
    /// The reads.
    pub reads: ReadTally,
    /// Whose the task is, if it began with these.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub begins: Option<TaskOrigin>,
    /// When the first of them ended.
    pub since: Millis,
    /// When the last of them had.
    pub at: Millis,
}

impl Intended {
    /// What the call counts as in its task.
    pub fn counted(&self) -> &str {
        self.counted
            .as_ref()
            .map_or(&self.entry.tool, ToolName::as_str)
    }
}

/// What is about a held call.
fn of_hold(key: Digest) -> StoreKeys {
    StoreKeys {
        hold: Some(key),
        ..StoreKeys::default()
    }
}

impl StoreEvent {
    /// What it is about.
    pub fn place(&self) -> StoreKeys {
        match self {
            Self::Intended(intended) => StoreKeys {
                call: Some(intended.key),
                task: Some(intended.task),
                account: intended.account.as_ref().map(|account| account.key),
                session: Some(intended.session),
                hold: intended.hold,
                grant: intended.grant.map(|used| used.key),
                undo: intended.undoes.map(OpenUndo::key_of),
            },
            Self::Settled(settled) => StoreKeys {
                call: Some(settled.key),
                task: Some(settled.task),
                account: settled.account,
                grant: settled.grant.map(|used| used.key),
                undo: settled.undo.as_deref().map(UndoChange::key),
                ..StoreKeys::default()
            },
            Self::Reserved(reserved) => StoreKeys {
                task: Some(reserved.task),
                account: reserved.account.as_ref().map(|account| account.key),
                hold: reserved.hold.map(|(key, _)| key),
                ..StoreKeys::default()
            },
            Self::Spent(BudgetSettled { task, account, .. }) => StoreKeys {
                task: Some(*task),
                account: *account,
                ..StoreKeys::default()
            },
            Self::Tallied(ReadsTallied { task, .. })
            | Self::Entered { task, .. }
            | Self::Planned { task, .. }
            | Self::Steered(TaskSteered { task, .. }) => StoreKeys {
                task: Some(*task),
                ..StoreKeys::default()
            },
            Self::Fenced { session, .. } => StoreKeys {
                session: Some(*session),
                ..StoreKeys::default()
            },
            Self::Held(held) => of_hold(held.key),
            Self::Edited(edited) => of_hold(edited.key),
            Self::Decided(HoldDecided { key, .. }) | Self::Extended(HoldExtended { key, .. }) => {
                of_hold(*key)
            }
            Self::Granted(minted) => StoreKeys {
                hold: minted.allowed.as_ref().map(|allowed| allowed.key),
                grant: Some(Grant::key_of(minted.grant.id)),
                ..StoreKeys::default()
            },
            Self::Revoked(GrantRevoked { id, .. }) => StoreKeys {
                grant: Some(Grant::key_of(*id)),
                ..StoreKeys::default()
            },
            Self::UndoAsked(asked) => asked.place(),
            Self::Carried(carried) => carried.place(),
            Self::Noted(_) => StoreKeys::default(),
        }
    }

    /// When it happened.
    pub fn at(&self) -> Millis {
        match self {
            Self::Intended(intended) => intended.at,
            Self::Settled(settled) => settled.at,
            Self::Reserved(reserved) => reserved.at,
            Self::Spent(spent) => spent.at,
            Self::Tallied(tallied) => tallied.at,
            Self::Fenced { at, .. } | Self::Entered { at, .. } | Self::Planned { at, .. } => *at,
            Self::Steered(steered) => steered.at,
            Self::Carried(Carried::Claim(_, claim)) => claim.changed,
            Self::Carried(Carried::Task(_, task)) => task.last,
            Self::Carried(Carried::Session(_, session)) => session.at,
            Self::Carried(Carried::Hold(_, hold)) => hold.changed(),
            Self::Carried(Carried::Grant(_, grant)) => grant.changed(),
            Self::Carried(Carried::Undo(_, undo)) => undo.changed,
            Self::UndoAsked(asked) => asked.asked.at,
            Self::Granted(minted) => minted.grant.minted,
            Self::Revoked(revoked) => revoked.revoked.at,
            Self::Held(held) => held.hold.asked,
            Self::Decided(decided) => decided.decision.at,
            Self::Edited(edited) => edited.edit.at,
            Self::Extended(extended) => extended.at,
            Self::Noted(noted) => noted.at,
        }
    }

    /// As the journal keeps it.
    pub fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let body = match self {
            Self::Settled(settled) => settled.phase.stored().map(|stored| &*stored.body),
            Self::Carried(Carried::Claim(_, claim)) => {
                claim.phase.stored().map(|stored| &*stored.body)
            }
            Self::Held(held) => return encode(self, &held.hold.question.body()?),
            Self::Carried(Carried::Hold(_, hold)) => return encode(self, &hold.question.body()?),
            Self::Edited(edited) => return encode(self, &serde_json::to_vec(&edited.arguments)?),
            Self::Granted(minted) => return encode(self, &minted.grant.body()?),
            Self::Carried(Carried::Grant(_, grant)) => return encode(self, &grant.body()?),
            Self::Intended(_)
            | Self::Reserved(_)
            | Self::Spent(_)
            | Self::Tallied(_)
            | Self::Entered { .. }
            | Self::Planned { .. }
            | Self::Steered(_)
            | Self::Fenced { .. }
            | Self::Decided(_)
            | Self::Extended(_)
            | Self::Revoked(_)
            | Self::UndoAsked(_)
            | Self::Carried(_)
            | Self::Noted(_) => None,
        };
        encode(self, body.unwrap_or_default())
    }

    /// Reads what `Self::encode` wrote.
    pub fn decode(record: &Bytes) -> serde_json::Result<Self> {
        let (mut event, body): (Self, _) = decode(record)?;
        match &mut event {
            Self::Settled(settled) => fill(&mut settled.phase, body),
            Self::Carried(Carried::Claim(_, claim)) => fill(&mut claim.phase, body),
            Self::Held(held) => held.hold.question.fill(body)?,
            Self::Carried(Carried::Hold(_, hold)) => hold.question.fill(body)?,
            Self::Edited(edited) => edited.fill(body)?,
            Self::Granted(minted) => minted.grant.fill(body)?,
            Self::Carried(Carried::Grant(_, grant)) => grant.fill(body)?,
            Self::Intended(_)
            | Self::Reserved(_)
            | Self::Spent(_)
            | Self::Tallied(_)
            | Self::Entered { .. }
            | Self::Planned { .. }
            | Self::Steered(_)
            | Self::Fenced { .. }
            | Self::Decided(_)
            | Self::Extended(_)
            | Self::Revoked(_)
            | Self::UndoAsked(_)
            | Self::Carried(_)
            | Self::Noted(_) => {}
        }
        Ok(event)
    }
}

/// `head` on a line, then `body` as it is.
pub(crate) fn encode(head: &impl Serialize, body: &[u8]) -> serde_json::Result<Vec<u8>> {
    // Few heads are longer; memory that grows is copied.
    let mut record = Vec::with_capacity(2048 + body.len());
    serde_json::to_writer(&mut record, head)?;
    record.push(b'\n');
    record.extend_from_slice(body);
    Ok(record)
}

/// Reads what [`encode`] wrote. We wrote it, but any process that can write to the file could have
/// written it since.
pub(crate) fn decode<T: DeserializeOwned>(record: &Bytes) -> serde_json::Result<(T, Bytes)> {
    let end = record
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(record.len());
    let head =
        Text::read(record.slice(..end), &SERVER_JSON_LIMITS).map_err(serde::de::Error::custom)?;
    Ok((head.parse()?, record.slice((end + 1).min(record.len())..)))
}

/// Puts an answer's bytes where they belong.
pub(crate) fn fill(phase: &mut ClaimPhase, body: Bytes) {
    if let Some(stored) = phase.stored_mut().filter(|stored| !stored.in_file) {
        stored.body = body;
    }
}
