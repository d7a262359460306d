//! Steps 3 to 5 of a call, where it is served or, when they take too much, on the pool for heavy
//! work (SECURITY §1).

use super::call::{Call, admitted};
use super::judge::{self, Notes};
use super::pinned;
use super::toolbox::Tool;
use super::trail::{Stage, Trail};
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::{Final, Ruled};
use crate::model::refusal::Refusal;
use crate::model::work::WorkExceeded;
use crate::policy::Policy;
use crate::schema::SchemaViolation;
use crate::telemetry::tasks::heavy::{self, HeavyWorkError};
use std::sync::Arc;

/// Said when other heavy calls were before it for too long.
const TOO_LATE: &str = "fewer or smaller values: by the schema these take long to judge, and other such calls were before them";

/// Why a call that is too heavy to judge is refused.
pub(super) fn refused(unfinished: HeavyWorkError) -> Refusal {
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
pub(super) async fn judged(
    (policy, admitted): (&Policy, &Admitted<'_>),
    (call, tool): (&Arc<Call>, &Arc<Tool>),
    trail: &mut Trail,
) -> Result<Ruled, Refusal> {
    let there = || {
        let (call, tool) = (call.clone(), tool.clone());
        move || again(&call, &tool)
    };
    let here = || steps((policy, admitted), (call, tool), trail).map_err(Judged::Here);
    let ended = heavy::done(&call.caller.agent, here, there)
        .await
        .unwrap_or_else(|unfinished| {
            let refusal = refused(unfinished);
            // The stage that was under way when the work was spent.
            let stage = if trail.stage < Stage::Arguments {
                Stage::Arguments
            } else {
                Stage::Rules
            };
            Err(Judged::There(stage, refusal))
        });
    match ended {
        Err(Judged::There(stage, refusal)) => trail.check(stage, Err(refusal)),
        Err(Judged::Here(refusal)) => Err(refusal),
        Ok(ruled) => Ok(ruled),
    }
}

/// A refusal, and whether the trail has heard of it.
enum Judged {
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

fn again(call: &Call, tool: &Tool) -> Result<Ruled, Judged> {
    let mut reached = Reached(Stage::Visible);
    let admitted = admitted(&call.policy, call, tool);
    let ruled =
        admitted.and_then(|admitted| steps((&call.policy, &admitted), (call, tool), &mut reached));
    ruled.map_err(|refusal| Judged::There(reached.0, refusal))
}

fn steps(
    (policy, admitted): (&Policy, &Admitted<'_>),
    (call, tool): (&Call, &Tool),
    notes: &mut impl Notes,
) -> Result<Ruled, Refusal> {
    // Already so, unless nothing is enforced.
    let arguments = &*admitted
        .rules()
        .arguments
        .strip(&tool.schema, &call.judged.arguments);
    let unseen = admitted
        .would_refuse()
        .or_else(|| pinned::would_refuse(policy, tool));
    notes.note(Stage::Visible, unseen.map_or(Ok(()), Err))?;
    notes.note(Stage::Arguments, call.read())?;
    judge::ruled(admitted, &call.caller, (&tool.schema, arguments), notes)
}

/// Steps 3 to 6 without hooks, for what observe mode only foresees.
pub(super) async fn foreseen(
    admitted: &Admitted<'_>,
    (call, tool): (&Arc<Call>, &Arc<Tool>),
) -> Result<Final, Refusal> {
    let made = |admitted: &Admitted<'_>, call: &Call, tool: &Tool| {
        let of = (&tool.schema, &call.judged.arguments);
        judge::made(admitted, &call.caller, of, &mut judge::Silent).map(|made| made.last)
    };
    let there = || {
        let (call, tool) = (call.clone(), tool.clone());
        move || {
            let admitted = call
                .policy
                .allowlist
                .admit(&call.caller, &tool.name)
                .map_err(|denied| denied.refusal)?;
            made(&admitted, &call, &tool)
        }
    };
    let here = || made(admitted, call, tool);
    let ended = heavy::done(&call.caller.agent, here, there).await;
    ended.unwrap_or_else(|unfinished| Err(refused(unfinished)))
}
