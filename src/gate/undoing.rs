//! Takes a call back that was carried out (003-64): makes the call that its contract names, of what was
//! kept of it, for the agent whose call it was, and sends it through the whole gate. It is a row of
//! its own in the ledger, and its key is that of the call that is taken back: twice is once.

pub(in crate::gate) mod by_agent;
mod checking;
mod resuming;
mod sending;
mod whole_task;

use crate::gate::Gate;
use crate::gate::catalogue::pinned;
use crate::gate::catalogue::tool::Tool;
use crate::gate::steps::judging::refused;
use crate::gate::steps::undo_kept::{ARGUMENTS_PART, TOO_LONG, VALUES_PART};
use crate::gate::supposing::{Question, Silent, judge};
use crate::guards::Mode;
use crate::guards::rollback::{RESULT_PREFIX, UndoCheck, filled, taken};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::caller::Caller;
use crate::model::ids::{ActionId, UserId};
use crate::model::reads::SchemaReader;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::policy::pack::TaskBefore;
use crate::store::operator::{MAX_RESOLVE_REASON_BYTES, reason, time};
use crate::store::state::StoreKeys;
use crate::store::state::kept_text::KeptText;
use crate::store::state::undo::{AskUndo, OpenUndo};
use crate::store::undos::{
    NoTaskUndo, NoUndo, TaskUndoReport, TaskUndoWord, UndoMaker, UndoReport, UndoWord, ask, known,
    offered,
};
use crate::telemetry::tasks::{self, heavy};
use crate::upstream::links::Links;
use futures_util::future::BoxFuture;
use sending::UndoEnd;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::task::TaskTracker;

const GONE: &str = "what it needs of the result is not kept any more";
const UNREADABLE: &str = "what was kept for it cannot be read";
const NO_CALLER: &str = "the configuration does not know the agent any more";
const NO_TOOL: &str = "no tool server lists its tool now, as an operator has approved it";
const READS: &str = "by its contract its tool changes nothing";
const OBSERVED: &str = "nothing is enforced in observe mode, so nothing would make it once";
const BROKEN: &str = "toolgate itself broke; look at the ledger for what was sent";

/// Makes the calls that take others back.
pub(crate) struct CallUndoer {
    /// What judges and sends them.
    pub(crate) gate: Arc<Gate>,
    /// What they reach.
    pub(crate) links: Arc<Links>,
    /// What has to end before the process does.
    pub(crate) running: TaskTracker,
}

/// A call that takes another one back, as it would be made.
struct UndoPlan {
    undo: OpenUndo,
    policy: Arc<Policy>,
    caller: Arc<Caller>,
    tool: Arc<Tool>,
    arguments: Map<String, Value>,
    /// What shows that the effect is gone.
    check: Option<UndoCheck>,
}

impl UndoMaker for CallUndoer {
    fn undo(self: Arc<Self>, word: UndoWord) -> BoxFuture<'static, Result<UndoReport, NoUndo>> {
        Box::pin(async move {
            let running = self.running.clone();
            let made = running.track_future(async move { self.made(word).await });
            let ended = tasks::spawn("undo", made).await;
            ended.unwrap_or_else(|_| Err(NoUndo::Lacking(BROKEN.to_owned())))
        })
    }

    fn undo_task(
        self: Arc<Self>,
        word: TaskUndoWord,
    ) -> BoxFuture<'static, Result<TaskUndoReport, NoTaskUndo>> {
        Box::pin(async move {
            let running = self.running.clone();
            let made = running.track_future(async move { self.whole_task(word).await });
            let ended = tasks::spawn("undo of a task", made).await;
            ended.unwrap_or_else(|_| Err(NoTaskUndo::Unfit(BROKEN.to_owned())))
        })
    }
}

impl CallUndoer {
    async fn made(&self, word: UndoWord) -> Result<UndoReport, NoUndo> {
        let store = &*self.gate.effects.store;
        let plan = self.plan(word.of).await?;
        if word.is_dry {
            let verdict = plan.verdict().await;
            return Ok(plan.report(&plan.undo, UndoEnd::supposed(&verdict)));
        }
        let why = reason(&word.why, MAX_RESOLVE_REASON_BYTES).map_err(NoUndo::Unfit)?;
        Box::pin(self.is_there(&plan)).await?;
        let asked = AskUndo {
            of: word.of,
            who: word.who.clone(),
            why,
            drops: false,
        };
        ask(store, asked).await?;
        self.carried_out(&plan, word.who).await
    }

