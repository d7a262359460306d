//! Step 6: the chain of before-hooks, the contract's own steps first (policy §1, decisions 9 to
//! 11). What it changes is judged again, and is the call from then on; what it was before stays for
//! the record.

use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::case::RuledCall;
use crate::gate::case::SettledCall;
use crate::gate::case::Subject;
use crate::gate::case::VisibleCall;
use crate::gate::prepare::without_empty;
use crate::gate::record::hook_events as telling;
use crate::gate::record::timing::StageTimer;
use crate::gate::steps::judging;
use crate::gate::steps::judging::judged;
use crate::guards::ToolRules;
use crate::guards::evidence::{Final, Ruled};
use crate::guards::hooks::HookPhase;
use crate::guards::rewrite::{
    ChangedArguments, RewriteDraft, RewriteOutcome, Stepped, passed_again,
};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::telemetry::tasks::heavy;
use crate::upstream::hook::{Hook, HookAnswer};
use serde_json::Value;
use std::sync::Arc;

/// Why a chain breaks that makes another call of it.
const OTHER_KEY: &str = "the arguments that came out of it have another idempotency key";

/// Why one breaks that makes something else of what a person has allowed.
const OTHER_ARGUMENTS: &str = "it would change what a person has allowed";

/// Step 6, and what it asks.
pub(in crate::gate) struct Rewriting<'a, 'p> {
    pub(in crate::gate) gate: &'a Gate,
    pub(in crate::gate) policy: &'p Policy,
    pub(in crate::gate) timer: &'a mut StageTimer,
    /// The call as whatever tells of its end knows it.
    pub(in crate::gate) known: &'a mut Arc<Call>,
}

impl<'p> Rewriting<'_, 'p> {
    /// Whatever is changed goes through steps 3 to 5 once more, by the variant of the contract that
    /// it chooses now.
    pub(in crate::gate) async fn run(
        self,
        case: RuledCall<'p>,
    ) -> Result<SettledCall<'p>, Refusal> {
        let RuledCall { case, ruled } = case;
        let changed = {
            let mut draft = RewriteDraft::of(&case.call.judged.arguments, ruled);
            self.chain(&case, &mut draft).await?;
            match draft.finish()? {
                RewriteOutcome::Same(last) => return Ok(settled(case, last)),
                RewriteOutcome::Changed(changed) => changed,
            }
        };
        let VisibleCall {
            call,
            tool,
            admitted: before,
        } = case;
        let own = before.clone().on(&changed.arguments).rules().clone();
        let changed = without_empty(changed, &own, &tool.schema);
        let after = before.clone().on(&changed.arguments);
        key_kept(
            [before.rules(), after.rules()],
            &call.judged.arguments,
            &changed,
        )?;
        let mut next = Call::clone(&call);
        next.become_of(changed);
        let admitted = next.admitted(self.policy)?;
        next.find_key(admitted.rules(), &tool);
        let call = Arc::new(next);
        *self.known = call.clone();
        let case = VisibleCall {
            call,
            tool,
            admitted,
        };
        let ruled = judged(self.policy, &case, self.timer).await?;
        Ok(settled(case, passed_again(ruled)))
    }

    /// Step 6 of a call whose arguments a person has allowed: it asks everything that it asks of others,
    /// and nothing may change them.
    pub(in crate::gate) async fn unchanged(
        self,
        case: VisibleCall<'p>,
        ruled: Ruled,
    ) -> Result<SettledCall<'p>, Refusal> {
        let outcome = {
            let mut draft = RewriteDraft::of(&case.call.judged.arguments, ruled);
            self.chain(&case, &mut draft).await?;
            draft.finish()?
        };
        match outcome {
            RewriteOutcome::Same(last) => Ok(settled(case, last)),
            RewriteOutcome::Changed(changed) => Err(Refusal::HookBroken {
                by: changed.by.last().cloned().unwrap_or_default(),
                why: OTHER_ARGUMENTS.to_owned(),
            }),
        }
    }

    async fn chain(
        &self,
        case: &VisibleCall<'_>,
        draft: &mut RewriteDraft<'_>,
    ) -> Result<(), Refusal> {
        draft.take(stepped(case.admitted.rules(), &case.call).await?);
        for hook in self.policy.hooks.of(HookPhase::Before, &case.tool.name) {
            Box::pin(self.ask(hook, case, draft)).await?;
        }
        Ok(())
    }

    /// Asks one hook; what it says is laid over what the hooks before it have said.
    async fn ask(
        &self,
        hook: &Hook,
        case: &VisibleCall<'_>,
        draft: &mut RewriteDraft<'_>,
    ) -> Result<(), Refusal> {
        let VisibleCall { call, tool, .. } = case;
        let (gate, origin) = (self.gate, &call.origin);
        let body = telling::of(telling::BEFORE, call, tool, draft.arguments()).text();
        let id = format!("{}_before_{}", call.judged.action, hook.name);
        let answer = tokio::select! {
            biased;
            _ = origin.gone() => return Err(Refusal::CancelledUnsent { hold: None }),
            answer = hook.ask(&gate.hooks.connections, &id, body.bytes()) => answer,
        };
        let HookAnswer {
            arguments,
            block,
            reason,
        } = answer.map_err(|failed| {
            tracing::warn!(
                hook = hook.name,
                %failed,
                "a before-hook failed, and the call is refused for that"
            );
            gate.metrics.before_hook("failed");
            Refusal::HookBroken {
                by: hook.name.clone(),
                why: failed.words().to_owned(),
            }
        })?;
        let has_changed = arguments.is_some_and(|answered| draft.merge(&hook.name, answered));
        if let Some(reason) = reason {
            draft.reason(&reason);
        }
        if block {
            draft.block(&hook.name);
        }
        gate.metrics.before_hook(match (block, has_changed) {
            (true, _) => "blocked",
            (false, true) => "changed",
            (false, false) => "passed",
        });
        Ok(())
    }
}

fn settled(case: VisibleCall<'_>, last: Final) -> SettledCall<'_> {
    SettledCall {
        subject: Subject {
            rules: case.admitted.rules(),
            call: case.call,
            tool: case.tool,
        },
        last,
    }
}

/// The contract's own steps, where the call is served or, when they take too much, on the pool for
/// heavy work.
async fn stepped(rules: &Arc<ToolRules>, call: &Arc<Call>) -> Result<Stepped, Refusal> {
    let here = || {
        rules
            .rewrite
            .steps(&call.origin.caller, &call.judged.arguments)
    };
    let there = || {
        let (rules, call) = (rules.clone(), call.clone());
        move || {
            rules
                .rewrite
                .steps(&call.origin.caller, &call.judged.arguments)
        }
    };
    let ended = heavy::done(&call.origin.caller.agent, here, there).await;
    ended.unwrap_or_else(|unfinished| Err(judging::refused(unfinished)))
}

/// Whatever hooks make of a call, it is known by the key that its agent gave it (guarantees §3): by
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
