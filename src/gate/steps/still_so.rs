//! Whether what a person has allowed is still what would run (guarantees §7): looked at before a person is
//! asked, when a decision is taken up, and right before the call begins, which may wait for its turn until then.

use crate::failpoint;
use crate::gate::Gate;
use crate::gate::case::Subject;
use crate::gate::catalogue::offered::is_offered;
use crate::gate::catalogue::tool::Tool;
use crate::gate::record::findings::ApprovalFound;
use crate::guards::approval::right::ApprovalRight;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::{TenantId, ToolName};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::store::state::hold::Hold;

const CONTRACT_CHANGED: &str =
    "what the policy says of the tool or its agent has changed since a person was asked";
const TOOL_TAKEN: &str = "the caller may not call the tool any more since a person was asked";
const LIMITS_CHANGED: &str =
    "the limits that count for the call have changed since a person was asked";
const TOOL_AWAY: &str = "an operator has taken the tool away";
const TOOL_WITHHELD: &str =
    "the tool is withheld since a person was asked: nobody has approved its definition any more";
const TOOL_CHANGED: &str = "the tool has changed since a person was asked";
const TOKEN_OVER: &str = "the token that the call came with counts no more, and its agent has shown none since that gives \
                          it the same roles; sent again with a token that counts, the call takes up what was decided";
/// What a record of before says is bound to what no call is bound to any more.
const TOOLGATE_CHANGED: &str = "toolgate was updated since a person was asked, so no call is bound to the \
                                decision any more";

/// What a word on the call is bound to of `policy`.
pub(in crate::gate) fn bound_to(policy: &Policy, subject: &Subject<'_>) -> Digest {
    let caller = &subject.call.origin.caller;
    let tenant = caller.tenant.as_ref().map(TenantId::as_str);
    policy.bound_to(&subject.tool.name, caller.agent.as_str(), tenant)
}

/// Why `tool` is shut by `now` to all of `callers`, of whom each could bring the call, if it is.
fn why_shut<'a>(
    now: &Policy,
    tool: &ToolName,
    mut callers: impl Iterator<Item = &'a Caller>,
) -> Option<&'static str> {
    if now.allowlist.is_disabled(tool) {
        return Some(TOOL_AWAY);
    }
    let is_open = callers.any(|caller| now.allowlist.admit(caller, tool).is_ok());
    (!is_open).then_some(TOOL_TAKEN)
}

/// Why a tool that is listed now is not the one of the definition `asked`, as it may be called, if it is not.
fn why_another(now: &Policy, listed: Option<&Tool>, asked: &str) -> Option<&'static str> {
    match listed.filter(|listed| listed.hash == asked) {
        Some(same) if is_offered(now, same) => None,
        Some(_) => Some(TOOL_WITHHELD),
        None => Some(TOOL_CHANGED),
    }
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
    if let Some(why) = why_shut(&now, &tool.name, std::iter::once(&*origin.caller)) {
        return Err(why);
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
    why_another(&now, listed.as_deref(), &tool.hash).map_or(Ok(()), Err)
}

/// Whether the caller of what was allowed is still who it was, with its roles: a call that is held may wait for
/// longer than the token lasts that it came by. It is not void for that: sent again, it takes up the decision.
pub(in crate::gate) fn is_proved(gate: &Gate, subject: &Subject<'_>) -> Result<(), &'static str> {
    let (caller, now) = (&subject.call.origin.caller, gate.policy.current());
    if now.identity.still_proves(caller) {
        Ok(())
    } else {
        Err(TOKEN_OVER)
    }
}

/// All of it of a call that is about to begin by what was `found`; one of which nobody was asked is judged by
/// the policy that it came under. False: the grant that covered it counts no more.
pub(in crate::gate) fn may_begin(
    gate: &Gate,
    policy: &Policy,
    subject: &Subject<'_>,
    found: Option<&ApprovalFound>,
) -> Result<bool, Refusal> {
    failpoint::held("beginning");
    let Some(found) = found else {
        return Ok(true);
    };
    let refused = |id, why| Err(Refusal::ApprovalTimeout { id, why });
    // Operators are taken away while calls wait for their turn, too.
    let is_allowed = |()| found.right.judge(&gate.approvers.current());
    match (
        is_still_so(gate, policy, subject).and_then(is_allowed),
        found.hold,
    ) {
        (Ok(()), Some(id)) => {
            is_proved(gate, subject).map_or_else(|why| refused(id, why), |()| Ok(true))
        }
        (Ok(()), None) => Ok(true),
        (Err(why), Some(id)) => refused(id, why),
        (Err(_), None) => Ok(false),
    }
}

impl Gate {
    /// Why nobody's word on `hold` counts any more, if it does not: judged by what its agent is judged by when the call
    /// comes again. It may come by any entry of the agent, so that one to which the tool is open is enough.
    pub(crate) fn void(&self, hold: &Hold) -> Option<&'static str> {
        let (question, policy) = (&hold.question, self.policy.current());
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
        let roles = &question.caller_roles;
        let entries = policy.identity.entries_with(agent, tenant, roles);
        let entries = entries.iter().map(|entry| &**entry);
        if let Some(why) = why_shut(&policy, &question.tool, entries) {
            return Some(why);
        }
        if let Err(why) = ApprovalRight::of(hold).judge(&self.approvers.current()) {
            return Some(why);
        }
        // What the agent's own sessions list now is looked at when its call comes again.
        if question.own_definition {
            return None;
        }
        let listed = self.tool_of(None, &question.tool);
        if listed.is_none() && !self.tools.current().lacks(&question.tool) {
            return None;
        }
        why_another(&policy, listed.as_deref(), &question.schema_hash)
    }
}
