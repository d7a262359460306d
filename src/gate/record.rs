//! One ledger entry for every judged call, refused ones too.

use super::call::Call;
use super::taken::{Ended, Taken};
use super::toolbox::Tool;
use super::trail::Trail;
use super::{Gate, fit, pinned};
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::budget::units;
use crate::guards::pins::Unapproved;
use crate::guards::task::reported;
use crate::mcp::canonical;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::call::ToolCall;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::task::TaskState;
use crate::policy::Policy;
use crate::store::state::budget::SeenCall;
use crate::store::state::digest::Digest;
use crate::telemetry::metrics::{CallEffects, CallLabels, CallOutcome};
use crate::telemetry::traces::{failed, record_usage};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// What became of a call that ended like this.
fn outcome_of(ending: &Result<Message, Refusal>, trail: &Trail) -> CallOutcome {
    match ending {
        Ok(_) => CallOutcome::Answered,
        Err(Refusal::Planned) => CallOutcome::Planned,
        Err(Refusal::OutcomeUnknown) => CallOutcome::Unknown,
        Err(Refusal::Cancelled | Refusal::UpstreamFailed) => CallOutcome::Failed,
        Err(_) if trail.fault.is_some() => CallOutcome::Failed,
        Err(_) => CallOutcome::Refused,
    }
}

/// SHA-256 in hex.
pub fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
            text
        })
}

/// A call, what it is judged by, and the tool it names.
pub type Judged<'a> = (&'a Policy, &'a Call, Option<&'a Tool>);

/// Settles what the call holds, with its entry; then counts it. An outcome that could not be made
/// durable is not given as one: the agent reads that the tool has run and that nobody else will
/// know.
pub(super) async fn settle(
    gate: &Gate,
    judged: Judged<'_>,
    (trail, taken): (&mut Trail, Taken),
    ending: Result<Message, Refusal>,
) -> (CallOutcome, Result<Message, Refusal>) {
    let (policy, call, tool) = judged;
    let latency = gate.clock.steady().saturating_sub(call.judged.arrived);
    let entry = Box::new(entry(
        gate,
        (policy, call, tool),
        (trail, latency),
        Some(&ending),
    ));
    let ended = Ended {
        failed: has_failed(&entry),
        seen: seen(&entry),
    };
    let claimed = taken.claim.is_some();
    let executed = (trail.sent > 0 && changes(policy, call)).then(|| effect(&entry));
    let settled = taken
        .settle(&gate.effects, entry, ending.as_ref().ok(), ended)
        .await;
    if claimed {
        trail.settled(settled.is_ok());
    }
    let ending = match settled {
        Ok(entry) => {
            if let Some(entry) = entry {
                gate.sums
                    .enter_call(entry, outcome_of(&ending, trail), || !changes(policy, call));
            }
            ending
        }
        Err(error) => {
            tracing::error!(action = %call.judged.action, %error, "the outcome of a call cannot be recorded");
            trail.unrecorded = ending.ok();
            Err(if trail.unrecorded.is_some() {
                Refusal::ExecutedButNotRecorded
            } else {
                Refusal::OutcomeUnknown
            })
        }
    };
    tally(gate, trail, (claimed, executed), &ending);
    (count(gate, (call, tool), trail, &ending), ending)
}

/// Counts what the call means for what must not run twice, and for its task.
fn tally(
    gate: &Gate,
    trail: &Trail,
    (claimed, executed): (bool, Option<u64>),
    ending: &Result<Message, Refusal>,
) {
    let is_conflict = matches!(ending, Err(Refusal::IdempotencyConflict));
    let taken = u64::from(trail.sent > 0);
    let tally = CallEffects {
        is_duplicate: trail.claimed_by.is_some() && !is_conflict,
        is_replayed: trail.replayed,
        is_failed_first: claimed && ending.is_err(),
        executed,
        used: trail
            .used
            .map(|(steps, cost)| (steps + taken, cost.saturating_add(taken * trail.cost))),
        remaining: trail.remaining.as_ref(),
    };
    gate.metrics.effects(&tally, trail.now());
    if let Some((steps, cost)) = tally.used {
        record_usage(&tracing::Span::current(), steps, cost);
    }
}

/// Trace, tool and arguments: what must not run twice (004-03).
fn effect(entry: &Entry) -> u64 {
    let parts = [&entry.trace_id, &entry.tool, &entry.params_hash];
    Digest::of_parts("effect", &parts.map(String::as_bytes)).short()
}

