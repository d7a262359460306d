//! What happened to a call, stage by stage. No guard logs, counts or times for itself.

use crate::guards::evidence::Ruled;
use crate::guards::output::Meaning;
use crate::mcp::message::Message;
use crate::model::clock::Clock;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::reply::{Fault, Sent};
use crate::model::task::TaskState;
use crate::telemetry::metrics::Metrics;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The steps of the gate that exist, in their order (SEMANTICS §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Step 2: may this caller see the tool?
    Visible,
    /// Step 3: do the arguments fit?
    Arguments,
    /// Step 4: may this caller do this to this?
    Permission,
    /// Step 5: the contract's own rules.
    Rules,
    /// Step 6: the chain of before-hooks.
    Rewrite,
    /// Step 7: does the task go round in circles?
    Repetition,
    /// Step 8: was this call made before?
    Idempotency,
    /// Step 9: is there budget left?
    Budget,
    /// Step 10: has a person allowed it?
    Approval,
    /// Step 11: the session's turn, and its token.
    Fence,
    /// Step 12: the intent, durable.
    Intent,
    /// Step 13: the values of secret references.
    Secrets,
    /// Step 14: sent upstream, and waited for.
    Dispatch,
    /// Step 15: the outcome, durable.
    Outcome,
}

impl Stage {
    /// The word in metrics, decisions and the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Visible => "visible",
            Self::Arguments => "arguments",
            Self::Permission => "permission",
            Self::Rules => "rules",
            Self::Rewrite => "rewrite",
            Self::Repetition => "repetition",
            Self::Idempotency => "idempotency",
            Self::Budget => "budget",
            Self::Approval => "approval",
            Self::Fence => "fence",
            Self::Intent => "intent",
            Self::Secrets => "secrets",
            Self::Dispatch => "dispatch",
            Self::Outcome => "outcome",
        }
    }
}

/// The trail of one call.
pub struct Trail {
    metrics: Arc<Metrics>,
    clock: Clock,
    last: Duration,
    /// The stage reached.
    pub stage: Stage,
    /// Time spent judging.
    pub judging: Duration,
    /// Time spent waiting for a person.
    pub held: Duration,
    /// Time spent upstream.
    pub upstream: Duration,
    /// In observe mode: what enforce mode would have refused with, and at which stage.
    pub would_refuse: Option<(Refusal, Stage)>,
    /// In observe mode: what enforce mode would have asked besides.
    pub unasked: Vec<String>,
    /// What broke, for operators.
    pub fault: Option<Fault>,
    /// The answer is an earlier call's.
    pub replayed: bool,
    /// The call that holds the key, where that is another one.
    pub claimed_by: Option<ActionId>,
    /// How often it was sent; 0 for never.
    pub sent: u32,
    /// The token it ran under.
    pub fence: Option<u64>,
    /// What is left of its task's budget, as agents read it.
    pub remaining: Option<Value>,
    /// Steps that its task had used before it, and their cost in millionths, when that is counted.
    pub used: Option<(u64, u64)>,
    /// What it costs if it is sent, in millionths: as its contract says, or as its answer does.
    pub cost: u64,
    /// Where its task was, when its agent says where it is.
    pub before: Option<TaskState>,
    /// What its task has done, when that is to be summarized.
    pub evidence: Vec<ActionId>,
    /// The call that made the draft which this one confirms.
    pub draft: Option<ActionId>,
    /// The hold that it uses up, and who has allowed it.
    pub approval: Option<(ActionId, Vec<String>)>,
    /// What its contract says that the error means which it was answered with.
    pub meaning: Option<Meaning>,
    /// What the agent should know beside its answer.
    pub warning: Option<&'static str>,
    /// The answer of a call whose outcome could not be recorded.
    pub unrecorded: Option<Message>,
}

