//! Whose task a task is: the caller whose call made it, at the server that made it
//! (threat-model §3C C4), of which tool, and what its contract makes of what the server says of it.

use crate::mcp::json::{JsonMembers, SERVER_JSON_LIMITS, Text};
use crate::mcp::message::{Message, MessageKind};
use crate::model::caller::{Caller, CallerKey};
use crate::model::ids::{AgentId, ServerName, ToolName};
use crate::model::tally::FOREIGN_PROGRESS;
use crate::model::work;
use crate::telemetry::tasks::heavy;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// What tells how far a request or task is.
pub(super) const PROGRESS_METHOD: &str = "notifications/progress";
/// What a server tells of a task outside any request: before 2026-07-28, and since.
const TASK_STATUS_METHODS: [&str; 2] = ["notifications/tasks/status", "notifications/tasks"];

/// What the contract of a call makes of what its tool says, before an agent reads it. What it asks
/// is judged elsewhere: this may be done twice.
pub trait Shaping: Send + Sync {
    /// Whose call it is.
    fn agent(&self) -> &AgentId;
    /// The result of the call, or the error that it ended with.
    fn result(&self, answer: Message) -> Message;
    /// What says how its task stands; when that has ended, its result or error is inside.
    fn standing(&self, said: Message) -> Message;
    /// A notification or question on the way; none if it is withheld.
    fn remark(&self, said: Message) -> Option<Message>;
    /// What stands for a result, or for what says how a task stands, that cannot be shaped in time.
    fn too_costly(&self, said: Message) -> Message;
    /// Does the contract have people decide about its calls?
    fn is_held(&self) -> bool;
    /// The same, to be taken elsewhere.
    fn owned(&self) -> Arc<dyn Shaping>;
}

/// `said` as `shape` makes it, on the pool when it is too heavy for here.
pub(crate) async fn shaped(
    shaping: &dyn Shaping,
    shape: impl Fn(&dyn Shaping, Message) -> Message + Copy + Send + 'static,
    said: Message,
) -> Message {
    let there = || {
        let (shaping, said) = (shaping.owned(), said.clone());
        move || shape(&*shaping, said)
    };
    let done = heavy::done(shaping.agent(), || shape(shaping, said.clone()), there).await;
    done.unwrap_or_else(|_| shaping.too_costly(said))
}

/// What a tool says on its way, as the agent may read it; none if it is withheld. A question waits
/// for the pool when shaping it takes too much, since its tool waits for an answer; a notification
/// is withheld then.
pub(crate) async fn remarked(shaping: &dyn Shaping, said: &Message) -> Option<Message> {
    if said.kind != MessageKind::Request {
        return work::within(work::INLINE_WORK_UNITS, || shaping.remark(said.clone()))
            .unwrap_or(None);
    }
    let there = || {
        let (shaping, said) = (shaping.owned(), said.clone());
        move || shaping.remark(said)
    };
    heavy::done(shaping.agent(), || shaping.remark(said.clone()), there)
        .await
        .unwrap_or(None)
}

/// Does a server tell by it how a task stands?
pub(crate) fn is_of_task(said: &Message) -> bool {
    said.kind == MessageKind::Notification && TASK_STATUS_METHODS.contains(&said.method.as_str())
}

/// A caller's task.
#[derive(Clone)]
pub struct OwnedTask {
    /// The server that made it.
    pub server: ServerName,
    /// The tool that was called for it.
    pub tool: ToolName,
    /// What the agent knows progress of the call by; it counts for the task as well
    /// (protocol §6.2).
    pub token: Option<Text>,
    /// By the contract as it was when the tool was called.
    pub shaping: Arc<dyn Shaping>,
}

/// Tasks that are remembered; the oldest are forgotten first.
const MAX_TASKS_REMEMBERED: usize = 10_000;
/// Bytes that their ids and tokens take; likewise the oldest are forgotten first. A server may give an id of
/// any length.
const MAX_TASK_BYTES_REMEMBERED: usize = 32 << 20;

