//! What takes a call back (003-64): offered with the outcome of a call that was carried out, asked
//! for by an operator, and made by a call of its own, whose claim says what becomes of it.

use super::hold::Hold;
use super::kept_text::KeptText;
use super::{Millis, StoreKeys};
use crate::mcp::json::fold::is_same_name;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use crate::model::kept_caller::KeptCaller;
use serde::{Deserialize, Serialize};

/// Milliseconds for which an undo can still be shown after its end: a day if nobody asked for it,
/// else 30 days.
const UNASKED_RETENTION_MS: Millis = 24 * 3600 * 1000;
const ASKED_RETENTION_MS: Millis = 30 * UNASKED_RETENTION_MS;

/// How a call is taken back, as its contract says when it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoTerms {
    /// What is called then: `server__tool`.
    pub tool: ToolName,
    /// Its arguments as JSON; what stands for a part of the result stands there still.
    pub arguments: KeptText,
    /// For how many milliseconds after the call's end.
    pub within: u64,
    /// The agent whose call it is.
    pub agent: String,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// The user for whom it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// The task that it was made in, else the session, where its agent named one; whose the two are, too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<Digest>,
    /// May its agent ask for that itself?
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub by_agent: bool,
    /// As [`OpenUndo::call`], where that takes nothing of the result: it is known before the answer, and
    /// whether one comes or not. None in records from before it was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call: Option<Digest>,
    /// By which rights the call was made; none in records from before that was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<KeptCaller>,
}

/// The undo of a call that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenUndo {
    /// The call.
    pub of: ActionId,
    /// Its tool: `server__tool`.
    pub tool: ToolName,
    /// Its call key.
    pub key: Digest,
    /// How it is taken back.
    pub terms: UndoTerms,
    /// The parts of its result that this needs, as a JSON object by their pointers; none: they are
    /// in the answer that is kept of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub values: Option<KeptText>,
    /// What the call that takes it back is known by when its agent makes that call itself; none where
    /// that could not be made when its answer came, or nobody looked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call: Option<Digest>,
    /// Whether its answer left all that is needed. Not known where nobody looked.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_whole: bool,
    /// Why the call that takes it back cannot be made, in words. None where it can be, or nobody looked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lacks: Option<String>,
    /// When it began; none in records from before that was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub began: Option<Millis>,
    /// When it was known that it was carried out.
    pub offered: Millis,
    /// It cannot be taken back from then on.
    pub until: Millis,
    /// How far that is.
    pub phase: UndoPhase,
    /// Since when.
    pub changed: Millis,
    /// Who asked for it last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<UndoAsking>,
    /// Everybody who has asked for it since it was offered, or dropped last: none of them is the person who
    /// allows it. Empty in records from before they were kept.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub askers: Vec<String>,
    /// When the first of them did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked_since: Option<Millis>,
    /// How far it was before its agent made that call itself, unasked; none: it has not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<UndoPhase>,
}

/// How far an undo is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoPhase {
    /// Nobody has asked for it.
    Offered,
    /// An operator or its agent has, and nothing was sent.
    Requested,
    /// This call takes it back, right now.
    Running {
        /// The call.
        by: ActionId,
    },
    /// This call has taken it back.
    Done {
        /// The call.
        by: ActionId,
    },
    /// This call has not, which its tool server says, or did not run.
    Failed {
        /// The call.
        by: ActionId,
    },
    /// It is not known whether this call has.
    Unknown {
        /// The call.
        by: ActionId,
    },
}

/// Who asks for an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoAsking {
    /// The operator, or `agent NAME`.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Millis,
    /// By whose rights it is made where its agent asks; none: by those of the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<KeptCaller>,
}

/// An operator, or the agent whose call it is, asks for the undo of a call.
#[derive(Debug, Clone)]
pub struct AskUndo {
    /// The call.
    pub of: ActionId,
    /// The operator, or `agent NAME`.
    pub who: String,
    /// Why.
    pub why: String,
    /// As [`UndoAsking::caller`].
    pub caller: Option<KeptCaller>,
    /// Nobody is to take it back any more, as it was asked for: it is done by hand, or left.
    pub drops: bool,
    /// The call that has taken it back though nothing knew that it was to: one that equals the one that was asked
    /// for, and ran when it was not known what had become of either.
    pub made_by: Option<OwnCall>,
}

/// A call that has taken another one of its agent back by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnCall {
    /// The call.
    pub action: ActionId,
    /// Its call key.
    pub key: Digest,
}

/// An operator has asked for it, or has dropped that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoAsked {
    /// The call.
    pub of: ActionId,
    /// Who, and why.
    pub asked: UndoAsking,
    /// Was it dropped?
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub drops: bool,
    /// The call that has taken it back already, where one has.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub made_by: Option<ActionId>,
    /// The call key of that one; none in records from before that was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub made_key: Option<Digest>,
}

