//! What a person is shown of a call that is held.

use super::ApprovalAsking;
use super::alike::ALIKE_WORD;
use crate::gate::case::Subject;
use crate::gate::catalogue::own_tools::is_own;
use crate::gate::effects::bill::Bill;
use crate::gate::record;
use crate::gate::steps::still_so::bound_to;
use crate::model::decision_terms::DecisionTerms;
use crate::model::refusal::Refusal;
use crate::model::taken_back::UndoneCall;
use crate::policy::Policy;
use crate::store::state::hold::HoldQuestion;

/// How a call is undone that takes another one back: toolgate takes no undo back.
const AFTER_UNDO: &str = "make the call again that it takes back";

impl ApprovalAsking<'_> {
    /// Why a person is asked, and where that is written.
    pub(super) fn because(&self) -> String {
        let Subject { tool, rules, .. } = self.subject;
        let why = match self.over {
            Some(ALIKE_WORD) => "another call was much like it".to_owned(),
            Some(limit) => format!("it goes over the limit {limit}"),
            None if rules.undo.is_irreversible() => "it cannot be undone".to_owned(),
            None => "its contract asks for each call".to_owned(),
        };
        let undoes = self.subject.call.origin.undoes.as_ref();
        let why = undoes.map_or(why.clone(), |UndoneCall { of, who }| {
            format!("{why}; it takes back the call {of}, as {who} asks")
        });
        let named = self.policy.allowlist.contract_name_of(&tool.name);
        match named {
            Some(name) if !rules.place.is_empty() => {
                format!("{why} (contract {name}, {})", rules.place)
            }
            _ => why,
        }
    }

    /// What is left of its task's budget, and its user's, in words.
    pub(super) async fn left(&self) -> Result<Option<String>, Refusal> {
        let Bill {
            asked,
            is_only_counted,
            ..
        } = self.bill;
        if !asked.is_limited() {
            return Ok(None);
        }
        let known = self
            .effects
            .known(self.bill.payers(), *is_only_counted)
            .await?;
        let left = asked.left(known.budget(), self.effects.store.now());
        Ok(left.words())
    }
}

/// What a person is shown: all of it is what will run.
pub(super) fn question(policy: &Policy, subject: &Subject<'_>) -> HoldQuestion {
    let Subject { call, tool, rules } = subject;
    let judged = &call.judged;
    let rollback = rules.undo.call();
    let is_undo = call.compensates().is_some();
    HoldQuestion {
        agent: call.origin.caller.agent.to_string(),
        tenant: call.origin.caller.tenant.as_ref().map(ToString::to_string),
        user: call.origin.caller.user.as_ref().map(ToString::to_string),
        caller_roles: call.origin.caller.roles.clone(),
        tool: tool.name.clone(),
        arguments: judged.arguments.clone(),
        answers: call.answers(),
        beside: call.beside(),
        notify: Vec::new(),
        actions: rules.actions.clone(),
        irreversible: rules.undo.is_irreversible(),
        undo: match rollback {
            Some(_) if is_undo => Some(AFTER_UNDO.to_owned()),
            _ => rules.undo.words(),
        },
        undo_within: rollback
            .filter(|_| !is_undo)
            .map(|rollback| rollback.within.as_secs()),
        purpose: rules.purpose.clone(),
        not_for: rules.not_for.clone(),
        writes: rules.writes.clone(),
        session: record::session(judged),
        task: record::said(judged.said.task.as_ref()),
        policy: policy.written.clone(),
        bound_to: Some(bound_to(policy, subject).to_string()),
        over: None,
        original: judged.rewritten.as_ref().map(|was| was.original.clone()),
        changed_by: judged
            .rewritten
            .as_ref()
            .map(|was| was.by.clone())
            .unwrap_or_default(),
        unedited: None,
        terms: DecisionTerms::default(),
        show: Vec::new(),
        because: None,
        left: None,
        schema_hash: tool.hash.clone(),
        undoes: call.origin.undoes.clone(),
        own_definition: is_own(&call.origin.links, tool),
        request: None,
    }
}
