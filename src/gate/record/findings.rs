//! What the steps have found of a call, for what its agent reads, for its ledger entry and for the
//! metrics. The entry (`entry.rs`) takes [`Findings`] apart field by field, so that a new finding
//! does not compile until the entry keeps it or leaves it out by name. Answers and metrics take
//! what they need.

use crate::gate::call::Call;
use crate::gate::effects::looks::ShownCalls;
use crate::gate::pipeline::Stage;
use crate::gate::record::hashes::HashedCall;
use crate::guards::approval::right::ApprovalRight;
use crate::guards::idempotency::Regime;
use crate::guards::output::Meaning;
use crate::model::argument_edit::EditedArguments;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::reply::Fault;
use crate::model::task::TaskState;
use crate::store::state::Millis;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// All of it; what no step has said is as if there were nothing to say.
#[derive(Default)]
pub struct Findings {
    /// Step 7: the beginning of the key of the task that pays.
    pub(in crate::gate) task: Option<u64>,
    /// Step 7.
    pub usage: Usage,
    /// Step 7.
    pub state: StateFound,
    /// Step 7: what the agent should know beside its answer.
    pub warning: Option<&'static str>,
    /// Step 7: what the call is known by, where the loop detector watches.
    pub(in crate::gate) hashed: Option<Box<HashedCall>>,
    /// Step 8.
    pub key: KeyFound,
    /// Step 8: the call that made the draft which this one confirms; few do, and each call in flight keeps
    /// room for what stands here.
    pub draft: Option<Box<ActionId>>,
    /// Step 9: what is left of the task's budget, as agents read it. Boxed as `draft` is.
    pub remaining: Option<Box<Value>>,
    /// Step 10.
    pub approval: Option<Box<ApprovalFound>>,
    /// Step 12: the token that the call runs under.
    pub fence: Option<u64>,
    /// Steps 14 and 15.
    pub dispatch: DispatchFound,
    /// What enforce mode would have done, where nothing is enforced. Few calls have it.
    pub observed: Option<Box<Observed>>,
    /// The ledger has the call's arguments already, if it keeps them.
    pub has_kept_arguments: bool,
}

impl Findings {
    /// Notes what `call` is known by, and gives it back, if it is watched.
    pub(in crate::gate) fn hash_if(
        &mut self,
        is_watched: bool,
        call: &Arc<Call>,
    ) -> Option<&HashedCall> {
        self.hashed = is_watched.then(|| Box::new(HashedCall::of(call)));
        self.hashed.as_deref()
    }

    /// What `call` is known by, if that was noted of it as it is now.
    pub(in crate::gate) fn hashed(&self, call: &Call) -> Option<&HashedCall> {
        self.hashed.as_deref().filter(|hashed| hashed.is_of(call))
    }
}

/// What the call's task has used before it, and what it costs.
#[derive(Default)]
pub struct Usage {
    /// Steps, and their cost in millionths; when that is counted.
    pub used: Option<(u64, u64)>,
    /// What the call costs if it is sent, in millionths, as its contract says.
    pub cost: u64,
}

/// Where the call's task was, when its agent says where it is.
#[derive(Default)]
pub struct StateFound {
    /// The state before this call.
    pub before: Option<TaskState>,
    /// What the task has done, when that is to be summarized.
    pub evidence: Vec<ActionId>,
}

/// Why a call is the same as an equal one, or why it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// Their agent gave both one key.
    SameKey,
    /// The contract says which calls are one.
    Declared,
    /// It came while the other was in flight.
    InFlight,
    /// It is a round of the other, or comes again after one.
    SameRounds,
    /// Both have one trace id.
    SameTrace,
    /// The other ended when nobody waited for its answer any more.
    SettledLate,
    /// It came within the window, and nothing shows that its agent went on.
    WithinWindow,
    /// The other may have run.
    UnknownOutcome,
    /// It was held for the other, which has been carried out.
    DoneElsewhere,
    /// Another call: its agent went on from the first.
    WentOn,
    /// Another call: the window is over.
    WindowOver,
    /// Another call: its server says that a second one changes nothing.
    IdempotentTool,
    /// Another call: the other was taken back.
    Undone,
    /// Another call: the other was to take the same one back, and has failed.
    UndoFailed,
}

