//! Step 10, where standing grants count: which of them covers a call, what operators may grant, and what
//! has become of what they granted (guarantees §7).

use crate::gate::Gate;
use crate::gate::case::Subject;
use crate::gate::effects::{Effects, unavailable};
use crate::gate::record::findings::ApprovalFound;
use crate::gate::steps::still_so::is_still_so;
use crate::guards::ToolRules;
use crate::guards::approval::grants::{
    CONTRACT_CHANGED_SINCE, GrantSubject, OPERATOR_GONE, TOOL_CHANGED_SINCE, covers,
};
use crate::guards::approval::{Approved, GrantJudge, GrantRules, GrantedCall, Rule};
use crate::model::ids::{TenantId, ToolName, UserId};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::store::state::Millis;
use crate::store::state::grant::Grant;
use serde_json::Value;
use std::sync::Arc;

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
        let bound = policy.bound_to(&tool.name);
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
        let covering = grants.iter().find_map(|grant| {
            let approved = rule.granted(&gate.approvers, grant, &asked).ok()?;
            let amount = approved.grant().map(|used| used.amount)?;
            grant.admit(amount, now).ok()?;
            Some((approved, grant))
        });
        Ok(covering.map(|(approved, grant)| {
            let found = ApprovalFound {
                hold: None,
                grant: Some(grant.id),
                by: vec![grant.who.clone()],
                edit: None,
            };
            (approved, found)
        }))
    }
}

impl GrantJudge for Gate {
    fn rules(&self, tool: &ToolName, arguments: &Value) -> Result<GrantRules, String> {
        let policy = self.policy.current();
        let listed = self.tool_of(None, tool);
        let listed =
            listed.ok_or("no tool server lists the tool now, so nothing can be bound to it")?;
        let rules = rules_for(&policy, tool, arguments).ok_or(
            "no contract says anything of such a call: name the argument that chooses its variant",
        )?;
        if rules.undo.is_irreversible() {
            return Err(
                "the effect is irreversible, so a person has to allow each call".to_owned(),
            );
        }
        let rule = rules.approval.as_ref();
        let rule =
            rule.ok_or("nobody is asked about calls of the tool, so there is nothing to grant")?;
        rule.is_grantable()?;
        Ok(GrantRules {
            roles: rule.roles.clone(),
            self_approval: rule.self_approval,
            any: rule.grant_any.clone(),
            schema_hash: listed.hash.clone(),
            bound_to: policy.bound_to(tool).to_string(),
        })
    }

    fn dead(&self, grant: &Grant) -> Option<&'static str> {
        let (policy, scope) = (self.policy.current(), &grant.scope);
        if policy.bound_to(&scope.tool).to_string() != scope.bound_to {
            return Some(CONTRACT_CHANGED_SINCE);
        }
        let tool = self.tool_of(None, &scope.tool);
        if tool.is_some_and(|now| now.hash != scope.schema_hash) {
            return Some(TOOL_CHANGED_SINCE);
        }
        let contract = policy.allowlist.contract_of(&scope.tool);
        let mut cases = contract.into_iter().flat_map(cases);
        let may = |rules: &ToolRules| {
            let mut rules = rules.approval.iter();
            rules.any(|rule| rule.is_grantable().is_ok() && rule.may_still(&self.approvers, grant))
        };
        (!cases.any(|rules| may(rules))).then_some(OPERATOR_GONE)
    }

    fn missed(&self, grant: &Grant, call: &GrantedCall, now: Millis) -> Option<String> {
        let policy = self.policy.current();
        let tool = self.tool_of(None, &call.tool);
        let definition = tool.map(|tool| tool.hash.clone());
        let subject = GrantSubject {
            agent: &call.agent,
            tenant: call.tenant.as_deref(),
            user: call.user.as_deref(),
            tool: &call.tool,
            definition: definition.as_deref().unwrap_or(&grant.scope.schema_hash),
            arguments: &call.arguments,
            beside: None,
            policy: policy.bound_to(&call.tool),
        };
        // Which variant it is says what a grant may leave open.
        let rules = rules_for(&policy, &call.tool, &call.arguments);
        let rule = rules.and_then(|rules| rules.approval.as_ref());
        let used = match rule {
            Some(rule) => {
                let granted = rule.granted(&self.approvers, grant, &subject);
                granted.map(|approved| approved.grant())
            }
            None => covers(grant, &subject).map(Some),
        };
        match used {
            Ok(used) => {
                let used = used?;
                let admitted = grant.admit(used.amount, now);
                admitted
                    .err()
                    .map(|_| "nothing, or too little, is left of it".to_owned())
            }
            Err(miss) => Some(miss.to_string()),
        }
    }

    fn knows(&self, agent: &str, tenant: Option<&str>) -> bool {
        let policy = self.policy.current();
        let callers = policy.identity.callers();
        callers.iter().any(|caller| {
            let known = caller.tenant.as_ref().map(TenantId::as_str);
            caller.agent.as_str() == agent && known == tenant
        })
    }
}

/// What counts for calls of `tool` with these arguments.
fn rules_for<'a>(
    policy: &'a Policy,
    tool: &ToolName,
    arguments: &Value,
) -> Option<&'a Arc<ToolRules>> {
    let whole = policy.allowlist.contract_of(tool)?;
    match &whole.variants {
        Some(variants) => variants.choose(arguments),
        None => Some(whole),
    }
}

/// A contract, or its variants.
fn cases(whole: &Arc<ToolRules>) -> Vec<&Arc<ToolRules>> {
    match &whole.variants {
        Some(variants) => variants.cases().map(|(_, rules)| rules).collect(),
        None => vec![whole],
    }
}
