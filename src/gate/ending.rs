//! The one place where a call ends: what it holds is given back, what became of it is recorded and
//! counted, and its agent is answered.

use crate::failpoint;
use crate::gate::Gate;
use crate::gate::call::ArgumentOrigin;
use crate::gate::call::Call;
use crate::gate::case::Stop;
use crate::gate::catalogue::tool::Tool;
use crate::gate::effects::taken::Ended;
use crate::gate::effects::taken::Taken;
use crate::gate::live::Live;
use crate::gate::observing::Observing;
use crate::gate::pipeline::run;
use crate::gate::prepare::prepared;
use crate::gate::record::Ending;
use crate::gate::record::RecordedCall;
use crate::gate::record::changes;
use crate::gate::record::counting::Counted;
use crate::gate::record::counting::count;
use crate::gate::record::effect;
use crate::gate::record::entry::entry;
use crate::gate::record::findings::Findings;
use crate::gate::record::has_failed;
use crate::gate::record::outcome_of;
use crate::gate::record::seen;
use crate::gate::record::timing::StageTimer;
use crate::gate::steps::rounds::sealed;
use crate::gate::steps::task_state::is_planned;
use crate::guards::Mode;
use crate::guards::output::Meaning;
use crate::mcp::answer::{DecisionMeta, invalid, refused, with_decision};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::refusal::Refusal;
use crate::outlet::Outgoing;
use crate::policy::Policy;
use crate::store::claims::StoreError;
use futures_util::FutureExt as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

impl Gate {
    /// Runs a call to its end, even when the agent hangs up: what was begun is settled and
    /// recorded.
    pub async fn call_tool(self: Arc<Self>, call: Call) {
        let policy = call.origin.policy.clone();
        let asked = call.message.body.clone();
        let case = prepared(&self, &policy, call);
        let tool = case.tool.clone();
        let mut live = Live {
            gate: &self,
            policy: &policy,
            timer: StageTimer::new(self.metrics.clone(), self.clock, case.call.judged.arrived),
            call: case.call.clone(),
            found: Findings::default(),
            taken: Taken::default(),
        };
        let ended = match policy.mode {
            Mode::Enforce => AssertUnwindSafe(run(&mut live, case)).catch_unwind().await,
            Mode::Observe => {
                let mut observing = Observing(&mut live);
                AssertUnwindSafe(run(&mut observing, case))
                    .catch_unwind()
                    .await
            }
        };
        let ending = match ended {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Stop::Answered(answer))) => Ok(*answer),
            Ok(Err(Stop::Refused(refusal))) => Err(refusal),
            Err(_) => Err(live.taken.after_panic()),
        };
        let ended = EndedCall::settle(live, tool, ending).await;
        ended.answer(asked.as_ref()).await;
        ended.tell();
    }
}

/// A call that holds nothing any more, and how it ended.
struct EndedCall<'p> {
    gate: &'p Gate,
    policy: &'p Policy,
    call: Arc<Call>,
    tool: Option<Arc<Tool>>,
    timer: StageTimer,
    found: Findings,
    ending: Ending,
    /// The answer of a call whose outcome could not be recorded.
    unrecorded: Option<Message>,
}

impl<'p> EndedCall<'p> {
    /// Settles what the call holds, with its entry; then counts it.
    async fn settle(live: Live<'p>, tool: Option<Arc<Tool>>, ending: Ending) -> Self {
        let Live {
            gate,
            policy,
            call,
            mut timer,
            found,
            taken,
        } = live;
        let ending = last_word(gate, policy, &call, ending).await;
        let recorded = RecordedCall {
            gate,
            policy,
            call: &call,
            tool: tool.as_deref(),
            timer: &timer,
            found: &found,
        };
        let entry = Box::new(entry(&recorded, Some(&ending)));
        let is_executed = found.dispatch.attempts > 0 && changes(policy, &call);
        let counted = Counted {
            claimed: taken.claim.is_some(),
            executed: is_executed.then(|| effect(&entry)),
        };
        let kept = Ended {
            failed: has_failed(&entry),
            seen: seen(&entry),
        };
        let settled = taken
            .settle(&gate.effects, entry, ending.as_ref().ok(), kept)
            .await;
        if counted.claimed {
            timer.settled(settled.is_ok());
        }
        let (ending, unrecorded) = match settled {
            Ok(entry) => {
                if let Some(entry) = entry {
                    let outcome = outcome_of(&ending, &found);
                    gate.sums
                        .enter_call(entry, outcome, || !changes(policy, &call));
                }
                (ending, None)
            }
            Err(error) => unrecorded(&call, ending, &error),
        };
        timer.end();
        let ended = Self {
            gate,
            policy,
            call,
            tool,
            timer,
            found,
            ending,
            unrecorded,
        };
        count(&ended.recorded(), &counted, &ended.ending);
        ended
    }