/// What the end of a call makes of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoChange {
    /// The call was carried out, and can be taken back.
    Offered(Box<OpenUndo>),
    /// It was to take this one back.
    Ended {
        /// The call that is taken back.
        of: ActionId,
        /// What became of that.
        phase: UndoPhase,
    },
}

/// What the answer to a call leaves for its undo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AnswerWorth {
    /// Nobody has looked: whatever is needed is in what is kept of it.
    #[default]
    Unread,
    /// It says that the call failed: there is nothing to take back.
    Failed,
    /// What is needed is known.
    Kept(Box<UndoPieces>),
}

/// What the answer to a call has for its undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoPieces {
    /// The parts of the result that are needed; none where none is.
    pub values: Option<KeptText>,
    /// As [`OpenUndo::call`].
    pub call: Option<Digest>,
    /// As [`OpenUndo::lacks`]; none where all that is needed is there.
    pub lacks: Option<String>,
}

/// Why a call cannot be taken back now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoBar {
    /// Nothing is known of it that could be.
    NotOffered,
    /// This call takes it back right now.
    Running(ActionId),
    /// It is not known whether this call has taken it back.
    Unknown(ActionId),
    /// This call has taken it back.
    Done(ActionId),
    /// Its agent has done that itself, by this call.
    DoneByAgent(ActionId),
    /// Nobody has asked for what is to be dropped.
    NotAsked,
    /// It could be up to then.
    Over(Millis),
}

impl UndoAsked {
    /// What it changes.
    pub(super) fn place(&self) -> StoreKeys {
        StoreKeys {
            call: self.made_key,
            undo: Some(OpenUndo::key_of(self.of)),
            ..StoreKeys::default()
        }
    }
}

impl AnswerWorth {
    /// Whether the answer left all that its undo needs, as far as anybody has looked.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Kept(pieces) if pieces.lacks.is_none())
    }
}

impl UndoTerms {
    /// Without what was sent, to be shown.
    pub fn leave_out(&mut self) {
        self.arguments.leave_out();
    }
}

impl UndoPhase {
    /// The word for people and programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Offered => "offered",
            Self::Requested => "requested",
            Self::Running { .. } => "running",
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// The call that takes the other one back, or was to.
    pub fn by(&self) -> Option<ActionId> {
        match self {
            Self::Offered | Self::Requested => None,
            Self::Running { by }
            | Self::Done { by }
            | Self::Failed { by }
            | Self::Unknown { by } => Some(*by),
        }
    }
}

impl OpenUndo {
    /// Under which key the undo of `of` is kept.
    pub fn key_of(of: ActionId) -> Digest {
        Digest::of_parts("undo", &[of.as_bytes()])
    }

    /// Under which key the undo is kept that `hold` is for, where it is for one.
    pub fn key_of_held(hold: &Hold) -> Option<Digest> {
        let undoes = hold.question.undoes.as_ref();
        undoes.map(|undoes| Self::key_of(undoes.of))
    }

    /// The call key of the call that takes `of` back, which operator ever asks for it: twice is once.
    pub fn call_key_of(of: ActionId) -> Digest {
        Digest::of_parts("comp", &[of.as_bytes()])
    }

    /// What those undos of an agent are found by that `tool` makes and of which nobody knows with which
    /// arguments: the outcome of their calls was told by a look or a person, and part of the result is needed.
    pub fn unread(
        tool: &ToolName,
        agent: &str,
        tenant: Option<&str>,
        of_user: Option<&str>,
    ) -> Digest {
        let named = [[u8::from(tenant.is_some())], [u8::from(of_user.is_some())]];
        let parts: [&[u8]; 6] = [
            tool.as_str().as_bytes(),
            agent.as_bytes(),
            &named[0],
            tenant.unwrap_or_default().as_bytes(),
            &named[1],
            of_user.unwrap_or_default().as_bytes(),
        ];
        Digest::of_parts("undos of which nobody knows the call", &parts)
    }

    /// By what it is found when its agent makes a call that may be the one: [`Self::call`], else, where nobody
    /// looked, [`Self::unread`]. None where no call can be made of it.
    pub fn found_by(&self) -> Option<Digest> {
        let UndoTerms {
            tool,
            agent,
            tenant,
            user,
            ..
        } = &self.terms;
        let is_unread = self.call.is_none() && self.lacks.is_none();
        let unread = || Self::unread(tool, agent, tenant.as_deref(), user.as_deref());
        self.call.or_else(|| is_unread.then(unread))
    }

    /// When it may be forgotten.
    pub fn outlived(&self) -> Millis {
        let kept = match self.phase {
            UndoPhase::Offered => UNASKED_RETENTION_MS,
            UndoPhase::Requested
            | UndoPhase::Running { .. }
            | UndoPhase::Done { .. }
            | UndoPhase::Failed { .. }
            | UndoPhase::Unknown { .. } => ASKED_RETENTION_MS,
        };
        self.until.max(self.changed).saturating_add(kept)
    }

