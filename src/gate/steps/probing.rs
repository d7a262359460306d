//! Finds out what became of a call with an unknown outcome, by the read that its contract names,
//! when the same call comes again: it brings the arguments, which nobody has kept (guarantees §4).

use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::case::Subject;
use crate::gate::catalogue::pinned;
use crate::gate::catalogue::tool::Tool;
use crate::gate::effects::unavailable;
use crate::gate::record::probes::{LookAnswer, MadeLook};
use crate::gate::record::timing::StageTimer;
use crate::gate::steps::dispatch;
use crate::guards::idempotency;
use crate::guards::idempotency::{Keyed, Probe, ProbeVerdict};
use crate::guards::secrets;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::own::without_ours;
use crate::mcp::revision::Era;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::outlet::way_back;
use crate::side::capabilities;
use crate::store::state::claim::{Claim, ClaimPhase};
use crate::store::state::command::{Settle, StoreCommand};
use crate::store::state::settlement::Evidence;
use crate::upstream::link::Tolerance;
use crate::upstream::links::BridgeTerms;
use crate::upstream::pump::{ExchangeContext, ExchangeOutcome, Outbound};
use serde_json::{Value, json};
use std::time::Duration;

/// How long the read may take.
const LONGEST: Duration = Duration::from_secs(10);
/// What a replay says of a call that was found.
const FOUND: &str = "The tool has carried this call out: a look at the tool server found it. Its own answer was lost.";

/// Step 8, when it is unknown whether the call has run: by the read that its contract names, if
/// it names one.
pub(in crate::gate) async fn resolve(
    gate: &Gate,
    subject: &Subject<'_>,
    keyed: &Keyed,
    action: ActionId,
    timer: &mut StageTimer,
) -> Result<(), Refusal> {
    let Subject { call, rules, .. } = subject;
    let probe = rules
        .idempotency
        .as_ref()
        .and_then(idempotency::Rule::probe)
        .ok_or(Refusal::OutcomeUnknown)?;
    let tool = gate.tool_of(Some(&call.origin.links), &probe.tool);
    let tool = tool.filter(|tool| pinned::is_offered(&call.origin.policy, tool));
    let tool = tool.filter(|tool| !gate.policy.current().allowlist.is_disabled(&tool.name));
    let tool = tool.ok_or(Refusal::OutcomeUnknown)?;
    settle(
        gate,
        call,
        &ProbedCall {
            probe,
            tool: &tool,
            keyed,
            action,
        },
        timer,
    )
    .await
}

/// A call whose outcome is unknown, and the read that says what became of it.
struct ProbedCall<'a> {
    probe: &'a Probe,
    /// The read's tool.
    tool: &'a Tool,
    keyed: &'a Keyed,
    action: ActionId,
}

impl ProbedCall<'_> {
    /// What the answer shows; its operator is told where the contract does not say it.
    fn read(&self, result: &Value, since_sent: Duration) -> ProbeVerdict {
        let verdict = self.probe.read(result, since_sent);
        if verdict == ProbeVerdict::Unsaid {
            tracing::warn!(
                action = %self.action, tool = %self.tool.name,
                "the probe found a zero or something empty, and the contract does not say whether that means nothing: `probe.nothing`"
            );
        }
        verdict
    }
}

/// Asks what became of `action`; when that is known afterwards, the key can be looked at again.
async fn settle(
    gate: &Gate,
    call: &Call,
    probed: &ProbedCall<'_>,
    timer: &mut StageTimer,
) -> Result<(), Refusal> {
    let effects = &gate.effects;
    let (action, unknown) = (probed.action, Refusal::OutcomeUnknown);
    let Some((key, claim)) = effects.store.find(action).await.map_err(unavailable)? else {
        return Err(unknown);
    };
    match claim.phase {
        ClaimPhase::Unknown { .. } => {}
        // No look ends what an operator gave up, or proves anything of a round before a later one
        // that did not run.
        ClaimPhase::Abandoned | ClaimPhase::NotSent | ClaimPhase::Failed { .. } => {
            return Err(unknown);
        }
        // Something quicker has ended it.
        ClaimPhase::Dispatching | ClaimPhase::AwaitingInput { .. } | ClaimPhase::Completed(_) => {
            return Ok(());
        }
    }
    // What ran was another call than the one that asks by its arguments.
    if claim.edited.is_some() {
        return Err(unknown);
    }
    // What is asked for by this call's key says nothing of a call with another.
    if key != probed.keyed.call_key() && probed.probe.asks_by_key() {
        return Err(unknown);
    }
    let phase = match look(gate, call, probed, &claim, timer).await? {
        ProbeVerdict::Found => {
            let stored = effects
                .store
                .keep(false, found(call.origin.era).bytes())
                .await;
            ClaimPhase::Completed(stored.map_err(unavailable)?)
        }
        ProbeVerdict::Absent => ClaimPhase::NotSent,
        ProbeVerdict::Unclear | ProbeVerdict::Unsaid => return Err(unknown),
    };
    tracing::info!(%action, became = phase.word(), "a probe ends an unknown outcome");
    let settle = Settle {
        key,
        action,
        phase,
        evidence: Evidence::Probe,
        cost: None,
        failed: false,
        seen: None,
    };
    // A quicker operator, late answer or probe has settled it, too.
    effects
        .store
        .run(StoreCommand::Settle(settle), None)
        .await
        .map(drop)
        .map_err(unavailable)
}

