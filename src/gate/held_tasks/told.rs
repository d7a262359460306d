//! What an agent is told of a held call that is its task.

use super::{HeldEnd, HeldTaskId};
use crate::mcp::bridge::{TaskStatus, with_ending};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::store::operator::time;
use crate::store::state::Millis;
use crate::store::state::hold::{Hold, HoldStatus, hold_status};
use serde_json::json;

/// How often an agent should ask how one stands.
const POLL_INTERVAL_MS: u64 = 5_000;
/// Said of a call that its agent has cancelled in time.
const CANCELLED: &str = "cancelled before it was sent: the tool did not run";
/// Said of a call whose tool asks something first, which a task of toolgate's does not carry.
const ASKS_FIRST: &str = "the tool server asks something before it goes on. Send the same call again, with the same arguments and key: its answer says what.";
/// Said of a call of which the store knows that nobody knows.
const UNKNOWN: &str = "outcome_unknown: the call was sent, and nobody knows what became of it. Don't send it again; find out what the tool has done, or \
                       ask an operator.";
/// Said of one that was allowed and was not sent.
const NOT_SENT: &str = "the call was allowed, and was not sent: the tool did not run. Send the same call again: a person is asked once more.";

impl HeldTaskId {
    /// The result of the call that has become this task.
    pub(in crate::gate) fn handle(&self, hold: &Hold, now: Millis) -> Text {
        let mut told = self.going_on(Some(hold), now);
        told.set("resultType", Text::string("task"));
        told.text()
    }

    /// While its call waits or runs.
    pub(super) fn going_on(&self, hold: Option<&Hold>, now: Millis) -> Object {
        let words = match hold.map(|hold| (hold, hold_status(Some(hold), now))) {
            Some((hold, HoldStatus::Pending)) => format!(
                "held: needs a person with role {}, until {}",
                hold.roles.join(" or "),
                time(hold.approve_by)
            ),
            _ => "decided: the call goes on".to_owned(),
        };
        let mut told = self.told(TaskStatus::Working, now);
        told.set("statusMessage", Text::string(&words));
        told
    }

    /// Once its call has ended.
    pub(super) fn ended(&self, end: &HeldEnd, now: Millis) -> Object {
        match end {
            HeldEnd::Cancelled => {
                let mut told = self.told(TaskStatus::Cancelled, now);
                told.set("statusMessage", Text::string(CANCELLED));
                told
            }
            HeldEnd::Answered(answer) if asks(answer) => self.completed_with(ASKS_FIRST, now),
            HeldEnd::Answered(answer) => {
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

    /// Its call was allowed and did not run.
    pub(super) fn not_sent(&self, now: Millis) -> Object {
        self.completed_with(NOT_SENT, now)
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
        told.set("createdAt", Text::string(&time(self.asked)));
        told.set("lastUpdatedAt", Text::string(&time(now)));
        told.set("ttlMs", Text::of(&json!(self.life)));
        told.set("pollIntervalMs", Text::of(&json!(POLL_INTERVAL_MS)));
        told
    }
}

/// Whether an answer is a question.
fn asks(answer: &Message) -> bool {
    let body = answer.body.as_ref().filter(|_| !answer.is_error);
    let kind = body.and_then(|body| body.get("resultType"));
    kind.as_ref().and_then(Text::as_str).as_deref() == Some("input_required")
}
