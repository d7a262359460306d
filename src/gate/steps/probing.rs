//! Finds out what became of a call with an unknown outcome, by the read that its contract names,
//! when the same call comes again: it brings the arguments (guarantees §4).

use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::case::Subject;
use crate::gate::catalogue::tool::Tool;
use crate::gate::effects::unavailable;
use crate::gate::record::entry_of;
use crate::gate::record::probes::{MadeLook, SentAbout};
use crate::gate::record::said;
use crate::gate::record::timing::StageTimer;
use crate::gate::steps::looking::{self, Look, LookPlace};
use crate::guards::idempotency;
use crate::guards::idempotency::{Keyed, Probe, ProbeVerdict};
use crate::guards::secrets;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::store::state::claim::{Claim, ClaimPhase};

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
    let tool = looking::tool_of(gate, &call.origin.policy, &call.origin.links, probe);
    let tool = tool.ok_or(Refusal::OutcomeUnknown)?;
    let probed = ProbedCall {
        probe,
        tool: &tool,
        keyed,
        action,
    };
    settle(gate, call, &probed, timer).await
}

/// A call whose outcome is unknown, and the read that says what became of it.
struct ProbedCall<'a> {
    probe: &'a Probe,
    /// The read's tool.
    tool: &'a Tool,
    keyed: &'a Keyed,
    action: ActionId,
}

/// Asks what became of `action`; when that is known afterwards, the key can be looked at again.
async fn settle(
    gate: &Gate,
    call: &Call,
    probed: &ProbedCall<'_>,
    timer: &mut StageTimer,
) -> Result<(), Refusal> {
    let store = &*gate.effects.store;
    let (action, unknown) = (probed.action, Refusal::OutcomeUnknown);
    let Some((key, claim)) = store.find(action).await.map_err(unavailable)? else {
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
            let stored = looking::keep_found(store, call.origin.era).await;
            ClaimPhase::Completed(stored.map_err(unavailable)?)
        }
        ProbeVerdict::Absent => ClaimPhase::NotSent,
        ProbeVerdict::Unclear | ProbeVerdict::Unsaid => return Err(unknown),
    };
    let ended = looking::end(store, key, action, phase).await;
    ended.map_err(unavailable)
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
    let origin = &call.origin;
    let meta = call.message.body.as_ref();
    let meta = meta.and_then(|body| body.get("_meta"));
    let asked = Look {
        place: LookPlace {
            caller: &origin.caller,
            policy: &origin.policy,
            links: &origin.links,
            waiting: &origin.waiting,
            meta: meta.as_ref(),
        },
        probe,
        tool,
        arguments: &arguments,
        of: action,
        since: gate.effects.since_sent(claim),
        has_begun: claim.answered.contains(&call.round()),
    };
    let (answer, verdict) = asked.made(gate).await;
    timer.looked(answer.took);
    let made = MadeLook {
        sent: SentAbout::Look,
        asked: Entry {
            task: said(call.judged.said.task.as_ref()),
            ..entry_of(&call.judged, &origin.caller)
        },
        of: action,
        tool,
        arguments: &arguments,
        actions: vec!["read".to_owned()],
        answer: &answer,
        shown: format!("probe: {}", verdict.word()),
        policy: &origin.policy.version,
    };
    made.record(gate);
    Ok(verdict)
}
