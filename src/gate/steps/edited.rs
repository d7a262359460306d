//! Step 10, where an operator has changed arguments of a held call: they are judged again from step 2,
//! once when they are changed, and once when the call is made with them (guarantees §7).

use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::case::{KeyedCall, VisibleCall};
use crate::gate::catalogue::tool::Tool;
use crate::gate::steps::judge::Arguments;
use crate::gate::steps::judging::{judged, refused};
use crate::gate::steps::rewrite::Rewriting;
use crate::gate::supposing::{Silent, made};
use crate::guards::confirms::Confirmed;
use crate::guards::rewrite::ChangedArguments;
use crate::guards::{ToolRules, secrets};
use crate::model::argument_edit::EditedArguments;
use crate::model::caller::Caller;
use crate::model::ids::{AgentId, UserId};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::store::approvals::editing::EditJudge;
use crate::store::state::hold::HoldQuestion;
use crate::telemetry::tasks::heavy;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// What the call would be by these arguments: another one than a person was asked about.
const OTHER_CASE: &str = "another part of the contract would count for the call: its rules, budget and approvers are those of \
                          what was asked";
const OTHER_KEY: &str =
    "an argument holds the call's idempotency key, which is its agent's to choose";
const BRINGS_SECRET: &str = "a value is, or looks like, a reference to a secret";
const STRIPPED: &str = "the contract takes empty arguments away, so it would not be sent like this";
const STEPPED: &str =
    "the contract's own steps would change it further: give the value that they would leave";
const NO_CALLER: &str = "the configuration does not know the agent any more";
const NO_TOOL: &str =
    "no tool server lists the tool now as its agent knows it, so nothing can be judged";

/// The call with the arguments that were allowed: it goes through steps 2 to 6 like one that brings
/// them, and nothing may change them any more.
pub(in crate::gate) async fn edited<'p>(
    rewriting: Rewriting<'_, 'p>,
    asked: KeyedCall<'p>,
    confirmed: Option<Confirmed>,
    allowed: EditedArguments,
) -> Result<(KeyedCall<'p>, Option<Confirmed>), Refusal> {
    let (effects, subject) = (&rewriting.gate.effects, &asked.subject);
    let EditedArguments { arguments, edit } = allowed;
    let mut next = Call::clone(&subject.call);
    let by = edit.by.iter().map(|who| format!("operator {who}"));
    next.become_of(ChangedArguments {
        arguments,
        by: by.collect(),
    });
    if let Some(rewritten) = &mut next.judged.rewritten {
        rewritten.edit = Some(edit);
    }
    let admitted = next.admitted(rewriting.policy)?;
    // Whatever was found by the contract that counted for what was asked counts for this.
    if !Arc::ptr_eq(admitted.rules(), subject.rules) {
        return Err(broken(OTHER_CASE));
    }
    let call = Arc::new(next);
    *rewriting.known = call.clone();
    let case = VisibleCall {
        call,
        tool: subject.tool.clone(),
        admitted,
    };
    let ruled = judged(rewriting.policy, &case, rewriting.timer).await?;
    let subject = rewriting.unchanged(case, ruled).await?.subject;
    let case = asked.edited(subject);
    if confirmed.is_none() {
        return Ok((case, None));
    }
    // What it confirms is named by its arguments.
    let confirmed = effects.confirm(&case.subject, &case.bill).await?;
    Ok((case, Some(confirmed)))
}

fn broken(why: &str) -> Refusal {
    Refusal::HookBroken {
        by: "approver_may_edit".to_owned(),
        why: why.to_owned(),
    }
}

impl EditJudge for Gate {
    fn unfit<'a>(
        &'a self,
        question: &'a HoldQuestion,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Option<String>> {
        let policy = self.policy.current();
        let tool = self.tool_of(None, &question.tool);
        let tool = tool.filter(|tool| tool.hash == question.schema_hash);
        let callers = callers(&policy, question);
        async move {
            let Some(tool) = tool else {
                return Some(NO_TOOL.to_owned());
            };
            if callers.is_empty() {
                return Some(NO_CALLER.to_owned());
            }
            let case = Arc::new(EditedCase {
                policy,
                tool,
                before: question.arguments.clone(),
                after: arguments.clone(),
            });
            // One name may be several entries: none of them may be refused.
            for caller in callers {
                let here = || case.unfit(&caller);
                let there = || {
                    let (case, caller) = (case.clone(), caller.clone());
                    move || case.unfit(&caller)
                };
                let ended = heavy::done(&AgentId::new(&question.agent), here, there).await;
                let unfit = ended.unwrap_or_else(|unfinished| Err(refused(unfinished).words()));
                if let Err(why) = unfit {
                    return Some(why);
                }
            }
            None
        }
        .boxed()
    }
}

/// Who is known by the name and the tenant of who asked, with the roles that were shown.
fn callers(policy: &Policy, question: &HoldQuestion) -> Vec<Arc<Caller>> {
    let (agent, tenant) = (&question.agent, question.tenant.as_deref());
    let roles = &question.caller_roles;
    let known = policy.identity.entries_with(agent, tenant, roles);
    let known = known.into_iter().filter(|caller| caller.roles == *roles);
    let of_user = |caller: Arc<Caller>| match &question.user {
        Some(user) => Arc::new(caller.for_user(UserId::new(user))),
        None => caller,
    };
    known.map(of_user).collect()
}

/// A held call, and what an operator would make of it.
struct EditedCase {
    policy: Arc<Policy>,
    tool: Arc<Tool>,
    before: Value,
    after: Value,
}

impl EditedCase {
    /// Steps 2 to 6 without hooks, which are asked when the call is made.
    fn unfit(&self, caller: &Caller) -> Result<(), String> {
        let (before, after) = (&self.before, &self.after);
        let admitted = self.policy.allowlist.admit(caller, &self.tool.name);
        let admitted = admitted.map_err(|denied| denied.refusal.words())?;
        let was = admitted.clone().on(before);
        let admitted = admitted.on(after);
        let rules = admitted.rules();
        if !Arc::ptr_eq(was.rules(), rules) {
            return Err(OTHER_CASE.to_owned());
        }
        self.keeps_its_form(caller, rules)?;
        let arguments = Arguments {
            caller,
            schema: &self.tool.schema,
            values: after,
        };
        let made = made(&self.policy, &admitted, arguments, &mut Silent);
        made.map(drop).map_err(|refusal| refusal.words())
    }

    /// Whether what an operator wrote is what would be sent.
    fn keeps_its_form(&self, caller: &Caller, rules: &ToolRules) -> Result<(), String> {
        let (before, after) = (&self.before, &self.after);
        let no = |why: &str| Err(why.to_owned());
        let mut keyed = rules.idempotency.iter();
        if !keyed.all(|rule| rule.keeps(before, after)) {
            return no(OTHER_KEY);
        }
        if secrets::Rule::is_in(after) && !secrets::Rule::is_same(before, after) {
            return no(BRINGS_SECRET);
        }
        if let Cow::Owned(_) = rules.arguments.strip(&self.tool.schema, after) {
            return no(STRIPPED);
        }
        match rules.rewrite.foresee(caller, after) {
            Some(made) if made == *after => Ok(()),
            Some(_) | None => no(STEPPED),
        }
    }
}
