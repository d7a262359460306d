//! What a policy says of a call, as far as nothing but the call and a given state of its task
//! decides: steps 2 to 6 without hooks, 7, the key of step 8, steps 9 and 10, and where references
//! stand for step 13. Whether a tool is still as it was approved depends on its server; that nobody
//! has approved it does not. The pipeline takes steps 3 to 5 from here; `explain`, `ledger replay`
//! and `test` take all of them. Nothing is sent, and no store is asked.

use super::record::{params_hash, seen_call};
use super::trail::{Stage, Trail};
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::{Final, Ruled};
use crate::guards::idempotency::{Given, KeyRequest, Keyed};
use crate::guards::rewrite::{ChangedArguments, RewriteDraft, RewriteOutcome, passed_again};
use crate::guards::secrets::{self, NeededSecrets, Target};
use crate::mcp::headers::params_of;
use crate::mcp::json::Text;
use crate::model::caller::Caller;
use crate::model::ids::{self, ServerName, ToolName};
use crate::model::refusal::Refusal;
use crate::model::work;
use crate::policy::Policy;
use crate::policy::pack::TaskBefore;
use crate::schema::{Schema, SchemaViolation};
use crate::store::state::budget::{Rate, Remaining, SeenCall, TaskUsage};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The codes that [`judge`] can give, beside those of the contracts' rules.
pub const CODES: &[&str] = &[
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

/// Where each step's verdict goes.
pub trait Notes {
    /// Notes the verdict of a step, and gives it back.
    fn note<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal>;

    /// Notes what the contract's own steps make of the arguments, before that is judged.
    fn changed(&mut self, _before: &Value, _changed: &ChangedArguments) {}
}

/// For who wants the verdict only.
#[derive(Debug)]
pub struct Silent;

impl Notes for Silent {
    fn note<T>(&mut self, _: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
        verdict
    }
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
    /// The idempotency key beside it, if the agent gives one.
    pub key: Option<&'a Value>,
    /// The call's task as it is before.
    pub before: &'a TaskBefore,
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
    /// What its task would have left.
    pub remaining: Remaining,
    /// The secrets it would need.
    pub secrets: NeededSecrets,
}

impl Notes for Trail {
    fn note<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
        self.check(stage, verdict)
    }
}

/// Judges the call as enforce mode would, whatever the mode is.
pub fn judge<'p>(
    policy: &'p Policy,
    call: &Question<'_>,
    notes: &mut impl Notes,
) -> Result<Passed<'p>, Refusal> {
    // Nobody waits but who asks: it may take what the pool gives a call.
    let verdict = work::within(work::HEAVY_WORK_UNITS, || steps(policy, call, notes));
    let verdict = verdict.unwrap_or_else(|spent| {
        notes.note(Stage::Arguments, Err(SchemaViolation::from(spent).into()))
    });
    let is_verdict = verdict.as_ref().is_err_and(Refusal::is_verdict);
    match policy.repetition.after(call.before.refused, call.tool) {
        Err(circle) if is_verdict => notes.note(Stage::Repetition, Err(circle)),
        _ => verdict,
    }
}

