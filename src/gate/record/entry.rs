//! A call's ledger entry: taken from the call, its contract, its findings, its end and its times.
//! The findings are taken apart field by field, and the entry is written out field by field: a new
//! one of either does not compile until this file says what becomes of it.

use super::{Ending, RecordedCall, entry_of, grounds, is_tool_error, outcome_of, said};
use crate::gate::catalogue::contract_mismatch as fit;
use crate::gate::catalogue::pinned;
use crate::gate::record::findings::ApprovalFound;
use crate::gate::record::findings::DispatchFound;
use crate::gate::record::findings::Findings;
use crate::gate::record::findings::KeyFound;
use crate::gate::record::findings::StateFound;
use crate::gate::record::hashes::params_hash;
use crate::gate::record::timing::Spent;
use crate::guards::ToolRules;
use crate::guards::budget::units;
use crate::guards::pins::Unapproved;
use crate::guards::task::reported;
use crate::model::call::ToolCall;
use crate::model::digest::sha256;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::task::TaskState;
use crate::model::times::precise_millis;
use serde_json::{Map, Value};

/// The entry of a call that is about to be sent.
pub fn intent(recorded: &RecordedCall<'_>) -> Entry {
    entry(recorded, None)
}

/// What the ledger keeps; without an `ending`, of a call that is about to be sent. The rest is what only
/// messages, looks at the server and sums have.
pub(in crate::gate) fn entry(recorded: &RecordedCall<'_>, ending: Option<&Ending>) -> Entry {
    let (judged, caller) = (&recorded.call.judged, &recorded.call.origin.caller);
    let (found, took) = (FoundFields::of(recorded.found), TimeFields::of(recorded));
    let contract = ContractFields::of(recorded, ending);
    let (end, rewriting) = (EndFields::of(recorded, ending), RewriteFields::of(judged));
    let key = KeyFields::of(&recorded.found.key);
    Entry {
        time: recorded.gate.clock.wall().to_string(),
        action_id: judged.action.to_string(),
        tool: judged.tool.to_string(),
        schema_hash: recorded.listed().map(|tool| tool.hash.clone()),
        params_hash: hash(recorded),
        original_params_hash: rewriting.original_hash,
        rewritten_by: rewriting.by,
        actions: contract.actions,
        variant: contract.variant,
        writes: contract.writes,
        undo: contract.undo,
        confirms: found.confirms,
        compensates: recorded.call.compensates().map(|of| of.to_string()),
        approval: end.approval,
        grant: found.grant,
        approved_by: found.approved_by,
        audit: contract.audit,
        task: said(judged.said.task.as_ref()),
        state: contract.state.word().to_owned(),
        state_before: found.state_before,
        event: end.event.to_owned(),
        outcome: end.outcome.to_owned(),
        aborted_reason: end.aborted_reason,
        stage: recorded.timer.stage().as_str().to_owned(),
        decided_by: end.decided_by,
        allowed_by: contract.allowed_by,
        resources: contract.resources,
        would_refuse: found.would_refuse,
        unasked: found.unasked,
        fault: found.fault,
        is_error: end.is_error,
        result_bytes: end.result_bytes,
        result_hash: end.result_hash,
        latency_ms: took.latency,
        gate_ms: took.gate,
        hold_ms: took.hold,
        upstream_ms: took.upstream,
        policy: recorded.policy.version.clone(),
        replayed: key.replayed,
        claimed_by: key.claimed_by,
        same_as: key.same_as,
        because: key.because,
        would_join: key.would_join,
        attempts: found.attempts,
        fence: found.fence,
        cost: found.cost,
        budget_remaining: found.budget_remaining,
        // Besides, what only messages, looks at the server and sums have.
        ..entry_of(judged, caller)
    }
}

/// [`params_hash`] of the arguments sent, which the loop detector may have asked for before.
fn hash(recorded: &RecordedCall<'_>) -> String {
    let known = recorded.found.hashed(recorded.call);
    let known = known.map(|hashed| hashed.params_hash.clone());
    known.unwrap_or_else(|| params_hash(&recorded.call.judged.arguments))
}

/// What the call's steps have found, as the entry has it.
struct FoundFields {
    confirms: Option<String>,
    grant: Option<String>,
    approved_by: Vec<String>,
    state_before: Option<String>,
    would_refuse: Option<String>,
    unasked: Vec<String>,
    fault: Option<String>,
    attempts: u32,
    fence: Option<u64>,
    cost: Option<f64>,
    budget_remaining: Option<Value>,
}

