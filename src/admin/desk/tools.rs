//! The page of tools that agents are not shown, where an operator takes one away, or gives it back.

use super::form::SignedForm;
use super::frame::{PageFrame, PageNote};
use super::page;
use super::sign_in::SignIn;
use super::visible::VisibleText;
use crate::admin::OperatorsDoor;
use crate::admin::status::Quarantined;
use crate::admin::tools::make;
use crate::model::ids::ToolName;
use crate::model::verbs::OperatorVerb;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsPage<'a> {
    frame: PageFrame<'a>,
    disabled: Vec<DisabledTool>,
    withheld: Vec<Quarantined>,
    may_switch: bool,
}

/// A tool that an operator took away.
struct DisabledTool {
    name: String,
    tool: VisibleText,
    who: String,
    why: String,
    at: String,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new().route("/tools", get(list).post(change))
}

async fn list(sign_in: SignIn, State(door): State<Arc<OperatorsDoor>>) -> Response {
    shown(&door, &sign_in, StatusCode::OK, None).await
}

async fn change(
    State(door): State<Arc<OperatorsDoor>>,
    SignedForm { sign_in, fields }: SignedForm,
) -> Response {
    let known = &sign_in.operator;
    let tool = ToolName::new(fields.first("tool").trim());
    let disable = match fields.first("act") {
        "disable" => Some(true),
        "enable" => Some(false),
        _ => None,
    };
    let refused =
        |status, words: &str| (status, PageNote::bad(format!("Nothing was done: {words}.")));
    let (status, note) = match disable {
        _ if !door.operators.may(known, OperatorVerb::Switch) => {
            refused(StatusCode::FORBIDDEN, "your roles do not take tools away")
        }
        None => refused(StatusCode::BAD_REQUEST, "say what is to be done"),
        Some(true) if !(door.switches.is_known)(&tool) => refused(
            StatusCode::NOT_FOUND,
            "there is no such tool; it is named server__tool",
        ),
        Some(disable) => match make(
            &door.switches,
            tool,
            disable,
            known.name.clone(),
            fields.why(),
        )
        .await
        {
            Ok(()) if disable => (
                StatusCode::OK,
                PageNote::good("It is taken away from all agents."),
            ),
            Ok(()) => (StatusCode::OK, PageNote::good("It is given back.")),
            Err(why) => refused(StatusCode::CONFLICT, &why.to_string()),
        },
    };
    shown(&door, &sign_in, status, Some(note)).await
}

async fn shown(
    door: &OperatorsDoor,
    sign_in: &SignIn,
    status: StatusCode,
    note: Option<PageNote>,
) -> Response {
    let mut frame = PageFrame::of(sign_in, "tools", "Tools");
    frame.note = note;
    let disabled = door.switches.disabling.disabled().await;
    let disabled = disabled.into_iter().map(|(tool, reason)| DisabledTool {
        tool: VisibleText::of(tool.as_str()),
        name: tool.to_string(),
        who: reason.who,
        why: reason.why,
        at: reason.since,
    });
    let shown = ToolsPage {
        frame,
        disabled: disabled.collect(),
        withheld: door.status.quarantined(),
        may_switch: door.operators.may(&sign_in.operator, OperatorVerb::Switch),
    };
    page(status, &shown)
}
