//! The undo of a call as an operator asks for it, and as operators read of it (003-64).

pub(crate) mod wanted;

use super::claims::{Store, StoreError};
use super::operator::{MAX_RESOLVE_REASON_BYTES, reason, time};
use super::state::claim::{Claim, ClaimPhase};
use super::state::command::{HoldVoid, StoreCommand, Withdraw};
use super::state::hold::DROP_SURFACE;
use super::state::undo::{AskUndo, OpenUndo, UndoBar};
use super::state::{CommandRefusal, StoreKeys};
use super::tasks::Unsteered;
use crate::model::ids::{ActionId, ToolName};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Held calls that are looked at for those of an undo that is dropped.
const MAX_HOLDS_LOOKED_AT: usize = 100_000;

/// What an operator asks for.
#[derive(Debug, Clone)]
pub(crate) struct UndoWord {
    /// The call that is taken back.
    pub of: ActionId,
    /// The operator.
    pub who: String,
    /// The operator's reason.
    pub why: String,
    /// Only show what would be called, and what the gate says of it.
    pub is_dry: bool,
}

/// What an operator says of an undo that was asked for and is not done: by hand, or not at all.
#[derive(Debug, Clone)]
pub(crate) struct DroppedUndo {
    /// The call that is not taken back so.
    pub of: ActionId,
    /// The operator.
    pub who: String,
    /// The operator's reason.
    pub why: String,
}

/// Takes calls back: makes the call that the contract names, through the whole gate.
pub(crate) trait UndoMaker: Send + Sync {
    /// Does what `word` says. What has begun ends, whether anybody waits or not.
    fn undo(self: Arc<Self>, word: UndoWord) -> BoxFuture<'static, Result<UndoReport, NoUndo>>;

    /// The same for the calls of a task.
    fn undo_task(
        self: Arc<Self>,
        word: TaskUndoWord,
    ) -> BoxFuture<'static, Result<TaskUndoReport, NoTaskUndo>>;
}

/// What an operator asks for of a task.
#[derive(Debug, Clone)]
pub(crate) struct TaskUndoWord {
    /// The task's id, or how it begins.
    pub task: String,
    /// The operator.
    pub who: String,
    /// The operator's reason.
    pub why: String,
    /// Only show what would be called, and what the gate says of it.
    pub is_dry: bool,
}

/// What came of the undo of a task, the last call of the task first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TaskUndoReport {
    /// By which the task is named.
    pub task: String,
    /// Its calls, as far as it came.
    pub steps: Vec<TaskUndoStep>,
    /// The call that cannot be taken back, and before which nothing was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<String>,
}

/// What came of one call of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TaskUndoStep {
    /// The call.
    pub action_id: String,
    /// As the state of an undo; `passed` of one that was left as it is, `pivot` of one that ends it.
    pub state: String,
    /// What takes it back: `server__tool`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// The call that takes it back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// What is said of it.
    pub words: String,
}

/// Why nothing of a task is taken back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTaskUndo {
    /// It is not known, or not named.
    #[error(transparent)]
    Task(#[from] Unsteered),
    /// What was said cannot be used.
    #[error("{0}")]
    Unfit(String),
}

/// How an undo stands, or would.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct UndoReport {
    /// The call that is taken back.
    pub action_id: String,
    /// `offered`, `requested`, `running`, `done`, `failed` or `unknown`.
    pub state: String,
    /// What takes it back: `server__tool`.
    pub tool: String,
    /// With which arguments.
    pub arguments: Map<String, Value>,
    /// Until when that can begin, RFC 3339 in UTC.
    pub until: String,
    /// The call that takes it back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// What the gate says of that call: `passed` or `held` where it was only asked, `answered`, `refused`,
    /// `failed` or `unknown`.
    pub verdict: String,
    /// The code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// What a person has to allow first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval_id: Option<String>,
    /// Whether the check of the contract shows that the effect is gone; none where it names none, or nothing
    /// was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verified: Option<bool>,
    /// What the gate or the tool server says, in words.
    pub words: String,
}

