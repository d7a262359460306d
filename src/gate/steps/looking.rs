//! One look at the tool server about a call with an unknown outcome: the read that its contract
//! names (guarantees §4). The agent that comes again, the timer and an operator ask here, and are told
//! by the same judge. Nothing that changes something is sent here.

use crate::gate::Gate;
use crate::gate::catalogue::pinned;
use crate::gate::catalogue::tool::Tool;
use crate::gate::record::probes::LookAnswer;
use crate::gate::steps::dispatch;
use crate::guards::idempotency::{Probe, ProbeVerdict};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::own::without_ours;
use crate::mcp::revision::Era;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::outlet::way_back;
use crate::policy::Policy;
use crate::side::capabilities;
use crate::store::claims::{Store, StoreError};
use crate::store::state::claim::{ClaimPhase, Stored};
use crate::store::state::command::{Settle, StoreCommand};
use crate::store::state::settlement::Evidence;
use crate::store::state::undo::AnswerWorth;
use crate::upstream::link::Tolerance;
use crate::upstream::links::{BridgeTerms, Links, WaitingRequest};
use crate::upstream::pump::{ExchangeContext, ExchangeOutcome, Outbound};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long the read may take.
const LONGEST: Duration = Duration::from_secs(10);
/// What a replay says of a call that was found.
const FOUND: &str = "The tool has carried this call out: a look at the tool server found it. Its own answer was lost.";

/// In whose name a look is made, and how the server is reached.
#[derive(Clone, Copy)]
pub(in crate::gate) struct LookPlace<'a> {
    pub(in crate::gate) caller: &'a Caller,
    /// The policy that knows the caller so.
    pub(in crate::gate) policy: &'a Policy,
    pub(in crate::gate) links: &'a Links,
    /// Its place among the requests that wait.
    pub(in crate::gate) waiting: &'a WaitingRequest,
    /// `_meta` of the agent's own message, if there is one.
    pub(in crate::gate) meta: Option<&'a Text>,
}

/// A look that is to be made.
#[derive(Clone, Copy)]
pub(in crate::gate) struct Look<'a> {
    pub(in crate::gate) place: LookPlace<'a>,
    pub(in crate::gate) probe: &'a Probe,
    /// The read's tool.
    pub(in crate::gate) tool: &'a Tool,
    /// What the read is asked with.
    pub(in crate::gate) arguments: &'a Value,
    /// The call that it is about.
    pub(in crate::gate) of: ActionId,
    /// How long ago nobody knew any more what became of that.
    pub(in crate::gate) since: Duration,
    /// Its server has asked in the round that it is about, so that has begun: that nothing is found
    /// proves nothing.
    pub(in crate::gate) has_begun: bool,
}

/// The tool of the read, if it may be called.
pub(in crate::gate) fn tool_of(
    gate: &Gate,
    policy: &Policy,
    links: &Links,
    probe: &Probe,
) -> Option<Arc<Tool>> {
    let tool = gate.tool_of(Some(links), &probe.tool);
    let tool = tool.filter(|tool| pinned::is_offered(policy, tool));
    tool.filter(|tool| !gate.policy.current().allowlist.is_disabled(&tool.name))
}

impl Look<'_> {
    /// Asks the server; gives what it says, and what that shows.
    pub(in crate::gate) async fn made(&self, gate: &Gate) -> (LookAnswer, ProbeVerdict) {
        let begun = gate.clock.steady();
        let came = self.ask(&Text::of(self.arguments)).await;
        let took = gate.clock.steady().saturating_sub(begun);
        let answer = LookAnswer { took, ..came };
        let verdict = match answer.structured().map(|result| self.read(&result)) {
            Some(ProbeVerdict::Absent) if self.has_begun => ProbeVerdict::Unclear,
            verdict => verdict.unwrap_or(ProbeVerdict::Unclear),
        };
        gate.metrics.looked(if answer.fault.is_some() {
            "failed"
        } else {
            verdict.label()
        });
        (answer, verdict)
    }

    /// What the answer shows; its operator is told where the contract does not say it.
    fn read(&self, result: &Value) -> ProbeVerdict {
        let verdict = self.probe.read(result, self.since);
        if verdict == ProbeVerdict::Unsaid {
            tracing::warn!(
                action = %self.of, tool = %self.tool.name,
                "the probe found a zero or something empty, and the contract does not say whether that means nothing: `probe.nothing`"
            );
        }
        verdict
    }

    /// What the read is asked with: its arguments, and what the agent says beside them.
    fn params(&self, arguments: &Text) -> Text {
        let LookPlace {
            caller,
            policy,
            meta,
            ..
        } = self.place;
        let mut params = Object::new();
        params.set("name", Text::string(&self.tool.definition.name));
        params.set("arguments", arguments.clone());
        if let Some(meta) = meta {
            let meta = without_ours(meta);
            let server = &self.tool.server.settings.name;
            let told = capabilities::meta(policy, caller, server, &meta);
            params.set("_meta", told.unwrap_or(meta));
        }
        params.text()
    }

    /// What the server says to the read.
    async fn ask(&self, arguments: &Text) -> LookAnswer {
        let (tool, place) = (self.tool, self.place);
        let headers = match place.links.wire(&tool.server) {
            Era::Modern => dispatch::header_params(Some(arguments), tool),
            Era::Legacy => Vec::new(),
        };
        let message = Message::request(0, "tools/call", Some(self.params(arguments)));
        // The agent did not ask, so it hears nothing of it.
        let (outlet, _inlet) = way_back();
        let passage = ExchangeContext {
            caller: place.caller,
            outlet: &outlet,
            links: place.links,
            waiting: place.waiting,
            stop_when_gone: true,
            outlives: None,
            shaping: None,
            tolerance: Tolerance::None,
            task_token: None,
        };
        let (server, timeout) = (
            &tool.server.settings.name,
            Some(LONGEST.min(tool.server.settings.timeout)),
        );
        let outbound = Outbound {
            server,
            message: &message,
            params: &headers,
            timeout,
            changes: false,
            terms: BridgeTerms::default(),
        };
        match passage.exchange(outbound).await {
            Ok(ExchangeOutcome::Answer(answer)) => LookAnswer {
                is_error: answer.is_error,
                body: answer.body,
                fault: None,
                took: Duration::ZERO,
            },
            Ok(_) => LookAnswer::failed("the tool server did not answer it as a call".to_owned()),
            Err(fault) => LookAnswer::failed(fault.what),
        }
    }
}

/// Keeps what is replayed of a call that was found.
pub(in crate::gate) async fn keep_found(store: &dyn Store, era: Era) -> Result<Stored, StoreError> {
    let mut result = json!({ "content": [{ "type": "text", "text": FOUND }], "isError": false });
    if era == Era::Modern {
        result["resultType"] = json!("complete");
    }
    store.keep(false, Text::of(&result).bytes()).await
}

/// Ends the unknown outcome of the call `action` under `key` by what a look has shown. A quicker
/// operator, late answer or look may have settled it, too.
pub(in crate::gate) async fn end(
    store: &dyn Store,
    key: Digest,
    action: ActionId,
    phase: ClaimPhase,
) -> Result<(), StoreError> {
    tracing::info!(%action, became = phase.word(), "a probe ends an unknown outcome");
    let settle = Settle {
        key,
        action,
        phase,
        evidence: Evidence::Probe,
        cost: None,
        failed: false,
        seen: None,
        worth: AnswerWorth::Unread,
    };
    store
        .run(StoreCommand::Settle(settle), None)
        .await
        .map(drop)
}
