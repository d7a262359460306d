//! A held call (guarantees §7): it needs a person, and runs once, with exactly what was allowed, or
//! not at all.

use super::Millis;
use crate::mcp::canonical;
use crate::mcp::json::fold::is_same_name;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::absence::DecidingRight;
use crate::model::argument_edit::{ArgumentEdit, EditedArguments};
use crate::model::decision_terms::DecisionTerms;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use crate::model::refusal::people::EXPIRED_HOLD_GRACE_MS;
use crate::model::shown_argument::ShownArgument;
use crate::model::taken_back::UndoneCall;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bytes of arguments and what travels with them, as JSON, that can be held: what an operator
/// allows is seen whole, so that more is refused, never cut. With it a hold fits a value of the
/// index (guarantees §8).
pub const MAX_HELD_ARGUMENTS_BYTES: usize = 16 << 10;
/// Bytes, as JSON, of a request that is kept with a hold, beside the arguments that are.
pub const MAX_KEPT_REQUEST_BYTES: usize = 3 << 10;
/// How often the arguments of a held call can be changed.
pub const MAX_HOLD_EDITS: usize = 8;
/// Where it is said that an incident voids a hold.
pub const INCIDENT_SURFACE: &str = "incident";
/// Where it is said that an undo is dropped, which voids what is held for it.
pub const DROP_SURFACE: &str = "drop";
/// Bytes that an operator's reason may have.
pub const MAX_DECISION_REASON_BYTES: usize = 500;

/// A call that is held until an operator decides. Its key is a digest over what the decision is
/// bound to, made by the gate, which holds the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// The call that asked first; the approval's id for everybody.
    pub id: ActionId,
    /// When it asked.
    pub asked: Millis,
    /// From then on nobody can decide.
    pub approve_by: Millis,
    /// Milliseconds after the last decision that was needed in which the call may run.
    pub execute_for: u64,
    /// How many operators have to allow it, 1 to 5; each counts once.
    pub needed: u32,
    /// An operator with one of these roles may decide; without any, nobody.
    pub roles: Vec<String>,
    /// May an operator decide who is named like the agent?
    pub self_approval: bool,
    /// What is asked.
    pub question: HoldQuestion,
    /// What was said, in its order; since the last change of its arguments, where there was one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub decisions: Vec<OperatorDecision>,
    /// How operators have changed its arguments, in their order; at most [`MAX_HOLD_EDITS`].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub edits: Vec<OperatorEdit>,
    /// The operator who gave it more time, which one may, once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub extended_by: Option<String>,
    /// What came of it.
    pub phase: HoldPhase,
}

