//! Step 10: holds a call until a person has decided about exactly this call (SEMANTICS §7). What is
//! asked and what was decided stands in the store; here calls wait for it, for a while, and come
//! again.

use super::call::Call;
use super::effects::{Effects, milliseconds, unavailable};
use super::toolbox::Tool;
use super::trail::{Stage, Trail};
use super::{Gate, record};
use crate::guards::ToolRules;
use crate::guards::approval::{ApprovalSubject, Rule};
use crate::guards::evidence::Approved;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::store::operator::time;
use crate::store::state::command::{HoldRequest, StoreCommand};
use crate::store::state::digest::Digest;
use crate::store::state::hold::{Hold, HoldQuestion, hold_status};
use crate::store::state::{CommandRefusal, StoreKeys};
use std::time::Duration;

/// Calls that may be held, and those of one caller among them (SECURITY §8).
const BOUNDS: (usize, usize) = (256, 20);

/// A call, and what it is judged by.
type Judged<'a> = (&'a Policy, &'a Call, &'a Tool, &'a ToolRules);

impl Effects {
    /// Step 10. None: the call has waited, and everything from step 8 on has to be looked at again.
    pub(super) async fn approve(
        &self,
        gate: &Gate,
        judged: Judged<'_>,
        trail: &mut Trail,
    ) -> Result<Option<Approved>, Refusal> {
        let rule = &judged.3.approval;
        let held = match (Rule::unneeded(rule.as_ref()), rule) {
            (Some(unneeded), _) => Ok(Some(unneeded)),
            (None, Some(rule)) => self.held(gate, judged, rule, trail).await,
            (None, None) => Err(Refusal::InternalError),
        };
        let approved = trail.check(Stage::Approval, held)?;
        if approved.is_none() {
            trail.back(Stage::Idempotency);
        }
        Ok(approved)
    }

    async fn held(
        &self,
        gate: &Gate,
        (policy, call, tool, rules): Judged<'_>,
        rule: &Rule,
        trail: &mut Trail,
    ) -> Result<Option<Approved>, Refusal> {
        let beside = call.beside();
        let more = [call.answers(), beside.clone()];
        rule.reach(
            &gate.approvers,
            &call.caller,
            (&call.judged.arguments, &more),
        )?;
        let key = Rule::key(&ApprovalSubject {
            caller: &call.caller,
            session: call.judged.session.as_deref(),
            tool: &tool.name,
            definition: &tool.hash,
            arguments: &call.judged.arguments,
            round: call.round(),
            beside: beside.as_ref(),
            policy: &policy.written,
        });
        let hold = self
            .look(StoreKeys {
                hold: Some(key),
                ..StoreKeys::default()
            })
            .await?
            .hold;
        let now = self.store.now();
        let stands = hold_status(hold.as_ref(), now);
        let (id, until) = hold
            .as_ref()
            .map_or((call.judged.action, 0), |hold| (hold.id, hold.approve_by));
        match rule.judge(key, &stands, (id, &time(until))) {
            Ok(Some(approved)) => {
                is_still_so(gate, policy, tool)
                    .map_err(|why| Refusal::ApprovalTimeout { id, why })?;
                trail.approval = hold.map(|hold| (hold.id, allowed_by(&hold)));
                Ok(Some(approved))
            }
            Ok(None) => self
                .ask(key, (policy, call, tool, rules), rule)
                .await
                .map(|()| None),
            Err(pending @ Refusal::ApprovalPending { .. }) => {
                let patience = rule.hold.saturating_sub(trail.held);
                if patience.is_zero() || self.ending.is_cancelled() {
                    return Err(pending);
                }
                let left = Duration::from_millis(until.saturating_sub(now));
                self.wait(key, call, patience.min(left)).await?;
                trail.held();
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Holds the call, durably, unless another call has just held the same.
    async fn ask(&self, key: Digest, judged: Judged<'_>, rule: &Rule) -> Result<(), Refusal> {
        let ask = HoldRequest {
            key,
            id: judged.1.judged.action,
            approve_for: milliseconds(rule.approve_for),
            execute_for: milliseconds(rule.execute_for),
            needed: rule.needed,
            roles: rule.roles.clone(),
            self_approval: rule.self_approval,
            question: question(judged),
            bounds: BOUNDS,
        };
        match self
            .store
            .run(StoreCommand::Hold(Box::new(ask)), None)
            .await
            .map_err(unavailable)?
        {
            Ok(_) | Err(CommandRefusal::Held(_)) => Ok(()),
            Err(CommandRefusal::TooManyHolds) => Err(Refusal::ApproverUnreachable {
                why: "too many calls wait for a decision already",
            }),
            Err(_) => Err(Refusal::InternalError),
        }
    }

    /// Waits for the decision, `most` of the time; who hangs up leaves the hold as it is, and so
    /// does toolgate when it ends.
    async fn wait(&self, key: Digest, call: &Call, most: Duration) -> Result<(), Refusal> {
        tokio::select! {
            biased;
            () = call.waiting.cancelled.cancelled() => Err(Refusal::Cancelled),
            () = call.outlet.closed() => Err(Refusal::Cancelled),
            () = self.ending.cancelled() => Ok(()),
            () = self.store.decided(key) => Ok(()),
            () = tokio::time::sleep(most) => Ok(()),
        }
    }
}

/// What has changed while a person was asked makes what was allowed another call (SEMANTICS §7).
fn is_still_so(gate: &Gate, policy: &Policy, tool: &Tool) -> Result<(), &'static str> {
    if gate.policy.current().written != policy.written {
        return Err("the policy has changed since a person was asked");
    }
    let is_same = gate
        .tools
        .current()
        .find(&tool.name)
        .is_some_and(|now| now.hash == tool.hash);
    if is_same {
        Ok(())
    } else {
        Err("the tool has changed since a person was asked")
    }
}

fn allowed_by(hold: &Hold) -> Vec<String> {
    hold.decisions
        .iter()
        .filter(|decision| decision.allow)
        .map(|decision| decision.who.clone())
        .collect()
}

/// What a person is shown: all of it is what will run.
fn question((policy, call, tool, rules): Judged<'_>) -> HoldQuestion {
    let judged = &call.judged;
    HoldQuestion {
        agent: call.caller.agent.to_string(),
        tenant: call.caller.tenant.as_ref().map(ToString::to_string),
        caller_roles: call.caller.roles.clone(),
        tool: tool.name.clone(),
        arguments: judged.arguments.clone(),
        answers: call.answers(),
        beside: call.beside(),
        actions: rules.actions.clone(),
        irreversible: rules.irreversible,
        purpose: rules.purpose.clone(),
        not_for: rules.not_for.clone(),
        writes: rules.writes.clone(),
        session: record::session(judged),
        task: record::said(judged.said.task.as_ref()),
        policy: policy.written.clone(),
        schema_hash: tool.hash.clone(),
    }
}
