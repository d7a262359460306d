//! How much of what servers ask is kept while it waits for agents.

use super::{ParkedTask, ParkedTasks, TaskStanding};
use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::message::Message;
use crate::model::ids::AgentId;
use crate::upstream::keeper::Unheard;
use crate::upstream::legacy_tasks::TaskQuestion;
use crate::upstream::questions::bytes_of;
use std::collections::HashMap;

/// Questions of one task that wait for answers at once.
const MAX_QUESTIONS: usize = 64;
/// Bytes of questions that wait: of one task as many as one message of a server may have, of one
/// agent, and of all.
pub(super) const MAX_QUESTION_BYTES_PER_TASK: usize = 4 << 20;
const MAX_QUESTION_BYTES_PER_AGENT: usize = 16 << 20;
const MAX_QUESTION_BYTES: usize = 64 << 20;

/// Said to a server that asks more than may be asked.
const TOO_MANY_OPEN: Unheard = Unheard {
    code: INTERNAL_ERROR,
    words: "too many questions wait for the agent's answers: 64 of one call are the most; ask again once some are answered",
};
/// Said to one that asks more than can be kept.
const TOO_LARGE: Unheard = Unheard {
    code: INTERNAL_ERROR,
    words: "the questions that wait for answers take too much room: 4 MiB for one call, 16 MiB for one agent, 64 MiB for all; \
            ask again once some are answered",
};

impl ParkedTasks {
    /// Keeps one more question of a task, or says what its server reads instead.
    pub(super) fn keep(&self, id: &str, question: &Message) -> Result<(), Unheard> {
        let tasks = self.tasks.lock();
        let task = tasks.get(id).ok_or(TOO_MANY_OPEN)?;
        let bytes = bytes_of(question);
        let has_room = task.question_bytes() + bytes <= MAX_QUESTION_BYTES_PER_TASK
            && takes(&tasks, &task.holder.whose.agent, bytes);
        match &mut *task.standing.lock() {
            TaskStanding::Open(asked) if asked.len() < MAX_QUESTIONS && has_room => {
                asked.push(TaskQuestion::new(question.clone()));
                Ok(())
            }
            TaskStanding::Open(asked) if asked.len() < MAX_QUESTIONS => Err(TOO_LARGE),
            TaskStanding::Open(_) | TaskStanding::Ended(_) => Err(TOO_MANY_OPEN),
        }
    }
}

impl ParkedTask {
    fn question_bytes(&self) -> usize {
        match &*self.standing.lock() {
            TaskStanding::Open(asked) => asked.iter().map(|asked| bytes_of(&asked.question)).sum(),
            TaskStanding::Ended(_) => 0,
        }
    }
}

/// Whether a call that asks this may become a task.
pub(super) fn takes_all(
    tasks: &HashMap<String, ParkedTask>,
    agent: &AgentId,
    questions: &[Message],
) -> bool {
    let bytes = questions.iter().map(bytes_of).sum();
    bytes <= MAX_QUESTION_BYTES_PER_TASK && takes(tasks, agent, bytes)
}

/// Whether so many bytes more of questions to this agent can be kept.
fn takes(tasks: &HashMap<String, ParkedTask>, agent: &AgentId, bytes: usize) -> bool {
    let (mut own, mut all) = (bytes, bytes);
    for task in tasks.values() {
        let kept = task.question_bytes();
        all += kept;
        if task.holder.whose.agent == *agent {
            own += kept;
        }
    }
    own <= MAX_QUESTION_BYTES_PER_AGENT && all <= MAX_QUESTION_BYTES
}