/// What an operator is shown: all of it is what will run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldQuestion {
    /// Who calls.
    pub agent: String,
    /// Of which tenant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// For which user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// The caller's roles.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub caller_roles: Vec<String>,
    /// `server__tool`.
    pub tool: ToolName,
    /// As they will be sent, with references to secrets as references; at most [`MAX_HELD_ARGUMENTS_BYTES`] bytes
    /// as JSON. Records keep them behind the line that says everything else, so that who reads
    /// events reads no arguments.
    #[serde(skip)]
    pub arguments: Value,
    /// What it brings a server that asked in an earlier round: `inputResponses` and
    /// `requestState`, as they will be sent. Kept as the arguments are, and counted with them.
    #[serde(skip)]
    pub answers: Option<Value>,
    /// What else of it travels: `_meta` but for what belongs to each request, and `task`. Kept and
    /// counted likewise.
    #[serde(skip)]
    pub beside: Option<Value>,
    /// JSON pointers to arguments that people may be told of elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notify: Vec<String>,
    /// The actions that the contract declares.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub actions: Vec<String>,
    /// Does the contract say that it cannot be undone?
    pub irreversible: bool,
    /// How it is undone, in the contract's words (003-52).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo: Option<String>,
    /// Seconds after its end in which toolgate can have it undone, by a call; none where no call does, and in
    /// records from before that was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo_within: Option<u64>,
    /// What the tool is for, in its contract's words (003-46).
    pub purpose: String,
    /// What it is not for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_for: Option<String>,
    /// What a call changes, in the contract's words (003-63).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub writes: Option<String>,
    /// The session, as the agent names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// The task, as the agent names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// The limit of its task's budget that it goes over, if it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub over: Option<String>,
    /// What the arguments were as the agent sent them, where a rewrite or a hook has changed them. Kept as the
    /// arguments are.
    #[serde(skip)]
    pub original: Option<Value>,
    /// What has changed them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changed_by: Vec<String>,
    /// What the arguments were before an operator changed them, if one has. Kept as the arguments are.
    #[serde(skip)]
    pub unedited: Option<Value>,
    /// How operators decide about it.
    #[serde(skip_serializing_if = "DecisionTerms::are_usual", default)]
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
    /// What of the policy it is bound to, in hex; none in records from before it was bound to its
    /// tool's contract.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound_to: Option<String>,
    /// SHA-256 of the tool's definition, in hex.
    pub schema_hash: String,
    /// The call that it takes back, and who asked for that, where it takes one back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undoes: Option<UndoneCall>,
    /// Is it the definition that the tool has in the agent's own sessions? There it may be another one
    /// than toolgate itself is told.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub own_definition: bool,
    /// The request as its agent sent it, but for the arguments that are kept here already, where toolgate sends it
    /// again for a task of the agent's; at most [`MAX_KEPT_REQUEST_BYTES`] bytes. Kept as the arguments are.
    #[serde(skip)]
    pub request: Option<Value>,
}

/// What held calls of one tool and one agent of a tenant have in common.
pub fn hold_kind(tool: &str, agent: &str, tenant: Option<&str>) -> Digest {
    let (has_tenant, tenant) = ([u8::from(tenant.is_some())], tenant.unwrap_or_default());
    let parts: [&[u8]; 4] = [
        tool.as_bytes(),
        agent.as_bytes(),
        &has_tenant,
        tenant.as_bytes(),
    ];
    Digest::of_parts("held calls of one kind", &parts)
}

impl HoldQuestion {
    /// The arguments as the agent sent them, but for what was taken off before they were judged: before a
    /// rewrite or hook, and before operators changed them.
    pub fn as_sent(&self) -> &Value {
        let before = self.original.as_ref().or(self.unedited.as_ref());
        before.unwrap_or(&self.arguments)
    }

    /// What it has in common with others, by [`hold_kind`].
    pub fn kind(&self) -> Digest {
        hold_kind(self.tool.as_str(), &self.agent, self.tenant.as_deref())
    }

    /// Whether `who` is the name of the agent that asks, of the user for whom it does, or of the operator
    /// who asks for an undo.
    pub fn is_asked_by(&self, who: &str) -> bool {
        let mut operator = self.undoes.iter().map(|undoes| &undoes.who);
        self.is_of(who) || operator.any(|name| is_same_name(who, name))
    }

    /// Whether `who` is the name of the agent that asks, or of the user for whom it does.
    pub fn is_of(&self, who: &str) -> bool {
        let mut asking = std::iter::once(&self.agent).chain(&self.user);
        asking.any(|name| is_same_name(who, name))
    }
}

/// What one operator said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorDecision {
    /// The operator.
    pub who: String,
    /// The operator who was away, and for whom it was said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_behalf: Option<String>,
    /// Was it allowed? Otherwise denied.
    pub allow: bool,
    /// The operator's reason, 1 to [`MAX_DECISION_REASON_BYTES`] bytes.
    pub why: String,
    /// Where it was said: `page`, `api`, `incident` or `drop`; none in records from before that was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub surface: Option<String>,
    /// When.
    pub at: Millis,
}

