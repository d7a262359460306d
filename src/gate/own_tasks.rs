//! Tasks of toolgate's own, for agents of 2026-07-28 that know the extension (guarantees §7, protocol
//! §6.4). A held call is one at once, and toolgate sends it again in its agent's place until a person
//! has decided; a call that takes long becomes one on its way. What makes a task is the hold, or the
//! claim, in the store, so that it outlives toolgate; in memory is only what goes on.

mod kept_request;
mod long;
mod look;
mod news;
mod questions;
mod run;
mod task_id;
mod told;

use crate::gate::call::TaskTerms;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::ids::AgentId;
use crate::store::state::Millis;
use parking_lot::Mutex;
use questions::TaskRound;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;

pub(crate) use kept_request::KeptRequest;
pub(in crate::gate) use long::LongCall;
pub(crate) use look::TaskLook;
pub(crate) use questions::TakenAnswers;
pub(in crate::gate) use run::{BUSY_CODES, TASK_OVER};
pub(crate) use task_id::{OwnTaskId, TaskOf};

/// Tasks of one agent and of all that go on or have ended lately.
const MAX_TASKS_PER_AGENT: usize = 64;
const MAX_TASKS: usize = 1_000;
/// Bytes of results that are kept in memory.
const MAX_RESULT_BYTES: usize = 64 << 20;
/// How long an end is kept in memory: an hour longer than the longest call takes, as ids say. The store
/// has it for longer.
const MAX_END_AGE: Duration = Duration::from_mins(75);

/// Changes that a subscription may leave unheard; of more it looks at all its tasks.
const MAX_UNHEARD_CHANGES: usize = 256;

/// How the call of a task has ended.
#[derive(Debug, Clone)]
pub(in crate::gate) enum OwnTaskEnd {
    /// With this answer to it.
    Answered(Message),
    /// It was cancelled; with what is known of whether it has run.
    Cancelled(Cow<'static, str>),
}

/// How a task stands whose call this process sends, as it is told.
enum TaskStand {
    /// With what is said of it, where a person has to allow its next round.
    GoesOn(Option<Box<str>>),
    /// Its tool server asks this.
    Asks(Text),
    Ended(OwnTaskEnd),
}

/// The tasks whose calls this process sends.
pub struct OwnTasks {
    tasks: Mutex<HashMap<String, RunningTask>>,
    /// Told of each that stands otherwise than before.
    changed: broadcast::Sender<Box<str>>,
}

impl Default for OwnTasks {
    fn default() -> Self {
        Self {
            tasks: Mutex::default(),
            changed: broadcast::Sender::new(MAX_UNHEARD_CHANGES),
        }
    }
}

struct RunningTask {
    agent: AgentId,
    progress: TaskProgress,
    /// Cancelled when its agent wants no more of it.
    stop: CancellationToken,
}

enum TaskProgress {
    GoesOn,
    /// A person has to allow its next round, as this says.
    Waits(Box<str>),
    Asks(TaskRound),
    /// When, in steady time, and how.
    Ended(Duration, OwnTaskEnd),
}

/// That the next round of a call that is a task waits for a person.
pub(in crate::gate) struct RoundWait<'a> {
    tasks: &'a OwnTasks,
    id: Arc<str>,
}

impl OwnTasks {
    /// Whether it is new: then its call has to be sent. None: there is no room.
    fn begin(&self, id: &OwnTaskId, agent: &AgentId, now: Duration) -> Option<bool> {
        let mut tasks = self.tasks.lock();
        if tasks.contains_key(id.text()) {
            return Some(false);
        }
        tasks.retain(|_, task| {
            let ended = task.ended();
            ended.is_none_or(|at| now.saturating_sub(at) < MAX_END_AGE)
        });
        let is_own = |task: &RunningTask| task.agent == *agent;
        let own = tasks.values().filter(|task| is_own(task)).count();
        if own >= MAX_TASKS_PER_AGENT && !forget(&mut tasks, is_own) {
            return None;
        }
        if tasks.len() >= MAX_TASKS && !forget(&mut tasks, |_| true) {
            return None;
        }
        let task = RunningTask {
            agent: agent.clone(),
            progress: TaskProgress::GoesOn,
            stop: CancellationToken::new(),
        };
        tasks.insert(id.text().to_owned(), task);
        Some(true)
    }

    /// What this process knows of it, if it does.
    fn look(&self, id: &OwnTaskId) -> Option<TaskStand> {
        let tasks = self.tasks.lock();
        Some(match &tasks.get(id.text())?.progress {
            TaskProgress::GoesOn => TaskStand::GoesOn(None),
            TaskProgress::Waits(words) => TaskStand::GoesOn(Some(words.clone())),
            TaskProgress::Asks(round) => TaskStand::Asks(round.open()),
            TaskProgress::Ended(_, end) => TaskStand::Ended(end.clone()),
        })
    }

