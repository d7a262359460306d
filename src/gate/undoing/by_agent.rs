//! An agent asks for the undo of a call that it has made, with a tool of toolgate's own: the same undo that
//! an operator asks for, with the same states and refusals, through the whole gate. Never another's call:
//! agent, tenant, user and the task or session that it names have to be those of the call.

use super::CallUndoer;
use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::catalogue::list::is_visible;
use crate::gate::catalogue::tool::Tool;
use crate::gate::catalogue::undo_tool::{
    ACTION_ARGUMENT, UNDO_TOOL, WHY_ARGUMENT, is_offered, may_be_asked,
};
use crate::gate::effects::unavailable;
use crate::gate::record::entry_of;
use crate::gate::record::hashes::params_hash;
use crate::gate::steps::hops;
use crate::gate::steps::undo_kept::place_of;
use crate::mcp::answer::{DecisionMeta, refused, with_decision};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, TenantId, UserId};
use crate::model::refusal::Refusal;
use crate::model::task::TaskState;
use crate::store::claims::StoreError;
use crate::store::state::undo::OpenUndo;
use crate::store::undos::{NoUndo, UndoReport, UndoWord, known};
use crate::telemetry::metrics::CallOutcome;
use futures_util::future::{BoxFuture, Either};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// Why, where the agent says nothing.
const UNSAID: &str = "its agent asks for it";
const NOT_KNOWN: &str =
    "no call of yours that can be taken back is known by this id, in this task or session";
const NOT_YOURS: &str = "the contract of that call lets only an operator take it back";
/// The step under which the ledger has it.
const STAGE: &str = "undo";

/// What the agent asks for.
struct AskedUndo {
    of: ActionId,
    why: String,
}

impl Gate {
    /// Does what an agent's call asks for: what the call of a server's tool comes to, or of toolgate's own.
    pub(crate) fn answers(
        self: Arc<Self>,
        call: Call,
    ) -> Either<BoxFuture<'static, ()>, impl Future<Output = ()> + Send> {
        if self.is_undo_asked(&call) {
            Either::Left(self.undo_for_agent(call))
        } else {
            Either::Right(self.call_tool(call))
        }
    }

    /// Whether it calls the tool that undoes; one who is not offered that calls a tool that is not there.
    fn is_undo_asked(&self, call: &Call) -> bool {
        if call.judged.tool.as_str() != UNDO_TOOL {
            return false;
        }
        let (policy, caller) = (&call.origin.policy, &call.origin.caller);
        let tools = self.tools_of(Some(&call.origin.links));
        let is_visible = |tool: &Tool| is_visible(policy, caller, tool);
        is_offered(policy, caller, &tools, is_visible)
    }

    fn undo_for_agent(self: Arc<Self>, call: Call) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let ended = self.undone_for(&call).await;
            let (outcome, refusal) = match &ended {
                Ok(_) => (CallOutcome::Answered, None),
                Err(refusal) => (CallOutcome::Refused, Some(refusal)),
            };
            let entry = Box::new(self.entry_of_asking(&call, outcome, refusal));
            self.sums.enter_call(entry, Vec::new(), outcome, || false);
            let decision = decision(&call, outcome, refusal);
            let era = call.origin.era;
            let answer = match &ended {
                Ok(told) => {
                    let result = with_decision(&told.result(era), &decision);
                    Message::response(None, result, false)
                }
                Err(refusal) => refused(None, era, &decision, refusal, None),
            };
            let answer = Message {
                id: call.message.id.clone(),
                ..answer
            };
            call.origin.waiting.answered();
            let answer = call.origin.links.with_news(answer);
            call.origin.outlet.answer(answer);
        })
    }

    /// The undo, as its agent reads it; a refusal where it was not asked for rightly.
    async fn undone_for(self: &Arc<Self>, call: &Call) -> Result<ToldUndo, Refusal> {
        let caller = &call.origin.caller;
        let rules = &call.origin.policy.identity.rules;
        let _welcome = rules.judge(caller, self.clock.steady())?;
        hops::judge(call)?;
        let AskedUndo { of, why } = asked(call)?;
        if let Err(why) = self.own_undo(call, of).await.map_err(unavailable)? {
            return Ok(ToldUndo::Not(why.to_owned()));
        }
        let undoer = Arc::new(CallUndoer {
            gate: self.clone(),
            links: call.origin.links.clone(),
            running: TaskTracker::new(),
        });
        let word = UndoWord {
            of,
            who: format!("agent {}", caller.agent),
            why,
            is_dry: false,
        };
        Ok(match undoer.asked_by(word, Some(caller.clone())).await {
            Ok(report) => ToldUndo::Made(Box::new(report)),
            Err(NoUndo::Unfit(why)) => {
                return Err(Refusal::SchemaInvalid {
                    pointer: format!("/{WHY_ARGUMENT}"),
                    expected: why,
                });
            }
            // What is wrong with the store is no agent's to read.
            Err(NoUndo::Store(error)) => return Err(unavailable(error)),
            Err(why) => ToldUndo::Not(why.to_string()),
        })
    }

    /// Whether the undo of `of` is this caller's to ask for; else why not, in words.
    async fn own_undo(
        &self,
        call: &Call,
        of: ActionId,
    ) -> Result<Result<(), &'static str>, StoreError> {
        let known = known(&*self.effects.store, of).await?;
        let Some(undo) = known.filter(|undo| is_own(undo, call)) else {
            return Ok(Err(NOT_KNOWN));
        };
        // As the contract said then, and as it says now.
        let policy = self.policy.current();
        let now = policy.allowlist.contract_of(&undo.tool);
        let may = undo.terms.by_agent && now.is_some_and(|rules| may_be_asked(rules));
        Ok(if may { Ok(()) } else { Err(NOT_YOURS) })
    }

    /// What the ledger has of it: the undo itself is a row of its own.
    fn entry_of_asking(
        &self,
        call: &Call,
        outcome: CallOutcome,
        refusal: Option<&Refusal>,
    ) -> Entry {
        let judged = &call.judged;
        Entry {
            time: self.clock.wall().to_string(),
            action_id: judged.action.to_string(),
            tool: UNDO_TOOL.to_owned(),
            params_hash: params_hash(&judged.arguments),
            state: TaskState::Execute.word().to_owned(),
            event: if refusal.is_some() { "fail" } else { "exit" }.to_owned(),
            outcome: outcome.word().to_owned(),
            aborted_reason: refusal.map(|refusal| refusal.code().to_owned()),
            stage: STAGE.to_owned(),
            policy: call.origin.policy.version.clone(),
            ..entry_of(judged, &call.origin.caller)
        }
    }
}