impl Because {
    /// The word in ledger entries.
    pub fn word(self) -> &'static str {
        match self {
            Self::SameKey => "same_key",
            Self::Declared => "declared",
            Self::InFlight => "in_flight",
            Self::SameRounds => "same_rounds",
            Self::SameTrace => "same_trace",
            Self::SettledLate => "settled_late",
            Self::WithinWindow => "within_window",
            Self::UnknownOutcome => "unknown_outcome",
            Self::DoneElsewhere => "done_elsewhere",
            Self::WentOn => "went_on",
            Self::WindowOver => "window_over",
            Self::IdempotentTool => "idempotent_tool",
            Self::Undone => "undone",
            Self::UndoFailed => "undo_failed",
        }
    }

    /// Whether it makes the call another one.
    pub fn is_new_call(self) -> bool {
        match self {
            Self::WentOn
            | Self::WindowOver
            | Self::IdempotentTool
            | Self::Undone
            | Self::UndoFailed => true,
            Self::SameKey
            | Self::Declared
            | Self::InFlight
            | Self::SameRounds
            | Self::SameTrace
            | Self::SettledLate
            | Self::WithinWindow
            | Self::UnknownOutcome
            | Self::DoneElsewhere => false,
        }
    }
}

impl From<Regime> for Because {
    fn from(regime: Regime) -> Self {
        match regime {
            Regime::Keyed => Self::SameKey,
            Regime::Declared => Self::Declared,
            Regime::Reissue { .. } => Self::SameRounds,
        }
    }
}

/// How the key stood.
#[derive(Default)]
pub struct KeyFound {
    /// The beginning of the key's hash, once it was looked at.
    pub hash: Option<u64>,
    /// The call that holds the key, where that is another one.
    pub holder: Option<ActionId>,
    /// The answer is that call's.
    pub replayed: bool,
    /// Whether it was looked what its agent had gone on from.
    pub(in crate::gate) is_looked_at: bool,
    /// What came of comparing it, where there was anything to compare it with.
    pub(in crate::gate) compared: Option<Box<ComparedCall>>,
}

/// An equal call, and what its agent has shown.
#[derive(Default)]
pub(in crate::gate) struct ComparedCall {
    /// The equal call that it was compared with.
    pub same_as: Option<ActionId>,
    /// What came of that.
    pub because: Option<Because>,
    /// The ended call whose key it takes: it is not that call.
    pub past: Option<ActionId>,
    /// The calls that its agent has gone on from, if it is begun.
    pub(in crate::gate) shown: ShownCalls,
    /// Until when the equal call can be taken back whose answer is given again.
    pub undo_until: Option<Millis>,
    /// In observe mode: the regimes that would have joined it to an earlier call.
    pub would_join: Vec<&'static str>,
}

impl KeyFound {
    /// To note what came of comparing it.
    pub(in crate::gate) fn compared(&mut self) -> &mut ComparedCall {
        self.compared.get_or_insert_default()
    }

    /// Whether it has joined a call in flight, whose end is its own.
    pub(in crate::gate) fn has_joined(&self) -> bool {
        let compared = self.compared.as_ref();
        compared.is_some_and(|compared| compared.because == Some(Because::InFlight))
    }

    /// The ended call whose key it takes.
    pub(in crate::gate) fn past(&self) -> Option<ActionId> {
        self.compared.as_ref()?.past
    }

    /// The equal call that was taken back, so that this one ran.
    pub(in crate::gate) fn after_undo(&self) -> Option<ActionId> {
        let compared = self.compared.as_ref()?;
        compared
            .past
            .filter(|_| compared.because == Some(Because::Undone))
    }

