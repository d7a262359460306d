//! One ledger entry for every judged call, refused ones too.

use super::Gate;
use super::call::Call;
use super::toolbox::Tool;
use super::trail::Trail;
use crate::guards::allowlist::Admitted;
use crate::mcp::canonical;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::entry::Entry;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::telemetry::metrics::{CallLabels, Outcome};
use crate::telemetry::traces::failed;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// What became of a call that ended like this.
fn outcome_of(ending: &Result<Message, Refusal>, trail: &Trail) -> Outcome {
    match ending {
        Ok(_) => Outcome::Answered,
        Err(Refusal::OutcomeUnknown) => Outcome::Unknown,
        Err(Refusal::Cancelled | Refusal::UpstreamFailed) => Outcome::Failed,
        Err(_) if trail.fault.is_some() => Outcome::Failed,
        Err(_) => Outcome::Refused,
    }
}

/// SHA-256 in hex.
pub fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        text
    })
}

/// Counts the call, appends its entry, and says what became of it.
pub fn record(
    gate: &Gate,
    policy: &Policy,
    call: &Call,
    (tool, trail): (Option<&Tool>, &Trail),
    ending: &Result<Message, Refusal>,
) -> Outcome {
    let outcome = outcome_of(ending, trail);
    let latency = gate.clock.steady().saturating_sub(call.judged.arrived);
    let server = tool.map(|tool| &tool.server.settings.name);
    let labels = CallLabels::new(server, tool.map(|tool| &tool.name), outcome);
    let labels = match ending.as_ref().err() {
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
    if gate.journal.record(entry(gate, policy, call, (tool, trail, latency), ending)).is_err() {
        gate.metrics.ledger_dropped(1);
    }
    outcome
}

/// What went wrong stands on the call's span too.
fn mark_span(ending: &Result<Message, Refusal>) {
    let span = tracing::Span::current();
    match ending {
        Err(refusal) => failed(&span, refusal.code()),
        Ok(reply) if reply.is_error => {
            let code = reply.body.as_ref().and_then(|error| error.get("code")).map(|code| code.value().to_string());
            failed(&span, &code.unwrap_or_default());
        }
        Ok(reply) if reply.body.as_ref().is_some_and(is_tool_error) => failed(&span, "tool_error"),
        Ok(_) => {}
    }
}

fn is_tool_error(result: &Text) -> bool {
    result.get("isError").is_some_and(|flag| flag.is_true())
}

fn entry(
    gate: &Gate,
    policy: &Policy,
    call: &Call,
    (tool, trail, latency): (Option<&Tool>, &Trail, Duration),
    ending: &Result<Message, Refusal>,
) -> Entry {
    let judged = &call.judged;
    let admitted = policy.allowlist.admit(&call.caller, &judged.tool).ok();
    let rules = admitted.as_ref().map(Admitted::rules);
    let answered = ending.as_ref().ok().and_then(|reply| reply.body.as_ref());
    let refusal = ending.as_ref().err();
    Entry {
        time: gate.clock.wall().to_string(),
        action_id: judged.action.to_string(),
        request_id: judged.request_id.clone(),
        trace_id: judged.trace_id.clone(),
        user_id: call.caller.agent.to_string(),
        tenant_id: call.caller.tenant.as_ref().map(ToString::to_string),
        roles: call.caller.roles.clone(),
        session: judged.session.clone(),
        revision: judged.revision.to_owned(),
        tool: judged.tool.to_string(),
        schema_hash: tool.map(|tool| tool.hash.clone()),
        params_hash: params_hash(&judged.arguments),
        actions: rules.map(|rules| rules.actions.clone()).unwrap_or_default(),
        audit: rules.map(|rules| audited(&rules.audit, &judged.arguments)).unwrap_or_default(),
        state: if rules.is_some_and(|rules| !rules.side_effect) { "collect" } else { "execute" }.to_owned(),
        event: if ending.is_ok() { "exit" } else { "fail" }.to_owned(),
        outcome: outcome_of(ending, trail).word().to_owned(),
        aborted_reason: refusal.map(|refusal| refusal.code().to_owned()),
        stage: trail.stage.as_str().to_owned(),
        decided_by: refusal.and_then(|refusal| decided_by(policy, call, refusal)),
        would_refuse: trail.would_refuse.as_ref().map(|(refusal, _)| refusal.code().to_owned()),
        fault: trail.fault.as_ref().map(|fault| fault.what.clone()),
        is_error: answered.map(|result| {
            result.get("isError").is_some_and(|flag| flag.is_true())
                || ending.as_ref().is_ok_and(|reply| reply.is_error)
        }),
        result_bytes: answered.map(|result| result.as_bytes().len() as u64),
        result_hash: answered.map(|result| hash(result.as_bytes())),
        latency_ms: milliseconds(latency),
        gate_ms: milliseconds(trail.judging),
        upstream_ms: milliseconds(trail.upstream),
        policy: policy.version.clone(),
    }
}

/// Layer and pattern, or rule; for operators only.
fn decided_by(policy: &Policy, call: &Call, refusal: &Refusal) -> Option<String> {
    if *refusal != Refusal::ToolNotAllowlisted {
        return refusal.contract_code().map(|code| format!("rule {code}"));
    }
    let steps = policy.allowlist.explain(&call.caller, &call.judged.tool);
    let step = steps.into_iter().find(|step| step.verdict.refuses());
    Some(step.map_or_else(|| "no server offers the tool".to_owned(), |step| step.to_string()))
}

/// SHA-256 over the RFC 8785 form, so that key order and white space don't matter (003-70).
pub fn params_hash(arguments: &Value) -> String {
    canonical::form(arguments).map_or_else(|| hash(arguments.to_string().as_bytes()), |text| hash(&text))
}

fn audited(names: &[String], arguments: &Value) -> Map<String, Value> {
    names.iter().filter_map(|name| Some((name.clone(), arguments.get(name)?.clone()))).collect()
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
