//! Calls that wait for their agents' answers as tasks (protocol §4.3): a legacy server asks in the
//! middle of an ordinary call, and an agent of 2026-07-28 that knows tasks holds one of toolgate's
//! own. The server's call stays open meanwhile, and is never sent again. In memory, and bounded; the
//! id of a task says of itself whose it is, also when nothing else is known of it any more.

use super::legacy_tasks::TaskQuestion;
use super::owners::OwnedTask;
use crate::mcp::bridge::TaskStatus;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::round::{RoundBinding, RoundSeal};
use crate::model::caller::{Caller, CallerKey};
use crate::model::clock::Clock;
use crate::model::ids::{AgentId, ServerName, unguessable};
use crate::model::reply::Fault;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

mod questions;
mod run;
mod settling;
mod tellings;
#[cfg(test)]
mod tests;
mod told;
mod watch;

use questions::takes_all;
pub(crate) use run::{TaskQuestioner, TaskRun};
use settling::TaskSettlement;
pub(crate) use settling::{TaskEnding, TaskSettling};
use told::{NOT_RECORDED, complete};

/// Tasks of one agent and of all, those that have ended included: of these the oldest is forgotten
/// first, and where none has ended a call is parked without a task.
const MAX_TASKS_PER_AGENT: usize = 64;
const MAX_TASKS: usize = 1_000;
/// Bytes of results that are kept for agents that have not asked for them yet.
const MAX_RESULT_BYTES: usize = 64 << 20;
/// How long a task may take in all, and is remembered once it has ended.
pub(crate) const MAX_TASK_TIME: Duration = Duration::from_hours(1);
/// How long toolgate waits, when it ends, for servers to hear that nobody waits for a call.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);
/// Orders that wait for their task.
const ORDERS_QUEUED: usize = 8;

/// What the own part of an id begins with.
const ID_PREFIX: &str = "toolgate-task:";
/// By which method an id is sealed.
const ID_METHOD: &str = "tasks";

/// What is known of a task by its id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParkedTaskId {
    /// As agents write it.
    text: String,
    /// May its call have changed something?
    changes: bool,
    /// Since when there is the task, RFC 3339 in UTC.
    created: String,
}

/// Whose task it is, and at which server.
#[derive(Clone, PartialEq, Eq)]
struct TaskHolder {
    whose: CallerKey,
    server: ServerName,
}

impl TaskHolder {
    fn of(caller: &Caller, server: &ServerName) -> Self {
        Self {
            whose: caller.key(),
            server: server.clone(),
        }
    }
}

/// How a task stands.
enum TaskStanding {
    /// What the server asks and is not answered; it works if that is nothing.
    Open(Vec<TaskQuestion>),
    Ended(TaskEnd),
}

/// How a task has ended.
#[derive(Debug, Clone)]
pub(crate) enum TaskEnd {
    /// The server has answered its call, in the words of 2026-07-28.
    Answered(Message),
    /// Its agent has cancelled it, and nobody knows what the tool had done by then.
    Cancelled,
    /// Something broke, or nobody answered in time.
    Lost(Fault),
}

impl TaskEnd {
    fn bytes(&self) -> usize {
        match self {
            Self::Answered(answer) => answer.body.as_ref().map_or(0, |body| body.as_bytes().len()),
            Self::Cancelled | Self::Lost(_) => 0,
        }
    }

    /// What is proven of the call.
    fn proof(&self) -> Result<Message, Fault> {
        match self {
            Self::Answered(answer) => Ok(answer.clone()),
            Self::Cancelled => Err(Fault::after_sending("the agent cancelled its task")),
            Self::Lost(fault) => Err(fault.clone()),
        }
    }
}

/// What an agent wants of a task that has not ended.
pub(crate) enum TaskOrder {
    /// It asks how it stands: it has not forgotten it.
    Look,
    /// Its answers, by the names of the questions; done when the server has them.
    Answer(Text, oneshot::Sender<bool>),
    /// It wants no more of it.
    Cancel,
    /// Toolgate ends.
    Close,
}

