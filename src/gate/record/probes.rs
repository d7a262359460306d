//! The ledger entry of a look at the tool server (`probe`): toolgate asks in the agent's place, so
//! it is no call of the agent's, but nothing is sent that no entry tells of.

use super::{entry_of, is_tool_error, said};
use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::catalogue::tool::Tool;
use crate::gate::record::hashes::params_hash;
use crate::guards::idempotency::ProbeVerdict;
use crate::mcp::json::Text;
use crate::model::digest::sha256;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::model::times::precise_millis;
use crate::telemetry::metrics::CallOutcome;
use serde_json::Value;
use std::time::Duration;

/// The method under which looks are listed.
const PROBE_METHOD: &str = "probe";

/// What the server said to a look.
pub(in crate::gate) struct LookAnswer {
    /// The result; none when it was an error, or did not come.
    pub body: Option<Text>,
    /// Was it an error of the server's?
    pub is_error: bool,
    /// What went wrong on the way.
    pub fault: Option<String>,
    /// How long it took.
    pub took: Duration,
}

impl LookAnswer {
    /// None came.
    pub(in crate::gate) fn failed(fault: String) -> Self {
        Self {
            body: None,
            is_error: false,
            fault: Some(fault),
            took: Duration::ZERO,
        }
    }

    /// The structured result of a look that went well.
    pub(in crate::gate) fn structured(&self) -> Option<Value> {
        let result = self.body.as_ref().filter(|_| !self.is_error)?;
        if is_tool_error(result) {
            return None;
        }
        Some(result.get("structuredContent")?.value())
    }
}

/// A look that was made.
pub(in crate::gate) struct MadeLook<'a> {
    /// The call that asked for it.
    pub call: &'a Call,
    /// The call it was about.
    pub of: ActionId,
    /// The read's tool.
    pub tool: &'a Tool,
    /// What the read was asked with.
    pub arguments: &'a Value,
    /// What came back.
    pub answer: &'a LookAnswer,
    /// What that shows.
    pub verdict: ProbeVerdict,
}

impl MadeLook<'_> {
    /// Records it, by itself or as part of a sum.
    pub(in crate::gate) fn record(&self, gate: &Gate) {
        let outcome = match self.answer.fault {
            None => CallOutcome::Answered,
            Some(_) => CallOutcome::Failed,
        };
        let entry = Box::new(self.entry(gate, outcome));
        gate.sums.enter_call(entry, Vec::new(), outcome, || true);
    }

    fn entry(&self, gate: &Gate, outcome: CallOutcome) -> Entry {
        let Self {
            call,
            of,
            tool,
            arguments,
            answer,
            verdict,
        } = *self;
        let (judged, caller) = (&call.judged, &call.origin.caller);
        let body = answer.body.as_ref();
        let took = precise_millis(answer.took);
        Entry {
            time: gate.clock.wall().to_string(),
            action_id: ActionId::generate().to_string(),
            tool: tool.name.to_string(),
            method: Some(PROBE_METHOD.to_owned()),
            probe_of: Some(of.to_string()),
            schema_hash: Some(tool.hash.clone()),
            params_hash: params_hash(arguments),
            actions: vec!["read".to_owned()],
            task: said(judged.said.task.as_ref()),
            state: "collect".to_owned(),
            event: if answer.fault.is_some() {
                "fail"
            } else {
                "exit"
            }
            .to_owned(),
            outcome: outcome.word().to_owned(),
            stage: "idempotency".to_owned(),
            decided_by: Some(format!("probe: {}", verdict.word())),
            fault: answer.fault.clone(),
            is_error: body.map(|result| answer.is_error || is_tool_error(result)),
            result_bytes: body.map(|result| result.as_bytes().len() as u64),
            result_hash: body.map(|result| sha256(result.as_bytes())),
            latency_ms: took,
            upstream_ms: took,
            policy: call.origin.policy.version.clone(),
            attempts: 1,
            ..entry_of(judged, caller)
        }
    }
}
