//! What the contract of a call makes of everything that its tool says of it: on the way, in its answer, and later, when the
//! answer was the handle of a task.

use super::toolbox::Tool;
use crate::guards::{Mode, ToolRules};
use crate::mcp::message::Message;
use crate::upstream::owners::{Owned, Shaping};
use std::sync::Arc;

/// A called tool, and the rules that it was called under: they count for whatever it still says.
#[derive(Clone)]
pub(super) struct Shaper {
    pub(super) tool: Arc<Tool>,
    pub(super) rules: Arc<ToolRules>,
    pub(super) mode: Mode,
}

impl Shaper {
    /// What is noted of a task that the call became.
    pub(super) fn owned(&self) -> Owned {
        let (server, tool) = (self.tool.server.settings.name.clone(), self.tool.name.clone());
        Owned { server, tool, shaping: Arc::new(self.clone()) }
    }
}

impl Shaping for Shaper {
    fn result(&self, answer: Message) -> Message {
        self.tool.shaped((&self.rules, self.mode), answer)
    }

    fn standing(&self, said: Message) -> Message {
        self.rules.results.shape_task(said, self.mode, self.tool.output())
    }

    fn remark(&self, said: Message) -> Option<Message> {
        self.rules.results.remark(said)
    }
}