struct ParkedTask {
    holder: TaskHolder,
    standing: Arc<Mutex<TaskStanding>>,
    orders: mpsc::Sender<TaskOrder>,
    /// Where the end of the call is told; taken once.
    ending: Option<oneshot::Receiver<Result<Message, Fault>>>,
    /// What has become of the end where it is taken.
    settlement: Option<Arc<Mutex<TaskSettlement>>>,
    ended: Option<Duration>,
    /// Of which tool it is, and what its contract makes of it, once that is known.
    owned: Option<OwnedTask>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct ParkedTasks {
    tasks: Mutex<HashMap<String, ParkedTask>>,
    seal: OnceLock<Arc<RoundSeal>>,
    clock: Clock,
}

/// What a task needs to be run, once there is room for it.
pub(crate) struct TaskRoom {
    all: Arc<ParkedTasks>,
    id: String,
    standing: Arc<Mutex<TaskStanding>>,
    orders: mpsc::Receiver<TaskOrder>,
    ending: oneshot::Sender<Result<Message, Fault>>,
}

/// A call that is about to become a task.
pub(crate) struct NewTask<'a> {
    /// Who called.
    pub(crate) caller: &'a Caller,
    /// Whom.
    pub(crate) server: &'a ServerName,
    /// May the call have changed something?
    pub(crate) changes: bool,
    /// What the server asks.
    pub(crate) questions: Vec<Message>,
}

impl ParkedTasks {
    /// From now on there may be tasks: their ids are sealed with this.
    pub(crate) fn seal_with(&self, seal: Arc<RoundSeal>) {
        drop(self.seal.set(seal));
    }

    /// Makes a task of a call, and the result that its agent reads; gives the questions back if
    /// there is no room.
    pub(crate) fn begin(
        self: &Arc<Self>,
        new: NewTask<'_>,
    ) -> Result<(TaskRoom, Message), Vec<Message>> {
        let NewTask {
            caller,
            server,
            changes,
            questions,
        } = new;
        let holder = TaskHolder::of(caller, server);
        let Some(seal) = self.seal.get() else {
            return Err(questions);
        };
        let mut tasks = self.tasks.lock();
        let has_room = takes_all(&tasks, &holder.whose.agent, &questions)
            && make_room(&mut tasks, &holder.whose.agent, self.clock.steady());
        if !has_room {
            return Err(questions);
        }
        let kind = if changes { 'w' } else { 'r' };
        let created = self.clock.wall().to_string();
        let own = format!("{ID_PREFIX}{kind}:{created}:{}", unguessable());
        let text = seal.written(bound(caller, server), &own);
        let id = ParkedTaskId {
            text: text.clone(),
            changes,
            created,
        };
        let open = questions.into_iter().map(TaskQuestion::new).collect();
        let standing = Arc::new(Mutex::new(TaskStanding::Open(open)));
        let (orders, ordered) = mpsc::channel(ORDERS_QUEUED);
        let (ending, ends) = oneshot::channel();
        let task = ParkedTask {
            holder,
            standing: standing.clone(),
            orders,
            ending: Some(ends),
            settlement: None,
            ended: None,
            owned: None,
        };
        tasks.insert(text.clone(), task);
        let mut handle = id.told(TaskStatus::InputRequired);
        handle.set("resultType", Text::string("task"));
        let room = TaskRoom {
            all: self.clone(),
            id: text,
            standing,
            orders: ordered,
            ending,
        };
        Ok((room, Message::response(None, handle.text(), false)))
    }

    /// What the id in the parameters of a request says of itself, if it is one that was given to
    /// this caller.
    pub(crate) fn id_of(
        &self,
        caller: &Caller,
        server: &ServerName,
        id: &Text,
    ) -> Option<ParkedTaskId> {
        let text = id.as_str()?.into_owned();
        let own = self.seal.get()?.read(bound(caller, server), &text)?;
        let (kind, rest) = own.strip_prefix(ID_PREFIX)?.split_once(':')?;
        let (created, _) = rest.rsplit_once(':')?;
        Some(ParkedTaskId {
            text,
            changes: kind != "r",
            created: created.to_owned(),
        })
    }

