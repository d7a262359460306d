//! What agents ask of tasks: each of its own alone (threat-model §3C C4), and what they read of it
//! as its contract makes it.

use super::forward::became;
use super::{Relay, RelayFailure, RelayRequest};
use crate::mcp::error_codes::{INTERNAL_ERROR, INVALID_PARAMS, MISSING_CAPABILITY};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::ids::ServerName;
use crate::side::{MessageOutcome, Passing};
use crate::telemetry::tasks::heavy;
use crate::upstream::keeper::asks_too_much;
use crate::upstream::owners::{OwnedTask, Shaping, shaped};
use crate::upstream::parked_tasks::ParkedTaskId;
use serde_json::json;
use std::collections::HashSet;

const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// What changes a task: each leaves an entry in the ledger.
const TASK_CHANGING_METHODS: [&str; 2] = ["tasks/update", "tasks/cancel"];
/// Members of `tasks/update` that bring a tool nothing.
const BARE_UPDATE_MEMBERS: [&str; 2] = ["taskId", "_meta"];
/// Entries of one list that are looked at; more are left out.
const MAX_LIST_ENTRIES: usize = 10_000;
/// Entries that are looked at before others get their turn.
const ENTRIES_PER_TURN: usize = 128;
/// Why answers to a task's questions are refused.
const HELD_TASK_MESSAGE: &str = "calls of this tool are held until people decide on them, and what is brought to its task later cannot be: nothing \
                    was sent on; cancel the task, and call again with all that the tool needs";

impl Relay {
    /// Any request about one task.
    pub(super) async fn of_task(&self, request: &RelayRequest) -> Result<Message, RelayFailure> {
        let message = &request.message;
        if !declared_tasks(request) {
            return Ok(undeclared());
        }
        let id = message
            .body
            .as_ref()
            .and_then(|params| params.get("taskId"));
        let id = id.ok_or_else(no_such_task)?;
        let Some(task) = self.own_task(request, &id) else {
            let closed = Box::pin(self.closed_task(request, &id)).await;
            return closed.ok_or_else(no_such_task);
        };
        let passing = passing(request, &task.server);
        let changes = TASK_CHANGING_METHODS.contains(&message.method.as_str());
        let judged = changes.then(|| {
            self.sides
                .of_task(passing, &task.tool, self.is_unheld(request, &task))
        });
        if let Some(judged) = judged.as_ref().filter(|judged| judged.is_refused()) {
            self.sides.tell(judged, MessageOutcome::Ended);
            return Err(RelayFailure::Answer(
                INVALID_PARAMS,
                HELD_TASK_MESSAGE.to_owned(),
            ));
        }
        let answer = self
            .forward_task(request, &task.server, message.clone(), Some(&task))
            .await;
        if let Some(judged) = &judged {
            self.sides.tell(judged, became(&answer));
        }
        let ended = message.method == "tasks/result";
        let shape = move |shaping: &dyn Shaping, said| {
            if ended {
                shaping.result(said)
            } else {
                shaping.standing(said)
            }
        };
        Ok(shaped(&*task.shaping, shape, answer?).await)
    }

    /// The task of toolgate's own that an agent of 2026-07-28 names, if the id was given to it.
    fn parked_task(&self, request: &RelayRequest, id: &Text) -> Option<ParkedTaskId> {
        let all = self.servers.parked_tasks();
        let servers = self.servers.all().iter();
        let mut servers = servers.map(|server| &server.settings.name);
        servers.find_map(|server| {
            let is_here = request.era == Era::Modern && request.scope.holds(server);
            is_here.then(|| all.id_of(&request.caller, server, id))?
        })
    }

    /// What is said of a task of toolgate's own that was made before a restart, or so long ago that
    /// nobody knows whose it was but by its id; or whose agent may not call its tool any more, and may
    /// still cancel it (protocol §4.3).
    async fn closed_task(&self, request: &RelayRequest, id: &Text) -> Option<Message> {
        let known = self.parked_task(request, id)?;
        let all = self.servers.parked_tasks();
        match request.message.method.as_str() {
            "tasks/get" => Some(all.withheld(&known)),
            "tasks/cancel" => {
                // Of one that is not known any more there is nothing left to be cancelled.
                if let Some(task) = all.owned(&known) {
                    let passing = passing(request, &task.server);
                    let judged = self.sides.of_task(passing, &task.tool, false);
                    all.cancel(&known).await;
                    self.sides.tell(&judged, MessageOutcome::Ended);
                }
                let result = Text::of(&json!({ "resultType": "complete" }));
                Some(Message::response(None, result, false))
            }
            _ => None,
        }
    }

