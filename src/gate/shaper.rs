//! What the contract of a call makes of everything that its tool says of it: on the way, in its answer, and later, when the
//! answer was the handle of a task.

use super::toolbox::Tool;
use crate::guards::{Mode, ToolRules};
use crate::mcp::message::{Kind, Message};
use crate::mcp::revision::Revision;
use crate::model::caller::Caller;
use crate::upstream::keeper::{Keeper, asks_too_much, withheld};
use crate::upstream::owners::{Owned, Shaping, shaped};
use std::sync::Arc;

/// A called tool, and the rules that it was called under: they count for whatever it still says.
#[derive(Clone)]
pub(super) struct Shaper {
    pub(super) tool: Arc<Tool>,
    pub(super) rules: Arc<ToolRules>,
    pub(super) mode: Mode,
    /// Who called, and in which revision.
    pub(super) caller: Arc<Caller>,
    pub(super) revision: &'static str,
    pub(super) keeper: Arc<dyn Keeper>,
}

impl Shaper {
    /// What is noted of a task that the call became.
    pub(super) fn owned(&self) -> Owned {
        let (server, tool) = (self.tool.server.settings.name.clone(), self.tool.name.clone());
        Owned { server, tool, shaping: Arc::new(self.clone()) }
    }

    /// The answer of the call as the agent may read it.
    pub(super) async fn answer(&self, answer: Message) -> Message {
        shaped(self, || Arc::new(self.clone()), |shaping, answer| shaping.result(answer), answer).await
    }

    /// What the agent reads in place of an answer that asks it for what the server may not (2026-07-28).
    fn too_much(&self, said: &Message) -> Option<&'static str> {
        if self.revision != Revision::NEWEST_MODERN.as_str() {
            return None;
        }
        let server = &self.tool.server.settings.name;
        asks_too_much(&*self.keeper, (&self.caller, server, self.revision), said)
    }
}

impl Shaping for Shaper {
    fn result(&self, answer: Message) -> Message {
        if let Some(words) = self.too_much(&answer) {
            return withheld(&answer, words);
        }
        self.tool.shaped((&self.rules, self.mode), answer)
    }

    fn standing(&self, said: Message) -> Message {
        let too_much = self.too_much(&said).filter(|_| said.kind == Kind::Response);
        if let Some(words) = too_much {
            return withheld(&said, words);
        }
        self.rules.results.shape_task(said, self.mode, self.tool.output())
    }

    fn remark(&self, said: Message) -> Option<Message> {
        self.rules.results.remark(said)
    }

    fn too_costly(&self, said: Message) -> Message {
        tracing::warn!(tool = %self.tool.name, "what the tool said is withheld: checking and redacting it takes too much");
        self.rules.results.too_costly(said)
    }
}