    /// Makes the call of an undo that was asked for, and looks what came of it.
    async fn carried_out(&self, plan: &UndoPlan, who: String) -> Result<UndoReport, NoUndo> {
        let store = &*self.gate.effects.store;
        let end = self.sent(plan, who).await?;
        let undo = known(store, plan.undo.of).await?;
        let mut report = plan.report(undo.as_ref().unwrap_or(&plan.undo), end);
        if report.state == "done" {
            report.verified = Box::pin(self.is_gone(plan)).await;
        }
        Ok(report)
    }

    /// The call that takes `of` back, if it can be made now.
    async fn plan(&self, of: ActionId) -> Result<UndoPlan, NoUndo> {
        let lacking = |why: &str| NoUndo::Lacking(why.to_owned());
        let policy = self.gate.policy.current();
        let undo = match offered(&*self.gate.effects.store, of).await {
            Err(NoUndo::Nothing { tool, why }) => {
                let contract = policy.allowlist.contract_of(&tool);
                let words = contract.and_then(|rules| rules.undo.words());
                let is_call = contract.is_some_and(|rules| rules.undo.call().is_some());
                let why = words.filter(|_| !is_call).unwrap_or(why);
                return Err(NoUndo::Nothing { tool, why });
            }
            offered => offered?,
        };
        if policy.mode == Mode::Observe {
            return Err(lacking(OBSERVED));
        }
        let caller = caller(&policy, &undo).ok_or_else(|| lacking(NO_CALLER))?;
        let tool = self.gate.tool_of(Some(&*self.links), &undo.terms.tool);
        let tool = tool.filter(|tool| pinned::is_offered(&policy, tool));
        let tool = tool.ok_or_else(|| lacking(NO_TOOL))?;
        if policy.allowlist.is_disabled(&tool.name) {
            return Err(NoUndo::Away(undo.terms.tool));
        }
        let (arguments, check) = self.pieces(&undo).await?;
        // What it may not call is for the gate to say.
        let admitted = policy.allowlist.admit(&caller, &tool.name);
        let admitted = admitted.map(|admitted| admitted.on(&json!(arguments)));
        if admitted.is_ok_and(|admitted| admitted.rules().idempotency.is_none()) {
            return Err(lacking(READS));
        }
        Ok(UndoPlan {
            undo,
            policy,
            caller,
            tool,
            arguments,
            check,
        })
    }

    /// The arguments, and what shows that the effect is gone, of what was kept.
    async fn pieces(
        &self,
        undo: &OpenUndo,
    ) -> Result<(Map<String, Value>, Option<UndoCheck>), NoUndo> {
        let lacking = |why: &str| NoUndo::Lacking(why.to_owned());
        let mut kept = self.opened(undo, ARGUMENTS_PART, &undo.terms.arguments)?;
        let check = kept.remove("check");
        let check = check.as_ref().and_then(UndoCheck::of);
        let mut take = |name: &str| match kept.remove(name) {
            Some(Value::Object(members)) => Ok(members),
            _ => Err(lacking(UNREADABLE)),
        };
        let (named, mut parts) = (take("arguments")?, take("values")?);
        let of_result = if let Some(values) = &undo.values {
            self.opened(undo, VALUES_PART, values)?
        } else {
            let result = self.result(undo).await?;
            let mut values = taken(&named, RESULT_PREFIX, &result);
            let of_check = check
                .iter()
                .map(|check| check.taken(RESULT_PREFIX, &result));
            values.extend(of_check.flatten());
            values
        };
        parts.extend(of_result);
        let made = |named: &Map<String, Value>| {
            let made = filled(named, &parts, &undo.of.to_string());
            made.map_err(|missing| NoUndo::Lacking(missing.to_string()))
        };
        let check = check.map(|check| {
            let arguments = made(&check.arguments)?;
            Ok::<_, NoUndo>(UndoCheck { arguments, ..check })
        });
        Ok((made(&named)?, check.transpose()?))
    }

