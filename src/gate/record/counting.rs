//! What the metrics and the span of an ended call say.

use crate::gate::Gate;
use crate::gate::record::Ending;
use crate::gate::record::RecordedCall;
use crate::gate::record::breaking::WatchedEnd;
use crate::gate::record::is_tool_error;
use crate::gate::record::outcome_of;
use crate::gate::record::sent;
use crate::mcp::answer::SentMeta;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::telemetry::metrics::{CallEffects, CallLabels, ExecutedEffect};
use crate::telemetry::traces::{SpanVerdict, failed, record_sent, record_usage, record_verdict};
use std::time::Duration;

/// Counts the call, what it means for what must not run twice, and for its task.
pub(in crate::gate) fn count(recorded: &RecordedCall<'_>, counted: &Counted, ending: &Ending) {
    let RecordedCall {
        gate,
        policy,
        call,
        tool,
        timer,
        found,
        ..
    } = recorded;
    let outcome = outcome_of(ending, found);
    let now = timer.now();
    let latency = now.saturating_sub(call.judged.arrived);
    let server = tool.map(|tool| &tool.server.settings.name);
    let labels = CallLabels::new(server, recorded.listed().map(|tool| &tool.name), outcome);
    // What passes only because nothing is enforced is counted with the code that it would be
    // refused with.
    let would_refuse = found.foreseen();
    let refusal = ending.as_ref().err();
    let refusal = refusal.or(would_refuse.map(|foreseen| &foreseen.refusal));
    let labels = match refusal {
        None => labels,
        Some(refusal) => match (refusal.contract_code(), refusal.own_code()) {
            (Some(code), _) => labels.with_contract_code(code),
            (None, Some(code)) => labels.with_code(code),
            (None, None) => labels,
        },
    };
    let is_again = effects(recorded, counted, ending, now);
    // Names that agents make up are no tools.
    if let Some(tool) = recorded.listed() {
        let end = WatchedEnd {
            tool: &tool.name,
            outcome,
            ending,
            is_sent: found.dispatch.attempts > 0,
            is_again,
        };
        watch(gate, policy, &end, now);
    }
    gate.metrics.call(&labels, latency);
    gate.metrics.asked_for(call.origin.caller.user.is_some());
    mark_span(ending);
    let verdict = SpanVerdict {
        action: &call.judged.action,
        outcome: outcome.word(),
        code: refusal.map(Refusal::code),
        joined: found.key.holder.as_ref(),
        key_hash: found.key.hash,
    };
    record_verdict(&tracing::Span::current(), &verdict);
    if let Some(sent) = sent(recorded) {
        record_sent(&tracing::Span::current(), &sent);
        if counted.claimed {
            log(recorded, &sent, outcome.word());
        }
    }
    let upstream = timer.spent().upstream;
    if let Some(server) = server.filter(|_| !upstream.is_zero()) {
        gate.metrics.sent();
        gate.metrics.upstream(server, upstream);
    }
}

/// Breakers count what ended, unless its tool is away already.
fn watch(gate: &Gate, policy: &Policy, end: &WatchedEnd<'_>, now: Duration) {
    let is_away = || gate.policy.current().allowlist.is_disabled(end.tool);
    if !policy.breakers.is_empty() && !is_away() {
        gate.watches.breakers.watch(&policy.breakers, end, now);
    }
}

/// A call with a key was sent (004-36). Told for people who look for it: standard error is written to
/// while the call waits.
fn log(recorded: &RecordedCall<'_>, sent: &SentMeta, outcome: &str) {
    let (judged, key) = (&recorded.call.judged, sent.key_digits());
    let SentMeta {
        latency_ms, fence, ..
    } = sent;
    tracing::debug!(action = %judged.action, tool = %judged.tool, key, fence, latency_ms, outcome, "a call was sent");
}

/// What is counted of a call with side effects.
pub(in crate::gate) struct Counted {
    /// It had a claim.
    pub(in crate::gate) claimed: bool,
    /// Trace, tool and arguments of what may have run.
    pub(in crate::gate) executed: Option<u64>,
}

/// Whether the effect of the call ran again.
fn effects(recorded: &RecordedCall<'_>, counted: &Counted, ending: &Ending, now: Duration) -> bool {
    let RecordedCall {
        gate, call, found, ..
    } = recorded;
    let is_conflict = matches!(ending, Err(Refusal::IdempotencyConflict));
    let taken = u64::from(found.dispatch.attempts > 0);
    let approval = found.approval.as_ref();
    if counted.claimed && approval.is_some_and(|found| found.grant.is_some()) {
        gate.metrics.grant_used();
    }
    let effects = CallEffects {
        is_duplicate: found.key.holder.is_some() && !is_conflict,
        is_replayed: found.key.replayed,
        would_join: found.key.would_join(),
        is_failed_first: counted.claimed && ending.is_err(),
        executed: counted.executed.map(|digest| ExecutedEffect {
            digest,
            is_anew: found.key.after_undo().is_some() || call.compensates().is_some(),
        }),
        used: found
            .usage
            .used
            .map(|(steps, cost)| (steps + taken, cost.saturating_add(taken * found.cost()))),
        remaining: found.remaining.as_deref(),
    };
    let is_again = gate.metrics.effects(&effects, now);
    if let Some((steps, cost)) = effects.used {
        record_usage(&tracing::Span::current(), steps, cost);
    }
    is_again
}

/// What went wrong stands on the call's span too.
fn mark_span(ending: &Ending) {
    let span = tracing::Span::current();
    // A long result is not searched for its error for nobody.
    if span.is_disabled() {
        return;
    }
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