    /// Until when the call can be taken back whose answer it is given.
    pub(in crate::gate) fn undo_until(&self) -> Option<Millis> {
        let compared = self.compared.as_ref().filter(|_| self.replayed)?;
        compared.undo_until
    }

    /// The calls that its agent has gone on from, if that was looked at.
    pub(in crate::gate) fn looked_at(self) -> Option<ShownCalls> {
        let shown = self.compared.map(|compared| compared.shown);
        self.is_looked_at.then(|| shown.unwrap_or_default())
    }

    /// The calls that its agent has gone on from, if it is begun.
    pub(in crate::gate) fn shown(&self) -> Option<&ShownCalls> {
        self.compared.as_ref().map(|compared| &compared.shown)
    }

    /// The same, as the entry has them.
    pub(in crate::gate) fn joined_words(&self) -> Vec<String> {
        self.would_join().iter().map(ToString::to_string).collect()
    }

    /// The regimes that would have joined it.
    pub(in crate::gate) fn would_join(&self) -> &[&'static str] {
        let compared = self.compared.as_ref();
        compared.map_or(&[], |compared| &compared.would_join)
    }
}

/// The hold that the call uses up, or the grant that covers it.
pub struct ApprovalFound {
    /// The hold's id.
    pub hold: Option<ActionId>,
    /// The grant's.
    pub grant: Option<ActionId>,
    /// Who has allowed it.
    pub by: Vec<String>,
    /// By which right, which may end before the call begins.
    pub right: ApprovalRight,
    /// With which arguments, where an operator has changed them.
    pub edit: Option<Box<EditedArguments>>,
}

/// What became of it upstream.
#[derive(Default)]
pub struct DispatchFound {
    /// How often it was sent; 0 for never.
    pub attempts: u32,
    /// Whether the contract that it was sent by says that it changes something.
    pub changes: Option<bool>,
    /// What broke, for operators.
    pub fault: Option<Fault>,
    /// What its contract says that the error means which it was answered with.
    pub meaning: Option<Meaning>,
    /// What it cost, in millionths, when its answer says so.
    pub cost: Option<u64>,
    /// How long its task may go on, where that is limited.
    pub time_left: Option<Duration>,
    /// Its task's time was over before there was an answer.
    pub is_out_of_time: bool,
    /// Its answer left all that a call needs which takes it back.
    pub can_undo: bool,
}

/// What enforce mode would have refused a call with.
pub struct ForeseenRefusal {
    /// Why.
    pub refusal: Refusal,
    /// The stage that the call would have reached.
    pub stage: Stage,
}

/// What enforce mode would have done.
#[derive(Default)]
pub struct Observed {
    /// What it would have refused with first. Few calls have one.
    pub would_refuse: Option<Box<ForeseenRefusal>>,
    /// What it has against the caller, which says nothing of the call: told if nothing else is.
    pub unwelcome: Option<Box<ForeseenRefusal>>,
    /// What it would have asked besides.
    pub unasked: Vec<String>,
}

impl Findings {
    /// What the call costs if it is sent, in millionths: as its answer says, else its contract.
    pub fn cost(&self) -> u64 {
        self.dispatch.cost.unwrap_or(self.usage.cost)
    }

    /// What enforce mode would have done, to be noted.
    pub fn observed(&mut self) -> &mut Observed {
        self.observed.get_or_insert_default()
    }

    /// What enforce mode would have refused with, as it is told.
    pub fn foreseen(&self) -> Option<&ForeseenRefusal> {
        self.observed.as_ref()?.foreseen()
    }
}

impl Observed {
    fn foreseen(&self) -> Option<&ForeseenRefusal> {
        self.would_refuse.as_deref().or(self.unwelcome.as_deref())
    }

    /// Notes what enforce mode would have refused with, unless it would have refused before.
    pub fn note(&mut self, refusal: Refusal, stage: Stage) {
        self.would_refuse
            .get_or_insert_with(|| Box::new(ForeseenRefusal { refusal, stage }));
    }
}
