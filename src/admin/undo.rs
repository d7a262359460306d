//! Takes a call back (003-64). For operators with the role that says what became of calls: who undoes
//! makes a call run.

pub(crate) mod queue;

use super::asked::action_of;
use super::hints;
use super::operator_request::OperatorRequest;
use super::{OperatorsDoor, json_answer, refusal, unfit};
use crate::model::verbs::OperatorVerb;
use crate::store::tasks::Unsteered;
use crate::store::undos::{NoTaskUndo, NoUndo, TaskUndoWord, UndoReport, UndoWord};
use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 16 << 10;
/// What may be sent.
const FORM: &str = "send {\"why\": \"…\"}, or {\"dry_run\": true} to see what would be called";

/// The body of an undo.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoBody {
    /// The operator's reason; not needed for a `dry_run`.
    why: Option<String>,
    /// Only show what would be called, and what the gate says of it.
    #[serde(default)]
    dry_run: bool,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .merge(queue::routes())
        .route("/api/calls/{action}/undo", post(take))
        .route("/api/tasks/{task}/undo", post(take_task))
}

async fn take(
    Path(action): Path<String>,
    mut asked: OperatorRequest,
) -> Result<Response, Response> {
    let (why, is_dry) = wanted(&mut asked).await?;
    let of = action_of(&action)?;
    let OperatorRequest { door, known, .. } = asked;
    let word = UndoWord {
        of,
        who: known.name,
        why,
        is_dry,
    };
    let report = undone(&door, word).await.map_err(|why| refused(&why))?;
    Ok(json_answer(StatusCode::OK, &report))
}

async fn take_task(
    Path(task): Path<String>,
    mut asked: OperatorRequest,
) -> Result<Response, Response> {
    let (why, is_dry) = wanted(&mut asked).await?;
    let OperatorRequest { door, known, .. } = asked;
    let word = TaskUndoWord {
        task,
        who: known.name,
        why,
        is_dry,
    };
    let report = door.switches.undo.clone().undo_task(word).await;
    door.switches.recount.notify_one();
    let report = report.map_err(|why| {
        let status = match &why {
            NoTaskUndo::Task(Unsteered::NoTask(_)) => StatusCode::NOT_FOUND,
            NoTaskUndo::Task(Unsteered::Store(_)) => StatusCode::SERVICE_UNAVAILABLE,
            NoTaskUndo::Task(_) | NoTaskUndo::Unfit(_) => StatusCode::BAD_REQUEST,
        };
        refusal(
            status,
            &why.to_string(),
            "GET /api/tasks lists those there are",
        )
    })?;
    Ok(json_answer(StatusCode::OK, &report))
}

/// The reason of an operator who may ask, and whether nothing is to be sent.
async fn wanted(asked: &mut OperatorRequest) -> Result<(String, bool), Response> {
    asked.permit_to("undo calls", OperatorVerb::Resolve)?;
    let UndoBody { why, dry_run } = asked.written(BODY_BYTES_MAX, FORM).await?;
    match (why, dry_run) {
        (Some(why), is_dry) => Ok((why, is_dry)),
        (None, true) => Ok((String::new(), true)),
        (None, false) => Err(unfit(FORM)),
    }
}

/// Does what `word` says, for pages and programs.
pub(super) async fn undone(door: &OperatorsDoor, word: UndoWord) -> Result<UndoReport, NoUndo> {
    let report = door.switches.undo.clone().undo(word).await;
    door.switches.recount.notify_one();
    report
}

fn refused(why: &NoUndo) -> Response {
    let (status, hint) = match why {
        NoUndo::NoCall(_) => (
            StatusCode::NOT_FOUND,
            "only what was carried out not long ago is undone",
        ),
        NoUndo::Held(_) => hints::HELD,
        NoUndo::InFlight | NoUndo::Running(_) => (
            StatusCode::CONFLICT,
            "GET /api/calls says when it has ended",
        ),
        NoUndo::UnknownOutcome(_) | NoUndo::Unknown(_) => (
            StatusCode::CONFLICT,
            "POST /api/calls/{action}/resolve says what became of it",
        ),
        NoUndo::NotRun(_)
        | NoUndo::IsUndo(_)
        | NoUndo::Done(_)
        | NoUndo::DoneByAgent(_)
        | NoUndo::Over(_) => hints::KNOWN,
        NoUndo::NotAsked => (
            StatusCode::CONFLICT,
            "GET /api/undos lists what is asked for and not done",
        ),
        NoUndo::Nothing { .. } => (
            StatusCode::CONFLICT,
            "the contract's `side_effect.rollback` names what takes its calls back",
        ),
        NoUndo::Lacking(_) => (
            StatusCode::CONFLICT,
            "take it back by hand; `toolgate ledger show` says what was called",
        ),
        NoUndo::Away(_) => (
            StatusCode::CONFLICT,
            "`toolgate incident list` and `toolgate disable` say who has taken it away, and why",
        ),
        NoUndo::Unfit(_) => hints::UNFIT,
        NoUndo::Store(_) => hints::NO_STORE,
    };
    refusal(status, &why.to_string(), hint)
}