fn steps<'p>(
    policy: &'p Policy,
    call: &Question<'_>,
    notes: &mut impl Notes,
) -> Result<Passed<'p>, Refusal> {
    let Question {
        caller,
        tool,
        schema,
        arguments,
        key,
        before,
    } = *call;
    // What cannot be held to its contract is withheld from everybody.
    let unfit = policy
        .allowlist
        .contract_of(tool)
        .is_some_and(|rules| rules.lacks(schema).is_some());
    notes.note(
        Stage::Visible,
        if unfit {
            Err(Refusal::ToolNotAllowlisted)
        } else {
            Ok(())
        },
    )?;
    let admitted = visible(policy, caller, tool, notes)?;
    // The key is taken off before any guard looks at the arguments, as in the pipeline.
    let taken = admitted
        .clone()
        .on(arguments)
        .rules()
        .idempotency
        .as_ref()
        .map(|rule| rule.split(schema, arguments));
    let (arguments, argument) = taken
        .as_ref()
        .map_or((arguments, None), |(rest, key)| (&**rest, key.as_deref()));
    let Made {
        rules,
        arguments,
        last,
    } = made(&admitted, caller, (schema, arguments), notes)?;
    let arguments = &*arguments;
    // A variant that the call was not before may know an argument for its key.
    let late = rules
        .idempotency
        .as_ref()
        .and_then(|rule| rule.split(schema, arguments).1);
    let argument = argument.or(late.as_deref());
    let seen = seen_call(tool.as_str(), &params_hash(arguments));
    let watched = policy
        .repetition
        .watch(&history(before, seen), tool, seen, &last);
    let allowed = notes.note(Stage::Repetition, watched)?;
    let keyed = match &rules.idempotency {
        None => None,
        Some(rule) => {
            let (server, own) = split(tool);
            let given = Given {
                meta: key,
                argument,
                ..Given::default()
            };
            let asked = KeyRequest {
                caller,
                server: &server,
                tool: own,
                arguments,
                given,
            };
            Some(notes.note(Stage::Idempotency, rule.key(&asked, &allowed.watched))?)
        }
    };
    if let Some(confirms) = rules.confirms.as_ref().filter(|_| !before.is_drafted) {
        notes.note::<()>(Stage::Idempotency, Err(confirms.refuse()))?;
    }
    let asked = rules
        .budget
        .ask(&policy.tasks, caller, (tool, rules.side_effect));
    let mut task = TaskUsage {
        steps: before.steps,
        calls: before.tool_calls,
        cost: before.cost,
        ..TaskUsage::new(0)
    };
    (task.failures, task.failures_in_a_row) = (before.failures, before.failures_in_a_row);
    let used = task.tools.entry(asked.price.tool.clone()).or_default();
    let step = asked.limits.rate.map_or(0, Rate::step);
    (used.calls, used.due) = (
        before.calls,
        before
            .elapsed
            .saturating_add(step.saturating_mul(before.calls_now)),
    );
    let fits = asked
        .limits
        .admit(Some(&task), &asked.price, before.elapsed);
    let fits = notes.note(
        Stage::Budget,
        fits.map_err(|exceeded| asked.refuse(&exceeded)),
    )?;
    if let Some(approval) = rules.approval.as_ref().filter(|_| !before.is_approved) {
        notes.note::<()>(Stage::Approval, Err(approval.pending(None)))?;
    }
    let secrets = notes.note(
        Stage::Secrets,
        wanted((policy, rules), (tool, schema), arguments, key),
    )?;
    Ok(Passed {
        rules,
        keyed,
        warning: allowed.warning,
        remaining: fits.after(&asked.price),
        secrets,
    })
}

/// Step 13 without the values: the secrets that a call with these arguments, and this key beside
/// them, would need.
pub fn wanted(
    (policy, rules): (&Policy, &ToolRules),
    (tool, schema): (&ToolName, &Schema),
    arguments: &Value,
    key: Option<&Value>,
) -> Result<NeededSecrets, Refusal> {
    let (server, own) = split(tool);
    let has_references = secrets::Rule::is_in(arguments);
    let mirrored = if has_references {
        params_of(&schema.source()).unwrap_or_default()
    } else {
        Vec::new()
    };
    let target = Target {
        server: &server,
        tool: own,
        mirrored: &mirrored,
    };
    rules
        .secrets
        .references(&policy.secrets, target, arguments, &key.map(Text::of))
}

/// The tool's server, and the server's own name for it.
fn split(tool: &ToolName) -> (ServerName, &str) {
    let (server, own) = ids::parts(tool.as_str()).unwrap_or(("", tool.as_str()));
    (ServerName::new(server), own)
}

/// Is the tool withheld because no operator has approved any definition of it?
pub fn is_unpinned(policy: &Policy, tool: &ToolName) -> bool {
    let (server, own) = split(tool);
    policy.pins.lacks(&server, own)
}