    fn recorded(&self) -> RecordedCall<'_> {
        RecordedCall {
            gate: self.gate,
            policy: self.policy,
            call: &self.call,
            tool: self.tool.as_deref(),
            timer: &self.timer,
            found: &self.found,
        }
    }

    /// Answers the agent, whose request had these parameters.
    async fn answer(&self, asked: Option<&Text>) {
        let origin = &self.call.origin;
        // A modern agent that cancelled wants to hear no more of the call (protocol §1.7).
        if origin.era == Era::Modern && matches!(self.ending, Err(Refusal::Cancelled)) {
            return;
        }
        let answer = answer(self);
        let answer = sealed(
            &self.gate.seal,
            self.tool.as_deref(),
            &self.call,
            asked,
            answer,
        );
        failpoint::reached("reply-to-agent");
        origin.waiting.answered();
        let _ = origin.outlet.send(Outgoing::Last(Box::new(answer))).await;
    }

    /// Tells after-hooks. Never waits.
    fn tell(&self) {
        if let Some(tool) = &self.tool {
            self.gate.tell(&self.recorded(), tool, &self.ending);
        }
    }
}

/// How the call ends after all: an agent that goes on with what is refused reads in the end that it
/// goes in circles. What was to be planned and is not leaves no plan.
async fn last_word(gate: &Gate, policy: &Policy, call: &Arc<Call>, ending: Ending) -> Ending {
    let ending = match gate.rows.circle(policy, call, &ending) {
        Some(circle) => Err(circle),
        None => ending,
    };
    if is_planned(call) == Ok(true) && !matches!(ending, Err(Refusal::Planned)) {
        gate.effects.give_up_plan(call).await;
    }
    ending
}

/// An outcome that could not be made durable is not given as one: the agent reads that the tool has
/// run and that nobody else will know.
fn unrecorded(call: &Call, ending: Ending, error: &StoreError) -> (Ending, Option<Message>) {
    tracing::error!(
        action = %call.judged.action,
        %error,
        "the outcome of a call cannot be recorded"
    );
    match ending {
        Ok(answer) => (Err(Refusal::ExecutedButNotRecorded), Some(answer)),
        Err(_) => (Err(Refusal::OutcomeUnknown), None),
    }
}

/// What the agent reads: the tool server's answer with our verdict beside it, or the refusal.
fn answer(ended: &EndedCall<'_>) -> Message {
    let EndedCall {
        call,
        found,
        ending,
        timer,
        unrecorded,
        ..
    } = ended;
    let decision = DecisionMeta {
        action: call.judged.action,
        outcome: outcome_of(ending, found).word(),
        refusal: ending.as_ref().err(),
        stage: timer.stage().as_str(),
        replayed: found.key.replayed,
        claimed_by: found.key.holder,
        budget_remaining: found.remaining.as_ref(),
        warning: found.warning,
        meaning: found
            .dispatch
            .meaning
            .map(|meaning| (meaning.word(), meaning == Meaning::Retryable)),
        evidence: &found.state.evidence,
    };
    let answer = match ending {
        Ok(reply) if reply.is_error => reply.clone().brief(),
        Ok(reply) => Message {
            body: reply
                .body
                .as_ref()
                .map(|result| with_decision(result, &decision)),
            ..reply.clone()
        },
        Err(refusal @ Refusal::SchemaInvalid { .. }) if call.reading == ArgumentOrigin::Foreign => {
            invalid(None, &decision, refusal)
        }
        Err(refusal) => {
            let era = call.origin.era;
            refused(None, era, &decision, refusal, unrecorded.as_ref())
        }
    };
    Message {
        id: call.message.id.clone(),
        ..answer
    }
}
