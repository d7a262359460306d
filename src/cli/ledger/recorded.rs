//! A recorded call, as it is judged again: which it is, what the policy said of it then, and which
//! arguments it had.

use super::calls::{LedgerCall, LedgerCalls};
use super::reading;
use super::text::plain;
use crate::cli::explain;
use crate::cli::terminal::ids::{ambiguous, is_meant};
use crate::cli::terminal::progress::WorkProgress;
use crate::config::Ledger;
use crate::gate::pipeline::Stage;
use crate::gate::prepare::STRIPPED;
use crate::gate::record::hashes::params_hash;
use crate::guards::{ToolRules, kind_of};
use crate::model::caller::Caller;
use crate::model::entry::Entry;
use crate::model::ids::UserId;
use crate::model::refusal::RefusalKind;
use crate::policy::Policy;
use anyhow::{Context as _, bail};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// The steps that the policy alone decides.
const POLICY_STEPS: [&str; 5] = ["visible", "arguments", "permission", "rules", "rewrite"];
/// What is said of a call that passes them and that a person has to allow, whatever that person
/// said then.
pub(in crate::cli) const APPROVAL_CODES: [&str; 6] = [
    "approval_pending",
    "approval_denied",
    "approval_timeout",
    "approver_unreachable",
    "approval_lapsed",
    "approval_queue_full",
];
/// What is said of a call that passes them.
pub(in crate::cli) const PASSED_VERDICT: &str = "passed";

/// The call whose action id begins or ends with `id`, with the arguments that `kept` has the keys for.
pub(in crate::cli) fn find(data: &Path, kept: &Ledger, id: &str) -> anyhow::Result<Entry> {
    let calls = LedgerCalls::open(data)?.with_keys(kept);
    found(calls, id, Some(&reading()))
}

/// The same of a ledger with an `archive`, as its entry stands there; `progress` is told how far it is read, where a
/// person waits for that.
pub(in crate::cli) fn find_in(
    data: &Path,
    archive: Option<&Path>,
    id: &str,
    progress: Option<&WorkProgress>,
) -> anyhow::Result<Entry> {
    found(LedgerCalls::open_in(data, archive)?, id, progress)
}

fn found(calls: LedgerCalls, id: &str, progress: Option<&WorkProgress>) -> anyhow::Result<Entry> {
    let mut found: Option<LedgerCall> = None;
    for call in calls {
        if let Some(progress) = progress {
            progress.step();
        }
        let call = call?;
        if !is_meant(&call.entry.action_id, id) {
            continue;
        }
        if let Some(found) = &found
            && found.entry.action_id != call.entry.action_id
        {
            let several = [&found.entry.action_id, &call.entry.action_id];
            bail!("{}", ambiguous(&several));
        }
        found = Some(call);
    }
    let wanted = plain(id);
    let call = found.with_context(|| {
        format!("no call's action id begins or ends with {wanted}; see `toolgate ledger list`")
    })?;
    Ok(call.entry)
}

/// What the policy said of the call then: the code with which it was refused or would have been, or
/// that it passed. What budgets, keys and loops say depends on other calls, whether it was enforced
/// or observed. For a call that [`is_unjudged`], of which the policy said nothing, it is the code
/// `rate_exceeded`.
pub(in crate::cli) fn recorded(entry: &Entry) -> &str {
    let observed = entry
        .would_refuse
        .as_deref()
        .filter(|code| kind_of(code) == RefusalKind::Violation);
    let refused = entry
        .aborted_reason
        .as_deref()
        .filter(|_| is_unjudged(entry) || POLICY_STEPS.contains(&entry.stage.as_str()));
    let is_asked =
        entry.approval.is_some() || reasons(entry).any(|code| APPROVAL_CODES.contains(&code));
    observed.or(refused).unwrap_or(if is_asked {
        APPROVAL_CODES[0]
    } else {
        PASSED_VERDICT
    })
}

/// Was the call refused because its caller called too fast? Then nobody knows what the policy would
/// have said.
pub(in crate::cli) fn is_unjudged(entry: &Entry) -> bool {
    entry.stage == Stage::Rate.as_str() && entry.aborted_reason.is_some()
}

/// Why nothing is said of a call that is [`is_unjudged`].
pub(in crate::cli) const UNJUDGED_NOTE: &str =
    "its caller called too fast, and nothing of the call was judged";

fn reasons(entry: &Entry) -> impl Iterator<Item = &str> {
    entry
        .aborted_reason
        .iter()
        .chain(&entry.would_refuse)
        .map(String::as_str)
}

/// The caller that made the call, as the policy knows it now: of several entries for one agent, the
/// one with the roles and the tenant that it had. It acts for the user that it acted for then.
pub(in crate::cli) fn caller(policy: &Policy, entry: &Entry) -> Option<Arc<Caller>> {
    let is_same = |caller: &&Arc<Caller>| {
        let tenant = caller.tenant.as_ref().map(ToString::to_string);
        caller.agent.as_str() == entry.agent()
            && tenant == entry.tenant_id
            && caller.roles == entry.roles
    };
    let same = policy.identity.callers().iter().find(is_same).cloned();
    let known = same.or_else(|| policy.identity.of_agent(entry.agent()))?;
    let Some(user) = entry.named_user() else {
        return Some(known);
    };
    Some(Arc::new(known.for_user(UserId::new(user))))
}

/// What is said of a call that a hook had a say in.
const UNASKED_NOTE: &str = "a hook had its say then; what it would say now is not asked";

/// What is said now of a call that passes, by the contract it is judged by; or why that is not
/// known.
pub(in crate::cli) fn passed(
    entry: &Entry,
    rules: &ToolRules,
) -> Result<&'static str, &'static str> {
    let was_asked = recorded(entry) == APPROVAL_CODES[0];
    match &rules.approval {
        _ if has_asked(entry, rules) => Err(UNASKED_NOTE),
        None => Ok(PASSED_VERDICT),
        Some(_) if !was_asked && (entry.aborted_reason.is_some() || entry.replayed) => {
            Err("it ended then before a person would have been asked")
        }
        Some(_) => Ok(APPROVAL_CODES[0]),
    }
}

/// Whether a hook changed the call then, or refused it.
fn has_asked(entry: &Entry, rules: &ToolRules) -> bool {
    let of_contract =
        |name: &String| name == STRIPPED || rules.rewrite.names().any(|step| step == name);
    let is_refused = entry.stage == "rewrite" && entry.aborted_reason.is_some();
    is_refused || !entry.rewritten_by.iter().all(of_contract)
}

/// The arguments, if they are the call's: as given, or without the key that toolgate takes off
/// them.
pub(in crate::cli) fn arguments(
    given: &str,
    entry: &Entry,
    split: impl FnOnce(&Value) -> Value,
) -> anyhow::Result<Value> {
    let whole = explain::read("--arguments", given.to_owned().into())?;
    let rest = split(&whole);
    match [rest, whole]
        .into_iter()
        .find(|arguments| params_hash(arguments) == entry.sent_hash())
    {
        Some(arguments) => Ok(arguments),
        None => bail!(
            "these are not the call's arguments: their hash is another than params_hash in the ledger"
        ),
    }
}

/// The arguments, if the ledger has all of them, because the contract's `audit` names all.
pub(in crate::cli) fn audited(entry: &Entry) -> Option<Value> {
    let audited = Value::Object(entry.audit.clone());
    (params_hash(&audited) == entry.sent_hash()).then_some(audited)
}
