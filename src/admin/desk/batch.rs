//! Several like calls, decided together: only like with like, and nothing that cannot be undone. Each
//! word is one of its own in the ledger.

use super::brought::{ArgumentRow, BroughtPart};
use super::card::ApprovalCard;
use super::effect::Effect;
use super::form::{FormFields, SignedForm};
use super::frame::PageFrame;
use super::sign_in::SignIn;
use super::visible::VisibleText;
use super::{go_on, page};
use crate::admin::OperatorsDoor;
use crate::admin::approvals::seen;
use crate::admin::approvals::words::{Said, say};
use crate::admin::operators::OperatorIdentity;
use crate::model::ids::ActionId;
use crate::store::approvals::{OpenHold, show};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Calls that are decided together.
const MAX_BATCH_CALLS: usize = 50;

#[derive(Template)]
#[template(path = "batch.html")]
struct BatchPage<'a> {
    frame: PageFrame<'a>,
    tool: VisibleText,
    effect: Effect,
    /// Why they cannot be allowed together, if they cannot.
    unlike: Option<&'static str>,
    /// What is not the same in all of them.
    columns: Vec<VisibleText>,
    lines: Vec<BatchLine>,
    /// What is.
    equal_rows: Vec<ArgumentRow>,
}

/// A call in the table.
struct BatchLine {
    id: String,
    shown: String,
    /// What it brings where they differ; none where it brings nothing.
    cells: Vec<Option<ArgumentRow>>,
}

#[derive(Template)]
#[template(path = "told.html")]
struct ToldPage<'a> {
    frame: PageFrame<'a>,
    told: Vec<ToldCall>,
}

/// What came of one of them.
struct ToldCall {
    id: String,
    words: String,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new().route("/approvals/batch", get(ask).post(decide))
}

async fn ask(sign_in: SignIn, State(door): State<Arc<OperatorsDoor>>, uri: Uri) -> Response {
    let query = FormFields::read(uri.query().unwrap_or_default().as_bytes());
    let mut cards = cards(&door, &sign_in.operator, query.all("id")).await;
    let Some(first) = cards.first() else {
        return go_on("/approvals");
    };
    door.note_looks(&sign_in.operator, cards.iter().map(|card| &card.hold));
    let (tool, effect) = (VisibleText::of(&first.hold.tool), first.effect);
    let all = |card: &ApprovalCard| {
        let mut all = BroughtPart::arguments(&card.hold);
        all.extend(BroughtPart::beside(&card.hold));
        all
    };
    let all: BTreeSet<BroughtPart> = cards.iter().flat_map(all).collect();
    let is_same = |part: &BroughtPart| {
        let mut others = cards.iter();
        others.all(|card| part.is_same(&first.hold, &card.hold))
    };
    let (same, differs): (Vec<_>, Vec<_>) = all.into_iter().partition(is_same);
    let equal_rows = same.iter().map(|part| part.row(&first.hold)).collect();
    // The highest first: that is what a person looks for.
    cards.sort_by_key(|card| {
        let numbers = differs
            .iter()
            .filter_map(|part| part.now(&card.hold)?.as_f64());
        let order = |number: f64| Reverse(ordered(number));
        numbers.map(order).collect::<Vec<_>>()
    });
    let cell = |card: &ApprovalCard, part: &BroughtPart| {
        part.is_in(&card.hold).then(|| part.row(&card.hold))
    };
    let lines = cards.iter().map(|card| BatchLine {
        id: card.hold.id.clone(),
        shown: card.hold.shown.clone(),
        cells: differs.iter().map(|part| cell(card, part)).collect(),
    });
    let columns = differs.iter().map(|part| VisibleText::of(part.name()));
    let shown = BatchPage {
        frame: PageFrame::of(&sign_in, "approvals", "Like calls"),
        tool,
        effect,
        lines: lines.collect(),
        columns: columns.collect(),
        unlike: unlike(&cards),
        equal_rows,
    };
    page(StatusCode::OK, &shown)
}

/// Those of `ids` that `known` may decide now, each once.
async fn cards(
    door: &OperatorsDoor,
    known: &OperatorIdentity,
    ids: impl Iterator<Item = &str>,
) -> Vec<ApprovalCard> {
    let ids: BTreeSet<ActionId> = ids
        .filter_map(|id| id.parse().ok())
        .take(MAX_BATCH_CALLS)
        .collect();
    let mut cards = Vec::new();
    for id in ids {
        let found = show(&*door.switches.store, &*door.switches.void, id).await;
        let hold = found
            .ok()
            .flatten()
            .and_then(|hold| seen(door, hold, known));
        let card = hold.map(|hold| ApprovalCard::of(hold, known, door));
        cards.extend(card.filter(|card| card.may_decide));
    }
    cards
}

/// Why these calls cannot be allowed with one word, if they cannot.
fn unlike(cards: &[ApprovalCard]) -> Option<&'static str> {
    if cards.iter().any(|card| card.hold.irreversible) {
        return Some("what cannot be undone is allowed one by one");
    }
    let mut others = cards.iter().skip(1);
    let is_alike = others.all(|card| is_like(&cards[0].hold, &card.hold));
    (!is_alike).then_some(
        "they are not of one tool, agent, user and contract, or bring other things beside their arguments",
    )
}

/// Whether a word on one may stand for the other, but for arguments that differ.
fn is_like(one: &OpenHold, other: &OpenHold) -> bool {
    let whose = |hold: &OpenHold| (hold.agent.clone(), hold.tenant.clone(), hold.user.clone());
    let contract = |hold: &OpenHold| {
        let bound = (hold.schema_hash.clone(), hold.bound_to.clone());
        (hold.tool.clone(), bound, hold.over.clone())
    };
    let brings = |part: BroughtPart| part.is_same(one, other);
    whose(one) == whose(other)
        && contract(one) == contract(other)
        && brings(BroughtPart::Answers)
        && brings(BroughtPart::Beside)
}

/// A number in an order: whole cents of it are enough to sort by.
#[expect(
    clippy::cast_possible_truncation,
    reason = "only an order, and it saturates"
)]
fn ordered(number: f64) -> i128 {
    (number * 100.0) as i128
}

async fn decide(
    State(door): State<Arc<OperatorsDoor>>,
    SignedForm { sign_in, fields }: SignedForm,
) -> Response {
    let known = &sign_in.operator;
    let allow = fields.first("decision") == "allow";
    let calls: Vec<_> = fields
        .all("call")
        .filter_map(|call| call.split_once(' '))
        .collect();
    let cards = cards(&door, known, calls.iter().map(|(id, _)| *id)).await;
    let refused = if allow { unlike(&cards) } else { None };
    let mut told = Vec::new();
    for (id, shown) in calls.into_iter().take(MAX_BATCH_CALLS) {
        let said = Said {
            allow,
            why: fields.why(),
            usual: None,
            shown: Some(shown.to_owned()),
            surface: "page",
        };
        let words = match (refused, id.parse::<ActionId>()) {
            (Some(why), _) => format!("nothing was done: {why}"),
            (None, Err(_)) => "nothing was done: there is no such call".to_owned(),
            (None, Ok(id)) => match say(&door, known, id, said).await {
                Ok(came) => came.state,
                Err(why) => format!("nothing was done: {why}"),
            },
        };
        let id = id.to_owned();
        told.push(ToldCall { id, words });
    }
    let frame = PageFrame::of(&sign_in, "approvals", "What came of it");
    let status = if refused.is_some() {
        StatusCode::CONFLICT
    } else {
        StatusCode::OK
    };
    page(status, &ToldPage { frame, told })
}
