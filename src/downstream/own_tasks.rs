//! What an agent of 2026-07-28 asks of a task of toolgate's own: a held call of it, or one that takes long
//! (protocol §6.4).

use super::Door;
use super::route::{Arrived, CallHeaders, LISTEN_METHOD};
use crate::gate::call::{Call, TaskTerms};
use crate::gate::own_tasks::{KeptRequest, OwnTaskId, TakenAnswers, TaskLook, TaskOf};
use crate::mcp::bridge::{knows_tasks, without_tasks};
use crate::mcp::error_codes::{INTERNAL_ERROR, INVALID_PARAMS};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::ids::unguessable;
use crate::outlet::way_back;
use crate::relay::task_feed::MAX_HEARD_TASKS;
use crate::relay::tasks::undeclared;
use crate::telemetry::tasks;
use serde_json::json;
use std::sync::Arc;

/// Said of one that is not known any more, or whose tool is not open to its caller any more.
const NO_SUCH_TASK: &str = "there is no such task, or not any more";
/// Why answers go nowhere.
const NOTHING_ASKED: &str = "its agent is asked nothing; ask how the task stands (tasks/get)";
/// Why answers are not taken.
const TOO_MUCH: &str = "the answers are more than 4 MiB; answer in less";
const NO_ANSWERS: &str =
    "`inputResponses` is an object that has the name of each question with its answer, an object";
/// Said where the store cannot be read.
const UNREADABLE: &str = "toolgate cannot look for the task now; ask again later";

impl Door {
    /// The task of toolgate's own that the request asks about, if it does.
    pub(super) fn own_task(&self, arrived: &Arrived) -> Option<OwnTaskId> {
        let is_asked =
            arrived.revision.era() == Era::Modern && arrived.message.method.starts_with("tasks/");
        let params = arrived.message.body.as_ref().filter(|_| is_asked)?;
        self.own_task_named(arrived, &params.get("taskId")?)
    }

    /// The task of toolgate's own with this id, if it is the agent's, and its tool is here.
    fn own_task_named(&self, arrived: &Arrived, id: &Text) -> Option<OwnTaskId> {
        let id = self.gate.own_task_id(&arrived.known.caller, id)?;
        arrived.scope.holds_tool(&id.tool).then_some(id)
    }

    /// Goes on with the tasks that a subscription names, as where its agent asks after one: nobody sends the
    /// call of a task of before a restart, and nothing would ever be told of it.
    pub(super) async fn resume_heard(&self, arrived: &Arrived) {
        let is_heard = arrived.revision.era() == Era::Modern && self.passes(LISTEN_METHOD);
        let params = arrived.message.body.as_ref().filter(|_| is_heard);
        let ids = params.and_then(|params| params.get("notifications")?.get("taskIds")?.elements());
        let ids = ids.unwrap_or_default();
        let own = ids.iter().filter_map(|id| self.own_task_named(arrived, id));
        let (caller, policy) = (&arrived.known.caller, &arrived.known.policy);
        let own = own.filter(|id| policy.allowlist.admit(caller, &id.tool).is_ok());
        for id in own.take(MAX_HEARD_TASKS) {
            if let Ok(TaskLook::Unsent(kept)) = self.gate.look_at_task(&id).await {
                self.resume(arrived.clone(), &id, kept);
            }
        }
    }

    /// The answer to it.
    pub(super) async fn of_own_task(&self, arrived: Arrived, id: OwnTaskId) -> Message {
        let request = arrived.message.id.clone();
        let meta = arrived
            .message
            .body
            .as_ref()
            .and_then(|params| params.get("_meta"));
        let answer = if meta.as_ref().is_some_and(knows_tasks) {
            Box::pin(self.told_of_task(arrived, &id)).await
        } else {
            undeclared()
        };
        Message {
            id: request,
            ..answer
        }
    }

