//! One ledger entry for every judged call, refused ones too.

pub mod admission;
pub(crate) mod breaking;
pub(in crate::gate) mod contents;
pub(in crate::gate) mod counting;
pub mod entry;
pub mod findings;
mod grounds;
pub mod hashes;
pub mod hook_events;
pub(in crate::gate) mod probes;
pub mod timing;
pub(in crate::gate) mod undo_until;

use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::catalogue::tool::Tool;
use crate::gate::record::admission::KnownAdmission;
use crate::gate::record::findings::Findings;
use crate::gate::record::hashes::{HashedCall, seen_call};
use crate::gate::record::timing::StageTimer;
use crate::guards::allowlist::Admitted;
use crate::mcp::answer::SentMeta;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::call::ToolCall;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::refusal::Refusal;
use crate::model::times::precise_millis;
use crate::policy::Policy;
use crate::store::state::budget::SeenCall;
use crate::telemetry::metrics::CallOutcome;
use serde_json::Value;
use std::borrow::Cow;

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
    /// What step 2 has found, if it let a call pass.
    pub admission: Option<&'a KnownAdmission<'a>>,
}

impl<'a> RecordedCall<'a> {
    /// The tool that it names, if one is offered: an agent can name anything.
    pub(in crate::gate) fn listed(&self) -> Option<&'a Tool> {
        self.tool.filter(|tool| tool.is_listed)
    }

    /// Step 2, with the contract that counts for the arguments; none where that refuses.
    pub(in crate::gate) fn admitted(&self) -> Option<Cow<'a, Admitted<'a>>> {
        let known = self.admission.and_then(|known| known.found_for(self.call));
        let found = || self.call.admitted(self.policy).ok().map(Cow::Owned);
        known.map(Cow::Borrowed).or_else(found)
    }
}

/// The entry of `judged` with what all its entries say alike: whose it is, and where it came from.
pub(in crate::gate) fn entry_of(judged: &ToolCall, caller: &Caller) -> Entry {
    Entry {
        request_id: judged.request_id.clone(),
        trace_id: judged.trace_id.clone(),
        session: session(judged),
        revision: judged.revision.to_owned(),
        ..Entry::of_caller(caller)
    }
}

/// How the call ran so far, if anything of it was sent.
pub(in crate::gate) fn sent(recorded: &RecordedCall<'_>) -> Option<SentMeta> {
    let (timer, found) = (recorded.timer, recorded.found);
    let took = timer.now().saturating_sub(recorded.call.judged.arrived);
    (found.dispatch.attempts > 0).then(|| SentMeta {
        latency_ms: precise_millis(took),
        fence: found.fence,
        key_hash: found.key.hash,
    })
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
        // Nothing of it was tried, whatever else is written of it.
        Err(Refusal::CancelledUnsent { .. }) => CallOutcome::Refused,
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

/// The call as the loop detector remembers it; `hashed`: what it is known by, if that was asked before.
pub(in crate::gate) fn seen(entry: &Entry, hashed: Option<&HashedCall>) -> SeenCall {
    let known = hashed.map(|hashed| hashed.seen);
    let refused = entry.aborted_reason.as_deref();
    // A result is known by its hash already.
    let result = entry.result_hash.as_deref().filter(|_| refused.is_none());
    let outcome = result.and_then(Digest::short_of_hex);
    SeenCall {
        call: known.unwrap_or_else(|| seen_call(&entry.tool, &entry.params_hash)),
        outcome: outcome.unwrap_or_else(|| {
            let words = refused.unwrap_or_default();
            Digest::of(words.as_bytes()).short()
        }),
        refused: refused.is_some(),
        times: 1,
    }
}

pub(in crate::gate) fn is_tool_error(result: &Text) -> bool {
    result.get("isError").is_some_and(|flag| flag.is_true())
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
