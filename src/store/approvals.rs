//! What an operator sees and says of calls that are held (guarantees §7). Who said what and why
//! stands in the journal for good.

mod decision_error;
pub(crate) mod editing;
mod undo_words;
mod views;

pub(crate) use decision_error::DecisionError;
use decision_error::not_theirs;
pub(crate) use views::{DecisionView, EditView};

use super::claims::{Store, StoreError};
use super::operator::{reason, time};
use super::state::command::{Decide, ExtendHold, StoreCommand};
use super::state::event::StoreEvent;
use super::state::hold::{
    Hold, HoldPhase, HoldStatus, MAX_DECISION_REASON_BYTES, OperatorDecision, Undecided,
    hold_status,
};
use super::state::{CommandRefusal, Millis};
use crate::mcp::canonical;
use crate::mcp::json::fold::is_same_name;
use crate::model::absence::DecidingRight;
use crate::model::decision_terms::DecisionTerms;
use crate::model::digest::sha256;
use crate::model::ids::ActionId;
use crate::model::shown_argument::ShownArgument;
use crate::model::taken_back::UndoneCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

mod past;

pub(crate) use past::{past_holds, past_like};

/// Says why nobody's word on that held call counts any more, where that is so.
pub(crate) type VoidJudge = dyn Fn(&Hold) -> Option<&'static str> + Send + Sync;
/// The state of such a hold.
const VOID: &str = "void";
/// Held calls that are listed at once, at most.
pub(crate) const MAX_HOLDS_LISTED: usize = 1000;

/// A held call, as operators read it: all of it is what will run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OpenHold {
    /// The call that asked first; the approval's id.
    pub id: String,
    /// `pending`, `allowed`, `denied`, `used`, `lapsed`, `expired`, `cancelled` or `void`.
    pub state: String,
    /// Why nobody's word counts for it any more, where that is so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub void: Option<String>,
    /// When it asked, RFC 3339 in UTC.
    pub asked: String,
    /// From then on nobody can decide.
    pub approve_by: String,
    /// From then on it does not run any more; only where it was allowed and has not run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub execute_by: Option<String>,
    /// Seconds after the last word that is needed in which it may run.
    #[serde(default)]
    pub execute_within: u64,
    /// Whether an operator has given it more time already, which one may once.
    #[serde(default)]
    pub extended: bool,
    /// Names all that is shown of it and does not change while it waits: who decides may say that it was
    /// this that they were shown.
    #[serde(default)]
    pub shown: String,
    /// The agent.
    pub agent: String,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// The user for whom it asks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// The agent's roles.
    pub caller_roles: Vec<String>,
    /// `server__tool`.
    pub tool: String,
    /// Whole, as they will be sent; references to secrets stay references. None where they are not
    /// for who asks to see.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arguments: Option<Value>,
    /// What the call answers a server that asked in an earlier round, as it will be sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answers: Option<Value>,
    /// What else of the call travels as the agent sent it: `_meta` but for what belongs to each
    /// request, and `task`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside: Option<Value>,
    /// The actions that the contract declares.
    pub actions: Vec<String>,
    /// Does the contract say that it cannot be undone?
    pub irreversible: bool,
    /// How it is undone, in the contract's words (003-52).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo: Option<String>,
    /// Seconds after its end in which toolgate can have it undone; only where a call does that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo_within: Option<u64>,
    /// What the tool is for (003-46).
    pub purpose: String,
    /// What it is not for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_for: Option<String>,
    /// What the call changes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub writes: Option<String>,
    /// The session, as the agent names it. It is not bound to it, nor to the task and the roles: the same
    /// call may bring others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// The task, as the agent names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// The limit of its task's budget that it goes over, if it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub over: Option<String>,
    /// The arguments as the agent sent them, where a rewrite or a hook has changed them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub original: Option<Value>,
    /// What has changed them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changed_by: Vec<String>,
    /// The arguments before operators changed them, where one has.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unedited: Option<Value>,
    /// How operators have changed them, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub edits: Vec<EditView>,
    /// What an operator may do with it, and has to say.
    #[serde(flatten)]
    pub terms: DecisionTerms,
    /// The arguments that matter first, as the contract names them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub show: Vec<ShownArgument>,
    /// Why a person is asked, and where that is written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub because: Option<String>,
    /// What was left of its task's budget when it asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left: Option<String>,
    /// Version of the policy it was judged under.
    pub policy: String,
    /// What of the policy it is bound to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound_to: Option<String>,
    /// SHA-256 of the tool's definition.
    pub schema_hash: String,
    /// How many operators have to allow it.
    pub needed: u32,
    /// Those who have.
    pub allowed_by: Vec<String>,
    /// Operators with one of these roles may decide.
    pub roles: Vec<String>,
    /// Whether an operator may decide who is named like the agent.
    pub self_approval: bool,
    /// The call that it takes back, and the operator who asked for that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undoes: Option<UndoneCall>,
    /// What was said, in its order.
    pub decisions: Vec<DecisionView>,
    /// The call that has begun with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub used_by: Option<String>,
}

