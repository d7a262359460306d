//! The pages that list held calls: those that wait, and those that were decided.

use super::brought::ArgumentRow;
use super::card::ApprovalCard;
use super::form::FormFields;
use super::frame::PageFrame;
use super::page;
use super::past::PastCall;
use super::sign_in::SignIn;
use super::visible::VisibleText;
use crate::admin::OperatorsDoor;
use crate::admin::approvals::{seen, uncounted};
use crate::admin::looks::is_refresh;
use crate::store::approvals::{OpenHold, open_holds, past_holds};
use crate::store::operator::time;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

/// Calls on one page.
const MAX_ROWS: usize = 256;
/// Arguments that a row of the list shows.
const BRIEF_ARGUMENTS: usize = 3;
/// Decided calls on their page.
const MAX_PAST_ROWS: usize = 200;

#[derive(Template)]
#[template(path = "list.html")]
struct ListPage<'a> {
    frame: PageFrame<'a>,
    filter: &'a str,
    /// By the clock that decides whether a call's time is over.
    now: String,
    rows: Vec<HeldCallRow>,
    more: usize,
}

/// A call in the list.
struct HeldCallRow {
    card: ApprovalCard,
    agent: VisibleText,
    asking: Option<VisibleText>,
    /// Whether it may be decided about with others.
    is_selectable: bool,
}

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage<'a> {
    frame: PageFrame<'a>,
    past: Vec<PastCall>,
}

impl HeldCallRow {
    /// What matters first, then what else it brings; nothing of it twice.
    fn brief(&self) -> impl Iterator<Item = &ArgumentRow> {
        let all = &self.card.arguments;
        let is_first = move |row: &ArgumentRow| {
            let mut first = all.iter().filter(|row| row.is_first);
            first.any(|first| first.name == row.name)
        };
        let brief = all.iter().filter(move |row| row.is_first || !is_first(row));
        brief.take(BRIEF_ARGUMENTS)
    }
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/approvals", get(list))
        .route("/approvals/history", get(history))
}

async fn list(sign_in: SignIn, State(door): State<Arc<OperatorsDoor>>, uri: Uri) -> Response {
    let query = FormFields::read(uri.query().unwrap_or_default().as_bytes());
    let filter = query.first("filter").trim();
    let open = match open_holds(&*door.switches.store, &*door.switches.void).await {
        Ok(open) => open,
        Err(error) => return uncounted(&error.into()),
    };
    let known = &sign_in.operator;
    let mut theirs: Vec<OpenHold> = open
        .into_iter()
        .filter_map(|hold| seen(&door, hold, known))
        .filter(|hold| fits(hold, filter))
        .collect();
    // What this operator can end comes first; of that, what is over soonest.
    let now = door.switches.store.now();
    theirs.sort_by_key(|hold| {
        let right = known.right_to(hold, now);
        let is_theirs = hold.state == "pending" && right.is_some();
        (!is_theirs, hold.approve_by.clone())
    });
    let more = theirs.len().saturating_sub(MAX_ROWS);
    theirs.truncate(MAX_ROWS);
    if !is_refresh(&uri) {
        door.note_looks(known, &theirs);
    }
    let rows = theirs.into_iter().map(|hold| {
        let card = ApprovalCard::of(hold, known, &door);
        HeldCallRow {
            agent: VisibleText::of(&card.hold.agent),
            asking: card.hold.user.as_deref().map(VisibleText::of),
            is_selectable: card.may_decide,
            card,
        }
    });
    let shown = ListPage {
        frame: PageFrame::of(&sign_in, "approvals", "Calls that wait"),
        filter,
        now: time(now),
        rows: rows.collect(),
        more,
    };
    page(StatusCode::OK, &shown)
}

/// Whether what a person looks for is in what names the call.
fn fits(hold: &OpenHold, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    let named = [
        Some(&hold.agent),
        Some(&hold.tool),
        hold.user.as_ref(),
        hold.tenant.as_ref(),
    ];
    let mut named = named
        .into_iter()
        .flatten()
        .chain(&hold.roles)
        .chain(&hold.actions);
    filter.is_empty() || named.any(|name| name.to_lowercase().contains(&filter))
}

async fn history(sign_in: SignIn, State(door): State<Arc<OperatorsDoor>>) -> Response {
    let past = match past_holds(&*door.switches.store, &*door.switches.void, MAX_PAST_ROWS).await {
        Ok(past) => past,
        Err(error) => return uncounted(&error.into()),
    };
    let theirs = past
        .into_iter()
        .filter_map(|hold| seen(&door, hold, &sign_in.operator));
    let past = theirs.map(|hold| PastCall::of(&hold)).collect();
    let frame = PageFrame::of(&sign_in, "history", "What was decided");
    page(StatusCode::OK, &HistoryPage { frame, past })
}
