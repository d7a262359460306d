//! Step 10, where standing grants count: which of them covers a call, what operators may grant, and what
//! has become of what they granted (guarantees §7).

use crate::gate::Gate;
use crate::gate::case::Subject;
use crate::gate::effects::{Effects, unavailable};
use crate::gate::grant_rules::{GrantRulebook, ToolNow};
use crate::gate::record::findings::ApprovalFound;
use crate::gate::steps::still_so::{bound_to, is_still_so};
use crate::guards::approval::grant_miss::{GrantDeath, GrantMiss};
use crate::guards::approval::grants::GrantSubject;
use crate::guards::approval::right::ApprovalRight;
use crate::guards::approval::{Approved, GrantJudge, GrantRules, GrantedCall, Rule};
use crate::model::ids::{TenantId, ToolName, UserId};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::store::state::Millis;
use crate::store::state::grant::Grant;
use serde_json::Value;

impl Effects {
    /// The grant that covers the call, if one does; of several the one that ends first.
    pub(in crate::gate) async fn granted(
        &self,
        gate: &Gate,
        policy: &Policy,
        subject: &Subject<'_>,
        rule: &Rule,
    ) -> Result<Option<(Approved, ApprovalFound)>, Refusal> {
        let Subject { call, tool, .. } = subject;
        // What is bound to another policy than the one in force is bound to nothing.
        let bound = bound_to(policy, subject);
        let is_in_force = || is_still_so(gate, policy, subject).is_ok();
        // Nobody can grant an answer to a question that the server has not asked yet.
        if !rule.on_miss || call.round().is_some() || !is_in_force() {
            return Ok(None);
        }
        let grants = self
            .store
            .grants_of(&tool.name)
            .await
            .map_err(unavailable)?;
        if grants.is_empty() {
            return Ok(None);
        }
        let (caller, beside) = (&call.origin.caller, call.beside());
        let asked = GrantSubject {
            agent: caller.agent.as_str(),
            tenant: caller.tenant.as_ref().map(TenantId::as_str),
            user: caller.user.as_ref().map(UserId::as_str),
            tool: &tool.name,
            definition: &tool.hash,
            arguments: &call.judged.arguments,
            beside: beside.as_ref(),
            policy: bound,
        };
        let now = self.store.now();
        let approvers = gate.approvers.current();
        let covering = grants.iter().find_map(|grant| {
            let approved = rule.granted(&approvers, grant, &asked).ok()?;
            let amount = approved.grant().map(|used| used.amount)?;
            grant.admit(amount, now).ok()?;
            Some((approved, grant))
        });
        Ok(covering.map(|(approved, grant)| {
            let found = ApprovalFound {
                hold: None,
                grant: Some(grant.id),
                by: vec![grant.who.clone()],
                right: ApprovalRight::granted(&grant.who, rule),
                edit: None,
            };
            (approved, found)
        }))
    }
}

impl Gate {
    /// The tool as its server lists it.
    fn listed(&self, tool: &ToolName) -> ToolNow {
        self.tool_of(None, tool)
            .map_or(ToolNow::Away, |tool| ToolNow::Here {
                digest: tool.hash.clone(),
                schema: Some(tool.definition.input_schema.clone()),
            })
    }

    /// What `judge` says by what is in force.
    fn by_rules<T>(&self, judge: impl FnOnce(&GrantRulebook<'_>) -> T) -> T {
        let (policy, approvers) = (self.policy.current(), self.approvers.current());
        judge(&GrantRulebook {
            policy: &policy,
            approvers: &approvers,
            tools: &|tool| self.listed(tool),
        })
    }
}

impl GrantJudge for Gate {
    fn roles(&self, tool: &ToolName) -> Vec<String> {
        self.by_rules(|rules| rules.roles(tool))
    }

    fn rules(&self, tool: &ToolName, arguments: &Value) -> Result<GrantRules, GrantMiss> {
        self.by_rules(|rules| rules.rules(tool, arguments))
    }

    fn bound_to(&self, tool: &ToolName, agent: &str, tenant: Option<&str>) -> String {
        self.by_rules(|rules| rules.bound_to(tool, agent, tenant))
    }

    fn dead(&self, grant: &Grant) -> Option<GrantDeath> {
        self.by_rules(|rules| rules.dead(grant))
    }

    fn misses(&self, grant: &Grant, call: &GrantedCall, now: Millis) -> Vec<GrantMiss> {
        self.by_rules(|rules| rules.misses(grant, call, now))
    }

    fn flaws(&self, grant: &Grant) -> Vec<GrantMiss> {
        self.by_rules(|rules| rules.flaws(grant))
    }
}