    /// How a task stands, as its agent reads it. Of one that is not known any more only so much is
    /// known as its id says.
    pub(crate) fn standing(&self, id: &ParkedTaskId) -> Message {
        let known = self.tasks.lock().get(&id.text).map(|task| {
            drop(task.orders.try_send(TaskOrder::Look));
            (task.standing.clone(), task.settlement())
        });
        let Some((standing, settlement)) = known else {
            return id.forgotten();
        };
        let standing = standing.lock();
        match (&*standing, settlement) {
            (TaskStanding::Ended(_), TaskSettlement::Pending) => {
                return complete(id.told(TaskStatus::Working));
            }
            (TaskStanding::Ended(TaskEnd::Answered(_)), TaskSettlement::Lost) => {
                return complete(id.failed(NOT_RECORDED));
            }
            (TaskStanding::Open(_) | TaskStanding::Ended(_), _) => {}
        }
        let odd = match &*standing {
            TaskStanding::Ended(TaskEnd::Answered(answer)) => answer.odd.clone(),
            TaskStanding::Ended(TaskEnd::Cancelled | TaskEnd::Lost(_)) | TaskStanding::Open(_) => {
                None
            }
        };
        Message {
            odd,
            ..complete(id.standing(&standing))
        }
    }

    /// The task of this handle, if it is one of these, is what `owned` says: for as long as it is
    /// known here, whatever becomes of other tasks.
    pub(crate) fn note(&self, handle: &Text, owned: OwnedTask) {
        let id = handle.get("taskId");
        let mut tasks = self.tasks.lock();
        let task = id.and_then(|id| tasks.get_mut(&*id.as_str()?));
        if let Some(task) = task {
            task.owned = Some(owned);
        }
    }

    /// Of which tool a task is; none of one of which nothing is known any more.
    pub(crate) fn owned(&self, id: &ParkedTaskId) -> Option<OwnedTask> {
        self.tasks.lock().get(&id.text)?.owned.clone()
    }

    /// How a task stands whose agent may not call its tool any more: not what it asks, nor what it has
    /// ended with. That it was asked after keeps it from being forgotten no longer.
    pub(crate) fn withheld(&self, id: &ParkedTaskId) -> Message {
        let known = self.tasks.lock().get(&id.text).map(|task| {
            let settlement = task.settlement();
            (task.standing.clone(), settlement)
        });
        let Some((standing, settlement)) = known else {
            return id.forgotten();
        };
        complete(id.withheld(&standing.lock(), settlement))
    }

    /// Hands the agent's answers to the server that asked: whether that has taken them; none if nothing
    /// waits for them.
    pub(crate) async fn answer(&self, id: &ParkedTaskId, answers: Text) -> Option<bool> {
        let (done, told) = oneshot::channel();
        let is_ordered = self.order(id, TaskOrder::Answer(answers, done)).await;
        if is_ordered { told.await.ok() } else { None }
    }

    /// Ends a task whose agent does not want it any more.
    pub(crate) async fn cancel(&self, id: &ParkedTaskId) {
        self.order(id, TaskOrder::Cancel).await;
    }

    async fn order(&self, id: &ParkedTaskId, order: TaskOrder) -> bool {
        let orders = self
            .tasks
            .lock()
            .get(&id.text)
            .map(|task| task.orders.clone());
        match orders {
            Some(orders) => orders.send(order).await.is_ok(),
            None => false,
        }
    }

    /// Whether the task of this handle goes on, or its end is being written down.
    pub(crate) fn waits(&self, handle: &Message) -> bool {
        let id = handle.body.as_ref().and_then(|body| body.get("taskId"));
        let tasks = self.tasks.lock();
        let task = id.and_then(|id| tasks.get(&*id.as_str()?));
        task.is_some_and(|task| {
            task.ended.is_none() || task.settlement() == TaskSettlement::Pending
        })
    }

