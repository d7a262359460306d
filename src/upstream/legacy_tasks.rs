//! Tasks that agents of 2026-07-28 hold at legacy servers (protocol §6.3): on which link each was
//! made, which is kept for it, and what it asks. In memory, and bounded.

use super::caller_links::{QuestionInbox, ReachedLink};
use super::link::{Link, UpstreamExchange};
use super::questions::tell;
use crate::mcp::bridge::answer_to_legacy_server;
use crate::mcp::error_codes::{INTERNAL_ERROR, METHOD_NOT_FOUND};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Revision;
use crate::model::caller::{Caller, CallerKey};
use crate::model::clock::Clock;
use crate::model::ids::ServerName;
use crate::telemetry::tasks;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

#[cfg(test)]
mod tests;

/// Tasks that are kept, of one caller, of one agent with all people behind it, and of all; beyond it
/// the one that nobody asked after for longest is let go.
const MAX_HELD_PER_CALLER: usize = 64;
const MAX_HELD_PER_AGENT: usize = 512;
const MAX_HELD: usize = 1_000;
/// A task that nobody asks after for so long is let go: its link may end then.
const HELD_TIMEOUT: Duration = Duration::from_hours(1);
/// How often such tasks are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_mins(5);

/// Whose task it is, where, and its id.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct HeldTaskKey {
    whose: CallerKey,
    server: ServerName,
    id: Vec<u8>,
}

impl HeldTaskKey {
    /// Of this caller's task of that id.
    pub(crate) fn of(caller: &Caller, server: &ServerName, id: &Text) -> Self {
        Self {
            whose: caller.key(),
            server: server.clone(),
            id: id.as_bytes().to_vec(),
        }
    }
}

/// A question of a task.
#[derive(Clone)]
pub(crate) struct TaskQuestion {
    /// Under which name the agent reads it: no other question of the task has it.
    pub key: String,
    /// The request of the server.
    pub question: Message,
}

impl TaskQuestion {
    /// The agent's answer as the server reads it.
    pub(crate) fn answered(self, answer: Text, revision: Revision) -> Message {
        let Self { question, .. } = self;
        let words = "the agent did not answer this";
        match answer_to_legacy_server(&question.method, answer, revision) {
            Some(answer) => Message::response(question.id, answer, false),
            None => Message::error(question.id, INTERNAL_ERROR, words, None),
        }
    }
}

/// A request for the result of a task, which is open at its server: what the task asks comes there.
pub(crate) struct OpenResult {
    /// Where it is open. What is asked there is answered there, and on no other link: the ids of two
    /// links are alike.
    pub reached: ReachedLink,
    /// The request.
    pub exchange: UpstreamExchange,
    /// Where questions arrive that name no request.
    pub asides: Option<QuestionInbox>,
    /// What is asked and not answered.
    pub questions: Vec<TaskQuestion>,
}

/// Where the open request for the result of one task is kept: who listens to it, or answers what is
/// asked there, holds the lock meanwhile.
pub(crate) type OpenResultPlace = Arc<tokio::sync::Mutex<Option<OpenResult>>>;

struct HeldTask {
    reached: ReachedLink,
    open: OpenResultPlace,
    used: Duration,
}

/// All of them.
#[derive(Default)]
pub(crate) struct LegacyTasks {
    held: Mutex<HashMap<HeldTaskKey, HeldTask>>,
    /// Lets go of what nobody asks after, from the first task on.
    sweeper: OnceLock<AbortOnDropHandle<()>>,
    clock: Clock,
}