/// Counts the call, and says what became of it.
fn count(
    gate: &Gate,
    (call, tool): (&Call, Option<&Tool>),
    trail: &Trail,
    ending: &Result<Message, Refusal>,
) -> CallOutcome {
    let outcome = outcome_of(ending, trail);
    let latency = gate.clock.steady().saturating_sub(call.judged.arrived);
    let server = tool.map(|tool| &tool.server.settings.name);
    let labels = CallLabels::new(server, tool.map(|tool| &tool.name), outcome);
    // What passes only because nothing is enforced is counted with the code that it would be
    // refused with.
    let labels = match refusal_of(trail, ending) {
        None => labels,
        Some(refusal) => match (refusal.contract_code(), refusal.own_code()) {
            (Some(code), _) => labels.with_contract_code(code),
            (None, Some(code)) => labels.with_code(code),
            (None, None) => labels,
        },
    };
    gate.metrics.call(&labels, latency);
    mark_span(ending);
    if let Some(server) = server.filter(|_| !trail.upstream.is_zero()) {
        gate.metrics.sent();
        gate.metrics.upstream(server, trail.upstream);
    }
    outcome
}

/// The refusal, or in observe mode what would have been one.
fn refusal_of<'a>(trail: &'a Trail, ending: &'a Result<Message, Refusal>) -> Option<&'a Refusal> {
    ending
        .as_ref()
        .err()
        .or(trail.would_refuse.as_ref().map(|(refusal, _)| refusal))
}

/// The entry of a call that is about to be sent.
pub fn intent(gate: &Gate, judged: Judged<'_>, trail: &Trail) -> Entry {
    let latency = gate.clock.steady().saturating_sub(judged.1.judged.arrived);
    entry(gate, judged, (trail, latency), None)
}

/// Does the call count as a failure of its task (003-92)? A refusal does not: nothing was tried.
fn has_failed(entry: &Entry) -> bool {
    matches!(entry.outcome.as_str(), "failed" | "unknown") || entry.is_error == Some(true)
}

/// Tool and arguments, as the loop detector knows them.
pub(super) fn seen_call(tool: &str, params_hash: &str) -> u64 {
    Digest::of_parts("seen", &[tool.as_bytes(), params_hash.as_bytes()]).short()
}

/// The call as the loop detector remembers it.
fn seen(entry: &Entry) -> SeenCall {
    let refused = entry.aborted_reason.as_deref();
    let outcome = refused.or(entry.result_hash.as_deref()).unwrap_or_default();
    SeenCall {
        call: seen_call(&entry.tool, &entry.params_hash),
        outcome: Digest::of(outcome.as_bytes()).short(),
        refused: refused.is_some(),
    }
}

/// What went wrong stands on the call's span too.
fn mark_span(ending: &Result<Message, Refusal>) {
    let span = tracing::Span::current();
    match ending {
        Err(refusal) => failed(&span, refusal.code()),
        Ok(reply) if reply.is_error => {
            let code = reply
                .body
                .as_ref()
                .and_then(|error| error.get("code"))
                .map(|code| code.value().to_string());
            failed(&span, &code.unwrap_or_default());
        }
        Ok(reply) if reply.body.as_ref().is_some_and(is_tool_error) => failed(&span, "tool_error"),
        Ok(_) => {}
    }
}

fn is_tool_error(result: &Text) -> bool {
    result.get("isError").is_some_and(|flag| flag.is_true())
}

