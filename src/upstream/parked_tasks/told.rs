//! What an agent is told of a task of toolgate's own.

use super::{MAX_TASK_TIME, ParkedTaskId, TaskEnd, TaskSettlement, TaskStanding};
use crate::mcp::bridge::{TaskStatus, input_requests, with_ending};
use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::model::clock::Clock;
use crate::model::reply::Sent;
use serde_json::json;

/// How often an agent should ask how one stands.
const POLL_INTERVAL_MS: u64 = 1_000;
/// Said of a call that may have run.
const OUTCOME_UNKNOWN: &str = "outcome_unknown: the tool may have run, in part or to its end, and nobody knows what became of it. The call is not sent again; \
                               find out what the tool has done before you do it again.";
/// The same of one that changes nothing.
const GIVEN_UP: &str = "the call was given up; it changes nothing, so it may be made again.";

/// Said of a task whose agent may not call its tool any more.
const CLOSED: &str = "the tool of this task is not open to its caller any more: what it asks is not shown, and answers are not handed on; tasks/cancel ends it";
const CLOSED_END: &str = "the tool of this task is not open to its caller any more: the tool has answered, and its answer is not shown. Don't send the call \
                          again; ask an operator what it has done.";

/// The same of a call whose end could not be written down.
pub(super) const NOT_RECORDED: &str = "executed_but_not_recorded: the tool has answered, and its answer could not be recorded. Don't send the call again: look for \
                            what the tool has done, and report it to an operator.";

/// Said of an answer that two readers could read differently.
const WITHHELD: &str = "The tool server has answered this call, so it has run or tried to. Its answer is withheld: it is no JSON that everybody reads alike. \
                        Don't send the call again; look for what it has done.";

/// The answer that tells it.
pub(super) fn complete(mut told: Object) -> Message {
    told.set("resultType", Text::string("complete"));
    Message::response(None, told.text(), false)
}

impl ParkedTaskId {
    /// What is said of a task of which nothing is known but this: its call may have run.
    pub(crate) fn forgotten(&self) -> Message {
        complete(self.lost("toolgate keeps nothing of this task: it was started anew meanwhile, or the task ended long ago"))
    }

    /// What is told of it, whatever it does.
    pub(super) fn told(&self, status: TaskStatus) -> Object {
        let mut told = Object::new();
        told.set("taskId", Text::string(&self.text));
        told.set("status", Text::string(status.word()));
        told.set("createdAt", Text::string(&self.created));
        let now = Clock::default().wall().to_string();
        told.set("lastUpdatedAt", Text::string(&now));
        told.set("ttlMs", Text::of(&json!(MAX_TASK_TIME.as_millis())));
        told.set("pollIntervalMs", Text::of(&json!(POLL_INTERVAL_MS)));
        told
    }

    pub(super) fn standing(&self, standing: &TaskStanding) -> Object {
        match standing {
            TaskStanding::Open(asked) if asked.is_empty() => self.told(TaskStatus::Working),
            TaskStanding::Open(asked) => {
                let mut told = self.told(TaskStatus::InputRequired);
                let asked = asked.iter().map(|asked| (&*asked.key, &asked.question));
                told.set("inputRequests", input_requests(asked));
                told
            }
            TaskStanding::Ended(TaskEnd::Answered(answer)) => {
                let mut told = self.told(TaskStatus::Completed);
                with_ending(&mut told, answer);
                told
            }
            TaskStanding::Ended(TaskEnd::Cancelled) => {
                let mut told = self.told(TaskStatus::Cancelled);
                let words = if self.changes {
                    OUTCOME_UNKNOWN
                } else {
                    GIVEN_UP
                };
                told.set("statusMessage", Text::string(words));
                told
            }
            TaskStanding::Ended(TaskEnd::Lost(fault)) => {
                if fault.sent == Sent::Answered {
                    return self.failed(WITHHELD);
                }
                self.lost("the call no longer waits")
            }
        }
    }

    /// The same to an agent that may not call the tool any more.
    pub(super) fn withheld(&self, standing: &TaskStanding, settlement: TaskSettlement) -> Object {
        match (standing, settlement) {
            (TaskStanding::Open(_), _) => {
                let mut told = self.told(TaskStatus::Working);
                told.set("statusMessage", Text::string(CLOSED));
                told
            }
            // Told once it is durable.
            (TaskStanding::Ended(_), TaskSettlement::Pending) => self.told(TaskStatus::Working),
            (TaskStanding::Ended(TaskEnd::Answered(_)), TaskSettlement::Lost) => {
                self.failed(NOT_RECORDED)
            }
            (TaskStanding::Ended(TaskEnd::Answered(_)), TaskSettlement::Kept) => {
                self.failed(CLOSED_END)
            }
            (TaskStanding::Ended(TaskEnd::Cancelled | TaskEnd::Lost(_)), _) => {
                self.standing(standing)
            }
        }
    }

    fn lost(&self, why: &str) -> Object {
        let what = if self.changes {
            OUTCOME_UNKNOWN
        } else {
            GIVEN_UP
        };
        self.failed(&format!("{why}; {what}"))
    }

    pub(super) fn failed(&self, words: &str) -> Object {
        let mut told = self.told(TaskStatus::Failed);
        let error = Message::error(None, INTERNAL_ERROR, words, None);
        with_ending(&mut told, &error);
        told.set("statusMessage", Text::string(words));
        told
    }
}
