//! What standing grants are judged by (guarantees §7): the policy, who may decide, and the tools as they are
//! now. The gate that runs asks it, and so does who only reads the files.

use crate::guards::ToolRules;
use crate::guards::approval::grant_miss::{GrantDeath, GrantMiss};
use crate::guards::approval::grants::{GrantSubject, dead_by, misses, over_total};
use crate::guards::approval::{DEFAULT_APPROVER_ROLE, GrantJudge, GrantRules, GrantedCall, Rule};
use crate::mcp::json::Text;
use crate::model::approvers::Approvers;
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::{ServerName, ToolName, parts};
use crate::model::pointer::steps;
use crate::policy::Policy;
use crate::schema::Schema;
use crate::schema::contradictions::{ExpectedValue, contradiction, required};
use crate::store::state::Millis;
use crate::store::state::grant::{ArgumentConstraint, ArgumentRule, Grant, GrantScope};
use serde_json::Value;
use std::sync::Arc;

/// A tool as it is now, as far as that is known.
#[derive(Debug, Clone)]
pub(crate) enum ToolNow {
    /// With this definition.
    Here {
        /// SHA-256 of the definition, in hex.
        digest: String,
        /// Its input schema.
        schema: Option<Text>,
    },
    /// Its server does not list it.
    Away,
    /// No operator has approved it, and it needs that.
    Unapproved,
    /// Nobody has looked.
    Unknown,
}

/// How a tool is looked up.
pub(crate) type ToolLookup<'a> = &'a (dyn Fn(&ToolName) -> ToolNow + Send + Sync);

/// Judges grants by what it holds.
pub(crate) struct GrantRulebook<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Who may decide.
    pub approvers: &'a Approvers,
    /// The tools.
    pub tools: ToolLookup<'a>,
}

/// The tool as it is pinned.
pub(crate) fn pinned(policy: &Policy, tool: &ToolName) -> ToolNow {
    let Some((server, own)) = parts(tool.as_str()) else {
        return ToolNow::Unknown;
    };
    let server = ServerName::new(server);
    match policy.pins.pin(&server, own) {
        Some(pin) => ToolNow::Here {
            digest: pin.digest.clone(),
            schema: pin.definition.get("inputSchema"),
        },
        None if policy.pins.lacks(&server, own) => ToolNow::Unapproved,
        None => ToolNow::Unknown,
    }
}