/// Why a call is not taken back.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum NoUndo {
    /// Nothing is known of it.
    #[error(
        "nothing that can be taken back is known of {0}: it was a read, was refused, or has ended too long ago; `toolgate ledger \
         show {0}` tells"
    )]
    NoCall(ActionId),
    /// It waits for operators.
    #[error("the call {0} is held and has not run; `toolgate approvals deny {0}` ends it")]
    Held(ActionId),
    /// It is on its way, or waits for answers of its agent.
    #[error("the call is in flight; it can be taken back once it has ended")]
    InFlight,
    /// It may have run.
    #[error(
        "it is not known whether the call {0} has run; say first what became of it: `toolgate calls resolve {0}`"
    )]
    UnknownOutcome(ActionId),
    /// It has not run.
    #[error("the call has not run: it has ended as `{0}`")]
    NotRun(&'static str),
    /// It has run, and nothing takes it back.
    #[error("nothing takes the call of {tool} back: {why}")]
    Nothing {
        /// Its tool.
        tool: ToolName,
        /// What its contract says of that.
        why: String,
    },
    /// It has taken another call back.
    #[error("the call has taken {0} back; what undoes is not undone")]
    IsUndo(ActionId),
    /// It was taken back.
    #[error("the call was taken back already, by {0}")]
    Done(ActionId),
    /// It is taken back right now.
    #[error("the call is taken back right now, by {0}")]
    Running(ActionId),
    /// It may have been taken back.
    #[error(
        "it is not known whether {0} has taken the call back; say first what became of that: `toolgate calls resolve {0}`"
    )]
    Unknown(ActionId),
    /// It could be taken back up to then.
    #[error("the call could be taken back until {0}")]
    Over(String),
    /// What is needed is not there.
    #[error("the call that takes it back cannot be made: {0}")]
    Lacking(String),
    /// No agent may call now what takes it back.
    #[error(
        "{0}, which takes the call back, is taken away: disabled, or frozen by an incident; ask again once it is given back"
    )]
    Away(ToolName),
    /// What was said cannot be used.
    #[error("{0}")]
    Unfit(String),
    /// Its agent has done that.
    #[error("its agent has taken the call back itself already, by the call {0}")]
    DoneByAgent(ActionId),
    /// There is nothing to drop.
    #[error("nothing is asked for that could be dropped")]
    NotAsked,
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NoUndo {
    /// What stops the undo of `of`.
    fn of(bar: UndoBar, of: ActionId) -> Self {
        match bar {
            UndoBar::NotOffered => Self::NoCall(of),
            UndoBar::Running(by) => Self::Running(by),
            UndoBar::Unknown(by) => Self::Unknown(by),
            UndoBar::Done(by) => Self::Done(by),
            UndoBar::DoneByAgent(by) => Self::DoneByAgent(by),
            UndoBar::NotAsked => Self::NotAsked,
            UndoBar::Over(until) => Self::Over(time(until)),
        }
    }

    fn of_claim(claim: &Claim) -> Self {
        if let Some(of) = claim.undoes {
            return Self::IsUndo(of);
        }
        match &claim.phase {
            ClaimPhase::Dispatching | ClaimPhase::AwaitingInput { .. } => Self::InFlight,
            ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned => {
                Self::UnknownOutcome(claim.action)
            }
            ClaimPhase::NotSent | ClaimPhase::Failed { .. } => Self::NotRun(claim.phase.word()),
            ClaimPhase::Completed(_) => Self::Nothing {
                tool: claim.tool.clone(),
                why: "nothing was kept for that; its contract named no call when it ran, or the tool has answered with an error"
                    .to_owned(),
            },
        }
    }
}

/// The undo of `of` as it is known, if one is.
pub(crate) async fn known(store: &dyn Store, of: ActionId) -> Result<Option<OpenUndo>, StoreError> {
    let place = StoreKeys {
        undo: Some(OpenUndo::key_of(of)),
        ..StoreKeys::default()
    };
    let undo = store.load_view(place).await?.undo;
    Ok(undo.filter(|undo| undo.of == of))
}

/// The undo of `of`, which can begin now.
pub(crate) async fn offered(store: &dyn Store, of: ActionId) -> Result<OpenUndo, NoUndo> {
    if let Some(undo) = known(store, of).await? {
        return match undo.bar(store.now()) {
            Some(bar) => Err(NoUndo::of(bar, of)),
            None => Ok(undo),
        };
    }
    if let Some((_, claim)) = store.find(of).await? {
        return Err(NoUndo::of_claim(&claim));
    }
    let hold = store.find_hold(of).await?;
    let is_held = hold.is_some_and(|(_, hold)| hold.is_open(store.now()));
    Err(if is_held {
        NoUndo::Held(of)
    } else {
        NoUndo::NoCall(of)
    })
}

/// Asks for it, durably: from then on it is known who wanted it, and why.
pub(crate) async fn ask(store: &dyn Store, ask: AskUndo) -> Result<(), NoUndo> {
    let of = ask.of;
    match store.run(StoreCommand::AskUndo(ask), None).await? {
        Ok(_) => Ok(()),
        Err(CommandRefusal::NotUndone(bar)) => Err(NoUndo::of(bar, of)),
        Err(_) => Err(NoUndo::NoCall(of)),
    }
}

/// Drops what was asked for, durably: it is as it was offered, and an operator's word says why.
pub(crate) async fn drop_asked(store: &dyn Store, dropped: DroppedUndo) -> Result<(), NoUndo> {
    let DroppedUndo { of, who, why } = dropped;
    let why = reason(&why, MAX_RESOLVE_REASON_BYTES).map_err(NoUndo::Unfit)?;
    // First, so that nothing is left of it that a person could allow should toolgate end here, and again for what was
    // held meanwhile.
    void_held(store, of, &who, &why).await?;
    let dropped = AskUndo {
        of,
        who: who.clone(),
        why: why.clone(),
        caller: None,
        drops: true,
        made_by: None,
    };
    ask(store, dropped).await?;
    void_held(store, of, &who, &why).await?;
    Ok(())
}

/// Voids what is held for the undo of `of`: an operator who asks anew asks a person anew.
async fn void_held(
    store: &dyn Store,
    of: ActionId,
    who: &str,
    why: &str,
) -> Result<(), StoreError> {
    for (key, hold) in store.holds(MAX_HOLDS_LOOKED_AT).await? {
        let undoes = hold.question.undoes.as_ref();
        if undoes.is_none_or(|undoes| undoes.of != of) {
            continue;
        }
        let withdraw = Withdraw {
            key,
            id: hold.id,
            who: who.to_owned(),
            void: Some(HoldVoid {
                surface: DROP_SURFACE,
                why: format!("the undo is dropped: {why}"),
            }),
        };
        // What has begun or is over is not held any more.
        let voided = store.run(StoreCommand::Withdraw(withdraw), None).await?;
        tracing::debug!(%of, id = %hold.id, is_void = voided.is_ok(), "what was held for an undo is looked at");
    }
    Ok(())
}