/// Asks the server, tells the ledger of it, and gives what the answer shows.
async fn look(
    gate: &Gate,
    call: &Call,
    probed: &ProbedCall<'_>,
    claim: &Claim,
    timer: &mut StageTimer,
) -> Result<ProbeVerdict, Refusal> {
    let ProbedCall {
        probe,
        tool,
        keyed,
        action,
    } = *probed;
    let arguments = probe
        .ask(&call.judged.arguments, &keyed.upstream_key(action))
        // A look for a reference finds nothing, which would prove nothing.
        .filter(|arguments| !secrets::Rule::is_in(arguments))
        .ok_or(Refusal::OutcomeUnknown)?;
    let begun = gate.clock.steady();
    let came = ask(call, tool, &Text::of(&arguments)).await;
    let took = gate.clock.steady().saturating_sub(begun);
    timer.looked(took);
    let answer = LookAnswer { took, ..came };
    let since = Duration::from_millis(gate.effects.store.now().saturating_sub(claim.changed));
    let read = answer.structured();
    let verdict = match read.map(|result| probed.read(&result, since)) {
        // The server has asked in it, so it has begun: that nothing is found proves nothing.
        Some(ProbeVerdict::Absent) if claim.answered.contains(&call.round()) => {
            ProbeVerdict::Unclear
        }
        verdict => verdict.unwrap_or(ProbeVerdict::Unclear),
    };
    let made = MadeLook {
        call,
        of: action,
        tool,
        arguments: &arguments,
        answer: &answer,
        verdict,
    };
    made.record(gate);
    Ok(verdict)
}

/// What the read is asked with: its arguments, and what the agent says beside them.
fn params(call: &Call, tool: &Tool, arguments: &Text) -> Text {
    let mut params = Object::new();
    params.set("name", Text::string(&tool.definition.name));
    params.set("arguments", arguments.clone());
    if let Some(meta) = call
        .message
        .body
        .as_ref()
        .and_then(|body| body.get("_meta"))
    {
        let meta = without_ours(&meta);
        let told = capabilities::meta(
            &call.origin.policy,
            &call.origin.caller,
            &tool.server.settings.name,
            &meta,
        );
        params.set("_meta", told.unwrap_or(meta));
    }
    params.text()
}

/// What the server says to the read.
async fn ask(call: &Call, tool: &Tool, arguments: &Text) -> LookAnswer {
    let headers = match call.origin.links.wire(&tool.server) {
        Era::Modern => dispatch::header_params(Some(arguments), tool),
        Era::Legacy => Vec::new(),
    };
    let message = Message::request(0, "tools/call", Some(params(call, tool, arguments)));
    // The agent did not ask, so it hears nothing of it.
    let (outlet, _inlet) = way_back();
    let (links, waiting) = (&call.origin.links, &call.origin.waiting);
    let passage = ExchangeContext {
        caller: &call.origin.caller,
        outlet: &outlet,
        links,
        waiting,
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
    match passage
        .exchange(Outbound {
            server,
            message: &message,
            params: &headers,
            timeout,
            changes: false,
            terms: BridgeTerms::default(),
        })
        .await
    {
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

fn found(era: Era) -> Text {
    let mut result = json!({ "content": [{ "type": "text", "text": FOUND }], "isError": false });
    if era == Era::Modern {
        result["resultType"] = json!("complete");
    }
    Text::of(&result)
}
