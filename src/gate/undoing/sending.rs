//! The call that takes another one back, as it is sent: nobody waits for it but the operator who asked.

use super::{CallUndoer, UndoPlan};
use crate::gate::call::{ArgumentOrigin, Call, CallOrigin, TaskTerms};
use crate::gate::catalogue::tool::Tool;
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::bridge::{CAPABILITIES_META_KEY, CLIENT_META_KEY, VERSION_META_KEY};
use crate::mcp::json::Text;
use crate::mcp::message::{Message, introduction};
use crate::mcp::revision::Revision;
use crate::model::call::{CallMeta, ToolCall};
use crate::model::ids::{ActionId, unguessable};
use crate::model::refusal::Refusal;
use crate::model::taken_back::UndoneCall;
use crate::outlet::{Inlet, Outgoing, way_back};
use crate::store::undos::NoUndo;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bytes of what is said of the end, at most.
const MAX_WORDS_BYTES: usize = 2000;
const FULL: &str = "too many requests wait; ask again in a while";
const UNANSWERED: &str = "the call has no answer; look at the ledger for what became of it";
const PASSED: &str = "the call would be sent";

/// A call that is made in the agent's place.
pub(super) struct MadeCall<'a> {
    pub(super) tool: &'a Tool,
    pub(super) arguments: &'a Map<String, Value>,
    /// The call that it takes back, if it is made for that.
    pub(super) undoes: Option<UndoneCall>,
}

/// How the call ended, as its operator reads it.
pub(super) struct UndoEnd {
    pub(super) verdict: String,
    pub(super) code: Option<String>,
    pub(super) approval_id: Option<String>,
    pub(super) words: String,
    /// The call whose end was its answer: nothing was sent.
    pub(super) same_as: Option<ActionId>,
}

impl UndoEnd {
    /// What the gate would say of it.
    pub(super) fn supposed(verdict: &Result<(), Refusal>) -> Self {
        let (verdict, refusal) = match verdict {
            Ok(()) => ("passed", None),
            Err(refusal @ Refusal::ApprovalPending { .. }) => ("held", Some(refusal)),
            Err(refusal) => ("refused", Some(refusal)),
        };
        Self {
            verdict: verdict.to_owned(),
            code: refusal.map(|refusal| refusal.code().to_owned()),
            approval_id: None,
            words: refusal.map_or_else(|| PASSED.to_owned(), Refusal::words),
            same_as: None,
        }
    }

    pub(super) fn of(answer: Option<&Message>) -> Self {
        let body = answer.and_then(|answer| answer.body.as_ref());
        let decision = body.and_then(|body| body.at(&["_meta", DECISION_META_KEY]));
        let word = |name: &str| {
            let word = decision.as_ref()?.get(name)?;
            Some(word.as_str()?.into_owned())
        };
        let replayed = decision.as_ref().and_then(|told| told.get("replayed"));
        let is_replayed = replayed.is_some_and(|told| told.is_true());
        let said = body.and_then(said).unwrap_or_else(|| UNANSWERED.to_owned());
        let end = said.floor_char_boundary(MAX_WORDS_BYTES);
        Self {
            verdict: word("outcome").unwrap_or_else(|| "answered".to_owned()),
            code: word("code"),
            // A call that was denied has one, too, and waits for nobody.
            approval_id: word("approval_id")
                .filter(|_| word("code").as_deref() == Some("approval_pending")),
            words: said[..end].to_owned(),
            same_as: word("claimed_by")
                .filter(|_| is_replayed)
                .and_then(|id| id.parse().ok()),
        }
    }
}

/// The first text of a result, or the message of an error.
fn said(body: &Text) -> Option<String> {
    let text = |text: Text| Some(text.as_str()?.into_owned());
    let content = body.get("content").and_then(|content| content.elements());
    let mut texts = content.into_iter().flatten();
    let first = texts.find_map(|part| part.get("text").and_then(text));
    first.or_else(|| body.get("message").and_then(text))
}

impl CallUndoer {
    /// Sends the call, and ends with what comes of it.
    pub(super) async fn sent(&self, plan: &UndoPlan, who: String) -> Result<UndoEnd, NoUndo> {
        let of = plan.undo.of;
        let made = MadeCall {
            tool: &plan.tool,
            arguments: &plan.arguments,
            undoes: Some(UndoneCall { of, who }),
        };
        let answer = self.answered(plan, made).await?;
        Ok(UndoEnd::of(answer.as_ref()))
    }

    /// Sends a call in the agent's place; the answer, if there is one.
    pub(super) async fn answered(
        &self,
        plan: &UndoPlan,
        made: MadeCall<'_>,
    ) -> Result<Option<Message>, NoUndo> {
        let (call, inlet) = self.call(plan, made)?;
        let work = Box::pin(self.gate.clone().call_tool(call));
        let ((), answer) = tokio::join!(work, last(inlet));
        Ok(answer)
    }

    fn call(&self, plan: &UndoPlan, made: MadeCall<'_>) -> Result<(Call, Inlet), NoUndo> {
        let (outlet, inlet) = way_back();
        let id = Text::string(&unguessable());
        let links = Arc::new(self.links.alone());
        let waiting = links.wait(&id);
        let waiting = waiting.map_err(|_| NoUndo::Lacking(FULL.to_owned()))?;
        let (judged, revision) = (self.judged(plan, &made), Revision::NEWEST_MODERN);
        let params = json!({
            "name": made.tool.definition.name,
            "arguments": made.arguments,
            "_meta": {
                VERSION_META_KEY: revision.as_str(), CLIENT_META_KEY: introduction(), CAPABILITIES_META_KEY: {},
            },
        });
        let message = Message {
            id: Some(id),
            ..Message::request(0, "tools/call", Some(Text::of(&params)))
        };
        let origin = CallOrigin {
            caller: plan.caller.clone(),
            policy: plan.policy.clone(),
            era: revision.era(),
            links,
            outlet,
            waiting,
            arrived: Duration::ZERO,
            is_relayed: false,
            task: TaskTerms::Unknown,
            undoes: made.undoes,
            own_undo: Mutex::default(),
            claimed: OnceLock::new(),
            asks_page: AtomicBool::default(),
            page: OnceLock::new(),
            waited: AtomicU64::default(),
        };
        let call = Call {
            judged,
            reading: ArgumentOrigin::AsWritten,
            message,
            origin: Arc::new(origin),
        };
        Ok((call, inlet))
    }

    /// The call for the guards. It is a task and a session of its own, which no agent can name, as it is
    /// a session of the wire that nobody has opened: what the agent has used up, or is at, stops no undo.
    fn judged(&self, plan: &UndoPlan, made: &MadeCall<'_>) -> ToolCall {
        ToolCall {
            action: ActionId::generate(),
            tool: made.tool.name.clone(),
            server: Some(made.tool.server.settings.name.clone()),
            own_name: made.tool.definition.name.clone(),
            arguments: Value::Object(made.arguments.clone()),
            request_id: "undo".to_owned(),
            trace_id: unguessable(),
            session: Some(format!("undo of {}", plan.undo.of)),
            revision: Revision::NEWEST_MODERN.as_str(),
            key_argument: None,
            key_taken: false,
            rewritten: None,
            arrived: self.gate.clock.steady(),
            said: CallMeta {
                key: made.undoes.is_some().then(|| plan.key()),
                ..CallMeta::default()
            },
        }
    }
}

/// The answer; none where the call has none.
async fn last(mut inlet: Inlet) -> Option<Message> {
    while let Some(said) = inlet.recv().await {
        if let Outgoing::Last(answer) = said {
            return Some(*answer);
        }
    }
    None
}
