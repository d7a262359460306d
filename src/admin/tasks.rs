//! Tasks: what they have used, and operators who stop one or give it its budget back (003-09). For
//! operators with the role for it: who resets a task lets its agent go on.

use super::operator_request::OperatorRequest;
use super::operators::OperatorIdentity;
use super::{OperatorsDoor, json_answer, refusal, unfit};
use crate::model::verbs::OperatorVerb;
use crate::store::state::event::TaskAct;
use crate::store::tasks::{SteerRequest, TaskView, Unsteered, steer, task, tasks};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 16 << 10;

/// The answer to `GET /api/tasks`.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TaskList {
    /// Tasks, those first that did something last.
    pub tasks: Vec<TaskView>,
}

/// The answer to what was done to a task.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SteerReply {
    /// The task as it is now.
    pub task: TaskView,
    /// Who the ledger names.
    pub who: String,
}

/// The body of what is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskSteerRequest {
    /// The operator's reason.
    why: String,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/api/tasks", get(list))
        .route("/api/tasks/{task}", get(show))
        .route("/api/tasks/{task}/{act}", post(steered))
}

fn may_read(door: &OperatorsDoor, known: &OperatorIdentity) -> Result<(), Response> {
    let verbs = [OperatorVerb::Switch, OperatorVerb::Audit];
    door.operators.permit(known, &verbs, "list tasks")
}

async fn list(
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
    uri: Uri,
) -> Result<Response, Response> {
    may_read(&door, &known)?;
    let query = uri.query().unwrap_or_default().as_bytes();
    let mut agent = None;
    for (name, value) in url::form_urlencoded::parse(query) {
        if name != "agent" {
            return Err(unfit("only ?agent=NAME can be asked for"));
        }
        agent = Some(value.into_owned());
    }
    let tasks = tasks(&*door.switches.store, agent.as_deref())
        .await
        .map_err(|error| refused(&error.into()))?;
    Ok(json_answer(StatusCode::OK, &TaskList { tasks }))
}

async fn show(
    Path(id): Path<String>,
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
) -> Result<Response, Response> {
    may_read(&door, &known)?;
    let found = task(&*door.switches.store, &id).await;
    let found = found.map_err(|unsteered| refused(&unsteered))?;
    Ok(json_answer(StatusCode::OK, &found))
}

async fn steered(
    Path((id, act)): Path<(String, String)>,
    mut asked: OperatorRequest,
) -> Result<Response, Response> {
    let act = match act.as_str() {
        "stop" => TaskAct::Stop,
        "reset" => TaskAct::Reset,
        _ => {
            let hint = "POST /api/tasks/{task}/stop or /reset";
            return Err(refusal(StatusCode::NOT_FOUND, "there is no such act", hint));
        }
    };
    asked.permit(OperatorVerb::Switch)?;
    let hint = "send {\"why\": \"…\"}: it stands in the ledger for good";
    let TaskSteerRequest { why } = asked.written(BODY_BYTES_MAX, hint).await?;
    let OperatorRequest { door, known, .. } = asked;
    let who = known.name;
    let request = SteerRequest { id, act, who, why };
    made(&door, request).await
}

async fn made(door: &OperatorsDoor, request: SteerRequest) -> Result<Response, Response> {
    let who = request.who.clone();
    let task = steer(&*door.switches.store, request)
        .await
        .map_err(|unsteered| refused(&unsteered))?;
    Ok(json_answer(StatusCode::OK, &SteerReply { task, who }))
}

fn refused(unsteered: &Unsteered) -> Response {
    let (status, hint) = match unsteered {
        Unsteered::NoTask(_) => (
            StatusCode::NOT_FOUND,
            "GET /api/tasks lists those there are",
        ),
        Unsteered::Ambiguous(_) => (StatusCode::CONFLICT, "GET /api/tasks has the whole id"),
        Unsteered::Own => (StatusCode::FORBIDDEN, "ask another operator with the role"),
        Unsteered::Unfit(_) => (StatusCode::BAD_REQUEST, "correct the request"),
        Unsteered::Store(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "/readyz and the log say what is wrong",
        ),
    };
    refusal(status, &unsteered.to_string(), hint)
}
