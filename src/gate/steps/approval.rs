//! Step 10: holds a call until a person has decided about exactly this call (guarantees §7). What
//! is asked and what was decided stands in the store; here calls wait for it, for a while, and come
//! again.

use crate::gate::Gate;
use crate::gate::case::{KeyedCall, Subject};
use crate::gate::catalogue::tool::Tool;
use crate::gate::effects::Effects;
use crate::gate::effects::unavailable;
use crate::gate::record;
use crate::gate::record::findings::ApprovalFound;
use crate::gate::record::timing::StageTimer;
use crate::guards::approval::Approved;
use crate::guards::approval::{ApprovalSubject, Rule};
use crate::guards::budget::word;
use crate::model::digest::Digest;
use crate::model::refusal::Refusal;
use crate::model::times::millis;
use crate::policy::Policy;
use crate::store::operator::time;
use crate::store::state::command::{HoldBounds, HoldRequest, StoreCommand};
use crate::store::state::hold::{Hold, HoldQuestion, hold_status};
use crate::store::state::{CommandRefusal, StoreKeys};
use crate::upstream::links::Links;
use serde_json::Value;
use std::time::Duration;

/// Calls that may be held (threat-model §8): people behind one agent are bounded together, too, since
/// users are names that the agent says.
const BOUNDS: HoldBounds = HoldBounds {
    all: 256,
    agent: 128,
    caller: 20,
};

impl Effects {
    /// Step 10. None: the call has waited, and everything from step 8 on has to be looked at again.
    pub(in crate::gate) async fn approve(
        &self,
        gate: &Gate,
        policy: &Policy,
        case: &KeyedCall<'_>,
        timer: &mut StageTimer,
    ) -> Result<Option<(Approved, Option<ApprovalFound>)>, Refusal> {
        let (subject, over) = (&case.subject, case.bill.over);
        let rule = Rule::of(subject.rules.approval.as_ref(), over.is_some());
        match (Rule::unneeded(rule.as_deref()), rule.as_deref()) {
            (Some(unneeded), _) => Ok(Some((unneeded, None))),
            (None, Some(rule)) => {
                let question = ApprovalAsking {
                    effects: self,
                    gate,
                    policy,
                    subject,
                    rule,
                    over: over.map(word),
                    task: case.bill.task,
                };
                Box::pin(question.held(timer)).await
            }
            (None, None) => Err(Refusal::InternalError),
        }
    }
}

/// A call about which a person has to decide.
struct ApprovalAsking<'a> {
    effects: &'a Effects,
    gate: &'a Gate,
    policy: &'a Policy,
    subject: &'a Subject<'a>,
    rule: &'a Rule,
    /// The limit that it would go over, if it would.
    over: Option<&'static str>,
    task: Digest,
}

