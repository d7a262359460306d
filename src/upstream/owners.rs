//! Whose task a task is: the caller whose call made it, at the server that made it (SECURITY §3C C4), and of which tool.

use crate::mcp::json::Text;
use crate::model::ids::{AgentId, ServerName, ToolName};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};

/// Tasks that are remembered; the oldest are forgotten first.
const KEPT: usize = 10_000;

/// Tasks by caller and id.
#[derive(Default)]
pub struct Tasks {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    owners: HashMap<(AgentId, Vec<u8>), (ServerName, ToolName)>,
    order: VecDeque<(AgentId, Vec<u8>)>,
}

impl Tasks {
    /// Notes the task that the result of a call of `tool` names, if it names one.
    pub fn note(&self, agent: &AgentId, (server, tool): (&ServerName, &ToolName), result: &Text) {
        let flat = || {
            result.get("resultType").filter(|kind| kind.as_bytes() == b"\"task\"").and_then(|_| result.get("taskId"))
        };
        let Some(id) = flat().or_else(|| result.at(&["task", "taskId"])) else { return };
        let key = (agent.clone(), id.as_bytes().to_vec());
        let mut kept = self.kept.lock();
        if kept.owners.insert(key.clone(), (server.clone(), tool.clone())).is_none() {
            kept.order.push_back(key);
        }
        if kept.order.len() > KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.owners.remove(&oldest);
        }
    }

    /// The server that made the caller's task, and the tool that was called for it.
    pub fn owner(&self, agent: &AgentId, id: &Text) -> Option<(ServerName, ToolName)> {
        self.kept.lock().owners.get(&(agent.clone(), id.as_bytes().to_vec())).cloned()
    }
}