/// Tasks by caller and id.
#[derive(Default)]
pub struct TaskOwners {
    kept: Mutex<TaskTable>,
}

#[derive(Default)]
struct TaskTable {
    /// Of each server at most one: two may give the same id.
    owners: HashMap<TaskKey, Vec<OwnedTask>>,
    order: VecDeque<TaskKey>,
    /// What ids and tokens take.
    bytes: usize,
}

impl TaskTable {
    /// Keeps a task in the place of the same server's of that id, and no more than may be kept.
    fn keep(&mut self, key: TaskKey, owned: OwnedTask) {
        let same = self.owners.entry(key.clone()).or_default();
        if same.is_empty() {
            // In the table and in the order.
            self.bytes += 2 * key.1.len();
            self.order.push_back(key);
        }
        same.retain(|other| {
            let stays = other.server != owned.server;
            self.bytes -= if stays { 0 } else { other.token_bytes() };
            stays
        });
        self.bytes += owned.token_bytes();
        same.push(owned);
        while self.order.len() > MAX_TASKS_REMEMBERED || self.bytes > MAX_TASK_BYTES_REMEMBERED {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            let forgotten = self.owners.remove(&oldest).unwrap_or_default();
            let tokens: usize = forgotten.iter().map(OwnedTask::token_bytes).sum();
            self.bytes -= 2 * oldest.1.len() + tokens;
        }
    }
}

impl OwnedTask {
    fn token_bytes(&self) -> usize {
        self.token
            .as_ref()
            .map_or(0, |token| token.as_bytes().len())
    }
}

/// Whose it is, and its id.
type TaskKey = (CallerKey, Vec<u8>);

fn key(caller: &Caller, id: &Text) -> TaskKey {
    (caller.key(), id.as_bytes().to_vec())
}

/// What a result says of a task, in one pass over it.
#[derive(Default)]
struct TaskInResult {
    /// It is one by its own word.
    is_task: bool,
    /// The id in it.
    flat: Option<Text>,
    /// The id in the task that it holds.
    held: Option<Text>,
    /// There is something to read.
    has_content: bool,
}

impl TaskInResult {
    fn of(result: &Text) -> Self {
        let mut said = Self::default();
        let members = result.members().map(JsonMembers::parts);
        for (key, value) in members.into_iter().flatten() {
            match &*key {
                "resultType" => said.is_task = value.text().as_str().as_deref() == Some("task"),
                "taskId" => said.flat = Some(value.text()),
                "task" => said.held = value.text().get("taskId"),
                "content" => said.has_content = true,
                _ => {}
            }
        }
        said
    }
}

/// Whether the result of a call is a task: by its own word, or because it holds a task and nothing
/// else to read.
pub(crate) fn is_task(result: &Text) -> bool {
    let said = TaskInResult::of(result);
    said.is_task || (said.held.is_some() && !said.has_content)
}

impl TaskOwners {
    /// Notes the task that the result of a call names, as what `owned` says; none if it names none.
    pub fn note(
        &self,
        caller: &Caller,
        result: &Text,
        owned: impl FnOnce() -> OwnedTask,
    ) -> Option<OwnedTask> {
        let TaskInResult {
            is_task,
            flat,
            held,
            ..
        } = TaskInResult::of(result);
        let id = flat.filter(|_| is_task).or(held)?;
        let key = key(caller, &id);
        let owned = owned();
        self.kept.lock().keep(key, owned.clone());
        Some(owned)
    }

    /// The caller's task of that id that `may` be meant; none if it could be one server's or
    /// another's.
    pub fn owned(
        &self,
        caller: &Caller,
        id: &Text,
        may: impl Fn(&OwnedTask) -> bool,
    ) -> Option<OwnedTask> {
        let same = self
            .kept
            .lock()
            .owners
            .get(&key(caller, id))
            .cloned()
            .unwrap_or_default();
        let mut meant = same.into_iter().filter(may);
        meant.next().filter(|_| meant.next().is_none())
    }

