//! The page of standing grants, where an operator takes one back.

use super::form::SignedForm;
use super::frame::{PageFrame, PageNote};
use super::page;
use super::sign_in::SignIn;
use super::visible::VisibleText;
use crate::admin::OperatorsDoor;
use crate::admin::grants::is_theirs;
use crate::mcp::pretty::pretty;
use crate::model::ids::ActionId;
use crate::store::grants::view::GrantView;
use crate::store::grants::{find, revoke};
use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "grants.html")]
struct GrantsPage<'a> {
    frame: PageFrame<'a>,
    grants: Vec<GrantRow>,
}

/// A grant in the list.
struct GrantRow {
    view: GrantView,
    tool: VisibleText,
    agent: VisibleText,
    terms: VisibleText,
    /// Whether who looks may take it back.
    is_theirs: bool,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/grants", get(list))
        .route("/grants/{id}", post(take_back))
}

async fn list(sign_in: SignIn, State(door): State<Arc<OperatorsDoor>>) -> Response {
    shown(&door, &sign_in, StatusCode::OK, None).await
}

async fn take_back(
    Path(id): Path<String>,
    State(door): State<Arc<OperatorsDoor>>,
    SignedForm { sign_in, fields }: SignedForm,
) -> Response {
    let (known, store) = (&sign_in.operator, &*door.switches.store);
    let found = match id.parse::<ActionId>() {
        Ok(id) => find(store, id).await.ok().flatten(),
        Err(_) => None,
    };
    let (status, note) = match found.filter(|grant| is_theirs(known, grant)) {
        None => (
            StatusCode::NOT_FOUND,
            PageNote::bad("Nothing was done: there is no such grant of yours."),
        ),
        Some(grant) => match revoke(store, grant.id, &known.name, &fields.why()).await {
            Ok(_) => (
                StatusCode::OK,
                PageNote::good("It is taken back: the next call asks a person."),
            ),
            Err(why) => (
                StatusCode::CONFLICT,
                PageNote::bad(format!("Nothing was done: {why}.")),
            ),
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
    let known = &sign_in.operator;
    let mut frame = PageFrame::of(sign_in, "grants", "Grants");
    frame.note = note;
    let grants = door.grants_for(known).await.unwrap_or_else(|error| {
        frame.note = Some(PageNote::bad(format!("The store cannot be read: {error}")));
        Vec::new()
    });
    let rows = grants.iter().map(|grant| {
        let view = door.view_of(grant);
        let terms = serde_json::to_value(&view.constraints).unwrap_or_default();
        GrantRow {
            tool: VisibleText::of(grant.scope.tool.as_str()),
            agent: VisibleText::of(&grant.scope.agent),
            terms: VisibleText::of(&pretty(&terms)),
            is_theirs: is_theirs(known, grant),
            view,
        }
    });
    let grants = rows.collect();
    page(status, &GrantsPage { frame, grants })
}
