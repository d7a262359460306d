//! Questions of a legacy server in the middle of a call, for an agent of 2026-07-28 that knows tasks:
//! the call waits as a task of toolgate's own, and what the agent asks of it is answered here
//! (protocol §4.3).

use super::leg::Leg;
use super::{ExchangeContext, ExchangeOutcome, Outbound};
use crate::mcp::bridge::knows_tasks;
use crate::mcp::error_codes::{INTERNAL_ERROR, INVALID_PARAMS};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::telemetry::tasks;
use crate::upstream::keeper::Unheard;
use crate::upstream::links::SentRequest;
use crate::upstream::parked_tasks::{
    MAX_TASK_TIME, NewTask, ParkedTaskId, TaskQuestioner, TaskRun,
};
use crate::upstream::questions::refuse;
use serde_json::json;

/// Said to a server whose links all wait for agents, but for those that calls need.
const TOO_MANY_WAIT: Unheard = Unheard {
    code: INTERNAL_ERROR,
    words: "as many conversations with this server wait for their agents as may: the others are for calls; ask again later",
};
/// Why answers go nowhere.
const NOBODY_WAITS: &str = "nothing of this task waits for answers; ask how it stands (tasks/get)";
/// Why answers have to come again.
const NOT_TAKEN: &str = "the tool server did not take all of the answers; what it asks still is shown by tasks/get, and can be answered again";

impl ExchangeContext<'_> {
    /// The call waits for the agent's answers: as a task where the agent knows tasks, else parked.
    pub(super) async fn put_aside(
        &self,
        outbound: &Outbound<'_>,
        mut leg: Leg,
        questions: Vec<Message>,
    ) -> Result<Message, Leg> {
        if !self.links.servers().callers().pin(&mut leg.request.reached) {
            let link = leg.link().clone();
            // A server that takes no refusal keeps the call from nothing.
            tasks::spawn("refusal of questions", async move {
                for question in questions {
                    refuse(&link, &question, TOO_MANY_WAIT).await;
                }
            });
            return Err(leg);
        }
        if !self.becomes_task(outbound, &leg) {
            return self.parked(outbound.server, leg, questions).await;
        }
        let servers = self.links.servers();
        let new = NewTask {
            caller: self.caller,
            server: outbound.server,
            changes: outbound.changes,
            questions,
        };
        let (room, handle) = match servers.parked_tasks().begin(new) {
            Ok(begun) => begun,
            Err(questions) => return self.parked(outbound.server, leg, questions).await,
        };
        let known = servers.get(outbound.server.as_str());
        let ping_after = known.map_or(MAX_TASK_TIME, |server| server.settings.ping_after);
        let SentRequest { reached, exchange } = *leg.request;
        let run = TaskRun {
            questioner: TaskQuestioner {
                caller: self.caller.clone(),
                server: outbound.server.clone(),
                keeper: servers.keeper().clone(),
                tolerance: self.tolerance,
            },
            reached,
            exchange,
            asides: leg.own.and_then(|own| own.asides),
            changes: outbound.changes,
            ping_after,
        };
        run.start(room);
        Ok(handle)
    }

    /// Whether the agent has declared with this very call that it knows tasks. Answers to a call that
    /// people decide on are a round of it, which they see; those to a task they would not. An agent
    /// that has read already that nobody knows reads of no task.
    fn becomes_task(&self, outbound: &Outbound<'_>, leg: &Leg) -> bool {
        let message = outbound.message;
        let meta = message.body.as_ref().and_then(|params| params.get("_meta"));
        let is_first = leg.own.as_ref().is_some_and(|own| !own.is_taken_up);
        message.method == "tools/call"
            && is_first
            // What ends a followed task is more than an answer: it is parked, and followed on.
            && leg.followed().is_none()
            && !self.waiting.is_answered()
            && meta.as_ref().is_some_and(knows_tasks)
            && self.shaping.is_some_and(|shaping| !shaping.is_held())
    }

    /// What the agent asks of a task of toolgate's own, if it asks of one.
    pub(super) fn parked_task(&self, outbound: &Outbound<'_>) -> Option<ParkedTaskId> {
        let is_asked = self.links.is_modern() && outbound.message.method.starts_with("tasks/");
        let params = outbound.message.body.as_ref().filter(|_| is_asked)?;
        let all = self.links.servers().parked_tasks();
        all.id_of(self.caller, outbound.server, &params.get("taskId")?)
    }

    /// The answer to it.
    pub(super) async fn of_parked_task(
        &self,
        outbound: &Outbound<'_>,
        id: ParkedTaskId,
    ) -> ExchangeOutcome {
        let all = self.links.servers().parked_tasks();
        let params = outbound.message.body.as_ref();
        let answer = match outbound.message.method.as_str() {
            "tasks/get" => all.standing(&id),
            "tasks/cancel" => {
                all.cancel(&id).await;
                acknowledged()
            }
            _ => {
                let answers = params.and_then(|params| params.get("inputResponses"));
                let answers = answers.unwrap_or_else(|| Object::new().text());
                match all.answer(&id, answers).await {
                    Some(true) => acknowledged(),
                    Some(false) => Message::error(None, INTERNAL_ERROR, NOT_TAKEN, None),
                    None => Message::error(None, INVALID_PARAMS, NOBODY_WAITS, None),
                }
            }
        };
        ExchangeOutcome::Answer(answer)
    }
}

fn acknowledged() -> Message {
    let result = Text::of(&json!({ "resultType": "complete" }));
    Message::response(None, result, false)
}
