//! Traces: W3C trace context in, OpenTelemetry spans out over OTLP/HTTP, and only when an operator
//! asks for them.

mod export;
#[cfg(test)]
mod tests;

pub(crate) use export::NotStarted;
pub(super) use export::provider;

use crate::mcp::answer::SentMeta;
use crate::model::digest::key_digits;
use crate::model::hex::hex;
use crate::model::ids::{self, ActionId};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::field::{Empty, display};
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The target of every span that is meant for a collector. Spans of other targets are never
/// exported; spans of this one are never made while no collector is set.
pub(crate) const SPAN_TARGET: &str = "toolgate::span";

/// `tracestate` at most, in bytes (W3C Trace Context §3.3.1.5); a longer one is left out.
const MAX_TRACESTATE_BYTES: usize = 512;

/// Where a message stands in a trace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trace {
    id: TraceId,
    parent: Option<(SpanId, TraceFlags)>,
    state: TraceState,
}

impl Trace {
    /// The trace that a message carries, or a new trace when it carries none or a malformed one
    /// (003-80).
    pub(crate) fn of(traceparent: Option<&str>, tracestate: Option<&str>) -> Self {
        let Some(mut context) = traceparent.and_then(Self::parse) else {
            return Self::new();
        };
        if let Some(state) = tracestate.filter(|state| state.len() <= MAX_TRACESTATE_BYTES) {
            context.state = state.parse().unwrap_or_default();
        }
        context
    }

    /// A new trace.
    pub(crate) fn new() -> Self {
        Self {
            id: TraceId::from_bytes(ids::unguessable_bytes()),
            parent: None,
            state: TraceState::default(),
        }
    }

    /// Reads a `traceparent` as W3C Trace Context §3.2 has it: lower-case hex, no zero ids, exact
    /// length for version 00. A later version is read as far as it is known.
    pub(crate) fn parse(traceparent: &str) -> Option<Self> {
        let text = traceparent.as_bytes();
        let known = text.get(..55)?;
        let dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        let hex = |from: usize, to: usize| number(&known[from..to]);
        let version = hex(0, 2)?;
        let longer_is_fine = text.len() == 55 || (version != 0 && text[55] == b'-');
        if !dashes || version == 0xff || !longer_is_fine {
            return None;
        }
        let id = TraceId::from(hex(3, 35)?);
        let parent = SpanId::from(u64::try_from(hex(36, 52)?).ok()?);
        let flags = TraceFlags::new(u8::try_from(hex(53, 55)?).ok()? & 1);
        let valid = id != TraceId::INVALID && parent != SpanId::INVALID;
        valid.then(|| Self {
            id,
            parent: Some((parent, flags)),
            state: TraceState::default(),
        })
    }

    /// The trace id in 32 hex digits, as the ledger keeps it (003-80).
    pub(crate) fn trace_id(&self) -> String {
        hex(&self.id.to_bytes())
    }

    /// Makes the agent's span the parent of `span`. Without one, `span` starts a trace, whose id
    /// this one takes over, so that the ledger and the collector name the same trace. Does
    /// nothing while no collector is set.
    fn adopt(&mut self, span: &Span) {
        if span.is_disabled() {
            return;
        }
        if let Some((parent, flags)) = self.parent {
            let remote = SpanContext::new(self.id, parent, flags, true, self.state.clone());
            // It fails only for a span that has started, and this one is new.
            let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote));
            return;
        }
        let started = span.context().span().span_context().clone();
        if started.is_valid() {
            self.id = started.trace_id();
        }
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

/// Lower-case hex digits as a number; at most 32 of them.
fn number(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |sum, digit| match digit {
        b'0'..=b'9' => Some(sum << 4 | u128::from(digit - b'0')),
        b'a'..=b'f' => Some(sum << 4 | u128::from(digit - b'a' + 10)),
        _ => None,
    })
}

/// What is known of a `tools/call` when its span opens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallStart<'a> {
    /// The tool's name as policies write it; none when there is no such tool.
    pub tool: Option<&'a str>,
    /// The agent's protocol revision.
    pub revision: &'a str,
    /// The agent's JSON-RPC id as written.
    pub request_id: &'a str,
}

/// The span of one `tools/call`, named and attributed as the OpenTelemetry conventions for MCP say
/// (kind: server). Disabled, and free, while no collector is set.
pub(crate) fn call_span(call: &CallStart<'_>, trace: &mut Trace) -> Span {
    let span = info_span!(
        target: SPAN_TARGET,
        "tools/call",
        "otel.name" = Empty,
        "otel.kind" = "server",
        "otel.status_code" = Empty,
        "mcp.method.name" = "tools/call",
        "mcp.protocol.version" = call.revision,
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = call.tool,
        "jsonrpc.request.id" = call.request_id,
        "error.type" = Empty,
        "toolgate.action_id" = Empty,
        "toolgate.outcome" = Empty,
        "toolgate.code" = Empty,
        "toolgate.joined" = Empty,
        "toolgate.steps_used" = Empty,
        "toolgate.token_cost" = Empty,
        "toolgate.latency_ms" = Empty,
        "toolgate.fence" = Empty,
        "toolgate.key_hash" = Empty,
    );
    if let (false, Some(tool)) = (span.is_disabled(), call.tool) {
        span.record("otel.name", format!("tools/call {tool}"));
    }
    trace.adopt(&span);
    span
}

/// Says on `span` that the call failed: with a refusal's code, a JSON-RPC code, or `tool_error` for
/// a result that says `isError`.
pub(crate) fn failed(span: &Span, error: &str) {
    span.record("error.type", error);
    span.record("otel.status_code", "ERROR");
}

/// Says on `span` how many steps the call's task has used (003-108), and what they cost (003-110),
/// given in millionths.
#[expect(clippy::cast_precision_loss, reason = "a number for people")]
pub(crate) fn record_usage(span: &Span, steps: u64, cost: u64) {
    span.record("toolgate.steps_used", steps);
    span.record("toolgate.token_cost", cost as f64 / 1e6);
}

/// What toolgate decided on a call, as its ledger entry has it.
#[derive(Debug)]
pub(crate) struct SpanVerdict<'a> {
    /// The call, in the ledger.
    pub action: &'a ActionId,
    /// How it ended.
    pub outcome: &'static str,
    /// The code that it was refused with, or in observe mode would have been.
    pub code: Option<&'a str>,
    /// The call whose key it came with, where that is another one.
    pub joined: Option<&'a ActionId>,
    /// The beginning of the hash of its key: agents may write secrets into keys.
    pub key_hash: Option<u64>,
}

/// Says on `span` what toolgate decided, whether or not the call was sent.
pub(crate) fn record_verdict(span: &Span, verdict: &SpanVerdict<'_>) {
    if span.is_disabled() {
        return;
    }
    span.record("toolgate.action_id", display(verdict.action));
    span.record("toolgate.outcome", verdict.outcome);
    span.record("toolgate.code", verdict.code);
    span.record("toolgate.joined", verdict.joined.map(display));
    let digits = verdict.key_hash.map(key_digits);
    span.record("toolgate.key_hash", digits);
}

/// Says on `span` how the call ran that was sent (004-36).
pub(crate) fn record_sent(span: &Span, sent: &SentMeta) {
    if span.is_disabled() {
        return;
    }
    span.record("toolgate.latency_ms", sent.latency_ms);
    span.record("toolgate.fence", sent.fence);
}