impl GrantJudge for GrantRulebook<'_> {
    fn roles(&self, tool: &ToolName) -> Vec<String> {
        let allowlist = &self.policy.allowlist;
        let mut roles = allowlist
            .contract_of(tool)
            .map(deciding)
            .unwrap_or_default();
        if roles.is_empty() {
            roles = allowlist.written().all().flat_map(deciding).collect();
        }
        if roles.is_empty() {
            roles.push(DEFAULT_APPROVER_ROLE.to_owned());
        }
        roles.sort_unstable();
        roles.dedup();
        roles
    }

    fn rules(&self, tool: &ToolName, arguments: &Value) -> Result<GrantRules, GrantMiss> {
        let schema_hash = match (self.tools)(tool) {
            ToolNow::Here { digest, .. } => digest,
            ToolNow::Away => return Err(GrantMiss::Unlisted),
            ToolNow::Unapproved => return Err(GrantMiss::Unapproved),
            // Nothing is bound to it: who has not looked mints nothing.
            ToolNow::Unknown => String::new(),
        };
        let rules = rules_for(self.policy, tool, arguments).ok_or_else(|| {
            GrantMiss::Ungrantable(
                "no contract says anything of such a call: name the argument that chooses its variant"
                    .to_owned(),
            )
        })?;
        let rule = grantable(rules)?;
        Ok(GrantRules {
            roles: rule.roles.clone(),
            self_approval: rule.self_approval,
            any: rule.grant_any.clone(),
            schema_hash,
        })
    }

    fn bound_to(&self, tool: &ToolName, agent: &str, tenant: Option<&str>) -> String {
        self.policy.bound_to(tool, agent, tenant).to_string()
    }

    fn dead(&self, grant: &Grant) -> Option<GrantDeath> {
        let scope = &grant.scope;
        let bound = self.bound_now(scope);
        let now = (self.tools)(&scope.tool);
        let definition = if let ToolNow::Here { digest, .. } = &now {
            digest
        } else {
            &scope.schema_hash
        };
        if let Some(death) = dead_by(grant, bound, definition).next() {
            return Some(death);
        }
        let contract = self.policy.allowlist.contract_of(&scope.tool);
        let mut cases = contract.into_iter().flat_map(cases);
        let may = |rules: &ToolRules| {
            let mut rules = rules.approval.iter();
            rules.any(|rule| rule.is_grantable().is_ok() && rule.may_still(self.approvers, grant))
        };
        (!cases.any(|rules| may(rules))).then_some(GrantDeath::Operator)
    }

    fn misses(&self, grant: &Grant, call: &GrantedCall, now: Millis) -> Vec<GrantMiss> {
        // Whether it is as it was is a question of the tool that was granted.
        let own = &grant.scope.tool;
        let definition = match (self.tools)(own) {
            ToolNow::Here { digest, .. } => digest,
            ToolNow::Away | ToolNow::Unapproved | ToolNow::Unknown => {
                grant.scope.schema_hash.clone()
            }
        };
        let subject = GrantSubject {
            agent: &call.agent,
            tenant: call.tenant.as_deref(),
            user: call.user.as_deref(),
            tool: &call.tool,
            definition: &definition,
            arguments: &call.arguments,
            beside: None,
            policy: self.bound_now(&grant.scope),
        };
        let mut found: Vec<GrantMiss> = misses(grant, subject).collect();
        // Which variant it is says what a grant may leave open.
        let rules = rules_for(self.policy, &call.tool, &call.arguments);
        if let Some(rule) = rules.and_then(|rules| rules.approval.as_ref()) {
            found.extend(rule.objections(self.approvers, grant));
        }
        found.extend(over_total(grant, &call.arguments, now));
        found
    }

    fn flaws(&self, grant: &Grant) -> Vec<GrantMiss> {
        let scope = &grant.scope;
        let mut found: Vec<GrantMiss> = self.forbidden(&scope.tool).into_iter().collect();
        found.extend(self.uncalled(grant));
        let bound = self.bound_now(scope);
        match (self.tools)(&scope.tool) {
            ToolNow::Here { digest, schema } => {
                let deaths = dead_by(grant, bound, &digest);
                found.extend(deaths.map(GrantMiss::Dead));
                // Of another definition than it was granted for, nothing else matters.
                if let Some(schema) = schema.filter(|_| digest == scope.schema_hash) {
                    found.extend(self.contradictions(grant, &schema.value()));
                }
            }
            now @ (ToolNow::Away | ToolNow::Unapproved | ToolNow::Unknown) => {
                found.extend(dead_by(grant, bound, &scope.schema_hash).map(GrantMiss::Dead));
                match now {
                    ToolNow::Away => found.push(GrantMiss::Unlisted),
                    ToolNow::Unapproved => found.push(GrantMiss::Unapproved),
                    ToolNow::Here { .. } | ToolNow::Unknown => {}
                }
            }
        }
        if found.is_empty() {
            found.extend(self.dead(grant).map(GrantMiss::Dead));
        }
        found
    }
}