    /// What ends once its agent wants no more of it; none if its call is not sent by this process.
    fn stop_of(&self, id: &OwnTaskId) -> Option<CancellationToken> {
        Some(self.tasks.lock().get(id.text())?.stop.clone())
    }

    /// Its tool server asks these: gives its agent's answers, once there are all of them. None: they
    /// are too much to be kept.
    fn ask(&self, id: &OwnTaskId, requests: &Text) -> Option<oneshot::Receiver<Text>> {
        let (round, answers) = TaskRound::of(requests)?;
        let mut tasks = self.tasks.lock();
        let asked: usize = tasks.values().map(RunningTask::question_bytes).sum();
        if asked + round.bytes() > questions::MAX_QUESTION_BYTES {
            return None;
        }
        tasks.get_mut(id.text())?.progress = TaskProgress::Asks(round);
        self.tell(id.text());
        Some(answers)
    }

    /// Takes answers of its agent to what its tool server asks.
    pub(crate) fn answer(&self, id: &OwnTaskId, answers: &Text) -> TakenAnswers {
        let mut tasks = self.tasks.lock();
        let Some(task) = tasks.get_mut(id.text()) else {
            return TakenAnswers::NothingAsked;
        };
        let TaskProgress::Asks(round) = &mut task.progress else {
            return TakenAnswers::NothingAsked;
        };
        let taken = round.take(answers);
        if round.is_answered() {
            task.progress = TaskProgress::GoesOn;
        }
        self.tell(id.text());
        taken
    }

    /// The next round of a call waits for a person with one of these roles, `until` then, and until what this gives is dropped; none where the call is no
    /// such round.
    pub(in crate::gate) fn round_waits(
        &self,
        call: &TaskTerms,
        roles: &[String],
        until: Millis,
    ) -> Option<RoundWait<'_>> {
        let TaskTerms::Round(id) = call else {
            return None;
        };
        let words = told::waits_for_a_person(roles, until);
        self.goes_on(id, TaskProgress::Waits(words.into()));
        Some(RoundWait {
            tasks: self,
            id: id.clone(),
        })
    }

    /// Its call goes on so.
    fn goes_on(&self, id: &str, progress: TaskProgress) {
        let mut tasks = self.tasks.lock();
        if let Some(task) = tasks.get_mut(id).filter(|task| task.ended().is_none()) {
            task.progress = progress;
            self.tell(id);
        }
    }

    /// Each id from now on whose task stands otherwise than before.
    fn changes(&self) -> broadcast::Receiver<Box<str>> {
        self.changed.subscribe()
    }

    /// Where nobody listens, nobody is told.
    fn tell(&self, id: &str) {
        drop(self.changed.send(id.into()));
    }

    /// Its call has ended; none: it is to be sent again when its agent asks after it.
    fn end(&self, id: &OwnTaskId, end: Option<OwnTaskEnd>, now: Duration) {
        let mut tasks = self.tasks.lock();
        let Some(end) = end else {
            tasks.remove(id.text());
            return;
        };
        if let Some(task) = tasks.get_mut(id.text()) {
            task.progress = TaskProgress::Ended(now, end);
            self.tell(id.text());
        }
        while tasks.values().map(RunningTask::bytes).sum::<usize>() > MAX_RESULT_BYTES
            && forget(&mut tasks, |_| true)
        {}
    }
}

impl Drop for RoundWait<'_> {
    fn drop(&mut self) {
        self.tasks.goes_on(&self.id, TaskProgress::GoesOn);
    }
}

impl RunningTask {
    fn ended(&self) -> Option<Duration> {
        match self.progress {
            TaskProgress::Ended(at, _) => Some(at),
            TaskProgress::GoesOn | TaskProgress::Waits(_) | TaskProgress::Asks(_) => None,
        }
    }

    fn bytes(&self) -> usize {
        match &self.progress {
            TaskProgress::Ended(_, OwnTaskEnd::Answered(answer)) => {
                answer.body.as_ref().map_or(0, |body| body.as_bytes().len())
            }
            TaskProgress::Ended(_, OwnTaskEnd::Cancelled(_))
            | TaskProgress::GoesOn
            | TaskProgress::Waits(_)
            | TaskProgress::Asks(_) => 0,
        }
    }

    fn question_bytes(&self) -> usize {
        match &self.progress {
            TaskProgress::Asks(round) => round.bytes(),
            TaskProgress::Ended(..) | TaskProgress::GoesOn | TaskProgress::Waits(_) => 0,
        }
    }
}

/// Forgets the one of these that ended first, if one has.
fn forget(tasks: &mut HashMap<String, RunningTask>, counts: impl Fn(&RunningTask) -> bool) -> bool {
    let ended = tasks.iter().filter(|(_, task)| counts(task));
    let ended = ended.filter_map(|(id, task)| Some((task.ended()?, id)));
    let oldest = ended.min().map(|(_, id)| id.clone());
    oldest.and_then(|oldest| tasks.remove(&oldest)).is_some()
}