/// What an operator says.
#[derive(Debug, Clone)]
pub(crate) struct DecisionRequest {
    /// The operator.
    pub who: String,
    /// By whose right.
    pub right: DecidingRight,
    /// Is it allowed? Otherwise denied.
    pub allow: bool,
    /// The operator's reason.
    pub why: String,
    /// What stands for a reason to allow it where none is said and the contract wants none.
    pub usual: Option<&'static str>,
    /// What names the call as the operator was shown it, where that is said.
    pub shown: Option<String>,
    /// Where it is said.
    pub surface: Option<String>,
}

/// What came of an operator's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DecisionOutcome {
    /// Whether it says anything new.
    pub changed: bool,
    /// As [`OpenHold::state`]; `pending` when more operators have to allow it.
    pub state: String,
    /// How long the call had waited, if this decided.
    #[serde(skip)]
    pub waited: Option<Duration>,
}

impl OpenHold {
    /// Whether an operator of this name with these roles may decide about it.
    pub(crate) fn is_decided_by(&self, name: &str, roles: &[String]) -> bool {
        let operator = self.undoes.iter().map(|undoes| &undoes.who);
        let mut asking = std::iter::once(&self.agent)
            .chain(&self.user)
            .chain(operator);
        let is_itself = asking.any(|known| is_same_name(name, known)) && !self.self_approval;
        !is_itself && roles.iter().any(|role| self.roles.contains(role))
    }

    /// Whether an operator with these roles sees it at all.
    pub(crate) fn is_seen_by(&self, roles: &[String]) -> bool {
        roles.iter().any(|role| self.roles.contains(role))
    }

    /// Without what the agent says in the call.
    #[must_use]
    pub(crate) fn concealed(self) -> Self {
        Self {
            arguments: None,
            answers: None,
            beside: None,
            original: None,
            unedited: None,
            ..self
        }
    }

    fn of(hold: &Hold, now: Millis, void: &VoidJudge) -> Self {
        let void = why_void(void, hold, now);
        let word = void.as_ref().map_or_else(|| state(hold, now), |_| VOID);
        let (asked, question) = (time(hold.asked), hold.question.clone());
        let is_allowed = hold.phase == HoldPhase::Allowed;
        let shown = Self {
            id: hold.id.to_string(),
            state: word.to_owned(),
            void,
            asked,
            approve_by: time(hold.approve_by),
            execute_by: is_allowed.then(|| time(hold.ends())),
            execute_within: hold.execute_for / 1000,
            extended: hold.extended_by.is_some(),
            shown: String::new(),
            agent: question.agent,
            tenant: question.tenant,
            user: question.user,
            caller_roles: question.caller_roles,
            tool: question.tool.to_string(),
            arguments: Some(question.arguments),
            answers: question.answers,
            beside: question.beside,
            actions: question.actions,
            irreversible: question.irreversible,
            undo: question.undo,
            undo_within: question.undo_within,
            purpose: question.purpose,
            not_for: question.not_for,
            writes: question.writes,
            session: question.session,
            task: question.task,
            over: question.over,
            original: question.original,
            changed_by: question.changed_by,
            unedited: question.unedited,
            edits: hold.edits.iter().map(EditView::of).collect(),
            terms: question.terms,
            show: question.show,
            because: question.because,
            left: question.left,
            policy: question.policy,
            bound_to: question.bound_to,
            schema_hash: question.schema_hash,
            needed: hold.needed,
            allowed_by: hold.allowed_by().map(str::to_owned).collect(),
            roles: hold.roles.clone(),
            self_approval: hold.self_approval,
            undoes: question.undoes,
            decisions: hold.decisions.iter().map(DecisionView::of).collect(),
            used_by: if let HoldPhase::Used { action, .. } = &hold.phase {
                Some(action.to_string())
            } else {
                None
            },
        };
        let digest = shown.digest();
        Self {
            shown: digest,
            ..shown
        }
    }