    /// Whether the server has made any task that is remembered here.
    pub(crate) fn has_any(&self, server: &ServerName) -> bool {
        let kept = self.kept.lock();
        let mut all = kept.owners.values().flatten();
        all.any(|owned| owned.server == *server)
    }

    /// The ids of the caller's tasks at a server, the newest first.
    pub(crate) fn held(&self, caller: &Caller, server: &ServerName) -> Vec<Text> {
        let kept = self.kept.lock();
        let whose = caller.key();
        let own = kept.order.iter().rev().filter(|(key, _)| *key == whose);
        let here = own.filter(|key| {
            let same = kept.owners.get(*key);
            same.is_some_and(|same| same.iter().any(|owned| owned.server == *server))
        });
        here.filter_map(|(_, id)| Text::read(Bytes::copy_from_slice(id), &SERVER_JSON_LIMITS).ok())
            .collect()
    }

    /// As which caller an agent hears of that in its own session, where it names the user of each
    /// request: as the one whose task it is.
    pub(crate) fn spoken_for(
        &self,
        agent: &Arc<Caller>,
        server: &ServerName,
        said: &Message,
    ) -> Arc<Caller> {
        if !agent.names_users || agent.user.is_some() {
            return agent.clone();
        }
        let params = said.body.as_ref();
        let id = params.and_then(|params| params.get("taskId"));
        let token = params.and_then(|params| params.get("progressToken"));
        let (id, token) = (
            id.map(|id| id.as_bytes().to_vec()),
            token.map(|token| token.value()),
        );
        if id.is_none() && token.is_none() {
            return agent.clone();
        }
        let is_it = |task: &TaskKey, same: &[OwnedTask]| {
            let of_token = |owned: &OwnedTask| owned.token.as_ref().map(Text::value) == token;
            let mut here = same.iter().filter(|owned| owned.server == *server);
            here.any(|owned| id.as_ref() == Some(&task.1) || (token.is_some() && of_token(owned)))
        };
        let kept = self.kept.lock();
        let mut own = kept.owners.iter().filter(|((whose, _), _)| {
            (&whose.agent, &whose.tenant) == (&agent.agent, &agent.tenant)
        });
        let found = own.find(|(task, same)| is_it(task, same));
        let named = found.and_then(|((whose, _), _)| whose.user.clone());
        named.map_or_else(|| agent.clone(), |user| Arc::new(agent.for_user(user)))
    }

    /// Whether it is progress of a task of the caller that `may` be meant.
    fn knows(&self, caller: &Caller, progress: &Message, may: impl Fn(&OwnedTask) -> bool) -> bool {
        let token = progress
            .body
            .as_ref()
            .and_then(|params| params.get("progressToken"));
        let Some(token) = token.map(|token| token.value()) else {
            return false;
        };
        let is_it = |owned: &OwnedTask| {
            owned.token.as_ref().is_some_and(|own| own.value() == token) && may(owned)
        };
        let kept = self.kept.lock();
        let whose = caller.key();
        kept.owners
            .iter()
            .any(|((key, _), same)| *key == whose && same.iter().any(is_it))
    }

    /// What a server said outside requests, or of a task, as the agent may read it: of tasks and
    /// their progress it hears only its own, and nothing that takes too much to shape.
    pub async fn heard(
        &self,
        caller: &Caller,
        said: Message,
        may: impl Fn(&OwnedTask) -> bool,
    ) -> Option<Message> {
        if said.kind == MessageKind::Notification && said.method == PROGRESS_METHOD {
            // Outside requests there is progress of tasks only.
            let is_known = self.knows(caller, &said, may);
            FOREIGN_PROGRESS.add(usize::from(!is_known));
            return is_known.then_some(said);
        }
        if !is_of_task(&said) {
            return Some(said);
        }
        let id = said.body.as_ref().and_then(|params| params.get("taskId"))?;
        let OwnedTask { shaping, .. } = self.owned(caller, &id, may)?;
        let there = || {
            let (shaping, said) = (shaping.clone(), said.clone());
            move || shaping.standing(said)
        };
        heavy::done(&caller.agent, || shaping.standing(said.clone()), there)
            .await
            .ok()
    }
}
