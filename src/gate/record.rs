//! One ledger entry for every judged call, refused ones too.

use super::Gate;
use super::call::Call;
use super::toolbox::Tool;
use super::trail::Trail;
use crate::mcp::message::Message;
use crate::model::entry::Entry;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::telemetry::metrics::CallLabels;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// What became of a call, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered.
    Answered,
    /// toolgate said no before anything was sent.
    Refused,
    /// Something broke, and surely or harmlessly so.
    Failed,
    /// Sent, and no answer came.
    Unknown,
}

impl Outcome {
    /// Of a call that ended like this.
    pub fn of(ending: &Result<Message, Refusal>, trail: &Trail) -> Self {
        match ending {
            Ok(_) => Self::Answered,
            Err(Refusal::OutcomeUnknown) => Self::Unknown,
            Err(Refusal::Cancelled | Refusal::UpstreamFailed) => Self::Failed,
            Err(_) if trail.fault.is_some() => Self::Failed,
            Err(_) => Self::Refused,
        }
    }

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
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

/// Counts the call and appends its entry.
pub fn record(
    gate: &Gate,
    policy: &Policy,
    call: &Call,
    (tool, trail): (Option<&Tool>, &Trail),
    ending: &Result<Message, Refusal>,
) {
    let outcome = Outcome::of(ending, trail);
    let latency = gate.clock.steady().saturating_sub(call.judged.arrived);
    let code = ending.as_ref().err().map_or("", Refusal::code);
    gate.metrics.call(&CallLabels {
        server: tool.map(|tool| tool.server.settings.name.as_str()),
        tool: tool.map(|tool| tool.definition.name.as_str()),
        outcome: outcome.word(),
        code,
    });
    gate.metrics.latency(latency);
    if let Some(tool) = tool.filter(|_| !trail.upstream.is_zero()) {
        gate.metrics.upstream(tool.server.settings.name.as_str(), trail.upstream);
    }
    if gate.journal.record(entry(gate, policy, call, (tool, trail, latency), ending)).is_err() {
        gate.metrics.entry_dropped();
    }
}

fn entry(
    gate: &Gate,
    policy: &Policy,
    call: &Call,
    (tool, trail, latency): (Option<&Tool>, &Trail, Duration),
    ending: &Result<Message, Refusal>,
) -> Entry {
    let judged = &call.judged;
    let rules = policy.contract(&judged.tool);
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
        actions: rules.map(|rules| rules.actions.iter().map(ToString::to_string).collect()).unwrap_or_default(),
        audit: rules.map(|rules| audited(&rules.audit, &judged.arguments)).unwrap_or_default(),
        state: if rules.is_some_and(|rules| !rules.side_effect) { "collect" } else { "execute" }.to_owned(),
        event: if ending.is_ok() { "exit" } else { "fail" }.to_owned(),
        outcome: Outcome::of(ending, trail).word().to_owned(),
        aborted_reason: refusal.map(|refusal| refusal.code().to_owned()),
        stage: trail.stage.as_str().to_owned(),
        decided_by: refusal.and_then(|refusal| policy.decided_by(&call.caller, &judged.tool, refusal)),
        would_refuse: trail.would_refuse.as_ref().map(|(refusal, _)| refusal.code().to_owned()),
        fault: trail.fault.as_ref().map(|fault| fault.what.clone()),
        is_error: answered.map(|result| result.get("isError").is_some_and(|flag| flag.is_true()) || ending.as_ref().is_ok_and(|reply| reply.is_error)),
        result_bytes: answered.map(|result| result.as_bytes().len() as u64),
        result_hash: answered.map(|result| hash(result.as_bytes())),
        latency_ms: milliseconds(latency),
        gate_ms: milliseconds(trail.judging),
        upstream_ms: milliseconds(trail.upstream),
        policy: policy.version.clone(),
    }
}

/// SHA-256 over the RFC 8785 form, so that key order and white space don't matter (003-70).
pub fn params_hash(arguments: &Value) -> String {
    serde_json_canonicalizer::to_vec(arguments).map_or_else(|_| hash(arguments.to_string().as_bytes()), |text| hash(&text))
}

fn audited(names: &[String], arguments: &Value) -> Map<String, Value> {
    names.iter().filter_map(|name| Some((name.clone(), arguments.get(name)?.clone()))).collect()
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
