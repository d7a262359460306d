//! What a policy says of a call, as far as nothing but the call and a given state of its task decides: steps 2 to 5, 7, and
//! the key of step 8. The pipeline takes steps 3 to 5 from here; `explain`, `ledger replay` and `test` take all of them.
//! Nothing is sent, and no store is asked.

use super::record::{params_hash, seen_call};
use super::trail::{Stage, Trail};
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::Ruled;
use crate::guards::idempotency::{Asked, Given, Keyed};
use crate::model::caller::Caller;
use crate::model::ids::{SEPARATOR, ServerName, ToolName};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::schema::Schema;
use crate::store::state::budget::Task;
use serde_json::Value;
use std::sync::Arc;

/// Where each step's verdict goes.
pub trait Notes {
    /// Notes the verdict of a step, and gives it back.
    fn note<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal>;
}

/// A call that nobody makes.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Who would call.
    pub caller: &'a Caller,
    /// What would be called: `server__tool`.
    pub tool: &'a ToolName,
    /// The tool's input schema.
    pub schema: &'a Schema,
    /// The arguments, as an agent would send them.
    pub arguments: &'a Value,
    /// The call's task as it is before.
    pub task: &'a Task,
}

/// What no step has anything against.
#[must_use]
#[derive(Debug)]
pub struct Passed<'a> {
    /// The contract it was judged by.
    pub rules: &'a Arc<ToolRules>,
    /// The call's key, if it has one.
    pub keyed: Option<Keyed>,
    /// What the agent would be told beside the answer.
    pub warning: Option<&'static str>,
}

impl Notes for Trail {
    fn note<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
        self.check(stage, verdict)
    }
}

/// Judges the call as enforce mode would, whatever the mode is.
pub fn judge<'p>(policy: &'p Policy, call: &Question<'_>, notes: &mut impl Notes) -> Result<Passed<'p>, Refusal> {
    let Question { caller, tool, schema, arguments, task } = *call;
    let admitted = visible(policy, caller, tool, notes)?.on(arguments);
    let rules = admitted.rules();
    // The key is taken off before any guard looks at the arguments, as in the pipeline.
    let taken = rules.idempotency.as_ref().map(|rule| rule.split(schema, arguments));
    let (arguments, key) = taken.as_ref().map_or((arguments, None), |(rest, key)| (&**rest, key.as_deref()));
    let passed = ruled(&admitted, caller, (schema, arguments), notes)?;
    let seen = seen_call(tool.as_str(), &params_hash(arguments));
    let allowed = notes.note(Stage::Repetition, policy.repetition.watch(&task.history, tool, seen, &passed))?;
    let keyed = match &rules.idempotency {
        None => None,
        Some(rule) => {
            let (server, own) = tool.as_str().split_once(SEPARATOR).unwrap_or(("", tool.as_str()));
            let given = Given { argument: key, ..Given::default() };
            let asked = Asked { caller, server: &ServerName::new(server), tool: own, arguments, given };
            Some(notes.note(Stage::Idempotency, rule.key(&asked, &allowed.watched))?)
        }
    };
    Ok(Passed { rules, keyed, warning: allowed.warning })
}

/// Step 2: may `caller` see `tool`? As enforce mode says it.
pub fn visible<'p>(
    policy: &'p Policy,
    caller: &Caller,
    tool: &ToolName,
    notes: &mut impl Notes,
) -> Result<Admitted<'p>, Refusal> {
    let admitted = notes.note(Stage::Visible, policy.allowlist.admit(caller, tool).map_err(|denied| denied.refusal))?;
    match admitted.would_refuse() {
        Some(refusal) => notes.note(Stage::Visible, Err(refusal)),
        None => Ok(admitted),
    }
}

/// Steps 3 to 5, by the contract that counts for the arguments; step 2 has admitted the caller.
pub fn ruled(
    admitted: &Admitted<'_>,
    caller: &Caller,
    (schema, arguments): (&Schema, &Value),
    notes: &mut impl Notes,
) -> Result<Ruled, Refusal> {
    let rules = admitted.rules();
    let checked = notes.note(Stage::Arguments, rules.arguments.check(schema, arguments))?;
    let permit = notes.note(Stage::Permission, rules.permission.allow(caller, arguments, &checked))?;
    notes.note(Stage::Rules, rules.rules.apply(caller, arguments, &permit))
}