impl LegacyTasks {
    /// Keeps the link on which a task was made.
    pub(crate) fn hold(self: &Arc<Self>, key: HeldTaskKey, reached: ReachedLink) {
        self.sweeper.get_or_init(|| self.sweeps());
        let (mut held, used) = (self.held.lock(), self.clock.steady());
        // What is only replaced needs no room of another's.
        let mut old: Vec<_> = held.remove(&key).into_iter().collect();
        let bounds = [MAX_HELD_PER_CALLER, MAX_HELD_PER_AGENT, MAX_HELD];
        for (breadth, most) in bounds.into_iter().enumerate() {
            let among = held.iter().filter(|(known, _)| match breadth {
                0 => known.whose == key.whose,
                1 => known.whose.agent == key.whose.agent,
                _ => true,
            });
            if among.clone().count() < most {
                continue;
            }
            let oldest = among.min_by_key(|(_, task)| task.used);
            let oldest = oldest.map(|(known, _)| known.clone());
            old.extend(oldest.and_then(|known| held.remove(&known)));
        }
        let task = HeldTask {
            reached,
            open: OpenResultPlace::default(),
            used,
        };
        held.insert(key, task);
        drop(held);
        old.into_iter().for_each(HeldTask::let_go);
    }

    fn sweeps(self: &Arc<Self>) -> AbortOnDropHandle<()> {
        let all = Arc::downgrade(self);
        AbortOnDropHandle::new(tasks::spawn("held tasks", async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                let Some(all) = all.upgrade() else { return };
                all.sweep();
            }
        }))
    }

    /// Lets go of those that nobody has asked after for long, and of those whose link is over.
    fn sweep(&self) {
        let now = self.clock.steady();
        let is_over = |task: &HeldTask| {
            now.saturating_sub(task.used) >= HELD_TIMEOUT || task.reached.is_over()
        };
        let old: Vec<_> = {
            let mut held = self.held.lock();
            held.extract_if(|_, task| is_over(task)).collect()
        };
        for (_, task) in old {
            task.let_go();
        }
    }

    /// The link on which the task was made, if it is kept.
    pub(crate) fn link(&self, key: &HeldTaskKey) -> Option<ReachedLink> {
        let (mut held, used) = (self.held.lock(), self.clock.steady());
        let task = held.get_mut(key)?;
        task.used = used;
        Some(task.reached.clone())
    }

    /// Where the request for its result is that is open, if the task is held.
    pub(crate) fn open(&self, key: &HeldTaskKey) -> Option<OpenResultPlace> {
        Some(self.held.lock().get(key)?.open.clone())
    }

    /// The task has ended.
    pub(crate) fn end(&self, key: &HeldTaskKey) {
        let ended = self.held.lock().remove(key);
        ended.into_iter().for_each(HeldTask::let_go);
    }

    /// Lets all go: toolgate ends.
    pub(crate) fn close(&self) {
        let all: Vec<_> = self.held.lock().drain().map(|(_, task)| task).collect();
        all.into_iter().for_each(HeldTask::let_go);
    }
}

impl HeldTask {
    /// Says to the server that nobody answers what it asks.
    fn let_go(self) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        if let Ok(mut open) = self.open.clone().try_lock_owned() {
            open.take().into_iter().for_each(OpenResult::let_go);
            return;
        }
        tasks::spawn("open result of a task", async move {
            let open = self.open.lock().await.take();
            open.into_iter().for_each(OpenResult::let_go);
        });
    }
}

impl OpenResult {
    /// Nobody listens there any more: what was asked and has no answer, or was not even read, is
    /// refused.
    pub(crate) fn let_go(mut self) {
        let mut questions: Vec<_> = self
            .questions
            .drain(..)
            .map(|asked| asked.question)
            .collect();
        questions.extend(self.exchange.unread());
        if let Some(asides) = &mut self.asides {
            questions.extend(asides.unread());
        }
        if !questions.is_empty() && tokio::runtime::Handle::try_current().is_ok() {
            let refused = refused(self.reached.link.clone(), questions);
            tasks::spawn("questions of a task", refused);
        }
    }
}

/// Tells a server of each of its questions that it gets no answer.
pub(crate) async fn refused(link: Arc<Link>, questions: Vec<Message>) {
    for question in questions {
        let words = "the task has ended, or its agent did not come back with an answer";
        let refused = Message::error(question.id, METHOD_NOT_FOUND, words, None);
        tell(&link, refused).await;
    }
}
