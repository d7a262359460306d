//! The pages of incidents: all of them, and one with its timeline, where an operator opens or closes one.

use super::form::SignedForm;
use super::frame::{PageFrame, PageNote};
use super::sign_in::SignIn;
use super::visible::VisibleText;
use super::{go_on, page};
use crate::admin::incidents::{NO_TOOL, close_incident, number, open_incident};
use crate::admin::{OperatorsDoor, refusal};
use crate::model::verbs::OperatorVerb;
use crate::store::incidents::{ClosingWish, Incident};
use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "incidents.html")]
struct IncidentsPage<'a> {
    frame: PageFrame<'a>,
    incidents: Vec<ListedIncident>,
    may_switch: bool,
}

/// An incident in the list.
struct ListedIncident {
    id: u64,
    scope: VisibleText,
    state: &'static str,
    who: String,
    opened: String,
    why: String,
}

#[derive(Template)]
#[template(path = "incident.html")]
struct IncidentPage<'a> {
    frame: PageFrame<'a>,
    one: Incident,
    scope: VisibleText,
    may_switch: bool,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/incidents", get(list).post(begin))
        .route("/incidents/{id}", get(one).post(close))
}

async fn list(sign_in: SignIn, State(door): State<Arc<OperatorsDoor>>) -> Response {
    listed(&door, &sign_in, StatusCode::OK, None).await
}

async fn begin(
    State(door): State<Arc<OperatorsDoor>>,
    SignedForm { sign_in, fields }: SignedForm,
) -> Response {
    if !may_switch(&door, &sign_in) {
        return forbidden(&door, &sign_in).await;
    }
    let (who, why) = (sign_in.operator.name.clone(), fields.why());
    let opened = open_incident(&door, who, fields.first("tool").trim(), why).await;
    let (status, words) = match opened {
        Ok(Ok(incident)) => return go_on(&format!("/incidents/{}", incident.id)),
        Ok(Err(why)) => (StatusCode::CONFLICT, why.to_string()),
        Err(answer) => (answer.status(), NO_TOOL.to_owned()),
    };
    let note = PageNote::bad(format!("Nothing was done: {words}."));
    listed(&door, &sign_in, status, Some(note)).await
}

async fn one(
    Path(id): Path<String>,
    sign_in: SignIn,
    State(door): State<Arc<OperatorsDoor>>,
) -> Result<Response, Response> {
    shown(&door, &sign_in, number(&id)?, None).await
}

async fn close(
    Path(id): Path<String>,
    State(door): State<Arc<OperatorsDoor>>,
    SignedForm { sign_in, fields }: SignedForm,
) -> Result<Response, Response> {
    let id = number(&id)?;
    if !may_switch(&door, &sign_in) {
        return Ok(forbidden(&door, &sign_in).await);
    }
    let wish = ClosingWish {
        id,
        who: sign_in.operator.name.clone(),
        why: fields.why(),
        force: fields.first("act") == "force",
    };
    let note = match close_incident(&door, wish).await {
        Ok(_) => PageNote::good("It is closed: its tools are back."),
        Err(why) => PageNote::bad(format!("Nothing was done: {why}.")),
    };
    shown(&door, &sign_in, id, Some(note)).await
}

fn may_switch(door: &OperatorsDoor, sign_in: &SignIn) -> bool {
    door.operators.may(&sign_in.operator, OperatorVerb::Switch)
}

async fn forbidden(door: &OperatorsDoor, sign_in: &SignIn) -> Response {
    let note = PageNote::bad("Nothing was done: your roles open and close no incidents.");
    listed(door, sign_in, StatusCode::FORBIDDEN, Some(note)).await
}

async fn listed(
    door: &OperatorsDoor,
    sign_in: &SignIn,
    status: StatusCode,
    note: Option<PageNote>,
) -> Response {
    let mut frame = PageFrame::of(sign_in, "incidents", "Incidents");
    frame.note = note;
    let incidents = door.switches.incidents.all().await.into_iter();
    let incidents = incidents.map(|one| ListedIncident {
        id: one.id,
        scope: VisibleText::of(&one.scope),
        state: one.state.word(),
        who: one.who,
        opened: one.opened,
        why: one.why,
    });
    let shown = IncidentsPage {
        frame,
        incidents: incidents.collect(),
        may_switch: may_switch(door, sign_in),
    };
    page(status, &shown)
}

async fn shown(
    door: &OperatorsDoor,
    sign_in: &SignIn,
    id: u64,
    note: Option<PageNote>,
) -> Result<Response, Response> {
    let Some(one) = door.switches.incidents.find(id).await else {
        let hint = "/incidents lists those there are";
        return Err(refusal(
            StatusCode::NOT_FOUND,
            "there is no such incident",
            hint,
        ));
    };
    let status = match &note {
        Some(note) if !note.is_good => StatusCode::CONFLICT,
        Some(_) | None => StatusCode::OK,
    };
    let mut frame = PageFrame::of(sign_in, "incidents", "Incident");
    frame.note = note;
    let shown = IncidentPage {
        frame,
        scope: VisibleText::of(&one.scope),
        one,
        may_switch: may_switch(door, sign_in),
    };
    Ok(page(status, &shown))
}