/// Which rule of the contract refuses the call, from 0; for a call that [`judge`] refuses with a
/// rule's code.
pub fn deciding(policy: &Policy, call: &Question<'_>) -> Option<usize> {
    let admitted = policy.allowlist.admit(call.caller, call.tool).ok()?;
    let admitted = admitted.on(call.arguments);
    let rules = admitted.rules();
    let taken = rules
        .idempotency
        .as_ref()
        .map(|rule| rule.split(call.schema, call.arguments).0);
    let arguments = rules
        .arguments
        .strip(call.schema, taken.as_deref().unwrap_or(call.arguments));
    let first = rules.rules.deciding(call.caller, &arguments);
    first.or_else(|| {
        rules.rules.deciding(
            call.caller,
            &rules.rewrite.foresee(call.caller, &arguments)?,
        )
    })
}

/// The task's last calls, as the loop detector remembers them.
fn history(before: &TaskBefore, call: u64) -> Vec<SeenCall> {
    vec![
        SeenCall {
            call,
            outcome: 0,
            refused: false
        };
        before.repeated
    ]
}

/// Step 2: may `caller` see `tool`? As enforce mode says it.
pub fn visible<'p>(
    policy: &'p Policy,
    caller: &Caller,
    tool: &ToolName,
    notes: &mut impl Notes,
) -> Result<Admitted<'p>, Refusal> {
    let offered = if is_unpinned(policy, tool) {
        Err(Refusal::ToolNotAllowlisted)
    } else {
        Ok(())
    };
    notes.note(Stage::Visible, offered)?;
    let admitted = notes.note(
        Stage::Visible,
        policy
            .allowlist
            .admit(caller, tool)
            .map_err(|denied| denied.refusal),
    )?;
    match admitted.would_refuse() {
        Some(refusal) => notes.note(Stage::Visible, Err(refusal)),
        None => Ok(admitted),
    }
}

/// What would be sent of a call, as far as hooks have no say.
#[must_use]
#[derive(Debug)]
pub struct Made<'p, 'a> {
    /// The contract that counts for it.
    pub rules: &'p Arc<ToolRules>,
    /// Its arguments.
    pub arguments: Cow<'a, Value>,
    /// That they have passed steps 3 to 6.
    pub last: Final,
}

/// Steps 3 to 6 without hooks; step 2 has `admitted` the caller.
pub fn made<'p, 'a>(
    admitted: &Admitted<'p>,
    caller: &Caller,
    (schema, arguments): (&Schema, &'a Value),
    notes: &mut impl Notes,
) -> Result<Made<'p, 'a>, Refusal> {
    let arguments = admitted
        .clone()
        .on(arguments)
        .rules()
        .arguments
        .strip(schema, arguments);
    let chosen = admitted.clone().on(&arguments);
    let passed = ruled(&chosen, caller, (schema, &arguments), notes)?;
    let mut draft = RewriteDraft::of(&arguments, passed);
    let stepped = chosen.rules().rewrite.steps(caller, &arguments);
    let outcome = stepped.and_then(|stepped| {
        draft.take(stepped);
        draft.finish()
    });
    match notes.note(Stage::Rewrite, outcome)? {
        RewriteOutcome::Same(last) => Ok(Made {
            rules: chosen.rules(),
            arguments,
            last,
        }),
        RewriteOutcome::Changed(changed) => {
            notes.changed(&arguments, &changed);
            let chosen = admitted.clone().on(&changed.arguments);
            let last =
                ruled(&chosen, caller, (schema, &changed.arguments), notes).map(passed_again)?;
            Ok(Made {
                rules: chosen.rules(),
                arguments: Cow::Owned(changed.arguments),
                last,
            })
        }
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
    let permit = notes.note(
        Stage::Permission,
        rules.permission.allow(caller, arguments, &checked),
    )?;
    notes.note(Stage::Rules, rules.rules.apply(caller, arguments, &permit))
}