/// How one operator changed the arguments of a held call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorEdit {
    /// The operator.
    pub who: String,
    /// The operator who was away, and for whom it was done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_behalf: Option<String>,
    /// The operator's reason, 1 to [`MAX_DECISION_REASON_BYTES`] bytes.
    pub why: String,
    /// Where it was done: `page` or `api`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub surface: Option<String>,
    /// JSON pointers to what was changed.
    pub pointers: Vec<String>,
    /// The operators who had allowed the call as it was: their words count no more.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub voided: Vec<String>,
    /// When.
    pub at: Millis,
}

/// Which arguments a call carries that was held, where an operator has changed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditedCall {
    /// The hold.
    pub hold: ActionId,
    /// A digest over the arguments as they are now.
    pub arguments: Digest,
}

/// What came of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldPhase {
    /// Too few have allowed it so far, and nobody has denied it.
    Pending,
    /// The call may run once.
    Allowed,
    /// The call may not run.
    Denied,
    /// The agent wants it no more, or an incident has voided it: it may not run, and who asks again asks
    /// anew.
    Withdrawn,
    /// A call has begun with it.
    Used {
        /// The call, which need not be the one that asked.
        action: ActionId,
        /// When.
        at: Millis,
        /// What it claimed.
        #[serde(skip_serializing_if = "UsedClaim::is_unsaid", default)]
        claim: UsedClaim,
    },
}

/// Where the outcome of a call stands that has begun with a hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsedClaim {
    /// It is not said: the record is from before it was.
    #[default]
    Unsaid,
    /// Nowhere: the call claimed nothing.
    Nothing,
    /// Under this key.
    Key(Digest),
}

impl UsedClaim {
    fn is_unsaid(&self) -> bool {
        *self == Self::Unsaid
    }
}

/// How a hold stands for a call that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldStatus {
    /// Nothing is held, or not any more: it has to be asked.
    Absent,
    /// It waits for operators.
    Pending,
    /// It may run.
    Allowed,
    /// It may not run.
    Denied {
        /// The operator who said so.
        who: String,
        /// Why.
        why: String,
    },
    /// Nobody decided in time, which means no.
    TimedOut,
    /// It was allowed, and did not run in time.
    Lapsed {
        /// The operators who allowed it.
        by: Vec<String>,
        /// Until when it could run.
        until: Millis,
    },
}

/// Why an operator's word changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// No such hold, or not any more; who asks is not told which.
    Gone,
    /// Not this operator's to decide.
    NotYours,
    /// This operator has said so already, or it is decided so already.
    Same,
    /// Its arguments were changed since the operator looked at it.
    Edited,
    /// Its arguments were changed as often as they can be.
    EditsSpent,
    /// It is decided otherwise already; the first decision stands.
    Other {
        /// Was it allowed?
        allowed: bool,
    },
}

/// A bound of held calls, by what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldBound {
    /// All calls that wait.
    All,
    /// Those of one agent.
    Agent,
    /// Those of one user of an agent, or of an agent that names none.
    Caller,
}

/// Holds that wait for operators right now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitingHolds {
    /// All of them.
    pub all: usize,
    /// Those of one agent of one tenant.
    pub agent: usize,
    /// Those of them that are for one user.
    pub caller: usize,
}

impl HoldPhase {
    /// The word for people and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Withdrawn => "cancelled",
            Self::Used { .. } => "used",
        }
    }
}

impl HoldQuestion {
    /// The arguments as they stand behind a record; with more, and so that a list is nothing else,
    /// in a list of all.
    pub fn body(&self) -> serde_json::Result<Vec<u8>> {
        let (arguments, answers, beside) = (&self.arguments, &self.answers, &self.beside);
        if self.unedited.is_some() {
            let (request, original) = (&self.request, &self.original);
            let unedited = &self.unedited;
            return serde_json::to_vec(&(arguments, answers, beside, request, original, unedited));
        }
        match (&self.request, &self.original) {
            (None, None) => {}
            (Some(request), None) => {
                return serde_json::to_vec(&(arguments, answers, beside, request));
            }
            (request, original) => {
                return serde_json::to_vec(&(arguments, answers, beside, request, original));
            }
        }
        match (&self.answers, &self.beside) {
            (None, None) if !self.arguments.is_array() => serde_json::to_vec(&self.arguments),
            (answers, None) => serde_json::to_vec(&(&self.arguments, answers)),
            (answers, beside) => serde_json::to_vec(&(&self.arguments, answers, beside)),
        }
    }

