//! One ledger entry for every judged call, refused ones too.

pub(in crate::gate) mod counting;
pub mod findings;
pub mod hashes;
pub mod hook_events;
pub mod timing;

use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::catalogue::contract_mismatch as fit;
use crate::gate::catalogue::pinned;
use crate::gate::catalogue::tool::Tool;
use crate::gate::record::findings::ApprovalFound;
use crate::gate::record::findings::DispatchFound;
use crate::gate::record::findings::Findings;
use crate::gate::record::findings::KeyFound;
use crate::gate::record::findings::Observed;
use crate::gate::record::findings::StateFound;
use crate::gate::record::hashes::{hash, params_hash, seen_call};
use crate::gate::record::timing::Spent;
use crate::gate::record::timing::StageTimer;
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::budget::units;
use crate::guards::pins::Unapproved;
use crate::guards::task::reported;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::call::ToolCall;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::task::TaskState;
use crate::policy::Policy;
use crate::store::state::budget::SeenCall;
use crate::telemetry::metrics::CallOutcome;
use serde_json::{Map, Value};
use std::time::Duration;

/// A call, what it is judged by, and what is known of it so far.
pub struct RecordedCall<'a> {
    /// What counts and records.
    pub gate: &'a Gate,
    /// What it is judged by.
    pub policy: &'a Policy,
    /// The call as it stands.
    pub call: &'a Call,
    /// The tool that it names, if there is one.
    pub tool: Option<&'a Tool>,
    /// How long it took so far.
    pub timer: &'a StageTimer,
    /// What its steps have found.
    pub found: &'a Findings,
}

/// How a call ended.
pub(in crate::gate) type Ending = Result<Message, Refusal>;

/// What became of a call that ended like this.
pub(in crate::gate) fn outcome_of(ending: &Ending, found: &Findings) -> CallOutcome {
    match ending {
        Ok(_) => CallOutcome::Answered,
        Err(Refusal::Planned) => CallOutcome::Planned,
        Err(Refusal::OutcomeUnknown) => CallOutcome::Unknown,
        Err(Refusal::Cancelled | Refusal::UpstreamFailed) => CallOutcome::Failed,
        Err(_) if found.dispatch.fault.is_some() => CallOutcome::Failed,
        Err(_) => CallOutcome::Refused,
    }
}

/// Trace, tool and arguments: what must not run twice (004-03).
pub(in crate::gate) fn effect(entry: &Entry) -> u64 {
    let parts = [&entry.trace_id, &entry.tool, &entry.params_hash];
    Digest::of_parts("effect", &parts.map(String::as_bytes)).short()
}

/// Does the call count as a failure of its task (003-92)? A refusal does not: nothing was tried.
pub(in crate::gate) fn has_failed(entry: &Entry) -> bool {
    matches!(entry.outcome.as_str(), "failed" | "unknown") || entry.is_error == Some(true)
}

/// The call as the loop detector remembers it.
pub(in crate::gate) fn seen(entry: &Entry) -> SeenCall {
    let refused = entry.aborted_reason.as_deref();
    let outcome = refused.or(entry.result_hash.as_deref()).unwrap_or_default();
    SeenCall {
        call: seen_call(&entry.tool, &entry.params_hash),
        outcome: Digest::of(outcome.as_bytes()).short(),
        refused: refused.is_some(),
    }
}

pub(in crate::gate) fn is_tool_error(result: &Text) -> bool {
    result.get("isError").is_some_and(|flag| flag.is_true())
}

/// The entry of a call that is about to be sent.
pub fn intent(recorded: &RecordedCall<'_>) -> Entry {
    entry(recorded, None)
}

