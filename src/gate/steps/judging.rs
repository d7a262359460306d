//! Steps 3 to 5 of a call, where it is served or, when they take too much, on the pool for heavy
//! work (threat-model §1).

use crate::gate::call::Call;
use crate::gate::case::VisibleCall;
use crate::gate::catalogue::pinned;
use crate::gate::catalogue::tool::Tool;
use crate::gate::catalogue::unlisted;
use crate::gate::pipeline::Stage;
use crate::gate::record::timing::StageTimer;
use crate::gate::steps::judge::Arguments;
use crate::gate::steps::judge::Notes;
use crate::gate::steps::judge::ruled;
use crate::gate::supposing;
use crate::gate::supposing::Silent;
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::{Final, Ruled};
use crate::model::refusal::Refusal;
use crate::model::work::WorkExceeded;
use crate::policy::Policy;
use crate::schema::SchemaViolation;
use crate::telemetry::tasks::heavy::{self, HeavyWorkError};

/// Said when other heavy calls were before it for too long.
const TOO_LATE: &str = "fewer or smaller values: by the schema these take long to judge, and other such calls were before them";

/// Why a call that is too heavy to judge is refused.
pub(in crate::gate) fn refused(unfinished: HeavyWorkError) -> Refusal {
    match unfinished {
        HeavyWorkError::TooHeavy => SchemaViolation::from(WorkExceeded).into(),
        HeavyWorkError::TooLate => SchemaViolation {
            pointer: String::new(),
            expected: TOO_LATE.to_owned(),
        }
        .into(),
        HeavyWorkError::Full => Refusal::Overloaded,
    }
}

/// Steps 3 to 5; step 2 has admitted the caller, in observe mode perhaps only because nothing is
/// refused there.
pub(in crate::gate) async fn judged(
    policy: &Policy,
    case: &VisibleCall<'_>,
    timer: &mut StageTimer,
) -> Result<Ruled, Refusal> {
    let there = || {
        let (call, tool) = (case.call.clone(), case.tool.clone());
        move || again(&call, &tool)
    };
    let VisibleCall {
        call,
        tool,
        admitted,
    } = case;
    let here = || steps(policy, admitted, call, tool, timer).map_err(JudgingStop::Here);
    let ended = heavy::done(&call.origin.caller.agent, here, there).await;
    let ended = ended.unwrap_or_else(|unfinished| {
        // The stage that was under way when the work was spent.
        let stage = if timer.stage() < Stage::Arguments {
            Stage::Arguments
        } else {
            Stage::Rules
        };
        Err(JudgingStop::There(stage, refused(unfinished)))
    });
    let ended = match ended {
        Err(JudgingStop::There(stage, refusal)) => timer.note(stage, Err(refusal)),
        Err(JudgingStop::Here(refusal)) => Err(refusal),
        Ok(ruled) => Ok(ruled),
    };
    if let Err(Refusal::RuleFailed { code, why }) = &ended {
        let action = &call.judged.action;
        tracing::warn!(%action, tool = %tool.name, rule = %code, why, "a rule of a contract cannot be judged, and the call is refused for that; mend the rule");
    }
    ended
}

/// A refusal, and whether the timer has heard of it.
enum JudgingStop {
    Here(Refusal),
    There(Stage, Refusal),
}

/// The stage that a judgement elsewhere has reached.
struct Reached(Stage);

impl Notes for Reached {
    fn note<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
        self.0 = stage;
        verdict
    }
}

fn again(call: &Call, tool: &Tool) -> Result<Ruled, JudgingStop> {
    let mut reached = Reached(Stage::Visible);
    let policy = &call.origin.policy;
    let ruled = call
        .admitted(policy)
        .and_then(|admitted| steps(policy, &admitted, call, tool, &mut reached));
    ruled.map_err(|refusal| JudgingStop::There(reached.0, refusal))
}

fn steps(
    policy: &Policy,
    admitted: &Admitted<'_>,
    call: &Call,
    tool: &Tool,
    notes: &mut impl Notes,
) -> Result<Ruled, Refusal> {
    // In enforce mode `prepare.rs` has stripped the arguments that the agent sent, and this leaves
    // them as they are. In observe mode they travel as they came, and are stripped here only to be
    // judged.
    let values = &*admitted
        .rules()
        .arguments
        .strip(&tool.schema, &call.judged.arguments);
    let unseen = admitted
        .would_refuse()
        .or_else(|| unlisted::would_refuse(tool))
        .or_else(|| pinned::would_refuse(policy, tool));
    notes.note(Stage::Visible, unseen.map_or(Ok(()), Err))?;
    notes.note(Stage::Arguments, call.read())?;
    let arguments = Arguments {
        caller: &call.origin.caller,
        schema: &tool.schema,
        values,
    };
    ruled(admitted, arguments, notes)
}

/// Steps 3 to 6 without hooks, for what observe mode only foresees.
pub(in crate::gate) async fn foreseen(
    policy: &Policy,
    case: &VisibleCall<'_>,
) -> Result<Final, Refusal> {
    fn last(policy: &Policy, call: &Call, tool: &Tool) -> Result<Final, Refusal> {
        let caller = &call.origin.caller;
        let admitted = policy.allowlist.admit(caller, &tool.name);
        let admitted = admitted.map_err(|denied| denied.refusal)?;
        let arguments = Arguments {
            caller,
            schema: &tool.schema,
            values: &call.judged.arguments,
        };
        supposing::made(policy, &admitted, arguments, &mut Silent).map(|made| made.last)
    }
    let there = || {
        let (call, tool) = (case.call.clone(), case.tool.clone());
        move || last(&call.origin.policy, &call, &tool)
    };
    let here = || last(policy, &case.call, &case.tool);
    let ended = heavy::done(&case.call.origin.caller.agent, here, there).await;
    ended.unwrap_or_else(|unfinished| Err(refused(unfinished)))
}