    /// Reads what `Self::body` wrote.
    pub fn fill(&mut self, body: Bytes) -> serde_json::Result<()> {
        let body = Text::read(body, &SERVER_JSON_LIMITS).map_err(serde::de::Error::custom)?;
        let body = body.value();
        // Records of before have no third part, and most no fourth.
        (self.arguments, self.answers, self.beside) = match body.as_array().map(Vec::len) {
            None => (body, None, None),
            Some(2) => {
                let (arguments, answers) = serde_json::from_value(body)?;
                (arguments, answers, None)
            }
            Some(4) => {
                let (arguments, answers, beside, request) = serde_json::from_value(body)?;
                self.request = request;
                (arguments, answers, beside)
            }
            Some(5) => {
                let (arguments, answers, beside, request, original) = serde_json::from_value(body)?;
                (self.request, self.original) = (request, original);
                (arguments, answers, beside)
            }
            Some(6) => {
                let (arguments, answers, beside, request, original, unedited) =
                    serde_json::from_value(body)?;
                (self.request, self.original, self.unedited) = (request, original, unedited);
                (arguments, answers, beside)
            }
            Some(_) => serde_json::from_value(body)?,
        };
        Ok(())
    }

    /// Bytes, as JSON, of what people are shown of it.
    pub fn weight(&self) -> usize {
        let more = [&self.answers, &self.beside, &self.original, &self.unedited];
        let parts = std::iter::once(&self.arguments).chain(more.into_iter().flatten());
        parts.map(|part| part.to_string().len()).sum()
    }
}

/// Whether what is said there voids a held call.
pub(crate) fn is_voiding(surface: Option<&str>) -> bool {
    matches!(surface, Some(INCIDENT_SURFACE | DROP_SURFACE))
}

impl OperatorDecision {
    /// Whether an incident said it, or who has dropped the undo, and no agent that cancels.
    pub fn is_void(&self) -> bool {
        is_voiding(self.surface.as_deref())
    }
}

impl Hold {
    /// What is to run by it, where that is not what its agent sends.
    pub fn allowed_edit(&self) -> Option<EditedArguments> {
        let question = &self.question;
        let (before, arguments) = (question.unedited.as_ref()?, question.arguments.clone());
        let mut by: Vec<String> = self.edits.iter().map(|edit| edit.who.clone()).collect();
        by.dedup();
        let pointers = self.edits.iter().flat_map(|edit| &edit.pointers);
        let edit = ArgumentEdit::between(by, pointers, before, &arguments);
        Some(EditedArguments { arguments, edit })
    }

    /// What a call carries that runs by it, where an operator has changed its arguments.
    pub fn edited(&self) -> Option<EditedCall> {
        let arguments = canonical::exact(&self.question.arguments);
        (!self.edits.is_empty()).then(|| EditedCall {
            hold: self.id,
            arguments: Digest::of_parts("edited arguments", &[&arguments]),
        })
    }

    /// When the last decision was made; before any, when it was asked.
    fn decided(&self) -> Millis {
        self.decisions.last().map_or(self.asked, |last| last.at)
    }

    /// From this time on the hold's status is `HoldStatus::Absent`: at the time itself it is over.
    pub fn ends(&self) -> Millis {
        match &self.phase {
            HoldPhase::Pending => self.approve_by.saturating_add(EXPIRED_HOLD_GRACE_MS),
            HoldPhase::Allowed => self.decided().saturating_add(self.execute_for),
            // As long as it could have waited, nobody is asked the same again.
            HoldPhase::Denied => self
                .decided()
                .saturating_add(self.approve_by.saturating_sub(self.asked)),
            HoldPhase::Withdrawn => self.decided(),
            HoldPhase::Used { at, .. } => *at,
        }
    }