    /// Over all of it that does not change while it waits.
    fn digest(&self) -> String {
        let lasting = Self {
            state: String::new(),
            approve_by: String::new(),
            execute_by: None,
            extended: false,
            allowed_by: Vec::new(),
            decisions: Vec::new(),
            used_by: None,
            ..self.clone()
        };
        let value = serde_json::to_value(&lasting).unwrap_or_default();
        format!("sha256:{}", sha256(&canonical::exact(&value)))
    }
}

/// How a held call stands, in a word.
fn state(hold: &Hold, now: Millis) -> &'static str {
    match (hold_status(Some(hold), now), &hold.phase) {
        (HoldStatus::Lapsed { .. }, _) => "lapsed",
        (HoldStatus::TimedOut, _)
        | (HoldStatus::Absent, HoldPhase::Pending | HoldPhase::Allowed) => "expired",
        (_, HoldPhase::Withdrawn) if voided(hold).is_some() => VOID,
        (_, phase) => phase.word(),
    }
}

/// What an incident has ended it with, or who has dropped the undo, if one has.
fn voided(hold: &Hold) -> Option<&OperatorDecision> {
    let last = hold.decisions.last();
    last.filter(|last| last.is_void())
}

/// Why nobody's word on `hold` counts, though nobody has denied it and its time is not over.
pub(crate) fn why_void(void: &VoidJudge, hold: &Hold, now: Millis) -> Option<String> {
    match state(hold, now) {
        "pending" | "allowed" => void(hold).map(str::to_owned),
        VOID => voided(hold).map(|said| said.why.clone()),
        _ => None,
    }
}

/// Up to [`MAX_HOLDS_LISTED`] held calls that operators can decide, or that may still run; the oldest first.
pub(crate) async fn open_holds(
    store: &dyn Store,
    void: &VoidJudge,
) -> Result<Vec<OpenHold>, StoreError> {
    let now = store.now();
    let holds = store.holds(MAX_HOLDS_LISTED).await?;
    let open = holds.iter().filter(|(_, hold)| {
        hold.is_waiting(now) || hold_status(Some(hold), now) == HoldStatus::Allowed
    });
    Ok(open
        .map(|(_, hold)| OpenHold::of(hold, now, void))
        .collect())
}

/// The held call `id`, for as long as it is known.
pub(crate) async fn show(
    store: &dyn Store,
    void: &VoidJudge,
    id: ActionId,
) -> Result<Option<OpenHold>, StoreError> {
    let found = store.find_hold(id).await?;
    Ok(found.map(|(_, hold)| OpenHold::of(&hold, store.now(), void)))
}

/// Waits until the held call `id` is not pending any more, or is not known.
pub(crate) async fn decided(store: &dyn Store, id: ActionId) -> Result<(), StoreError> {
    while let Some((key, hold)) = store.find_hold(id).await? {
        if !hold.is_waiting(store.now()) {
            break;
        }
        // Time alone wakes nobody.
        let left = Duration::from_millis(hold.approve_by.saturating_sub(store.now()));
        let _ = tokio::time::timeout(left, store.decided(key)).await;
    }
    Ok(())
}

/// Whether a call that waits is the one that an operator was shown, where that is said.
pub(crate) fn as_shown(hold: &OpenHold, shown: Option<&str>) -> Result<(), DecisionError> {
    if shown.is_some_and(|shown| shown != hold.shown) && hold.state == "pending" {
        return Err(DecisionError::Changed);
    }
    Ok(())
}