impl GrantRulebook<'_> {
    /// What a grant with this scope would be bound to now.
    fn bound_now(&self, scope: &GrantScope) -> Digest {
        let (agent, tenant) = (&scope.agent, scope.tenant.as_deref());
        self.policy.bound_to(&scope.tool, agent, tenant)
    }

    /// Why no call of `tool` is one that a grant can cover.
    fn forbidden(&self, tool: &ToolName) -> Option<GrantMiss> {
        let contract = self.policy.allowlist.contract_of(tool);
        let Some(whole) = contract else {
            return Some(GrantMiss::Uncontracted);
        };
        let mut why = None;
        for rules in cases(whole) {
            match grantable(rules) {
                Ok(_) => return None,
                Err(miss) => why = why.or(Some(miss)),
            }
        }
        why
    }

    /// Why no agent makes calls that `grant` is for.
    fn uncalled(&self, grant: &Grant) -> Option<GrantMiss> {
        let scope = &grant.scope;
        let identity = &self.policy.identity;
        let callers = identity.entries_of(&scope.agent, scope.tenant.as_deref());
        if callers.is_empty() {
            return Some(GrantMiss::Uncalled);
        }
        let may = |caller: &Arc<Caller>| {
            let admitted = self.policy.allowlist.admit(caller, &scope.tool);
            admitted.is_ok_and(|admitted| {
                let rules = admitted.rules();
                admitted.would_refuse().is_none() && rules.permission.refuses(caller).is_none()
            })
        };
        // What an operator has taken away comes back.
        let is_away = self.policy.allowlist.is_disabled(&scope.tool);
        (!is_away && !callers.iter().any(may)).then_some(GrantMiss::Unpermitted)
    }

    /// Where no call that its tool takes is one that `grant` covers.
    fn contradictions(&self, grant: &Grant, schema: &Value) -> Vec<GrantMiss> {
        let contract = self.policy.allowlist.contract_of(&grant.scope.tool);
        let plain = contract.filter(|whole| whole.variants.is_none());
        let laid_over = plain.and_then(|rules| rules.arguments.laid_over());
        let schemas: Vec<&Value> = std::iter::once(schema).chain(&laid_over).collect();
        let compiled = Schema::compile(schema).ok();
        let one = |one: &ArgumentConstraint| {
            let path = steps(&one.pointer);
            let pointer = one.pointer.clone();
            let is_there = compiled
                .as_ref()
                .is_none_or(|known| !known.names().exclude(&path));
            if !is_there {
                return (!matches!(one.is, ArgumentRule::Any))
                    .then_some(GrantMiss::Nowhere(pointer));
            }
            let expected = match &one.is {
                ArgumentRule::Equals(value) => ExpectedValue::OneOf(std::slice::from_ref(value)),
                ArgumentRule::OneOf(values) => ExpectedValue::OneOf(values),
                ArgumentRule::AtMost(most) => ExpectedValue::AtMost(most),
                ArgumentRule::StartsWith(start) => ExpectedValue::Begins(start),
                ArgumentRule::Any => return None,
            };
            let mut whys = schemas
                .iter()
                .map(|schema| contradiction(schema, &path, expected));
            let why = whys.find_map(|why| why)?;
            Some(GrantMiss::Impossible { pointer, why })
        };
        let mut found: Vec<GrantMiss> = grant.constraints.iter().filter_map(one).collect();
        let is_spoken_of = |name: &String| {
            let speaks = |one: &ArgumentConstraint| {
                let path = steps(&one.pointer);
                path.first().is_none_or(|first| first == name)
            };
            grant.constraints.iter().any(speaks)
        };
        let mut needed: Vec<String> = schemas.iter().flat_map(|schema| required(schema)).collect();
        needed.sort_unstable();
        needed.dedup();
        let unsaid = needed.into_iter().filter(|name| !is_spoken_of(name));
        found.extend(unsaid.map(GrantMiss::Required));
        found
    }
}

/// What is said of approval in a contract whose calls a grant can cover, or why it can none.
fn grantable(rules: &ToolRules) -> Result<&Rule, GrantMiss> {
    if rules.undo.is_irreversible() {
        return Err(GrantMiss::Irreversible);
    }
    let rule = rules.approval.as_ref().ok_or(GrantMiss::Unasked)?;
    rule.is_grantable().map_err(GrantMiss::Ungrantable)?;
    Ok(rule)
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

/// The roles that decide about calls of a contract, whichever variant they are of.
fn deciding(whole: &Arc<ToolRules>) -> Vec<String> {
    let cases = cases(whole).into_iter();
    let asking = cases.filter_map(|rules| rules.approval.as_ref());
    asking.flat_map(|rule| rule.roles.clone()).collect()
}

/// A contract, or its variants.
fn cases(whole: &Arc<ToolRules>) -> Vec<&Arc<ToolRules>> {
    match &whole.variants {
        Some(variants) => variants.cases().map(|(_, rules)| rules).collect(),
        None => vec![whole],
    }
}
