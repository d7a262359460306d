//! Whether what a person has allowed is still what would run (guarantees §7): looked at before a person is
//! asked, when a decision is taken up, and right before the call begins, which may wait for its turn until then.

use crate::gate::Gate;
use crate::gate::case::Subject;
use crate::gate::catalogue::offered::is_offered;
use crate::gate::record::findings::ApprovalFound;
use crate::model::digest::Digest;
use crate::model::ids::TenantId;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::store::state::hold::HoldQuestion;

const CONTRACT_CHANGED: &str =
    "what the policy says of the tool or its agent has changed since a person was asked";
const TOOL_TAKEN: &str = "the caller may not call the tool any more since a person was asked";
const LIMITS_CHANGED: &str =
    "the limits that count for the call have changed since a person was asked";
const TOOL_AWAY: &str = "an operator has taken the tool away";
const TOOL_WITHHELD: &str =
    "the tool is withheld since a person was asked: nobody has approved its definition any more";
const TOOL_CHANGED: &str = "the tool has changed since a person was asked";
/// What a record of before says is bound to what no call is bound to any more.
const TOOLGATE_CHANGED: &str = "toolgate was updated since a person was asked, so no call is bound to the \
                                decision any more";

/// What a word on the call is bound to of `policy`.
pub(in crate::gate) fn bound_to(policy: &Policy, subject: &Subject<'_>) -> Digest {
    let caller = &subject.call.origin.caller;
    let tenant = caller.tenant.as_ref().map(TenantId::as_str);
    policy.bound_to(&subject.tool.name, caller.agent.as_str(), tenant)
}

/// What has changed while a person was asked makes what was allowed another call (guarantees §7).
pub(in crate::gate) fn is_still_so(
    gate: &Gate,
    policy: &Policy,
    subject: &Subject<'_>,
) -> Result<(), &'static str> {
    let Subject { call, tool, rules } = subject;
    let (origin, now) = (&call.origin, gate.policy.current());
    if bound_to(&now, subject) != bound_to(policy, subject) {
        return Err(CONTRACT_CHANGED);
    }
    if now.allowlist.admit(&origin.caller, &tool.name).is_err() {
        return Err(TOOL_TAKEN);
    }
    // The call has its place in the budget as it was when it came.
    let asks = |policy: &Policy| {
        let (caller, judged) = (&origin.caller, &call.judged.tool);
        rules
            .budget
            .ask(&policy.tasks, caller, judged, rules.side_effect)
    };
    if asks(&now) != asks(policy) {
        return Err(LIMITS_CHANGED);
    }
    let listed = gate.tool_of(Some(&origin.links), &tool.name);
    match listed.filter(|listed| listed.hash == tool.hash) {
        Some(same) if is_offered(&now, &same) => Ok(()),
        Some(_) => Err(TOOL_WITHHELD),
        None => Err(TOOL_CHANGED),
    }
}

/// The same of a call that is about to begin by what was `found`; one of which nobody was asked is judged by
/// the policy that it came under. False: the grant that covered it counts no more.
pub(in crate::gate) fn may_begin(
    gate: &Gate,
    policy: &Policy,
    subject: &Subject<'_>,
    found: Option<&ApprovalFound>,
) -> Result<bool, Refusal> {
    let Some(found) = found else {
        return Ok(true);
    };
    match (is_still_so(gate, policy, subject), found.hold) {
        (Ok(()), _) => Ok(true),
        (Err(why), Some(id)) => Err(Refusal::ApprovalTimeout { id, why }),
        (Err(_), None) => Ok(false),
    }
}

impl Gate {
    /// Why an operator's word on what is held with `question` would count for nothing, if it would.
    pub(crate) fn void(&self, question: &HoldQuestion) -> Option<&'static str> {
        let policy = self.policy.current();
        let (agent, tenant) = (&question.agent, question.tenant.as_deref());
        let bound = policy.bound_to(&question.tool, agent, tenant);
        let Some(asked) = &question.bound_to else {
            return Some(TOOLGATE_CHANGED);
        };
        if *asked != bound.to_string() {
            // Where the files say what they said, it is toolgate that reads them otherwise.
            let is_same = question.policy == policy.written;
            return Some(if is_same {
                TOOLGATE_CHANGED
            } else {
                CONTRACT_CHANGED
            });
        }
        if policy.allowlist.is_disabled(&question.tool) {
            return Some(TOOL_AWAY);
        }
        // What the agent's own sessions list now is looked at when its call comes again.
        if question.own_definition {
            return None;
        }
        let tool = self.tool_of(None, &question.tool);
        let tool = tool?;
        if tool.hash != question.schema_hash {
            return Some(TOOL_CHANGED);
        }
        (!is_offered(&policy, &tool)).then_some(TOOL_WITHHELD)
    }
}