impl Trail {
    /// Starts at the call's arrival.
    pub fn new(metrics: Arc<Metrics>, clock: Clock, arrived: Duration) -> Self {
        Self {
            metrics,
            clock,
            last: arrived,
            stage: Stage::Visible,
            judging: Duration::ZERO,
            held: Duration::ZERO,
            upstream: Duration::ZERO,
            would_refuse: None,
            unasked: Vec::new(),
            fault: None,
            replayed: false,
            claimed_by: None,
            sent: 0,
            fence: None,
            remaining: None,
            used: None,
            cost: 0,
            before: None,
            evidence: Vec::new(),
            draft: None,
            approval: None,
            meaning: None,
            warning: None,
            unrecorded: None,
        }
    }

    /// Notes that the answer is an earlier call's.
    pub fn again<T>(&mut self, answer: T) -> T {
        self.replayed = true;
        answer
    }

    /// Notes the end of the last stage of a claimed call; where it stopped stays the stage it is
    /// known by.
    pub fn settled(&mut self, recorded: bool) {
        let reached = self.stage;
        let spent = self.mark(Stage::Outcome);
        self.judging += spent;
        if recorded {
            self.stage = reached;
        }
    }

    /// Steady time.
    pub fn now(&self) -> Duration {
        self.clock.steady()
    }

    /// Notes the end of a wait for a person's decision.
    pub fn held(&mut self) {
        let spent = self.mark(Stage::Approval);
        self.held += spent;
    }

    /// Another call was quicker: the steps from here on are taken once more, and whatever was
    /// allowed is not this call's.
    pub fn back(&mut self, stage: Stage) {
        self.approval = None;
        self.mark(stage);
    }

    /// Notes a stage's verdict.
    pub fn check<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
        debug_assert!(self.stage <= stage, "stages only go forward");
        let spent = self.mark(stage);
        self.judging += spent;
        verdict
    }

    /// Observe mode, which alone has evidence: notes what enforce mode would have refused with, and
    /// goes on.
    pub fn overrule(
        &mut self,
        refusal: Refusal,
        observed: Option<Ruled>,
    ) -> Result<Ruled, Refusal> {
        let Some(evidence) = observed else {
            return Err(refusal);
        };
        self.would_refuse = Some((refusal, self.stage));
        Ok(evidence)
    }

    /// Observe mode: notes what enforce mode would have refused with at this stage, unless an
    /// earlier one did.
    pub fn note_refusal(&mut self, refusal: Refusal) {
        let stage = self.stage;
        self.would_refuse.get_or_insert((refusal, stage));
    }

    /// Notes the end of the upstream stage; a fault becomes the refusal that the agent reads.
    pub fn answered<T>(
        &mut self,
        side_effect: bool,
        ended: Result<T, Broken>,
    ) -> Result<T, Refusal> {
        let spent = self.mark(Stage::Dispatch);
        self.upstream += spent;
        ended.map_err(|broken| match broken {
            Broken::Cancelled(_) => Refusal::Cancelled,
            Broken::Fault(fault) => {
                let refusal = match (fault.sent, side_effect) {
                    (Sent::Nothing, _) => Refusal::UpstreamUnavailable,
                    (Sent::Maybe | Sent::Answered, true) => Refusal::OutcomeUnknown,
                    (Sent::Maybe | Sent::Answered, false) => Refusal::UpstreamFailed,
                };
                self.fault = Some(fault);
                refusal
            }
        })
    }

    fn mark(&mut self, stage: Stage) -> Duration {
        self.stage = stage;
        let now = self.clock.steady();
        let spent = now.saturating_sub(self.last);
        self.last = now;
        self.metrics.stage(stage.as_str(), spent);
        spent
    }
}

/// How a dispatched call can end without an answer.
#[derive(Debug)]
pub enum Broken {
    /// The agent cancelled it or went away: it changes nothing, or nothing of it has left.
    Cancelled(Sent),
    /// Something broke.
    Fault(Fault),
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
