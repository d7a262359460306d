//! Takes a call back that was carried out (003-64): makes the call that its contract names, of what was
//! kept of it, for the agent whose call it was, and sends it through the whole gate. It is a row of
//! its own in the ledger, and its key is that of the call that is taken back: twice is once.

pub(in crate::gate) mod by_agent;
mod checking;
mod own_calls;
mod resuming;
mod sending;
mod whole_task;

use crate::gate::Gate;
use crate::gate::catalogue::pinned;
use crate::gate::catalogue::tool::Tool;
use crate::gate::steps::judging::refused;
use crate::gate::steps::undo_pieces;
use crate::gate::supposing::{Question, Silent, judge};
use crate::guards::Mode;
use crate::guards::identity::{EntryMiss, kept_of};
use crate::guards::rollback::UndoCheck;
use crate::model::caller::Caller;
use crate::model::ids::{ActionId, UserId};
use crate::model::reads::SchemaReader;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::policy::pack::TaskBefore;
use crate::store::operator::{MAX_RESOLVE_REASON_BYTES, reason, time};
use crate::store::state::undo::{AskUndo, OpenUndo, OwnCall};
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

/// By whose rights the call is made that takes another one back.
#[derive(Clone, Copy)]
enum UndoRights<'a> {
    /// Those of the agent that asks for it itself.
    Asking(&'a Caller),
    /// Those that the call was made by: an operator asks for it, also after an agent has.
    OfCall,
    /// Those of who has asked for it last, in whose place it goes on.
    AsAsked,
}

impl UndoMaker for CallUndoer {
    fn undo(self: Arc<Self>, word: UndoWord) -> BoxFuture<'static, Result<UndoReport, NoUndo>> {
        self.asked_by(word, None)
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
    /// Does what `word` says, by the rights of the agent that is `asking`, where no operator is.
    fn asked_by(
        self: Arc<Self>,
        word: UndoWord,
        asking: Option<Arc<Caller>>,
    ) -> BoxFuture<'static, Result<UndoReport, NoUndo>> {
        Box::pin(async move {
            let running = self.running.clone();
            let made =
                running.track_future(async move { self.made(word, asking.as_deref()).await });
            let ended = tasks::spawn("undo", made).await;
            ended.unwrap_or_else(|_| Err(NoUndo::Lacking(BROKEN.to_owned())))
        })
    }

    async fn made(&self, word: UndoWord, asking: Option<&Caller>) -> Result<UndoReport, NoUndo> {
        let store = &*self.gate.effects.store;
        let rights = asking.map_or(UndoRights::OfCall, UndoRights::Asking);
        let plan = self.plan(word.of, rights).await?;
        let own = self.own_call(&plan).await?;
        if let Some(own) = own.filter(|_| word.is_dry) {
            return Err(NoUndo::DoneByAgent(own.action));
        }
        if word.is_dry {
            let verdict = plan.verdict().await;
            return Ok(plan.report(&plan.undo, UndoEnd::supposed(&verdict)));
        }
        let why = reason(&word.why, MAX_RESOLVE_REASON_BYTES).map_err(NoUndo::Unfit)?;
        if own.is_none() {
            Box::pin(self.is_there(&plan)).await?;
        }
        let asked = AskUndo {
            of: word.of,
            who: word.who.clone(),
            why,
            caller: asking.map(kept_of),
            drops: false,
            made_by: None,
        };
        ask(store, asked).await?;
        self.carried_out(&plan, word.who, own).await
    }

    /// Makes the call of an undo that was asked for, unless its agent has made it as its `own`, and looks what came of
    /// it.
    async fn carried_out(
        &self,
        plan: &UndoPlan,
        who: String,
        own: Option<OwnCall>,
    ) -> Result<UndoReport, NoUndo> {
        let store = &*self.gate.effects.store;
        let end = match own {
            Some(own) => UndoEnd::made_by(own),
            None => self.sent(plan, who).await?,
        };
        let mut undo = known(store, plan.undo.of).await?;
        if let (Some(by), Some(asked)) = (end.same_as, &undo)
            && self.is_made_by(asked, by, &end).await?
        {
            undo = known(store, plan.undo.of).await?;
        }
        let mut report = plan.report(undo.as_ref().unwrap_or(&plan.undo), end);
        if report.state == "done" {
            report.verified = Box::pin(self.is_gone(plan)).await;
        }
        Ok(report)
    }

    /// The call that takes `of` back, if it can be made now, by `rights`.
    async fn plan(&self, of: ActionId, rights: UndoRights<'_>) -> Result<UndoPlan, NoUndo> {
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
        let caller = caller(&policy, &undo, rights);
        let caller = caller.map_err(|miss| NoUndo::Lacking(miss.to_string()))?;
        let tool = self.gate.tool_of(Some(&*self.links), &undo.terms.tool);
        let tool = tool.filter(|tool| pinned::is_offered(&policy, tool));
        let tool = tool.ok_or_else(|| lacking(NO_TOOL))?;
        if policy.allowlist.is_disabled(&tool.name) {
            return Err(NoUndo::Away(undo.terms.tool));
        }
        let store = &*self.gate.effects.store;
        let (arguments, check) = undo_pieces::pieces(store, &undo).await?;
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
}

/// Who makes the call that takes `undo.of` back: the agent that asks for it itself, else who is known by its name, its
/// tenant and `rights`. What it is shown of schemas is no matter: the arguments are those of the tool server.
fn caller(
    policy: &Policy,
    undo: &OpenUndo,
    rights: UndoRights<'_>,
) -> Result<Arc<Caller>, EntryMiss> {
    let terms = &undo.terms;
    let again = |kept| {
        let tenant = terms.tenant.as_deref();
        let known = policy.identity.entry_again(&terms.agent, tenant, kept)?;
        Ok(Caller::clone(&known))
    };
    let known = match rights {
        UndoRights::Asking(agent) => agent.clone(),
        UndoRights::OfCall => again(terms.caller.as_ref())?,
        UndoRights::AsAsked => again(undo.caller())?,
    };
    Ok(Arc::new(Caller {
        user: terms.user.as_deref().map(UserId::new),
        reads: SchemaReader::default(),
        ..known
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
            same_as: _,
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