/// What the ledger keeps; without an `ending`, of a call that is about to be sent.
fn entry(
    gate: &Gate,
    (policy, call, tool): Judged<'_>,
    (trail, latency): (&Trail, Duration),
    ending: Option<&Result<Message, Refusal>>,
) -> Entry {
    let judged = &call.judged;
    let admitted = policy.allowlist.admit(&call.caller, &judged.tool).ok();
    let admitted = admitted.map(|admitted| admitted.on(&judged.arguments));
    let rules = admitted.as_ref().map(Admitted::rules);
    let reply = ending.and_then(|ending| ending.as_ref().ok());
    let answered = reply.and_then(|reply| reply.body.as_ref());
    let refusal = ending.and_then(|ending| ending.as_ref().err());
    let decided = refusal.or(trail.would_refuse.as_ref().map(|(refusal, _)| refusal));
    Entry {
        time: gate.clock.wall().to_string(),
        action_id: judged.action.to_string(),
        request_id: judged.request_id.clone(),
        trace_id: judged.trace_id.clone(),
        user_id: call.caller.agent.to_string(),
        tenant_id: call.caller.tenant.as_ref().map(ToString::to_string),
        roles: call.caller.roles.clone(),
        session: session(judged),
        revision: judged.revision.to_owned(),
        tool: judged.tool.to_string(),
        method: None,
        schema_hash: tool.map(|tool| tool.hash.clone()),
        params_hash: params_hash(&judged.arguments),
        original_params_hash: judged
            .rewritten
            .as_ref()
            .map(|rewritten| params_hash(&rewritten.original)),
        rewritten_by: judged
            .rewritten
            .as_ref()
            .map(|rewritten| rewritten.by.clone())
            .unwrap_or_default(),
        actions: rules.map(|rules| rules.actions.clone()).unwrap_or_default(),
        variant: rules.and_then(|rules| rules.variant.clone()),
        writes: rules.and_then(|rules| rules.writes.clone()),
        confirms: trail.draft.map(|draft| draft.to_string()),
        approval: hold(refusal, trail).map(|id| id.to_string()),
        approved_by: trail
            .approval
            .as_ref()
            .map(|(_, by)| by.clone())
            .unwrap_or_default(),
        audit: rules
            .map(|rules| audited(&rules.audit, &judged.arguments))
            .unwrap_or_default(),
        task: said(judged.said.task.as_ref()),
        state: state(judged, rules.map(|rules| &**rules)).word().to_owned(),
        state_before: trail.before.map(|state| state.word().to_owned()),
        event: event(ending).to_owned(),
        outcome: ending
            .map_or("dispatching", |ending| outcome_of(ending, trail).word())
            .to_owned(),
        aborted_reason: refusal.and_then(reason),
        stage: trail.stage.as_str().to_owned(),
        decided_by: decided.and_then(|refusal| decided_by(gate, (policy, call, tool), refusal)),
        would_refuse: trail
            .would_refuse
            .as_ref()
            .map(|(refusal, _)| refusal.code().to_owned()),
        unasked: trail.unasked.clone(),
        fault: trail.fault.as_ref().map(|fault| fault.what.clone()),
        is_error: answered
            .map(|result| is_tool_error(result) || reply.is_some_and(|reply| reply.is_error)),
        result_bytes: answered.map(|result| result.as_bytes().len() as u64),
        result_hash: answered.map(|result| hash(result.as_bytes())),
        latency_ms: milliseconds(latency),
        gate_ms: milliseconds(trail.judging),
        hold_ms: (!trail.held.is_zero()).then(|| milliseconds(trail.held)),
        upstream_ms: milliseconds(trail.upstream),
        policy: policy.version.clone(),
        replayed: trail.replayed,
        claimed_by: trail.claimed_by.map(|holder| holder.to_string()),
        attempts: trail.sent,
        fence: trail.fence,
        cost: (trail.sent > 0 && trail.cost > 0).then(|| units(trail.cost)),
        budget_remaining: trail.remaining.clone(),
        count: None,
        first_time: None,
    }
}

/// Why it did not run. A plan that was made was not aborted.
fn reason(refusal: &Refusal) -> Option<String> {
    (*refusal != Refusal::Planned).then(|| refusal.code().to_owned())
}

/// What it is to its task (003-82).
fn event(ending: Option<&Result<Message, Refusal>>) -> &'static str {
    match ending {
        None => "enter",
        Some(Ok(_) | Err(Refusal::Planned)) => "exit",
        Some(Err(_)) => "fail",
    }
}

/// The hold that the call uses up, or is refused for.
fn hold(refusal: Option<&Refusal>, trail: &Trail) -> Option<ActionId> {
    trail
        .approval
        .as_ref()
        .map(|(id, _)| *id)
        .or_else(|| refusal.and_then(Refusal::hold))
}

/// Whether the call changes something, as its contract says; without one it may.
fn changes(policy: &Policy, call: &Call) -> bool {
    let admitted = policy.allowlist.admit(&call.caller, &call.judged.tool);
    admitted.map_or(true, |admitted| {
        admitted.on(&call.judged.arguments).rules().side_effect
    })
}

/// The wire's session, or the one that the agent names.
pub(super) fn session(judged: &ToolCall) -> Option<String> {
    judged
        .session
        .clone()
        .or_else(|| said(judged.said.session.as_ref()))
}

pub(super) fn said(name: Option<&Value>) -> Option<String> {
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
fn decided_by(gate: &Gate, (policy, call, tool): Judged<'_>, refusal: &Refusal) -> Option<String> {
    if *refusal != Refusal::ToolNotAllowlisted {
        if let Refusal::HookBlocked { by, .. } | Refusal::HookBroken { by, .. } = refusal {
            return Some(format!("hook {by}"));
        }
        return refusal.contract_code().map(|code| format!("rule {code}"));
    }
    let now = gate.policy.current();
    let steps =
        [policy, &now].map(|policy| policy.allowlist.explain(&call.caller, &call.judged.tool));
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
    let hidden = || gate.why_hidden(policy, &call.caller, &call.judged.tool);
    let other = || unfit.or_else(hidden).unwrap_or_else(unapproved);
    Some(step.map_or_else(other, |step| step.to_string()))
}

/// SHA-256 over the RFC 8785 form, so that key order and white space don't matter (003-70).
pub fn params_hash(arguments: &Value) -> String {
    canonical::form(arguments).map_or_else(
        || hash(arguments.to_string().as_bytes()),
        |text| hash(&text),
    )
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
