//! Whose task a task is: the caller whose call made it, at the server that made it (SECURITY §3C C4), of which tool, and what
//! its contract makes of what the server says of it.

use crate::mcp::json::Text;
use crate::mcp::message::{Kind, Message};
use crate::model::caller::Caller;
use crate::model::ids::{AgentId, ServerName, TenantId, ToolName};
use crate::model::work::{self, Spent};
use crate::telemetry::tasks::heavy;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What a server tells of a task outside any request: before 2026-07-28, and since.
const TOLD: [&str; 2] = ["notifications/tasks/status", "notifications/tasks"];

/// What the contract of a call makes of what its tool says, before an agent reads it.
pub trait Shaping: Send + Sync {
    /// The result of the call, or the error that it ended with.
    fn result(&self, answer: Message) -> Message;
    /// What says how its task stands; when that has ended, its result or error is inside.
    fn standing(&self, said: Message) -> Message;
    /// A notification or question on the way; none if it is withheld.
    fn remark(&self, said: Message) -> Option<Message>;
    /// What stands for a result, or for what says how a task stands, that cannot be shaped in time.
    fn too_costly(&self, said: Message) -> Message;
}

/// `said` as `shape` makes it, on the pool when it is too heavy for here.
pub async fn shaped(
    shaping: &dyn Shaping,
    owned: impl FnOnce() -> Arc<dyn Shaping>,
    shape: impl Fn(&dyn Shaping, Message) -> Message + Copy + Send + 'static,
    said: Message,
) -> Message {
    let there = || {
        let (shaping, said) = (owned(), said.clone());
        move || shape(&*shaping, said)
    };
    let done = heavy::done(|| shape(shaping, said.clone()), there).await;
    done.unwrap_or_else(|_| shaping.too_costly(said))
}

/// What a tool says on its way, as the agent may read it; none if it is withheld, which it is if shaping it takes too much.
pub fn remarked(shaping: &dyn Shaping, said: Message) -> Option<Message> {
    work::within(work::INLINE, || shaping.remark(said)).unwrap_or(None)
}

impl Owned {
    /// What says how the task stands, as the agent may read it.
    pub fn standing(&self, said: Message) -> Message {
        let shaped = work::within(work::INLINE, || self.shaping.standing(said.clone()));
        shaped.unwrap_or_else(|Spent| self.shaping.too_costly(said))
    }
}

/// A caller's task.
#[derive(Clone)]
pub struct Owned {
    /// The server that made it.
    pub server: ServerName,
    /// The tool that was called for it.
    pub tool: ToolName,
    /// By the contract as it was when the tool was called.
    pub shaping: Arc<dyn Shaping>,
}

/// Tasks that are remembered; the oldest are forgotten first.
const KEPT: usize = 10_000;

/// Tasks by caller and id.
#[derive(Default)]
pub struct Tasks {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    owners: HashMap<Key, Owned>,
    order: VecDeque<Key>,
}

/// Whose it is, and its id.
type Key = (AgentId, Option<TenantId>, Vec<u8>);

fn key(caller: &Caller, id: &Text) -> Key {
    (caller.agent.clone(), caller.tenant.clone(), id.as_bytes().to_vec())
}

impl Tasks {
    /// Notes the task that the result of a call names, if it names one, as what `owned` says.
    pub fn note(&self, caller: &Caller, result: &Text, owned: impl FnOnce() -> Owned) {
        let flat = || {
            result.get("resultType").filter(|kind| kind.as_bytes() == b"\"task\"").and_then(|_| result.get("taskId"))
        };
        let Some(id) = flat().or_else(|| result.at(&["task", "taskId"])) else { return };
        let key = key(caller, &id);
        let mut kept = self.kept.lock();
        if kept.owners.insert(key.clone(), owned()).is_none() {
            kept.order.push_back(key);
        }
        if kept.order.len() > KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.owners.remove(&oldest);
        }
    }

    /// The caller's task of that id.
    pub fn owned(&self, caller: &Caller, id: &Text) -> Option<Owned> {
        self.kept.lock().owners.get(&key(caller, id)).cloned()
    }

    /// What a server said outside any request, as the agent may read it: of tasks it hears only its own.
    pub fn heard(&self, caller: &Caller, said: Message, may: impl FnOnce(&Owned) -> bool) -> Option<Message> {
        if said.kind != Kind::Notification || !TOLD.contains(&said.method.as_str()) {
            return Some(said);
        }
        let id = said.body.as_ref().and_then(|params| params.get("taskId"))?;
        let owned = self.owned(caller, &id).filter(may)?;
        Some(owned.standing(said))
    }
}