/// What the ledger keeps; without an `ending`, of a call that is about to be sent.
pub(in crate::gate) fn entry(recorded: &RecordedCall<'_>, ending: Option<&Ending>) -> Entry {
    let RecordedCall {
        gate,
        policy,
        call,
        tool,
        timer,
        found,
    } = recorded;
    let Findings {
        usage: _,
        state: StateFound {
            before,
            evidence: _,
        },
        warning: _,
        key: KeyFound { holder, replayed },
        draft,
        remaining,
        approval,
        fence,
        dispatch:
            DispatchFound {
                attempts,
                fault,
                meaning: _,
                cost: _,
            },
        observed: Observed {
            would_refuse,
            unasked,
        },
    } = found;
    let Spent {
        judging,
        held,
        upstream,
    } = timer.spent();
    let (judged, caller) = (&call.judged, &call.origin.caller);
    let admitted = call.admitted(policy).ok();
    let rules = admitted.as_ref().map(Admitted::rules);
    let reply = ending.and_then(|ending| ending.as_ref().ok());
    let answered = reply.and_then(|reply| reply.body.as_ref());
    let refusal = ending.and_then(|ending| ending.as_ref().err());
    let would_refuse = would_refuse.as_ref().map(|(refusal, _)| refusal);
    let decided = refusal.or(would_refuse);
    let rewritten = judged.rewritten.as_ref();
    let cost = found.cost();
    Entry {
        time: gate.clock.wall().to_string(),
        action_id: judged.action.to_string(),
        request_id: judged.request_id.clone(),
        trace_id: judged.trace_id.clone(),
        user_id: caller.agent.to_string(),
        tenant_id: caller.tenant.as_ref().map(ToString::to_string),
        roles: caller.roles.clone(),
        session: session(judged),
        revision: judged.revision.to_owned(),
        tool: judged.tool.to_string(),
        method: None,
        schema_hash: tool.map(|tool| tool.hash.clone()),
        params_hash: params_hash(&judged.arguments),
        original_params_hash: rewritten.map(|rewritten| params_hash(&rewritten.original)),
        rewritten_by: rewritten
            .map(|rewritten| rewritten.by.clone())
            .unwrap_or_default(),
        actions: rules.map(|rules| rules.actions.clone()).unwrap_or_default(),
        variant: rules.and_then(|rules| rules.variant.clone()),
        writes: rules.and_then(|rules| rules.writes.clone()),
        confirms: draft.map(|draft| draft.to_string()),
        approval: hold(refusal, approval.as_ref()).map(|id| id.to_string()),
        approved_by: approval
            .as_ref()
            .map(|found| found.by.clone())
            .unwrap_or_default(),
        audit: rules
            .map(|rules| audited(&rules.audit, &judged.arguments))
            .unwrap_or_default(),
        task: said(judged.said.task.as_ref()),
        state: state(judged, rules.map(|rules| &**rules)).word().to_owned(),
        state_before: before.map(|state| state.word().to_owned()),
        event: event(ending).to_owned(),
        outcome: ending
            .map_or("dispatching", |ending| outcome_of(ending, found).word())
            .to_owned(),
        aborted_reason: refusal.and_then(reason),
        stage: timer.stage().as_str().to_owned(),
        decided_by: decided.and_then(|refusal| decided_by(recorded, refusal)),
        would_refuse: would_refuse.map(|refusal| refusal.code().to_owned()),
        unasked: unasked.clone(),
        fault: fault.as_ref().map(|fault| fault.what.clone()),
        is_error: answered
            .map(|result| is_tool_error(result) || reply.is_some_and(|reply| reply.is_error)),
        result_bytes: answered.map(|result| result.as_bytes().len() as u64),
        result_hash: answered.map(|result| hash(result.as_bytes())),
        latency_ms: milliseconds(timer.now().saturating_sub(judged.arrived)),
        gate_ms: milliseconds(judging),
        hold_ms: (!held.is_zero()).then(|| milliseconds(held)),
        upstream_ms: milliseconds(upstream),
        policy: policy.version.clone(),
        replayed: *replayed,
        claimed_by: holder.map(|holder| holder.to_string()),
        attempts: *attempts,
        fence: *fence,
        cost: (*attempts > 0 && cost > 0).then(|| units(cost)),
        budget_remaining: remaining.clone(),
        count: None,
        first_time: None,
    }
}

/// Why it did not run. A plan that was made was not aborted.
fn reason(refusal: &Refusal) -> Option<String> {
    (*refusal != Refusal::Planned).then(|| refusal.code().to_owned())
}

/// What it is to its task (003-82).
fn event(ending: Option<&Ending>) -> &'static str {
    match ending {
        None => "enter",
        Some(Ok(_) | Err(Refusal::Planned)) => "exit",
        Some(Err(_)) => "fail",
    }
}

/// The hold that the call uses up, or is refused for.
fn hold(refusal: Option<&Refusal>, approval: Option<&ApprovalFound>) -> Option<ActionId> {
    approval
        .map(|found| found.hold)
        .or_else(|| refusal.and_then(Refusal::hold))
}

/// Whether the call changes something, as its contract says; without one it may.
pub(in crate::gate) fn changes(policy: &Policy, call: &Call) -> bool {
    let admitted = policy
        .allowlist
        .admit(&call.origin.caller, &call.judged.tool);
    admitted.map_or(true, |admitted| {
        admitted.on(&call.judged.arguments).rules().side_effect
    })
}

/// The wire's session, or the one that the agent names.
pub(in crate::gate) fn session(judged: &ToolCall) -> Option<String> {
    judged
        .session
        .clone()
        .or_else(|| said(judged.said.session.as_ref()))
}

pub(in crate::gate) fn said(name: Option<&Value>) -> Option<String> {
    name?.as_str().map(str::to_owned)
}

/// Where the task is: as its agent reports, else as the call tells (003-10).
fn state(judged: &ToolCall, rules: Option<&ToolRules>) -> TaskState {
    let changes = rules.is_none_or(|rules| rules.side_effect);
    let reported = reported(judged, changes).ok().flatten();
    reported.unwrap_or(if changes {
        TaskState::Execute
    } else {
        TaskState::Collect
    })
}

/// Layer and pattern, or rule; for operators only. What was taken away while the call waited says
/// only the policy of now.
fn decided_by(recorded: &RecordedCall<'_>, refusal: &Refusal) -> Option<String> {
    let RecordedCall {
        gate,
        policy,
        call,
        tool,
        ..
    } = *recorded;
    if *refusal != Refusal::ToolNotAllowlisted {
        if let Refusal::HookBlocked { by, .. } | Refusal::HookBroken { by, .. } = refusal {
            return Some(format!("hook {by}"));
        }
        return refusal.contract_code().map(|code| format!("rule {code}"));
    }
    let now = gate.policy.current();
    let steps = [policy, &now].map(|policy| {
        policy
            .allowlist
            .explain(&call.origin.caller, &call.judged.tool)
    });
    let step = steps
        .into_iter()
        .flatten()
        .find(|step| step.verdict.refuses());
    let unfit = tool.and_then(|tool| fit::words(policy, tool));
    let unapproved = tool.and_then(|tool| pinned::judge(policy, tool).err());
    let unapproved = || {
        unapproved
            .map_or("no server offers the tool", Unapproved::words)
            .to_owned()
    };
    let hidden = || gate.why_hidden(policy, &call.origin.caller, &call.judged.tool);
    let other = || unfit.or_else(hidden).unwrap_or_else(unapproved);
    Some(step.map_or_else(other, |step| step.to_string()))
}

fn audited(names: &[String], arguments: &Value) -> Map<String, Value> {
    names
        .iter()
        .filter_map(|name| Some((name.clone(), arguments.get(name)?.clone())))
        .collect()
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