    /// What ends the call that has become a task by this answer, once.
    pub(crate) fn ending_of(&self, answer: &Message) -> Option<TaskEnding> {
        let id = answer.body.as_ref()?.get("taskId")?;
        let mut tasks = self.tasks.lock();
        let task = tasks.get_mut(&*id.as_str()?)?;
        let ended = task.ending.take()?;
        let (settling, settlement) = TaskSettling::begun();
        task.settlement = Some(settlement);
        Some(TaskEnding { ended, settling })
    }

    fn end(&self, id: &str) {
        let (mut tasks, now) = (self.tasks.lock(), self.clock.steady());
        if let Some(task) = tasks.get_mut(id) {
            task.ended = Some(now);
        }
        let mut bytes: usize = tasks.values().map(ParkedTask::bytes).sum();
        while bytes > MAX_RESULT_BYTES
            && let Some(oldest) = oldest_ended(&tasks, |_| true)
            && let Some(forgotten) = tasks.remove(&oldest)
        {
            bytes -= forgotten.bytes();
        }
    }

    /// Gives all up: toolgate ends.
    pub(crate) async fn close(&self) {
        let open: Vec<_> = {
            let tasks = self.tasks.lock();
            let open = tasks.values().filter(|task| task.ended.is_none());
            open.map(|task| task.orders.clone()).collect()
        };
        let closed = open.iter().map(|orders| async {
            drop(orders.send(TaskOrder::Close).await);
            orders.closed().await;
        });
        let closed = futures_util::future::join_all(closed);
        drop(tokio::time::timeout(CLOSE_TIMEOUT, closed).await);
    }
}

impl ParkedTask {
    /// Of one whose end nobody settles there is nothing to wait for.
    fn settlement(&self) -> TaskSettlement {
        let settlement = self.settlement.as_ref();
        settlement.map_or(TaskSettlement::Kept, |settlement| *settlement.lock())
    }

    /// When it ended, if that is written down: until then it is told as one that goes on.
    fn forgettable(&self) -> Option<Duration> {
        let ended = self.ended;
        ended.filter(|_| self.settlement() != TaskSettlement::Pending)
    }

    fn bytes(&self) -> usize {
        match (self.ended, &*self.standing.lock()) {
            (Some(_), TaskStanding::Ended(end)) => end.bytes(),
            _ => 0,
        }
    }
}

/// Forgets what ended long ago, and the oldest of what has ended where room is wanted; whether there
/// is some.
fn make_room(tasks: &mut HashMap<String, ParkedTask>, agent: &AgentId, now: Duration) -> bool {
    tasks.retain(|_, task| {
        let ended = task.forgettable();
        ended.is_none_or(|ended| now.saturating_sub(ended) < MAX_TASK_TIME)
    });
    let is_own = |task: &ParkedTask| task.holder.whose.agent == *agent;
    if tasks.values().filter(|task| is_own(task)).count() >= MAX_TASKS_PER_AGENT {
        let Some(oldest) = oldest_ended(tasks, is_own) else {
            return false;
        };
        tasks.remove(&oldest);
    }
    if tasks.len() >= MAX_TASKS {
        let Some(oldest) = oldest_ended(tasks, |_| true) else {
            return false;
        };
        tasks.remove(&oldest);
    }
    true
}

fn oldest_ended(
    tasks: &HashMap<String, ParkedTask>,
    counts: impl Fn(&ParkedTask) -> bool,
) -> Option<String> {
    let ended = tasks.iter().filter(|(_, task)| counts(task));
    let ended = ended.filter_map(|(id, task)| Some((task.forgettable()?, id)));
    ended.min().map(|(_, id)| id.clone())
}

fn bound<'a>(caller: &'a Caller, server: &'a ServerName) -> RoundBinding<'a> {
    RoundBinding {
        caller,
        server,
        method: ID_METHOD,
        params: None,
    }
}

impl TaskQuestion {
    fn new(question: Message) -> Self {
        Self {
            key: format!("question-{}", unguessable()),
            question,
        }
    }
}