/// Whether the call was made by the same agent for the same user, in the same task or session.
fn is_own(undo: &OpenUndo, call: &Call) -> bool {
    let (terms, caller) = (&undo.terms, &call.origin.caller);
    let tenant = caller.tenant.as_ref().map(TenantId::as_str);
    let of_user = caller.user.as_ref().map(UserId::as_str);
    terms.agent == caller.agent.as_str()
        && terms.tenant.as_deref() == tenant
        && terms.user.as_deref() == of_user
        && terms.place == place_of(caller, &call.judged)
}

/// The arguments; a refusal where they are others than the tool has.
fn asked(call: &Call) -> Result<AskedUndo, Refusal> {
    let unfit = |pointer: &str, expected: &str| Refusal::SchemaInvalid {
        pointer: pointer.to_owned(),
        expected: expected.to_owned(),
    };
    call.read()?;
    let members = call.judged.arguments.as_object();
    let members = members.ok_or_else(|| unfit("", "an object with `action_id`"))?;
    let mut names = members.keys();
    if names.any(|name| name != ACTION_ARGUMENT && name != WHY_ARGUMENT) {
        return Err(unfit(
            "",
            "`action_id`, and perhaps `why`, and nothing else",
        ));
    }
    let of = members.get(ACTION_ARGUMENT).and_then(Value::as_str);
    let of = of.and_then(|id| id.parse::<ActionId>().ok());
    let of = of.ok_or_else(|| {
        unfit(
            "/action_id",
            "the whole action id of a call, as its answer has it",
        )
    })?;
    let why = match members.get(WHY_ARGUMENT) {
        None => None,
        Some(why) if why.is_null() => None,
        Some(why) => Some(why.as_str().ok_or_else(|| unfit("/why", "a text"))?),
    };
    let why = why.unwrap_or(UNSAID).to_owned();
    Ok(AskedUndo { of, why })
}

/// What its agent reads.
enum ToldUndo {
    /// It was asked for; how it stands.
    Made(Box<UndoReport>),
    /// It was not; why.
    Not(String),
}

impl ToldUndo {
    /// A result of `tools/call`. What is sent for an undo was kept before anything was taken out of results
    /// for the agent, and is not shown here.
    fn result(&self, era: Era) -> Text {
        let (is_done, words, state) = match self {
            Self::Made(report) => (report.state == "done", words(report), told(report)),
            Self::Not(why) => (
                false,
                format!("Nothing was taken back: {why}."),
                json!({ "state": "refused" }),
            ),
        };
        let mut result = json!({
            "content": [{ "type": "text", "text": words }], "structuredContent": state, "isError": !is_done,
        });
        if era == Era::Modern {
            result["resultType"] = json!("complete");
        }
        Text::of(&result)
    }
}

fn told(report: &UndoReport) -> Value {
    json!({
        "action_id": report.action_id, "state": report.state, "by": report.by, "code": report.code,
        "approval_id": report.approval_id, "verified": report.verified,
    })
}

fn words(report: &UndoReport) -> String {
    let by = report.by.as_deref().unwrap_or_default();
    let said = &report.words;
    match (report.state.as_str(), &report.approval_id) {
        ("done", _) if report.verified == Some(false) => format!(
            "Made by the call {by}, but the check of its contract does not show that the effect is gone. Report that."
        ),
        ("done", _) => format!("Taken back by the call {by}."),
        ("requested", Some(id)) => format!(
            "Not taken back yet: a person has to allow it first ({id}). It is made by itself then; do not ask again."
        ),
        ("unknown", _) => format!(
            "It is not known whether it was taken back: {said} Do not try another way; report it. An operator can say what became of the call {by}."
        ),
        (state, _) => format!("Not taken back; it is {state}: {said}"),
    }
}

fn decision<'a>(
    call: &Call,
    outcome: CallOutcome,
    refusal: Option<&'a Refusal>,
) -> DecisionMeta<'a> {
    DecisionMeta {
        action: call.judged.action,
        outcome: outcome.word(),
        refusal,
        stage: STAGE,
        replayed: false,
        claimed_by: None,
        budget_remaining: None,
        warning: None,
        meaning: None,
        evidence: &[],
        sent: None,
        edit: None,
        after_undo: None,
        undo_until: None,
    }
}
