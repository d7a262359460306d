//! Step 6: the chain of before-hooks, the contract's own steps first (POLICY §1, decisions 9 to
//! 11). What it changes is judged again, and is the call from then on; what it was before stays for
//! the record.

use super::Gate;
use super::call::{Call, admitted};
use super::judging::{self, judged};
use super::telling;
use super::toolbox::Tool;
use super::trail::{Stage, Trail};
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::{Final, Ruled};
use crate::guards::hooks::HookPhase;
use crate::guards::rewrite::{
    ChangedArguments, RewriteDraft, RewriteOutcome, Stepped, passed_again,
};
use crate::mcp::json::{Object, Text};
use crate::model::call::Rewritten;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::telemetry::tasks::heavy;
use crate::upstream::hook::{Hook, HookAnswer};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// What the ledger calls the taking away of empty optional arguments (002-23).
pub const STRIPPED: &str = "strip_empty_optionals";

/// Why a chain breaks that makes another call of it.
const OTHER_KEY: &str = "the arguments that came out of it have another idempotency key";

/// Step 3, first part: an empty text that nobody requires counts as absent, where the contract says
/// so.
pub(super) fn stripped(mut call: Call, rules: &ToolRules, tool: &Tool) -> Call {
    if let Cow::Owned(arguments) = rules.arguments.strip(&tool.schema, &call.judged.arguments) {
        become_of(
            &mut call,
            ChangedArguments {
                arguments,
                by: vec![STRIPPED.to_owned()],
            },
        );
    }
    call
}

impl Gate {
    /// Step 6, for a call that is enforced. Whatever is changed goes through steps 3 to 5 once
    /// more, by the variant of the contract that it chooses now.
    pub(super) async fn rewrite<'p>(
        &self,
        (policy, before): (&'p Policy, Admitted<'p>),
        (call, tool): (&mut Arc<Call>, &Arc<Tool>),
        passed: Ruled,
        trail: &mut Trail,
    ) -> Result<(Admitted<'p>, Final), Refusal> {
        let mut draft = RewriteDraft::of(&call.judged.arguments, passed);
        let taken = self
            .chain((policy, before.rules()), (call, tool), &mut draft)
            .await;
        let outcome = taken.and_then(|()| draft.finish());
        match trail.check(Stage::Rewrite, outcome)? {
            RewriteOutcome::Same(proof) => Ok((before, proof)),
            RewriteOutcome::Changed(changed) => {
                let after = before.clone().on(&changed.arguments);
                let kept = key_kept(
                    [before.rules(), after.rules()],
                    &call.judged.arguments,
                    &changed,
                );
                trail.check(Stage::Rewrite, kept)?;
                // Nobody else holds it yet.
                let taken = Arc::get_mut(call).ok_or(Refusal::InternalError)?;
                become_of(taken, changed);
                trail.back(Stage::Visible);
                let admitted = admitted(policy, taken, tool)?;
                taken.find_key(admitted.rules(), tool);
                let proof = judged((policy, &admitted), (call, tool), trail)
                    .await
                    .map(passed_again)?;
                Ok((admitted, proof))
            }
        }
    }

    async fn chain(
        &self,
        (policy, rules): (&Policy, &Arc<ToolRules>),
        (call, tool): (&Arc<Call>, &Tool),
        draft: &mut RewriteDraft<'_>,
    ) -> Result<(), Refusal> {
        draft.take(stepped(rules, call).await?);
        for hook in policy.hooks.of(HookPhase::Before, &tool.name) {
            self.ask(hook, (call, tool), draft).await?;
        }
        Ok(())
    }

    /// Asks one hook; what it says is laid over what the hooks before it have said.
    async fn ask(
        &self,
        hook: &Hook,
        (call, tool): (&Call, &Tool),
        draft: &mut RewriteDraft<'_>,
    ) -> Result<(), Refusal> {
        let body = telling::of(telling::BEFORE, (call, tool), draft.arguments()).text();
        let id = format!("{}_before_{}", call.judged.action, hook.name);
        let answer = tokio::select! {
            biased;
            () = call.waiting.cancelled.cancelled() => return Err(Refusal::Cancelled),
            () = call.outlet.closed() => return Err(Refusal::Cancelled),
            answer = hook.ask(&self.hooks.connections, &id, body.bytes()) => answer,
        };
        let HookAnswer { arguments, block, reason } = answer.map_err(|failed| {
            tracing::warn!(hook = hook.name, %failed, "a before-hook failed, and the call is refused for that");
            self.metrics.before_hook("failed");
            Refusal::HookBroken { by: hook.name.clone(), why: failed.words().to_owned() }
        })?;
        let has_changed = arguments.is_some_and(|answered| draft.merge(&hook.name, answered));
        if let Some(reason) = reason {
            draft.reason(&reason);
        }
        if block {
            draft.block(&hook.name);
        }
        self.metrics.before_hook(match (block, has_changed) {
            (true, _) => "blocked",
            (false, true) => "changed",
            (false, false) => "passed",
        });
        Ok(())
    }
}

