//! Held calls as tasks of the extension (guarantees §7, protocol §6.4): an agent of 2026-07-28 that
//! knows tasks reads one at once, and toolgate sends the call again in its place, as the agent would,
//! until a person has decided. What makes a task is the hold in the store, so that it outlives
//! toolgate; in memory is only what goes on.

mod kept_request;
mod run;
mod task_id;
mod told;

use crate::mcp::message::Message;
use crate::model::ids::AgentId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

pub(crate) use kept_request::KeptRequest;
pub(in crate::gate) use run::TASK_OVER;
pub(crate) use run::TaskLook;
pub(crate) use task_id::HeldTaskId;

/// Tasks of one agent and of all that go on or have ended lately.
const MAX_TASKS_PER_AGENT: usize = 64;
const MAX_TASKS: usize = 1_000;
/// Bytes of results that are kept in memory.
const MAX_RESULT_BYTES: usize = 64 << 20;
/// How long an end is kept in memory; the store has it for longer.
const MAX_END_AGE: Duration = Duration::from_hours(1);

/// How the call of a task has ended.
#[derive(Debug, Clone)]
pub(in crate::gate) enum HeldEnd {
    /// With this answer to it.
    Answered(Message),
    /// It was cancelled, and has not run.
    Cancelled,
}

/// How a task stands whose call this process sends.
enum TaskStand {
    GoesOn,
    Ended(HeldEnd),
}

/// The tasks whose calls this process sends.
#[derive(Default)]
pub struct HeldTasks(Mutex<HashMap<String, RunningTask>>);

struct RunningTask {
    agent: AgentId,
    /// When it has ended, in steady time, and how.
    end: Option<(Duration, HeldEnd)>,
}

impl HeldTasks {
    /// Whether it is new: then its call has to be sent. None: there is no room.
    fn begin(&self, id: &HeldTaskId, agent: &AgentId, now: Duration) -> Option<bool> {
        let mut tasks = self.0.lock();
        if tasks.contains_key(id.text()) {
            return Some(false);
        }
        tasks.retain(|_, task| {
            let ended = task.end.as_ref();
            ended.is_none_or(|(at, _)| now.saturating_sub(*at) < MAX_END_AGE)
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
            end: None,
        };
        tasks.insert(id.text().to_owned(), task);
        Some(true)
    }

    /// What this process knows of it, if it does.
    fn look(&self, id: &HeldTaskId) -> Option<TaskStand> {
        let tasks = self.0.lock();
        let ended = tasks.get(id.text())?.end.as_ref();
        Some(ended.map_or(TaskStand::GoesOn, |(_, end)| TaskStand::Ended(end.clone())))
    }

    /// Its call has ended; none: it is to be sent again when its agent asks after it.
    fn end(&self, id: &HeldTaskId, end: Option<HeldEnd>, now: Duration) {
        let mut tasks = self.0.lock();
        let Some(end) = end else {
            tasks.remove(id.text());
            return;
        };
        if let Some(task) = tasks.get_mut(id.text()) {
            task.end = Some((now, end));
        }
        while tasks.values().map(RunningTask::bytes).sum::<usize>() > MAX_RESULT_BYTES
            && forget(&mut tasks, |_| true)
        {}
    }
}

impl RunningTask {
    fn bytes(&self) -> usize {
        match &self.end {
            Some((_, HeldEnd::Answered(answer))) => {
                answer.body.as_ref().map_or(0, |body| body.as_bytes().len())
            }
            Some((_, HeldEnd::Cancelled)) | None => 0,
        }
    }
}

/// Forgets the one of these that ended first, if one has.
fn forget(tasks: &mut HashMap<String, RunningTask>, counts: impl Fn(&RunningTask) -> bool) -> bool {
    let ended = tasks.iter().filter(|(_, task)| counts(task));
    let ended = ended.filter_map(|(id, task)| Some((task.end.as_ref()?.0, id)));
    let oldest = ended.min().map(|(_, id)| id.clone());
    oldest.and_then(|oldest| tasks.remove(&oldest)).is_some()
}
