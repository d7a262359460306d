//! The ledger entry of a look at the tool server (`probe`), and of a call that is sent again under its
//! server's own key (`resend`): toolgate sends both in the agent's place, so they are no calls of the
//! agent's, but nothing is sent that no entry tells of.

use super::is_tool_error;
use crate::gate::Gate;
use crate::gate::catalogue::tool::Tool;
use crate::gate::record::hashes::params_hash;
use crate::mcp::json::Text;
use crate::model::digest::sha256;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::model::task::TaskState;
use crate::model::times::precise_millis;
use crate::telemetry::metrics::CallOutcome;
use serde_json::Value;
use std::time::Duration;

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

/// What was sent to find out what became of another call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum SentAbout {
    /// The read that the contract names.
    Look,
    /// The call itself once more, under the key by which its server tells the two apart.
    Resend,
}

impl SentAbout {
    /// The method under which it is listed.
    fn method(self) -> &'static str {
        match self {
            Self::Look => "probe",
            Self::Resend => "resend",
        }
    }
}

/// A look that was made, or another sending.
pub(in crate::gate) struct MadeLook<'a> {
    /// Which of both.
    pub sent: SentAbout,
    /// In whose name: what all entries say alike, and the task.
    pub asked: Entry,
    /// The call it was about.
    pub of: ActionId,
    /// What was called.
    pub tool: &'a Tool,
    /// What it was called with.
    pub arguments: &'a Value,
    /// What that does, in the words of contracts.
    pub actions: Vec<String>,
    /// What came back.
    pub answer: &'a LookAnswer,
    /// What that shows, for operators.
    pub shown: String,
    /// The version of the policy.
    pub policy: &'a str,
}

impl MadeLook<'_> {
    /// Records it, by itself or as part of a sum.
    pub(in crate::gate) fn record(self, gate: &Gate) {
        let outcome = match self.answer.fault {
            None => CallOutcome::Answered,
            Some(_) => CallOutcome::Failed,
        };
        let reads = self.sent == SentAbout::Look;
        let entry = Box::new(self.into_entry(gate, outcome));
        gate.sums.enter_call(entry, Vec::new(), outcome, || reads);
    }

    fn into_entry(self, gate: &Gate, outcome: CallOutcome) -> Entry {
        let Self {
            sent,
            asked,
            of,
            tool,
            arguments,
            actions,
            answer,
            shown,
            policy,
        } = self;
        let body = answer.body.as_ref();
        let took = precise_millis(answer.took);
        let state = match sent {
            SentAbout::Look => TaskState::Collect,
            SentAbout::Resend => TaskState::Execute,
        };
        Entry {
            time: gate.clock.wall().to_string(),
            action_id: ActionId::generate().to_string(),
            tool: tool.name.to_string(),
            method: Some(sent.method().to_owned()),
            probe_of: Some(of.to_string()),
            schema_hash: Some(tool.hash.clone()),
            params_hash: params_hash(arguments),
            actions,
            state: state.word().to_owned(),
            event: if answer.fault.is_some() {
                "fail"
            } else {
                "exit"
            }
            .to_owned(),
            outcome: outcome.word().to_owned(),
            stage: "idempotency".to_owned(),
            decided_by: Some(shown),
            fault: answer.fault.clone(),
            is_error: body.map(|result| answer.is_error || is_tool_error(result)),
            result_bytes: body.map(|result| result.as_bytes().len() as u64),
            result_hash: body.map(|result| sha256(result.as_bytes())),
            latency_ms: took,
            upstream_ms: took,
            policy: policy.to_owned(),
            attempts: 1,
            ..asked
        }
    }
}