    /// Whether `who` has asked for it, as far as that is not dropped.
    pub fn is_asked_by(&self, who: &str) -> bool {
        let last = self.asked.as_ref().map(|asked| &asked.who);
        let last = last.filter(|_| self.phase != UndoPhase::Offered);
        let mut known = self.askers.iter().chain(last);
        known.any(|known| is_same_name(who, known))
    }

    /// Whether what was held since `asked` was held for this asking: not for one that was dropped.
    pub fn is_held_for(&self, asked: Millis) -> bool {
        self.asked_since.is_none_or(|since| since <= asked)
    }

    /// By whose rights the call is made that takes it back: those of who asks, where its agent does.
    pub fn caller(&self) -> Option<&KeptCaller> {
        let is_asked = self.phase != UndoPhase::Offered;
        let asked = self.asked.as_ref().filter(|_| is_asked);
        let asking = asked.and_then(|asked| asked.caller.as_ref());
        asking.or(self.terms.caller.as_ref())
    }

    /// Why it cannot begin at `now`; none if it can.
    pub fn bar(&self, now: Millis) -> Option<UndoBar> {
        match self.phase {
            UndoPhase::Running { by } => Some(UndoBar::Running(by)),
            UndoPhase::Unknown { by } => Some(UndoBar::Unknown(by)),
            UndoPhase::Done { by } if self.before.is_some() => Some(UndoBar::DoneByAgent(by)),
            UndoPhase::Done { by } => Some(UndoBar::Done(by)),
            UndoPhase::Offered | UndoPhase::Requested | UndoPhase::Failed { .. }
                if now >= self.until =>
            {
                Some(UndoBar::Over(self.until))
            }
            UndoPhase::Offered | UndoPhase::Requested | UndoPhase::Failed { .. } => None,
        }
    }

    /// Until when a call that can be made takes it back, as known at `now`.
    pub fn promised(&self, now: Millis) -> Option<Millis> {
        (self.is_whole && self.bar(now).is_none()).then_some(self.until)
    }

    /// Without what was sent and came back, to be shown.
    pub fn leave_out(&mut self) {
        self.terms.leave_out();
        self.values.iter_mut().for_each(KeptText::leave_out);
    }

    /// Whether an operator or its agent has asked for it, or tried it, and it is not done.
    pub fn is_wanted(&self) -> bool {
        match self.phase {
            UndoPhase::Offered | UndoPhase::Done { .. } => false,
            UndoPhase::Requested
            | UndoPhase::Running { .. }
            | UndoPhase::Failed { .. }
            | UndoPhase::Unknown { .. } => true,
        }
    }

    /// Whether it stands as it was offered.
    pub fn is_untouched(&self) -> bool {
        self.phase == UndoPhase::Offered && self.asked.is_none() && self.changed == self.offered
    }

    /// The call `by`, which holds `key`, begins to take it back: asked for, or by its agent's own will.
    pub(super) fn begin(&mut self, by: ActionId, key: Digest, at: Millis) {
        let is_asked = key == Self::call_key_of(self.of);
        let before = self.before.unwrap_or(self.phase);
        self.before = (!is_asked).then_some(before);
        self.come_to(UndoPhase::Running { by }, at);
    }

    /// The call that runs comes to its end. One that its agent has made by its own will and that did not
    /// do it leaves everything as it was.
    fn end(&mut self, phase: UndoPhase, at: Millis) {
        let has_failed = matches!(phase, UndoPhase::Failed { .. });
        let before = self.before.take_if(|_| has_failed);
        self.come_to(before.unwrap_or(phase), at);
    }

    /// Notes that `who` has asked for it, too.
    pub(super) fn note_asker(&mut self, who: &str) {
        if !self.askers.iter().any(|known| is_same_name(known, who)) {
            self.askers.push(who.to_owned());
        }
    }

    /// Comes to `phase`.
    pub(super) fn come_to(&mut self, phase: UndoPhase, at: Millis) {
        (self.phase, self.changed) = (phase, at);
    }
}

impl UndoChange {
    /// Under which key the undo is kept that it is about.
    pub fn key(&self) -> Digest {
        match self {
            Self::Offered(undo) => OpenUndo::key_of(undo.of),
            Self::Ended { of, .. } => OpenUndo::key_of(*of),
        }
    }

    /// Without what was sent and came back, to be shown.
    pub fn leave_out(&mut self) {
        if let Self::Offered(undo) = self {
            undo.leave_out();
        }
    }

    /// What it makes of what was known.
    pub(super) fn apply(&self, undo: &mut Option<OpenUndo>, at: Millis) {
        match self {
            Self::Offered(offered) => *undo = Some((**offered).clone()),
            Self::Ended { of, phase } => {
                let meant = undo.iter_mut().filter(|undo| undo.of == *of);
                // What another call has become says nothing of the one that runs.
                let meant = meant.filter(|undo| undo.phase.by() == phase.by());
                meant.for_each(|undo| undo.end(*phase, at));
            }
        }
    }
}