impl FoundFields {
    fn of(found: &Findings) -> Self {
        let Findings {
            task: _,
            usage: _,
            state: StateFound {
                before,
                evidence: _,
            },
            warning: _,
            hashed: _,
            key: _,
            draft,
            remaining,
            approval,
            fence,
            dispatch:
                DispatchFound {
                    attempts,
                    changes: _,
                    fault,
                    meaning: _,
                    cost: _,
                    time_left: _,
                    is_out_of_time: _,
                    can_undo: _,
                },
            observed,
            has_kept_arguments: _,
        } = found;
        let approved_by = approval.as_ref().map(|approval| approval.by.clone());
        let grant = approval.as_ref().and_then(|approval| approval.grant);
        let cost = found.cost();
        let unasked = observed.as_ref().map(|observed| &observed.unasked);
        Self {
            confirms: draft.as_ref().map(ToString::to_string),
            grant: grant.map(|grant| grant.to_string()),
            approved_by: approved_by.unwrap_or_default(),
            state_before: before.map(|state| state.word().to_owned()),
            would_refuse: found
                .foreseen()
                .map(|foreseen| foreseen.refusal.code().to_owned()),
            unasked: unasked.cloned().unwrap_or_default(),
            fault: fault.as_ref().map(|fault| fault.what.clone()),
            attempts: *attempts,
            fence: *fence,
            cost: (*attempts > 0 && cost > 0).then(|| units(cost)),
            budget_remaining: remaining.as_deref().cloned(),
        }
    }
}

/// Which call the key makes it, as the entry has it.
struct KeyFields {
    replayed: bool,
    claimed_by: Option<String>,
    same_as: Option<String>,
    because: Option<String>,
    would_join: Vec<String>,
}

impl KeyFields {
    fn of(found: &KeyFound) -> Self {
        let KeyFound {
            hash: _,
            holder,
            replayed,
            is_looked_at: _,
            compared,
        } = found;
        let compared = compared.as_deref();
        Self {
            replayed: *replayed,
            claimed_by: holder.map(|holder| holder.to_string()),
            same_as: compared.and_then(|one| Some(one.same_as?.to_string())),
            because: compared.and_then(|one| Some(one.because?.word().to_owned())),
            would_join: found.joined_words(),
        }
    }
}

/// What became of the arguments before they were sent.
struct RewriteFields {
    original_hash: Option<String>,
    by: Vec<String>,
}

impl RewriteFields {
    fn of(judged: &ToolCall) -> Self {
        let rewritten = judged.rewritten.as_ref();
        Self {
            original_hash: rewritten.map(|rewritten| params_hash(&rewritten.original)),
            by: rewritten.map_or_else(Vec::new, |rewritten| rewritten.by.clone()),
        }
    }
}

/// What the call's contract says of it.
struct ContractFields {
    actions: Vec<String>,
    variant: Option<String>,
    writes: Option<String>,
    undo: Option<String>,
    audit: Map<String, Value>,
    state: TaskState,
    allowed_by: Vec<String>,
    resources: Vec<String>,
}

impl ContractFields {
    fn of(recorded: &RecordedCall<'_>, ending: Option<&Ending>) -> Self {
        let judged = &recorded.call.judged;
        let Some(admitted) = recorded.admitted() else {
            return Self {
                actions: Vec::new(),
                variant: None,
                writes: None,
                undo: None,
                audit: Map::new(),
                state: state(judged, None),
                allowed_by: Vec::new(),
                resources: Vec::new(),
            };
        };
        let rules = admitted.rules();
        // What left was let through, whatever became of it.
        let is_refused =
            ending.is_some_and(Result::is_err) && recorded.found.dispatch.attempts == 0;
        let is_let_through = !is_refused && recorded.found.foreseen().is_none();
        let allowed_by = is_let_through.then(|| grounds::words(recorded, &admitted));
        Self {
            actions: rules.actions.clone(),
            variant: rules.variant.clone(),
            writes: rules.writes.clone(),
            undo: rules.undo.words(),
            audit: rules.audit.named(&judged.arguments),
            state: state(judged, Some(rules)),
            allowed_by: allowed_by.unwrap_or_default(),
            resources: rules.permission.named(&judged.arguments),
        }
    }
}

/// How the call ended, if it has.
struct EndFields {
    approval: Option<String>,
    event: &'static str,
    outcome: &'static str,
    aborted_reason: Option<String>,
    decided_by: Option<String>,
    is_error: Option<bool>,
    result_bytes: Option<u64>,
    result_hash: Option<String>,
}

