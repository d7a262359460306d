//! What the contract of a call makes of everything that its tool says of it: on the way, in its
//! answer, and later, when the answer was the handle of a task.

use crate::gate::catalogue::tool::Tool;
use crate::gate::steps::proof::Broken;
use crate::gate::steps::raised_progress::raised;
use crate::guards::{Mode, ToolRules, results};
use crate::mcp::answer::with_edit;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Revision;
use crate::model::argument_edit::ArgumentEdit;
use crate::model::caller::Caller;
use crate::model::ids::AgentId;
use crate::model::reply::Fault;
use crate::model::tally::UNASKED_TASKS;
use crate::upstream::keeper::{ServerMessagePolicy, asks_too_much, withheld};
use crate::upstream::link::Tolerance;
use crate::upstream::owners::{OwnedTask, Shaping, is_task, shaped};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What a model reads of a task that its agent did not ask for.
const UNASKED: &str = "The tool server answered with a task that this call did not ask for, so there is no result. The tool has been \
                       called and may still be at work: find out what it has done before you do it again.";

/// A called tool, and the rules that it was called under: they count for whatever it still says.
#[derive(Clone)]
pub(in crate::gate) struct Shaper {
    pub(in crate::gate) tool: Arc<Tool>,
    pub(in crate::gate) rules: Arc<ToolRules>,
    pub(in crate::gate) mode: Mode,
    /// Whether the agent said that the call may become a task.
    pub(in crate::gate) wants_task: bool,
    /// Who called, and in which revision.
    pub(in crate::gate) caller: Arc<Caller>,
    pub(in crate::gate) revision: &'static str,
    pub(in crate::gate) keeper: Arc<dyn ServerMessagePolicy>,
    /// The seconds that its agent was told as progress before it was sent.
    pub(in crate::gate) waited: u64,
    /// What few calls have.
    pub(in crate::gate) rest: Option<Arc<ShaperRest>>,
}

/// What of a call counts for its answer, and what few calls have.
pub(in crate::gate) struct ShaperRest {
    /// What operators changed of its arguments.
    edit: Option<ArgumentEdit>,
    /// What the call that takes it back takes over of its arguments.
    pub(in crate::gate) taken: Option<Map<String, Value>>,
}

impl ShaperRest {
    /// None where the call has nothing of it.
    pub(in crate::gate) fn of(
        edit: Option<&ArgumentEdit>,
        taken: Option<Map<String, Value>>,
    ) -> Option<Arc<Self>> {
        let edit = edit.cloned();
        let is_any = edit.is_some() || taken.is_some();
        is_any.then(|| Arc::new(Self { edit, taken }))
    }
}

impl Shaper {
    /// What is noted of a task that a call with these parameters became.
    pub(in crate::gate) fn of_task(&self, params: Option<&Text>) -> OwnedTask {
        let (server, tool) = (
            self.tool.server.settings.name.clone(),
            self.tool.name.clone(),
        );
        let token = params.and_then(|params| params.at(&["_meta", "progressToken"]));
        OwnedTask {
            server,
            tool,
            token,
            shaping: Arc::new(self.clone()),
        }
    }

    /// The answer of the call as the agent may read it.
    pub(in crate::gate) async fn answer(&self, answer: Message) -> Message {
        if let Some(words) = self.too_much(&answer) {
            return self.telling(withheld(&answer, words));
        }
        shaped(self, |shaping, answer| shaping.result(answer), answer).await
    }

    /// Whether a task that the answer names is its agent's: in enforce mode one that nobody asked
    /// for is nobody's (threat-model §3C C5).
    pub(in crate::gate) fn may_be_task(&self) -> bool {
        self.wants_task || self.mode == Mode::Observe
    }

    /// What is let pass of what the strict reader refuses in what the tool server says.
    pub(in crate::gate) fn tolerance(&self) -> Tolerance {
        match self.mode {
            Mode::Observe => Tolerance::Everything,
            Mode::Enforce => Tolerance::Answer,
        }
    }

    /// Whether an answer may be handed on, though two readers could read it differently.
    pub(in crate::gate) fn readable(&self, answer: &Message) -> Result<(), Broken> {
        let (rule, output) = (&self.rules.results, self.tool.output());
        match &answer.odd {
            Some(odd) if rule.withholds_odd(answer, self.mode, output) => {
                Err(Broken::Fault(Fault::unreadable(odd.what)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A result that says what operators have changed of the call: it is kept so, and replayed so.
    fn telling(&self, answer: Message) -> Message {
        let edit = self.rest.as_ref().and_then(|rest| rest.edit.as_ref());
        match (edit, &answer.body) {
            (Some(edit), Some(result)) if !answer.is_error => Message {
                body: Some(with_edit(result, edit)),
                ..answer
            },
            (Some(_) | None, Some(_) | None) => answer,
        }
    }

    fn is_unasked(&self, answer: &Message) -> bool {
        !self.may_be_task() && !answer.is_error && answer.body.as_ref().is_some_and(is_task)
    }

    /// What the agent reads in place of an answer that asks it for what the server may not: since
    /// 2026-07-28 by results, and in any revision by errors.
    fn too_much(&self, said: &Message) -> Option<&'static str> {
        if !said.is_error && self.revision != Revision::NEWEST_MODERN.as_str() {
            return None;
        }
        let server = &self.tool.server.settings.name;
        asks_too_much(&*self.keeper, &self.caller, server, self.revision, said)
    }
}

impl Shaping for Shaper {
    fn agent(&self) -> &AgentId {
        &self.caller.agent
    }

    fn result(&self, answer: Message) -> Message {
        if self.is_unasked(&answer) {
            UNASKED_TASKS.add(1);
            tracing::warn!(tool = %self.tool.name, "a tool server answered with a task that the call did not ask for");
            return unasked(&answer, self.revision == Revision::NEWEST_MODERN.as_str());
        }
        self.telling(self.tool.shaped(&self.rules, self.mode, answer))
    }

    fn standing(&self, said: Message) -> Message {
        with_brief_end(
            self.rules
                .results
                .shape_task(said, self.mode, self.tool.output()),
        )
    }

    fn remark(&self, said: Message) -> Option<Message> {
        let said = self.rules.results.remark(said)?;
        Some(raised(said, self.waited))
    }

    fn too_costly(&self, said: Message) -> Message {
        tracing::warn!(tool = %self.tool.name, "what the tool said is withheld: checking and redacting it takes too much");
        results::Rule::too_costly(said)
    }

    fn is_held(&self) -> bool {
        self.rules.approval.is_some()
    }

    fn owned(&self) -> Arc<dyn Shaping> {
        Arc::new(self.clone())
    }
}

/// What says how a task stands, with the error that it ended with as an agent has to read one
/// (threat-model §8).
fn with_brief_end(said: Message) -> Message {
    let body = said.body.as_ref().filter(|_| !said.is_error);
    let Some((body, error)) = body.and_then(|body| Some((body, body.get("error")?))) else {
        return said;
    };
    let brief = Message::response(None, error.clone(), true)
        .brief()
        .body
        .filter(|brief| *brief != error);
    let Some((mut members, brief)) = body.object().zip(brief) else {
        return said;
    };
    members.set("error", brief);
    Message {
        body: Some(members.text()),
        ..said
    }
}

fn unasked(answer: &Message, is_modern: bool) -> Message {
    let mut result = json!({ "content": [{ "type": "text", "text": UNASKED }], "isError": true });
    if is_modern {
        result["resultType"] = json!("complete");
    }
    Message {
        body: Some(Text::of(&result)),
        ..answer.clone()
    }
}