    /// Does it bring something to a tool whose calls people decide on, past them? By the contract
    /// as it was when the tool was called, or as it is.
    fn is_unheld(&self, request: &RelayRequest, task: &OwnedTask) -> bool {
        let brings = |name: &str| !BARE_UPDATE_MEMBERS.contains(&name);
        let mut members = request
            .message
            .body
            .as_ref()
            .and_then(Text::members)
            .into_iter()
            .flatten();
        let is_held = || {
            let policy = self.policy.current();
            let now = policy
                .allowlist
                .admit(&request.caller, &task.tool)
                .map(|admitted| admitted.rules().clone());
            // Which variant the call was is known only of the contract as it was.
            let is_now =
                now.is_ok_and(|rules| rules.variants.is_none() && rules.approval.is_some());
            task.shaping.is_held() || is_now
        };
        request.message.method == "tasks/update"
            && members.any(|(name, _)| brings(&name))
            && is_held()
    }

    /// A task belongs to the caller whose call made it (threat-model §3C C4), for as long as it may
    /// call the tool.
    pub(super) fn own_task(&self, request: &RelayRequest, id: &Text) -> Option<OwnedTask> {
        let may = |owned: &OwnedTask| self.may_ask(request, owned);
        let known = request.links.tasks.owned(&request.caller, id, may);
        // Of a task of toolgate's own that goes on, whatever else was forgotten.
        known.or_else(|| {
            let parked = self.parked_task(request, id)?;
            self.servers.parked_tasks().owned(&parked).filter(may)
        })
    }

    pub(super) fn may_ask(&self, request: &RelayRequest, owned: &OwnedTask) -> bool {
        let admitted = || {
            self.policy
                .current()
                .allowlist
                .admit(&request.caller, &owned.tool)
                .is_ok()
        };
        request.scope.holds(&owned.server) && admitted()
    }

    /// Of a list of tasks, those of the caller, each once. All of them together cost what one
    /// message may.
    pub(super) async fn own_tasks(
        &self,
        request: &RelayRequest,
        answer: Message,
    ) -> Result<Message, RelayFailure> {
        let result = answer
            .body
            .as_ref()
            .filter(|_| !answer.is_error)
            .and_then(Text::object);
        let Some(mut result) = result else {
            return Ok(answer);
        };
        let Some(tasks) = result.get("tasks").and_then(Text::elements) else {
            return Ok(answer);
        };
        let (mut own, mut seen) = (Vec::new(), HashSet::new());
        for (index, task) in tasks.into_iter().enumerate().take(MAX_LIST_ENTRIES) {
            if index % ENTRIES_PER_TURN == ENTRIES_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            let id = task.get("taskId").filter(|id| seen.insert(id.bytes()));
            let Some(owned) = id.and_then(|id| self.own_task(request, &id)) else {
                continue;
            };
            let said = Message::response(None, task, false);
            if asks_too_much(
                &*self.sides,
                &request.caller,
                &owned.server,
                request.revision,
                &said,
            )
            .is_none()
            {
                own.push((owned, said));
            }
        }
        let all = |own: Vec<(OwnedTask, Message)>| {
            Text::array(
                own.into_iter()
                    .filter_map(|(owned, said)| owned.shaping.standing(said).body),
            )
        };
        let there = || {
            let own = own.clone();
            move || all(own)
        };
        let too_much = |_| {
            let words = "the list takes too much to check and to redact; ask for each task by itself (tasks/get)";
            RelayFailure::Answer(INTERNAL_ERROR, words.to_owned())
        };
        let listed = heavy::done(&request.caller.agent, || all(own.clone()), there)
            .await
            .map_err(too_much)?;
        result.set("tasks", listed);
        Ok(Message {
            body: Some(result.text()),
            ..answer
        })
    }
}

fn passing<'a>(request: &'a RelayRequest, server: &'a ServerName) -> Passing<'a> {
    Passing {
        caller: &request.caller,
        server,
        revision: request.revision,
        session: request.session.as_deref(),
        message: &request.message,
    }
}

/// The tasks extension speaks only to agents that declared it on the request (protocol §6.1).
fn declared_tasks(request: &RelayRequest) -> bool {
    let path = [
        "io.modelcontextprotocol/clientCapabilities",
        "extensions",
        TASKS_EXTENSION,
    ];
    let meta = request
        .message
        .body
        .as_ref()
        .and_then(|params| params.get("_meta"));
    request.era == Era::Legacy || meta.and_then(|meta| meta.at(&path)).is_some()
}

/// The answer to who asks about a task and has not declared on the request that it knows any.
pub(crate) fn undeclared() -> Message {
    let data =
        Text::of(&json!({ "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } }));
    let words = "declare the tasks extension in the request's capabilities";
    Message::error(None, MISSING_CAPABILITY, words, Some(data))
}

fn no_such_task() -> RelayFailure {
    RelayFailure::Answer(
        INVALID_PARAMS,
        "there is no such task, or two servers have one of this id: ask at the address of one of them".to_owned(),
    )
}
