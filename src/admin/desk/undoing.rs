//! The form that takes a call back, on the page of calls.

use super::calls::shown;
use super::form::SignedForm;
use super::frame::PageNote;
use crate::admin::OperatorsDoor;
use crate::admin::undo::queue::dropped_by;
use crate::admin::undo::undone;
use crate::mcp::pretty::plain;
use crate::model::ids::ActionId;
use crate::model::verbs::OperatorVerb;
use crate::store::undos::{DroppedUndo, NoUndo, UndoReport, UndoWord};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use serde_json::Value;
use std::sync::Arc;

/// What an operator wants of an undo.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UndoVerdict {
    Show,
    Undo,
    Drop,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new().route("/calls/undo", post(take))
}

async fn take(
    State(door): State<Arc<OperatorsDoor>>,
    SignedForm { sign_in, fields }: SignedForm,
) -> Response {
    let known = &sign_in.operator;
    let verdict = match fields.first("verdict") {
        "show" => Some(UndoVerdict::Show),
        "undo" => Some(UndoVerdict::Undo),
        "drop" => Some(UndoVerdict::Drop),
        _ => None,
    };
    let of = fields.first("action").trim().parse::<ActionId>();
    let (who, why) = (known.name.clone(), fields.why());
    let refused = |why: NoUndo| {
        let words = format!("Nothing was done: {}.", plain(&why.to_string()));
        (StatusCode::CONFLICT, PageNote::bad(words))
    };
    let (status, note) = match (verdict, of) {
        _ if !door.operators.may(known, OperatorVerb::Resolve) => (
            StatusCode::FORBIDDEN,
            PageNote::bad("Nothing was done: your roles do not undo calls."),
        ),
        (Some(UndoVerdict::Drop), Ok(of)) => {
            let dropped = DroppedUndo { of, who, why };
            let note = "It was dropped: nothing is called for it unless an operator asks anew.";
            match dropped_by(&door, dropped).await {
                Ok(()) => (StatusCode::OK, PageNote::good(note)),
                Err(why) => refused(why),
            }
        }
        (Some(verdict), Ok(of)) => {
            let is_dry = verdict == UndoVerdict::Show;
            let word = UndoWord {
                of,
                who,
                why,
                is_dry,
            };
            match undone(&door, word).await {
                Ok(report) => (StatusCode::OK, told(&report, is_dry)),
                Err(why) => refused(why),
            }
        }
        (Some(_) | None, _) => (
            StatusCode::BAD_REQUEST,
            PageNote::bad("Nothing was done: give the whole action id of the call."),
        ),
    };
    shown(&door, &sign_in, status, Some(note)).await
}

/// What came of it, in a sentence.
fn told(report: &UndoReport, is_dry: bool) -> PageNote {
    let arguments = Value::Object(report.arguments.clone()).to_string();
    let call = format!("{} {}", plain(&report.tool), plain(&arguments));
    let (said, until) = (plain(&report.words), plain(&report.until));
    if is_dry {
        return PageNote::good(format!(
            "Nothing was sent. It would call {call}, until {until}: {said}"
        ));
    }
    match (report.state.as_str(), &report.approval_id) {
        ("done", _) => PageNote::good(format!("It was taken back by {call}.")),
        ("requested", Some(id)) => PageNote::bad(format!(
            "Not sent yet: a person has to allow {call} first ({}). It goes on by itself then.",
            plain(id)
        )),
        (state, _) => PageNote::bad(format!("It is {}: {call}: {said}", plain(state))),
    }
}