/// Counts what an operator says of the held call `id`, durably.
pub(crate) async fn decide(
    store: &dyn Store,
    void: &VoidJudge,
    id: ActionId,
    said: DecisionRequest,
) -> Result<DecisionOutcome, DecisionError> {
    let DecisionRequest {
        who,
        right,
        allow,
        why,
        usual,
        shown,
        surface,
    } = said;
    let (key, hold) = store.find_hold(id).await?.ok_or(DecisionError::Gone(id))?;
    let usual = usual.filter(|_| allow && why.is_empty() && !hold.question.terms.needs_why);
    let why = reason(usual.unwrap_or(&why), MAX_DECISION_REASON_BYTES);
    let why = why.map_err(DecisionError::Unfit)?;
    let now = store.now();
    as_shown(&OpenHold::of(&hold, now, void), shown.as_deref())?;
    // It does not run, whatever the operator says.
    if let Some(why) = why_void(void, &hold, now) {
        return Err(too_late(&hold, &who, why));
    }
    let is_open = hold_status(Some(&hold), now) == HoldStatus::Pending;
    if is_open && allow && shown.is_none() && !hold.edits.is_empty() {
        return Err(DecisionError::Unshown);
    }
    let on_behalf = right.on_behalf.clone();
    let decide = Decide {
        key,
        id,
        who: who.clone(),
        right,
        allow,
        why,
        surface,
        edits: hold.edits.len(),
    };
    match store.run(StoreCommand::Decide(decide), None).await? {
        Ok(StoreEvent::Decided(decided)) => {
            let state = decided.phase.word().to_owned();
            tracing::info!(%id, tool = %hold.question.tool, who, allow, state, "an operator has decided on a held call");
            let waited = Duration::from_millis(decided.decision.at.saturating_sub(hold.asked));
            Ok(DecisionOutcome {
                changed: true,
                state,
                waited: (!matches!(decided.phase, HoldPhase::Pending)).then_some(waited),
            })
        }
        Err(CommandRefusal::Undecided(Undecided::Same)) => unchanged(store, id).await,
        Err(CommandRefusal::Undecided(Undecided::NotYours)) => {
            Err(not_theirs(store, &hold, on_behalf.iter().chain([&who])).await?)
        }
        Err(CommandRefusal::Undecided(Undecided::Other { allowed })) => {
            Err(DecisionError::Other { allowed })
        }
        Err(CommandRefusal::Undecided(Undecided::Edited)) => Err(DecisionError::Changed),
        Ok(_) | Err(_) => Err(DecisionError::Gone(id)),
    }
}

/// The refusal of a word of `who` on a call that is void; told in the log, too.
fn too_late(hold: &Hold, who: &str, why: String) -> DecisionError {
    let (id, tool) = (hold.id, &hold.question.tool);
    tracing::info!(%id, %tool, who, why, "an operator's word on a held call comes too late: it is void");
    DecisionError::Void(why)
}

/// How the held call `id` stands, of which an operator has said nothing new.
async fn unchanged(store: &dyn Store, id: ActionId) -> Result<DecisionOutcome, DecisionError> {
    let (_, hold) = store.find_hold(id).await?.ok_or(DecisionError::Gone(id))?;
    Ok(DecisionOutcome {
        changed: false,
        state: state(&hold, store.now()).to_owned(),
        waited: None,
    })
}

/// An operator who gives a held call more time.
#[derive(Debug, Clone)]
pub(crate) struct ExtensionRequest {
    /// The operator.
    pub who: String,
    /// The roles by which the operator sees it.
    pub roles: Vec<String>,
    /// The operator's reason, which is no must.
    pub why: Option<String>,
}

/// Gives the held call `id` as much time again as it had, durably; until when, RFC 3339 in UTC.
pub(crate) async fn extend(
    store: &dyn Store,
    void: &VoidJudge,
    id: ActionId,
    asked: ExtensionRequest,
) -> Result<String, DecisionError> {
    let ExtensionRequest { who, roles, why } = asked;
    let why = why.map(|why| reason(&why, MAX_DECISION_REASON_BYTES));
    let why = why.transpose().map_err(DecisionError::Unfit)?;
    let (key, hold) = store.find_hold(id).await?.ok_or(DecisionError::Gone(id))?;
    // Time is of no use to what cannot run.
    if let Some(why) = why_void(void, &hold, store.now()) {
        return Err(DecisionError::Void(why));
    }
    let is_itself = hold.question.is_asked_by(&who) && !hold.self_approval;
    let extend = ExtendHold {
        key,
        id,
        who,
        roles,
        why,
    };
    match store.run(StoreCommand::Extend(extend), None).await? {
        Ok(StoreEvent::Extended(extended)) => Ok(time(extended.approve_by)),
        Err(CommandRefusal::Undecided(Undecided::Same)) => Err(DecisionError::Extended),
        Err(CommandRefusal::Undecided(Undecided::NotYours)) => Err(DecisionError::NotYours {
            roles: hold.roles,
            is_itself,
        }),
        Ok(_) | Err(_) => Err(DecisionError::Gone(id)),
    }
}

#[cfg(test)]
mod tests;