    async fn told_of_task(&self, arrived: Arrived, id: &OwnTaskId) -> Message {
        let refuse = |code, words: &str| Message::error(None, code, words, None);
        let caller = arrived.known.caller.clone();
        match arrived.message.method.as_str() {
            "tasks/cancel" => {
                self.gate.cancel_task(id, &caller).await;
                return acknowledged();
            }
            "tasks/get" | "tasks/update" => {}
            _ => return refuse(INVALID_PARAMS, NOTHING_ASKED),
        }
        let policy = &arrived.known.policy;
        if policy.allowlist.admit(&caller, &id.tool).is_err() {
            return refuse(INVALID_PARAMS, NO_SUCH_TASK);
        }
        if arrived.message.method == "tasks/update" {
            return self.answers_task(&arrived.message, id);
        }
        match self.gate.look_at_task(id).await {
            Ok(TaskLook::Told(told)) => return told,
            Ok(TaskLook::Unsent(kept)) => self.resume(arrived, id, kept),
            Ok(TaskLook::Unknown) => return refuse(INVALID_PARAMS, NO_SUCH_TASK),
            Err(_) => return refuse(INTERNAL_ERROR, UNREADABLE),
        }
        match self.gate.look_at_task(id).await {
            Ok(TaskLook::Told(told)) => told,
            Ok(TaskLook::Unsent(_) | TaskLook::Unknown) | Err(_) => {
                refuse(INTERNAL_ERROR, UNREADABLE)
            }
        }
    }

    /// Takes the agent's answers to what the tool server of its task asks.
    fn answers_task(&self, update: &Message, id: &OwnTaskId) -> Message {
        let params = update.body.as_ref();
        let answers = params.and_then(|params| params.get("inputResponses"));
        let answers = answers.unwrap_or_else(|| Object::new().text());
        match self.gate.own_tasks.answer(id, &answers) {
            TakenAnswers::Taken => acknowledged(),
            TakenAnswers::NoAnswers => Message::error(None, INVALID_PARAMS, NO_ANSWERS, None),
            TakenAnswers::TooMuch => Message::error(None, INVALID_PARAMS, TOO_MUCH, None),
            TakenAnswers::NothingAsked => Message::error(None, INVALID_PARAMS, NOTHING_ASKED, None),
        }
    }

    /// Goes on with a task of before a restart: its call is sent again in the place of its agent, who
    /// has just said by its request who it is.
    fn resume(&self, arrived: Arrived, id: &OwnTaskId, kept: KeptRequest) {
        let Some(call) = self.kept_call(arrived, id, kept) else {
            return;
        };
        if let Some(work) = self.gate.resume_task(id, call) {
            tasks::spawn("held task", self.running.track_future(work));
        }
    }

    fn kept_call(&self, arrived: Arrived, id: &OwnTaskId, kept: KeptRequest) -> Option<Call> {
        let (outlet, _) = way_back();
        let own = Text::string(&unguessable());
        let waiting = arrived.links.wait(&own).ok()?;
        let name = arrived.scope.name_of(&id.tool);
        let params = enveloped(&kept.params, name, &arrived.message)?;
        let message = Message {
            id: Some(own),
            ..Message::request(0, "tools/call", Some(params))
        };
        let heads = CallHeaders::kept(kept.key, kept.session);
        let again = Arrived {
            message,
            heads,
            ..arrived
        };
        let (_, mut call) = self.call(again, outlet, waiting).ok()?;
        let origin = Arc::get_mut(&mut call.origin)?;
        let TaskOf::Hold { hold, .. } = id.of else {
            return None;
        };
        origin.task = TaskTerms::Of(hold);
        Some(call)
    }
}

fn acknowledged() -> Message {
    let result = Text::of(&json!({ "resultType": "complete" }));
    Message::response(None, result, false)
}

/// The parameters that were kept, with the name that the tool has here and what the agent says of itself in this request.
fn enveloped(kept: &Text, name: &str, request: &Message) -> Option<Text> {
    let said = request.body.as_ref()?.get("_meta")?.object()?;
    let mut meta = kept
        .get("_meta")
        .as_ref()
        .and_then(Text::object)
        .unwrap_or_default();
    let mine = |name: &str| name.starts_with("io.modelcontextprotocol/");
    for (name, value) in without_tasks(said).iter().filter(|(name, _)| mine(name)) {
        meta.set(name, value.clone());
    }
    let mut params: Object = kept.object()?;
    params.set("name", Text::string(name));
    params.set("_meta", meta.text());
    Some(params.text())
}
