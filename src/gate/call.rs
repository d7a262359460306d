//! THE PIPELINE: every guard, in the order of SEMANTICS §2, on one screen.

use super::Gate;
use super::dispatch::{Way, dispatch};
use super::record;
use super::taken::Taken;
use super::toolbox::Tool;
use super::trail::{Stage, Trail};
use crate::failpoint;
use crate::guards::Mode;
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::Ruled;
use crate::mcp::answer::{Decision, refused, with_decision};
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::call::ToolCall;
use crate::model::caller::Caller;
use crate::model::refusal::Refusal;
use crate::outlet::{Outgoing, Outlet};
use crate::policy::Policy;
use crate::telemetry::metrics::Outcome;
use crate::upstream::links::{Links, Waiting};
use futures_util::FutureExt as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// A call, who makes it, and the way back.
pub struct Call {
    /// What the guards judge.
    pub judged: ToolCall,
    /// Who calls.
    pub caller: Arc<Caller>,
    /// The request as it was read.
    pub message: Message,
    /// The agent's era.
    pub era: Era,
    /// What the agent reaches.
    pub links: Arc<Links>,
    /// Where the agent reads.
    pub outlet: Outlet,
    /// Its place among the agent's requests that wait.
    pub waiting: Waiting,
}

impl Gate {
    /// Runs a call to its end, even when the agent hangs up: what was begun is settled and recorded.
    pub async fn call_tool(self: Arc<Self>, call: Call) {
        let policy = self.policy.current();
        let tool = self.tools.current().find(&call.judged.tool).cloned();
        let mut trail = Trail::new(self.metrics.clone(), self.clock, call.judged.arrived);
        let mut taken = Taken::default();
        let running = guarded(&policy, &self, &call, tool.as_deref(), (&mut trail, &mut taken));
        let ended = AssertUnwindSafe(running).catch_unwind().await;
        let ending = ended.unwrap_or_else(|_| Err(taken.after_panic()));
        taken.settle();
        let outcome = record::record(&self, &policy, &call, (tool.as_deref(), &trail), &ending);
        // A modern agent that cancelled wants to hear no more of the call (PROTOCOL §1.7).
        if call.era == Era::Legacy || !matches!(ending, Err(Refusal::Cancelled)) {
            let answer = answer(&call, &ending, (outcome, trail.stage));
            failpoint::reached("reply-to-agent");
            let _ = call.outlet.send(Outgoing::Last(answer)).await;
        }
    }
}

/// The steps of SEMANTICS §2 in their order. What leaves early has been refused; nothing after it has run.
async fn guarded(
    policy: &Policy,
    gate: &Gate,
    call: &Call,
    tool: Option<&Tool>,
    (trail, taken): (&mut Trail, &mut Taken),
) -> Result<Message, Refusal> {
    let tool = trail.check(Stage::Visible, tool.ok_or(Refusal::ToolNotAllowlisted))?;
    let admitted = trail
        .check(Stage::Visible, policy.allowlist.admit(&call.caller, &tool.name).map_err(|denied| denied.refusal))?;
    let ruled = match (judged(&admitted, call, tool, trail), Ruled::observed(policy.mode)) {
        (Ok(ruled), _) => ruled,
        (Err(refusal), Some(observed)) => trail.overrule(refusal, observed),
        (Err(refusal), None) => return Err(refusal),
    };
    let side_effect = admitted.rules().side_effect;
    failpoint::reached("after-policy");

    // Steps 6 to 11 stand here when they exist: rewrite, repetition, idempotency, budget, approval, fence.
    // Step 12 is not durable yet: a side effect asks only that its entry can still be written. Step 13 follows it.

    if side_effect && policy.mode == Mode::Enforce && !gate.journal.is_writing() {
        return Err(Refusal::StoreUnavailable);
    }
    taken.slot = Some(gate.slots.clone().try_acquire_owned().map_err(|_| Refusal::Overloaded)?);
    // What a contract says changes something is finished even when the agent hangs up (SEMANTICS §4).
    let detached = side_effect && !admitted.rules().actions.is_empty();
    let way = Way { detached, timeout: admitted.rules().budget.timeout(), ..Way::default() };
    let reply = dispatch(call, tool, way, ruled).await;
    trail.answered(side_effect, reply)
}

/// Steps 3 to 5; step 2 has admitted the caller, in observe mode perhaps only because nothing is refused there.
fn judged(admitted: &Admitted<'_>, call: &Call, tool: &Tool, trail: &mut Trail) -> Result<Ruled, Refusal> {
    let (caller, arguments, rules) = (&*call.caller, &call.judged.arguments, admitted.rules());
    trail.check(Stage::Visible, admitted.would_refuse().map_or(Ok(()), Err))?;
    let checked = trail.check(Stage::Arguments, rules.arguments.check(&tool.schema, arguments))?;
    let permit = trail.check(Stage::Permission, rules.permission.allow(caller, arguments, &checked))?;
    trail.check(Stage::Rules, rules.rules.apply(caller, arguments, &permit))
}

/// What the agent reads: the tool server's answer with our verdict beside it, or the refusal.
fn answer(call: &Call, ending: &Result<Message, Refusal>, (outcome, stage): (Outcome, Stage)) -> Message {
    let refusal = ending.as_ref().err();
    let decision = Decision {
        action: call.judged.action,
        outcome: outcome.word(),
        refusal,
        stage: stage.as_str(),
        replayed: false,
        budget_remaining: None,
        warning: None,
    };
    let answer = match ending {
        Ok(reply) if reply.is_error => reply.clone(),
        Ok(reply) => {
            Message { body: reply.body.as_ref().map(|result| with_decision(result, &decision)), ..reply.clone() }
        }
        Err(refusal) => refused(None, call.era, &decision, refusal),
    };
    Message { id: call.message.id.clone(), ..answer }
}