/// The contract's own steps, where the call is served or, when they take too much, on the pool for
/// heavy work.
async fn stepped(rules: &Arc<ToolRules>, call: &Arc<Call>) -> Result<Stepped, Refusal> {
    let here = || rules.rewrite.steps(&call.caller, &call.judged.arguments);
    let there = || {
        let (rules, call) = (rules.clone(), call.clone());
        move || rules.rewrite.steps(&call.caller, &call.judged.arguments)
    };
    let ended = heavy::done(&call.caller.agent, here, there).await;
    ended.unwrap_or_else(|unfinished| Err(judging::refused(unfinished)))
}

/// Whatever hooks make of a call, it is known by the key that its agent gave it (SEMANTICS §3): by
/// the rules that counted before, and by those that count now. Steps that would change it do not
/// load.
fn key_kept(
    rules: [&Arc<ToolRules>; 2],
    before: &Value,
    changed: &ChangedArguments,
) -> Result<(), Refusal> {
    let mut keyed = rules
        .into_iter()
        .filter_map(|rules| rules.idempotency.as_ref());
    if keyed.all(|rule| rule.keeps(before, &changed.arguments)) {
        return Ok(());
    }
    let by = changed.by.last().cloned().unwrap_or_default();
    Err(Refusal::HookBroken {
        by,
        why: OTHER_KEY.to_owned(),
    })
}

/// The call goes on with other arguments.
fn become_of(call: &mut Call, changed: ChangedArguments) {
    let ChangedArguments { arguments, by } = changed;
    let mut params = call
        .message
        .body
        .as_ref()
        .and_then(Text::object)
        .unwrap_or_default();
    let written = params
        .get("arguments")
        .and_then(Text::object)
        .unwrap_or_default();
    params.set(
        "arguments",
        rewritten(written, &call.judged.arguments, &arguments).text(),
    );
    call.message.body = Some(params.text());
    let original = std::mem::replace(&mut call.judged.arguments, arguments);
    // The key, if it was ours, is no longer among what is sent.
    call.judged.key_taken = false;
    let record = call.judged.rewritten.get_or_insert_with(|| {
        Box::new(Rewritten {
            original,
            by: Vec::new(),
        })
    });
    record.by.extend(by);
}

/// What is sent: members that did not change stay as they were written.
fn rewritten(mut written: Object, before: &Value, after: &Value) -> Object {
    let Some(members) = after.as_object() else {
        return written;
    };
    let gone: Vec<String> = written
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !members.contains_key(*name))
        .map(str::to_owned)
        .collect();
    for name in gone {
        written.remove(&name);
    }
    for (name, value) in members
        .iter()
        .filter(|(name, value)| before.get(name) != Some(value))
    {
        written.set(name, Text::of(value));
    }
    written
}
