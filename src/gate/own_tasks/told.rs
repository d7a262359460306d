//! What an agent is told of a call of its own that is its task.

use super::questions::ServerQuestions;
use super::{OwnTaskEnd, OwnTaskId, TaskOf};
use crate::mcp::bridge::{TaskStatus, with_ending};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::store::operator::time;
use crate::store::state::Millis;
use crate::store::state::hold::{Hold, HoldStatus, hold_status};
use serde_json::json;

/// How often an agent should ask how one stands.
const POLL_INTERVAL_MS: u64 = 5_000;
/// Said of a held call that its agent has cancelled in time.
pub(super) const CANCELLED: &str = "cancelled before it was sent: the tool did not run";
/// Said of a call whose tool asks something first, which a task of toolgate's does not carry.
const ASKS_FIRST: &str = "the tool server asks something before it goes on. Send the same call again, with the same arguments and key: its answer says what.";
/// Said of a call of which the store knows that nobody knows.
const UNKNOWN: &str = "outcome_unknown: the call was sent, and nobody knows what became of it. Don't send it again; find out what the tool has done, or \
                       ask an operator.";
/// Said of a call that takes long.
const GOES_ON: &str = "the call takes long, and goes on";
/// Said of a task that waits for its agent.
const WAITS: &str = "the tool server asks something before it goes on";
/// Said of a call of before a restart, of which nothing is kept: one that may change something, and one
/// that does not.
const FORGOTTEN_WRITE: &str = "outcome_unknown: toolgate was started anew while the call went on, or what became of it is not kept any more. \
                               The tool may have run. Look for what it has done before you send the call again.";
const FORGOTTEN_READ: &str = "toolgate was started anew while the call went on, or what became of it is not kept any more. The tool changes \
                              nothing: send the same call again.";
/// Said of one that was allowed and was not sent.
const NOT_SENT: &str = "the call was allowed, and was not sent: the tool did not run. Send the same call again: a person is asked once more.";

/// Said of a long one that was not sent.
const LONG_NOT_SENT: &str =
    "the call was not sent: the tool did not run. Send the same call again.";

/// Said of one for which a person with one of these roles is asked.
pub(super) fn waits_for_a_person(roles: &[String], until: Millis) -> String {
    let roles = roles.join(" or ");
    format!(
        "held: needs a person with role {roles}, until {}",
        time(until)
    )
}

impl OwnTaskId {
    /// The result of the call that has become this task.
    pub(in crate::gate) fn handle(&self, hold: Option<&Hold>, now: Millis) -> Text {
        let mut told = self.going_on(hold, now);
        told.set("resultType", Text::string("task"));
        told.text()
    }

    /// While its call waits or runs.
    pub(super) fn going_on(&self, hold: Option<&Hold>, now: Millis) -> Object {
        let words = match hold.map(|hold| (hold, hold_status(Some(hold), now))) {
            Some((hold, HoldStatus::Pending)) => waits_for_a_person(&hold.roles, hold.approve_by),
            _ if matches!(self.of, TaskOf::Call { .. }) => GOES_ON.to_owned(),
            _ => "decided: the call goes on".to_owned(),
        };
        self.waits(&words, now)
    }

    /// While a person is asked about its next round, as `words` say.
    pub(super) fn waits(&self, words: &str, now: Millis) -> Object {
        let mut told = self.told(TaskStatus::Working, now);
        told.set("statusMessage", Text::string(words));
        told
    }

    /// While its tool server waits for answers.
    pub(super) fn asks(&self, requests: Text, now: Millis) -> Object {
        let mut told = self.told(TaskStatus::InputRequired, now);
        told.set("statusMessage", Text::string(WAITS));
        told.set("inputRequests", requests);
        told
    }

    /// Nothing is known of its call but what the id says.
    pub(super) fn forgotten(&self, changes: bool, now: Millis) -> Object {
        let words = if changes {
            FORGOTTEN_WRITE
        } else {
            FORGOTTEN_READ
        };
        self.completed_with(words, now)
    }

    /// Once its call has ended.
    pub(super) fn ended(&self, end: &OwnTaskEnd, now: Millis) -> Object {
        match end {
            OwnTaskEnd::Cancelled(words) => {
                let mut told = self.told(TaskStatus::Cancelled, now);
                told.set("statusMessage", Text::string(words));
                told
            }
            OwnTaskEnd::Answered(answer) if ServerQuestions::of(answer).is_some() => {
                self.completed_with(ASKS_FIRST, now)
            }
            OwnTaskEnd::Answered(answer) => {
                let mut told = self.told(TaskStatus::Completed, now);
                with_ending(&mut told, answer);
                told
            }
        }
    }

    /// Its call may have run, and nobody knows.
    pub(super) fn unknown(&self, now: Millis) -> Object {
        self.completed_with(UNKNOWN, now)
    }

    /// Its call did not run, though nothing refused it.
    pub(super) fn not_sent(&self, now: Millis) -> Object {
        let words = match self.of {
            TaskOf::Hold { .. } => NOT_SENT,
            TaskOf::Call { .. } => LONG_NOT_SENT,
        };
        self.completed_with(words, now)
    }

    /// The tool asks something first.
    pub(super) fn asks_first(&self, now: Millis) -> Object {
        self.completed_with(ASKS_FIRST, now)
    }

    fn completed_with(&self, words: &str, now: Millis) -> Object {
        let result = json!({
            "content": [{ "type": "text", "text": words }], "isError": true, "resultType": "complete",
        });
        let mut told = self.told(TaskStatus::Completed, now);
        with_ending(
            &mut told,
            &Message::response(None, Text::of(&result), false),
        );
        told
    }

    fn told(&self, status: TaskStatus, now: Millis) -> Object {
        let mut told = Object::new();
        told.set("taskId", Text::string(self.text()));
        told.set("status", Text::string(status.word()));
        told.set("createdAt", Text::string(&time(self.since)));
        told.set("lastUpdatedAt", Text::string(&time(now)));
        told.set("ttlMs", Text::of(&json!(self.life)));
        told.set("pollIntervalMs", Text::of(&json!(POLL_INTERVAL_MS)));
        told
    }
}
