//! A call that nobody makes: what a policy says of it, as far as nothing but the call and a given
//! state of its task decides. `explain`, `ledger replay` and `test` ask so. Nothing is sent, no hook
//! and no store is asked. Whether a tool is still as it was approved depends on its server; that
//! nobody has approved it does not.

pub(crate) mod steps;
mod world;

use crate::gate::pipeline::Stage;
use crate::gate::pipeline::run;
use crate::gate::steps::judge::Arguments;
use crate::gate::steps::judge::Notes;
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::Final;
use crate::guards::idempotency::Keyed;
use crate::guards::secrets::NeededSecrets;
use crate::model::caller::Caller;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::model::work;
use crate::policy::Policy;
use crate::policy::pack::TaskBefore;
use crate::schema::{Schema, SchemaViolation};
use futures_util::FutureExt as _;
use serde_json::Value;
use std::sync::Arc;
use world::{SupposedStop, Supposing};

/// The codes that [`judge`] can give, beside those of the contracts' rules.
pub(crate) const CODES: &[&str] = &[
    "tool_not_allowlisted",
    "schema_invalid",
    "rbac_denied",
    "tenant_mismatch",
    "resource_denied",
    "hook_blocked",
    "loop_detected",
    "idempotency_key_required",
    "draft_required",
    "budget_calls_exceeded",
    "budget_exceeded",
    "approval_pending",
    "secret_denied",
];

/// For a caller that wants the verdict only.
#[derive(Debug)]
pub(crate) struct Silent;

impl Notes for Silent {
    fn note<T>(&mut self, _: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
        verdict
    }
}

/// A call that nobody makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// Who would call.
    pub caller: &'a Caller,
    /// What would be called: `server__tool`.
    pub tool: &'a ToolName,
    /// The tool's input schema.
    pub schema: &'a Schema,
    /// The arguments, as an agent would send them.
    pub arguments: &'a Value,
    /// The idempotency key beside it, if the agent gives one.
    pub key: Option<&'a Value>,
    /// The call's task as it is before.
    pub before: &'a TaskBefore,
}

/// What no step has anything against.
#[must_use]
#[derive(Debug)]
pub(crate) struct Passed<'a> {
    /// The contract it was judged by.
    pub rules: &'a Arc<ToolRules>,
    /// The call's key, if it has one.
    pub keyed: Option<Keyed>,
    /// The secrets it would need.
    pub secrets: NeededSecrets,
}

/// What would be sent of a call, as far as hooks have no say.
#[must_use]
#[derive(Debug)]
pub(crate) struct Made<'p> {
    /// The contract that counts for it.
    pub rules: &'p Arc<ToolRules>,
    /// That they have passed steps 3 to 6.
    pub last: Final,
}

/// Judges the call as enforce mode would, whatever the mode is.
pub(crate) fn judge<'p>(
    policy: &'p Policy,
    call: &Question<'_>,
    notes: &mut (impl Notes + Send),
) -> Result<Passed<'p>, Refusal> {
    let asked = Arguments {
        caller: call.caller,
        schema: call.schema,
        values: call.arguments,
    };
    // The person that asks is the only one that waits: it may take what the pool gives a call.
    let verdict = work::within(work::HEAVY_WORK_UNITS, || {
        supposed(&mut Supposing {
            policy,
            asked,
            admitted: None,
            question: Some(call),
            notes: &mut *notes,
        })
    });
    match verdict {
        Ok(Ok(passed)) => Ok(passed),
        Ok(Err(SupposedStop::Refused(refusal))) => Err(refusal),
        Ok(Err(SupposedStop::Settled(_))) => Err(Refusal::InternalError),
        Err(spent) => notes.note(Stage::Arguments, Err(SchemaViolation::from(spent).into())),
    }
}

/// Steps 3 to 6 without hooks; step 2 has `admitted` the caller.
pub(crate) fn made<'p>(
    policy: &'p Policy,
    admitted: &Admitted<'p>,
    arguments: Arguments<'_>,
    notes: &mut (impl Notes + Send),
) -> Result<Made<'p>, Refusal> {
    let settled = supposed(&mut Supposing {
        policy,
        asked: arguments,
        admitted: Some(admitted.clone()),
        question: None,
        notes,
    });
    match settled {
        Err(SupposedStop::Settled(made)) => Ok(made),
        Err(SupposedStop::Refused(refusal)) => Err(refusal),
        Ok(_) => Err(Refusal::InternalError),
    }
}

/// Nothing that is supposed waits for anything.
fn supposed<'p, N: Notes + Send>(
    world: &mut Supposing<'_, 'p, '_, N>,
) -> Result<Passed<'p>, SupposedStop<'p>> {
    run(world, ())
        .now_or_never()
        .unwrap_or(Err(SupposedStop::Refused(Refusal::InternalError)))
}