impl EndFields {
    fn of(recorded: &RecordedCall<'_>, ending: Option<&Ending>) -> Self {
        let found = recorded.found;
        let reply = ending.and_then(|ending| ending.as_ref().ok());
        let answered = reply.and_then(|reply| reply.body.as_ref());
        let refusal = ending.and_then(|ending| ending.as_ref().err());
        let would_refuse = found.foreseen();
        let decided = refusal.or(would_refuse.map(|foreseen| &foreseen.refusal));
        let outcome = ending.map(|ending| outcome_of(ending, found).word());
        Self {
            approval: hold(refusal, found.approval.as_deref()).map(|id| id.to_string()),
            event: event(ending),
            outcome: outcome.unwrap_or("dispatching"),
            aborted_reason: refusal.and_then(reason),
            decided_by: decided.and_then(|refusal| decided_by(recorded, refusal)),
            is_error: answered
                .map(|result| is_tool_error(result) || reply.is_some_and(|reply| reply.is_error)),
            result_bytes: answered.map(|result| result.as_bytes().len() as u64),
            result_hash: answered.map(|result| sha256(result.as_bytes())),
        }
    }
}

/// How long the call took so far, in milliseconds.
struct TimeFields {
    latency: f64,
    gate: f64,
    hold: Option<f64>,
    upstream: f64,
}

impl TimeFields {
    fn of(recorded: &RecordedCall<'_>) -> Self {
        let (timer, judged) = (recorded.timer, &recorded.call.judged);
        let Spent {
            judging,
            held,
            upstream,
        } = timer.spent();
        Self {
            latency: precise_millis(timer.now().saturating_sub(judged.arrived)),
            gate: precise_millis(judging),
            hold: (!held.is_zero()).then(|| precise_millis(held)),
            upstream: precise_millis(upstream),
        }
    }
}

/// Why it did not run. A plan that was made was not aborted.
fn reason(refusal: &Refusal) -> Option<String> {
    (*refusal != Refusal::Planned).then(|| refusal.code().to_owned())
}

/// What it is to its task (003-82).
fn event(ending: Option<&Ending>) -> &'static str {
    match ending {
        None => "enter",
        Some(Ok(_) | Err(Refusal::Planned)) => "exit",
        Some(Err(_)) => "fail",
    }
}

/// The hold that the call uses up, or is refused for.
fn hold(refusal: Option<&Refusal>, approval: Option<&ApprovalFound>) -> Option<ActionId> {
    approval
        .and_then(|found| found.hold)
        .or_else(|| refusal.and_then(Refusal::hold))
}

/// Where the task is: as its agent reports, else as the call tells (003-10).
fn state(judged: &ToolCall, rules: Option<&ToolRules>) -> TaskState {
    let changes = rules.is_none_or(|rules| rules.side_effect);
    let reported = reported(judged, changes).ok().flatten();
    reported.unwrap_or(if changes {
        TaskState::Execute
    } else {
        TaskState::Collect
    })
}

/// What decided against the call, for operators only: layer and pattern, rule or hook, or why the
/// tool is withheld. A tool that an operator disabled while the call waited is disabled only in the
/// policy that is in force now, so that one is asked, too.
fn decided_by(recorded: &RecordedCall<'_>, refusal: &Refusal) -> Option<String> {
    let RecordedCall {
        gate, policy, call, ..
    } = *recorded;
    let tool = recorded.listed();
    if *refusal != Refusal::ToolNotAllowlisted {
        if let Refusal::HookBlocked { by, .. } | Refusal::HookBroken { by, .. } = refusal {
            return Some(format!("hook {by}"));
        }
        if let Refusal::RuleFailed { code, why } = refusal {
            return Some(format!("rule {code} failed: {why}"));
        }
        return refusal.contract_code().map(|code| format!("rule {code}"));
    }
    let now = gate.policy.current();
    let steps = [policy, &now].map(|policy| {
        policy
            .allowlist
            .explain(&call.origin.caller, &call.judged.tool)
    });
    let step = steps
        .into_iter()
        .flatten()
        .find(|step| step.verdict.refuses());
    let unfit = tool.and_then(|tool| fit::words(policy, tool));
    let unapproved = tool.and_then(|tool| pinned::judge(policy, tool).err());
    let unapproved = || {
        unapproved
            .map_or("no server offers the tool", Unapproved::words)
            .to_owned()
    };
    let hidden = || gate.why_hidden(policy, &call.origin.caller, &call.judged.tool);
    let other = || unfit.or_else(hidden).unwrap_or_else(unapproved);
    Some(step.map_or_else(other, |step| step.to_string()))
}