impl ApprovalAsking<'_> {
    async fn held(
        &self,
        timer: &mut StageTimer,
    ) -> Result<Option<(Approved, Option<ApprovalFound>)>, Refusal> {
        let Self {
            effects,
            gate,
            policy,
            rule,
            ..
        } = *self;
        let Subject { call, tool, .. } = self.subject;
        let beside = call.beside();
        let more = [call.answers(), beside.clone()];
        rule.reach(
            &gate.approvers,
            &call.origin.caller,
            &call.judged.arguments,
            &more,
        )?;
        let key = self.key(beside.as_ref());
        let hold = effects
            .look(StoreKeys {
                hold: Some(key),
                ..StoreKeys::default()
            })
            .await?
            .hold;
        let now = effects.store.now();
        let stands = hold_status(hold.as_ref(), now);
        let (id, until) = hold
            .as_ref()
            .map_or((call.judged.action, 0), |hold| (hold.id, hold.approve_by));
        match rule.judge(key, &stands, id, &time(until)) {
            Ok(Some(approved)) => {
                is_still_so(gate, &call.origin.links, policy, tool)
                    .map_err(|why| Refusal::ApprovalTimeout { id, why })?;
                let found = hold.map(|hold| ApprovalFound {
                    hold: hold.id,
                    by: allowed_by(&hold),
                });
                Ok(Some((approved, found)))
            }
            Ok(None) => self.ask(key).await.map(|()| None),
            Err(pending @ Refusal::ApprovalPending { .. }) => {
                let patience = rule.hold.saturating_sub(timer.held_for());
                if patience.is_zero() || effects.ending.is_cancelled() {
                    return Err(pending);
                }
                let left = Duration::from_millis(until.saturating_sub(now));
                let waited = self.wait(key, patience.min(left)).await;
                timer.held();
                waited?;
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// What a decision is bound to: exactly this call.
    fn key(&self, beside: Option<&Value>) -> Digest {
        let Subject { call, tool, .. } = self.subject;
        let over = self.over.map(|word| format!("{word} of {}", self.task));
        Rule::key(&ApprovalSubject {
            caller: &call.origin.caller,
            session: call.judged.session.as_deref(),
            tool: &tool.name,
            definition: &tool.hash,
            arguments: &call.judged.arguments,
            round: call.round(),
            beside,
            policy: &self.policy.written,
            over: over.as_deref(),
        })
    }

    /// Holds the call, durably, unless another call has just held the same.
    async fn ask(&self, key: Digest) -> Result<(), Refusal> {
        let rule = self.rule;
        let ask = HoldRequest {
            key,
            id: self.subject.call.judged.action,
            approve_for: millis(rule.approve_for),
            execute_for: millis(rule.execute_for),
            needed: rule.needed,
            roles: rule.roles.clone(),
            self_approval: rule.self_approval,
            question: HoldQuestion {
                over: self.over.map(str::to_owned),
                ..question(self.policy, self.subject)
            },
            bounds: BOUNDS,
        };
        match self
            .effects
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

    /// Waits for the decision, `most` of the time; an agent that hangs up leaves the hold as it is,
    /// and so does toolgate when it ends.
    async fn wait(&self, key: Digest, most: Duration) -> Result<(), Refusal> {
        tokio::select! {
            biased;
            () = self.subject.call.origin.gone() => Err(Refusal::Cancelled),
            () = self.effects.ending.cancelled() => Ok(()),
            () = self.effects.store.decided(key) => Ok(()),
            () = tokio::time::sleep(most) => Ok(()),
        }
    }
}

/// What has changed while a person was asked makes what was allowed another call (guarantees §7).
fn is_still_so(
    gate: &Gate,
    links: &Links,
    policy: &Policy,
    tool: &Tool,
) -> Result<(), &'static str> {
    if gate.policy.current().written != policy.written {
        return Err("the policy has changed since a person was asked");
    }
    let is_same = gate
        .tool_of(Some(links), &tool.name)
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
fn question(policy: &Policy, subject: &Subject<'_>) -> HoldQuestion {
    let Subject { call, tool, rules } = subject;
    let judged = &call.judged;
    HoldQuestion {
        agent: call.origin.caller.agent.to_string(),
        tenant: call.origin.caller.tenant.as_ref().map(ToString::to_string),
        user: call.origin.caller.user.as_ref().map(ToString::to_string),
        caller_roles: call.origin.caller.roles.clone(),
        tool: tool.name.clone(),
        arguments: judged.arguments.clone(),
        answers: call.answers(),
        beside: call.beside(),
        actions: rules.actions.clone(),
        irreversible: rules.undo.is_irreversible(),
        undo: rules.undo.words(),
        purpose: rules.purpose.clone(),
        not_for: rules.not_for.clone(),
        writes: rules.writes.clone(),
        session: record::session(judged),
        task: record::said(judged.said.task.as_ref()),
        policy: policy.written.clone(),
        over: None,
        schema_hash: tool.hash.clone(),
    }
}