    /// When it last changed.
    pub fn changed(&self) -> Millis {
        if let HoldPhase::Used { at, .. } = &self.phase {
            *at
        } else {
            self.decided()
        }
    }

    /// Whether the operator `who` may decide about it by that right: what one who is away may not decide,
    /// nobody decides for them.
    pub fn is_decided_rightly(&self, who: &str, right: &DecidingRight) -> bool {
        let mut names = right.names(who);
        names.all(|name| self.is_decided_by(name, &right.roles))
    }

    /// Whether it was allowed by one of these two already, or in their place: each person counts once.
    pub fn counts(&self, who: &str, on_behalf: Option<&str>) -> bool {
        let names = || on_behalf.into_iter().chain([who]);
        let said = |before: &OperatorDecision| {
            let known = [Some(&before.who), before.on_behalf.as_ref()];
            let mut known = known.into_iter().flatten();
            known.any(|known| names().any(|name| is_same_name(known, name)))
        };
        self.decisions.iter().any(said)
    }

    /// Whether an operator of this name with these roles may decide about it.
    pub fn is_decided_by(&self, who: &str, roles: &[String]) -> bool {
        let is_itself = self.question.is_asked_by(who) && !self.self_approval;
        !is_itself && roles.iter().any(|role| self.roles.contains(role))
    }

    /// The operators who have allowed it.
    pub fn allowed_by(&self) -> impl Iterator<Item = &str> {
        let allowed = self.decisions.iter().filter(|decision| decision.allow);
        allowed.map(|decision| decision.who.as_str())
    }

    /// Whether operators can still decide at `now`.
    pub fn is_waiting(&self, now: Millis) -> bool {
        matches!(self.phase, HoldPhase::Pending) && now < self.approve_by
    }

    /// Whether it is pending, or allowed and not used, and not over at `now`.
    pub fn is_open(&self, now: Millis) -> bool {
        matches!(self.phase, HoldPhase::Pending | HoldPhase::Allowed) && now < self.ends()
    }

    /// Whether it waits at `now`, and for the same agent of the same tenant as `question` is about.
    pub fn is_alike(&self, question: &HoldQuestion, now: Millis) -> bool {
        let of = &self.question;
        self.is_waiting(now) && of.agent == question.agent && of.tenant == question.tenant
    }

    /// The same, and for the same user.
    pub fn is_for_same(&self, question: &HoldQuestion, now: Millis) -> bool {
        self.is_alike(question, now) && self.question.user == question.user
    }
}

/// How `hold` stands at `now` for a call that asks.
pub fn hold_status(hold: Option<&Hold>, now: Millis) -> HoldStatus {
    let Some(hold) = hold else {
        return HoldStatus::Absent;
    };
    let until = hold.ends();
    let is_told = now < until.saturating_add(EXPIRED_HOLD_GRACE_MS);
    if now >= until && is_told && hold.phase == HoldPhase::Allowed {
        let by = hold.allowed_by().map(str::to_owned).collect();
        return HoldStatus::Lapsed { by, until };
    }
    if now >= until {
        return HoldStatus::Absent;
    }
    match &hold.phase {
        HoldPhase::Pending if now < hold.approve_by => HoldStatus::Pending,
        HoldPhase::Pending => HoldStatus::TimedOut,
        HoldPhase::Allowed => HoldStatus::Allowed,
        HoldPhase::Denied => {
            let last = hold
                .decisions
                .last()
                .map(|last| (last.who.clone(), last.why.clone()));
            let (who, why) = last.unwrap_or_default();
            HoldStatus::Denied { who, why }
        }
        // Each execution is asked for on its own.
        HoldPhase::Withdrawn | HoldPhase::Used { .. } => HoldStatus::Absent,
    }
}
