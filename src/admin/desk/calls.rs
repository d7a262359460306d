//! The page of calls whose outcome nobody knows, where an operator says what became of one.

use super::form::SignedForm;
use super::frame::{PageFrame, PageNote};
use super::page;
use super::sign_in::SignIn;
use super::visible::VisibleText;
use crate::admin::OperatorsDoor;
use crate::model::ids::ActionId;
use crate::model::verbs::OperatorVerb;
use crate::store::operator::{OpenCall, OperatorFinding, Resolution, open_calls, resolve};
use crate::store::undos::wanted::{WantedUndo, wanted};
use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "calls.html")]
struct CallsPage<'a> {
    frame: PageFrame<'a>,
    calls: Vec<UnknownCall>,
    undos: Vec<OpenUndoRow>,
    may_resolve: bool,
}

/// An undo that is not done.
struct OpenUndoRow {
    wanted: WantedUndo,
    tool: VisibleText,
    agent: VisibleText,
}

/// A call whose outcome nobody knows, or that is on its way.
struct UnknownCall {
    open: OpenCall,
    tool: VisibleText,
    agent: VisibleText,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/calls", get(list))
        .route("/calls/{action}", post(settle))
}

async fn list(sign_in: SignIn, State(door): State<Arc<OperatorsDoor>>) -> Response {
    shown(&door, &sign_in, StatusCode::OK, None).await
}

async fn settle(
    Path(action): Path<String>,
    State(door): State<Arc<OperatorsDoor>>,
    SignedForm { sign_in, fields }: SignedForm,
) -> Response {
    let known = &sign_in.operator;
    let verdict = match fields.first("verdict") {
        "applied" => Some(OperatorFinding::Applied(None)),
        "not_applied" => Some(OperatorFinding::NotApplied),
        "abandon" => Some(OperatorFinding::Abandon),
        _ => None,
    };
    let refused =
        |status, words: String| (status, PageNote::bad(format!("Nothing was done: {words}.")));
    let (status, note) = match (verdict, action.parse::<ActionId>()) {
        _ if !door.operators.may(known, OperatorVerb::Resolve) => refused(
            StatusCode::FORBIDDEN,
            "your roles do not say what became of calls".to_owned(),
        ),
        (Some(verdict), Ok(action)) => {
            let (who, why) = (known.name.clone(), fields.why());
            let said = Resolution { verdict, who, why };
            match resolve(&*door.switches.store, action, said).await {
                Ok(state) => {
                    door.switches.recount.notify_one();
                    (
                        StatusCode::OK,
                        PageNote::good(format!("It is {state} now.")),
                    )
                }
                Err(why) => refused(StatusCode::CONFLICT, why.to_string()),
            }
        }
        _ => refused(
            StatusCode::BAD_REQUEST,
            "say what became of which call".to_owned(),
        ),
    };
    shown(&door, &sign_in, status, Some(note)).await
}

/// The page, with what came of what was just done.
pub(super) async fn shown(
    door: &OperatorsDoor,
    sign_in: &SignIn,
    status: StatusCode,
    note: Option<PageNote>,
) -> Response {
    let known = &sign_in.operator;
    let may_resolve = door.operators.may(known, OperatorVerb::Resolve);
    let mut frame = PageFrame::of(sign_in, "calls", "Unknown outcomes");
    frame.note = note;
    let store = &*door.switches.store;
    let (mut open, mut undos) = (Ok(Vec::new()), Ok(Vec::new()));
    if may_resolve || door.operators.audits(known) {
        // What is held has a page of its own.
        open = open_calls(store, None, |_| false).await;
        undos = wanted(store, None).await;
    } else {
        // What came of a form says more.
        frame.note.get_or_insert_with(|| {
            PageNote::bad("Only operators who resolve or audit are shown these calls.")
        });
    }
    if let Some(error) = open.as_ref().err().or(undos.as_ref().err()) {
        frame.note = Some(PageNote::bad(format!("The store cannot be read: {error}")));
    }
    let undos = undos.unwrap_or_default().into_iter();
    let undos = undos.map(|wanted| OpenUndoRow {
        tool: VisibleText::of(&wanted.undo_tool),
        agent: VisibleText::of(&wanted.agent),
        wanted,
    });
    let undos = undos.collect();
    let calls = open
        .unwrap_or_default()
        .into_iter()
        .map(|open| UnknownCall {
            tool: VisibleText::of(&open.tool),
            agent: VisibleText::of(&open.agent),
            open,
        });
    let calls = calls.collect();
    page(
        status,
        &CallsPage {
            frame,
            calls,
            undos,
            may_resolve,
        },
    )
}
