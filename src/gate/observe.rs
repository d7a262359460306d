//! Where nothing is enforced: says what steps 6 to 9 would say, counts what the call uses, and
//! sends it. Nothing that happens here refuses a call.

use super::Gate;
use super::call::Call;
use super::deliver::Delivery;
use super::dispatch::Cleared;
use super::effects::Effects;
use super::judging::foreseen;
use super::sealing::send;
use super::states::is_planned;
use super::taken::{Reserved, Taken};
use super::toolbox::Tool;
use super::trail::{Stage, Trail};
use crate::guards::confirms;
use crate::guards::evidence::Ruled;
use crate::guards::hooks::HookPhase;
use crate::guards::secrets::Sealed;
use crate::guards::{Section as _, ToolRules};
use crate::mcp::message::Message;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::store::state::command::{Reserve, StoreCommand};
use std::sync::Arc;

/// Sends what observe mode lets pass, unless it is only planned.
pub(super) async fn observed(
    policy: &Policy,
    gate: &Gate,
    (call, tool, rules): (&Arc<Call>, &Arc<Tool>, &Arc<ToolRules>),
    (passed, unsealed): (Ruled, Option<Sealed>),
    (trail, taken): (&mut Trail, &mut Taken),
) -> Result<Message, Refusal> {
    trail.check(
        Stage::Repetition,
        if is_planned(call)? {
            Err(Refusal::Planned)
        } else {
            Ok(())
        },
    )?;
    // The first step that refuses decides, here as well.
    if trail.would_refuse.is_none() {
        match gate
            .effects
            .foresee(policy, (call, tool, rules), trail)
            .await
        {
            Ok(reserved) => taken.reserved = reserved,
            Err(refusal) => trail.note_refusal(refusal),
        }
    }
    taken.slot = Some(gate.slot(&call.caller.agent, &tool.name)?);
    let cleared = Cleared::Observed(passed);
    send(
        (gate, policy, unsealed),
        Delivery {
            call,
            tool,
            rules,
            cleared,
        },
        (trail, taken),
    )
    .await
}

impl Effects {
    /// Steps 6 to 9, as far as they take nothing. No hook is asked, because a hook may act on what
    /// it is told, and nothing is changed. Which draft a call confirms is not asked: where
    /// nothing is enforced, nothing is claimed, and so no draft is known. The trail has what
    /// was not asked. What the call uses is counted without a limit, so that the next one meets the
    /// budget as it would be.
    async fn foresee(
        &self,
        policy: &Policy,
        (call, tool, rules): (&Arc<Call>, &Arc<Tool>, &ToolRules),
        trail: &mut Trail,
    ) -> Result<Option<Reserved>, Refusal> {
        let caller = &call.caller;
        let admitted = policy
            .allowlist
            .admit(caller, &tool.name)
            .map_err(|denied| denied.refusal)?;
        let last = foreseen(&admitted, (call, tool)).await?;
        let hooks = policy
            .hooks
            .of(HookPhase::Before, &tool.name)
            .map(|hook| format!("hook {}", hook.name));
        trail.unasked.extend(hooks);
        let bill = self.bill(policy, call, rules, trail).await?;
        self.advance(call, &bill, rules, trail).await?;
        let watched = policy
            .repetition
            .watch(bill.history(), &tool.name, bill.seen(call), &last);
        let allowed = trail.check(Stage::Repetition, watched)?;
        if let Some(rule) = &rules.idempotency {
            let _keyed = trail.check(
                Stage::Idempotency,
                rule.key(&call.asked(tool), &allowed.watched),
            )?;
            trail.unasked.extend(
                rules
                    .confirms
                    .as_ref()
                    .map(|_| confirms::Settings::NAME.to_owned()),
            );
        }
        let affordable = self.afford(&bill, &mut trail.remaining).await;
        trail.check(Stage::Budget, affordable)?;
        let asks = rules
            .approval
            .as_ref()
            .map_or(Ok(()), |approval| Err(approval.pending(None)));
        if let Err(pending) = trail.check(Stage::Approval, asks) {
            trail.note_refusal(pending);
        }
        if !bill.asked.limits.is_limited() && !bill.watched {
            return Ok(None);
        }
        let (task, price) = (bill.task, bill.asked.price.clone());
        let (tool, cost) = (price.tool.clone(), price.cost);
        let reserve = Reserve {
            task,
            limits: bill.asked.limits.only_counted(),
            price,
        };
        let counted = self.store.run(StoreCommand::Reserve(reserve), None).await;
        Ok(matches!(counted, Ok(Ok(_))).then_some(Reserved { task, tool, cost }))
    }
}