    fn opened(
        &self,
        undo: &OpenUndo,
        part: &str,
        kept: &KeptText,
    ) -> Result<Map<String, Value>, NoUndo> {
        let lacking = |why: &str| NoUndo::Lacking(why.to_owned());
        let text = self.gate.effects.store.open_text(undo.of, part, kept);
        let text = text.map_err(|error| NoUndo::Lacking(error.to_string()))?;
        let text = text.ok_or_else(|| lacking(TOO_LONG))?;
        let read = Text::read(text.into(), &SERVER_JSON_LIMITS);
        let read = read.map_err(|_| lacking(UNREADABLE))?;
        read.parse().map_err(|_| lacking(UNREADABLE))
    }

    /// The structured result, of the answer that is kept to be given again; nothing of one that has
    /// none.
    async fn result(&self, undo: &OpenUndo) -> Result<Value, NoUndo> {
        let store = &self.gate.effects.store;
        let place = StoreKeys {
            call: Some(undo.key),
            ..StoreKeys::default()
        };
        let claim = store.load_view(place).await?.claim;
        let claim = claim.filter(|claim| claim.action == undo.of);
        let stored = claim.and_then(|claim| claim.phase.stored().cloned());
        let Some(stored) = stored else {
            return Ok(Value::Null);
        };
        let body = store.body(&stored).await;
        let body = body.map_err(|_| NoUndo::Lacking(GONE.to_owned()))?;
        let read = Text::read_oddly(body, &SERVER_JSON_LIMITS);
        let (body, odd) = read.map_err(|_| NoUndo::Lacking(GONE.to_owned()))?;
        if odd.is_some() {
            // Two readers find two ids in it.
            return Err(NoUndo::Lacking(UNREADABLE.to_owned()));
        }
        let structured = body.get("structuredContent");
        Ok(structured.map_or(Value::Null, |structured| structured.value()))
    }
}

/// Who is known by the name and the tenant of the agent whose call it was. What the agent is shown of
/// schemas is no matter: the arguments are those of the tool server.
fn caller(policy: &Policy, undo: &OpenUndo) -> Option<Arc<Caller>> {
    let terms = &undo.terms;
    let identity = &policy.identity;
    let known = identity.entries_of(&terms.agent, terms.tenant.as_deref());
    let known = known.first()?;
    Some(Arc::new(Caller {
        user: terms.user.as_deref().map(UserId::new),
        reads: SchemaReader::default(),
        ..(**known).clone()
    }))
}

impl UndoPlan {
    /// The idempotency key that the call comes with.
    fn key(&self) -> Value {
        json!(format!("comp:{}", self.undo.of))
    }

    /// What the gate would say, as far as nothing but the policy decides.
    async fn verdict(&self) -> Result<(), Refusal> {
        let (policy, caller, tool) = (self.policy.clone(), self.caller.clone(), self.tool.clone());
        let (arguments, key) = (json!(self.arguments), self.key());
        let judged = move || {
            let question = Question {
                caller: &caller,
                tool: &tool.name,
                schema: &tool.schema,
                arguments: &arguments,
                key: Some(&key),
                before: &TaskBefore::default(),
            };
            judge(&policy, &question, &mut Silent).map(drop)
        };
        let agent = self.caller.agent.clone();
        let ended = Box::pin(heavy::on_pool(&agent, judged)).await;
        ended.unwrap_or_else(|unfinished| Err(refused(unfinished)))
    }

    fn report(&self, undo: &OpenUndo, end: UndoEnd) -> UndoReport {
        let UndoEnd {
            verdict,
            code,
            approval_id,
            words,
        } = end;
        UndoReport {
            action_id: undo.of.to_string(),
            state: undo.phase.word().to_owned(),
            tool: undo.terms.tool.to_string(),
            arguments: self.arguments.clone(),
            until: time(undo.until),
            by: undo.phase.by().map(|by| by.to_string()),
            verdict,
            code,
            approval_id,
            verified: None,
            words,
        }
    }
}
