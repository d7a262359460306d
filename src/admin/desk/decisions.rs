//! The page of one held call, and what an operator says there. What is said counts for what was shown
//! only: where that has changed meanwhile, the new card is the answer.

use super::card::ApprovalCard;
use super::editing;
use super::form::{FormFields, SignedForm};
use super::frame::{PageFrame, PageNote};
use super::granting;
use super::page;
use super::past::PastCall;
use super::sign_in::SignIn;
use super::visible::VisibleText;
use crate::admin::OperatorsDoor;
use crate::admin::approvals::extending::{ExtensionBody, extends};
use crate::admin::approvals::words::{Said, say};
use crate::admin::approvals::{seen, status_of};
use crate::admin::grants::minting::can_be_granted;
use crate::admin::looks::is_refresh;
use crate::model::ids::ActionId;
use crate::store::approvals::{DecisionError, OpenHold, past_like, show};
use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;

/// Like calls on a card.
const MAX_LIKE_CALLS: usize = 3;
/// Like calls among which those are looked for that the operator may see.
const MAX_LIKE_SEARCHED: usize = 64;

#[derive(Template)]
#[template(path = "card.html")]
struct CardPage<'a> {
    frame: PageFrame<'a>,
    card: ApprovalCard,
    facts: Vec<Fact>,
    past: Vec<PastCall>,
    is_confirming: bool,
}

#[derive(Template)]
#[template(path = "words.html")]
struct WordsPage<'a> {
    frame: PageFrame<'a>,
    words: &'a str,
}

/// What a page says beside the call that it shows.
struct CardAnswer {
    status: StatusCode,
    /// What came of a word on the call, if one was said.
    note: Option<PageNote>,
    /// Whether the form to allow it stands open.
    is_confirming: bool,
    /// Whether a page asks that stands open, and not a person.
    is_refresh: bool,
}

/// Something that is known of a call, in a word or two.
struct Fact {
    name: &'static str,
    value: VisibleText,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new().route("/approvals/{id}", get(one).post(said))
}

async fn one(
    sign_in: SignIn,
    Path(id): Path<String>,
    State(door): State<Arc<OperatorsDoor>>,
    uri: Uri,
) -> Response {
    let query = FormFields::read(uri.query().unwrap_or_default().as_bytes());
    let is_confirming = query.first("confirm") == "1";
    let answer = CardAnswer {
        status: StatusCode::OK,
        note: None,
        is_confirming,
        is_refresh: is_refresh(&uri),
    };
    card(&door, &sign_in, &id, answer).await
}

async fn said(
    Path(id): Path<String>,
    State(door): State<Arc<OperatorsDoor>>,
    SignedForm { sign_in, fields }: SignedForm,
) -> Response {
    let (status, note) = match Box::pin(counted(&door, &sign_in, &id, &fields)).await {
        Ok(words) => (StatusCode::OK, PageNote::good(words)),
        Err((status, words)) => (status, PageNote::bad(words)),
    };
    let answer = CardAnswer {
        status,
        note: Some(note),
        is_confirming: false,
        is_refresh: false,
    };
    card(&door, &sign_in, &id, answer).await
}

/// What came of the form, or why nothing did.
async fn counted(
    door: &OperatorsDoor,
    sign_in: &SignIn,
    id: &str,
    fields: &FormFields,
) -> Result<String, (StatusCode, String)> {
    let unknown = || (StatusCode::NOT_FOUND, "There is no such call.".to_owned());
    let id = id.parse::<ActionId>().map_err(|_| unknown())?;
    let refused = |why: DecisionError| (status_of(&why), format!("Nothing was done: {why}."));
    let known = &sign_in.operator;
    // A button that denies with a reason of the contract says nothing else.
    let preset = fields.first("deny_with");
    match fields.first("decision") {
        "extend" => {
            let asked = ExtensionBody {
                why: None,
                shown: Some(fields.first("shown").to_owned()),
            };
            let until = extends(door, known, id, asked).await.map_err(refused)?;
            Ok(format!("It can be decided until {until} now."))
        }
        "always" => granting::granted(door, known, id, fields).await,
        "edit" => editing::edited(door, known, id, fields).await,
        word @ ("allow" | "deny" | "") if !word.is_empty() || !preset.is_empty() => {
            let allow = word == "allow";
            let said = Said {
                allow,
                why: if preset.is_empty() {
                    fields.why()
                } else {
                    preset.to_owned()
                },
                usual: Some("seen on the page"),
                shown: Some(fields.first("shown").to_owned()),
                surface: "page",
            };
            let came = say(door, known, id, said).await.map_err(refused)?;
            Ok(match (came.changed, came.state.as_str()) {
                (false, state) => format!("That was said already: it is {state}."),
                (true, "allowed") => {
                    "Allowed: the agent's call runs once, exactly as shown.".to_owned()
                }
                (true, "pending") => "Allowed: more operators have to allow it.".to_owned(),
                (true, _) => "Denied: it did not run, and its agent is told why.".to_owned(),
            })
        }
        _ => Err((
            StatusCode::BAD_REQUEST,
            "Nothing was done: say whether you allow or deny it.".to_owned(),
        )),
    }
}

/// The card of the call as it is now.
async fn card(door: &OperatorsDoor, sign_in: &SignIn, id: &str, answer: CardAnswer) -> Response {
    let CardAnswer {
        status,
        note,
        is_confirming,
        is_refresh,
    } = answer;
    let known = &sign_in.operator;
    let (store, void) = (&*door.switches.store, &*door.switches.void);
    let found = match id.parse::<ActionId>() {
        Ok(id) => show(store, void, id).await,
        Err(_) => Ok(None),
    };
    let mut frame = PageFrame::of(sign_in, "approvals", "A call that waits");
    frame.note = note;
    let seen_hold = found.map(|hold| hold.and_then(|hold| seen(door, hold, known)));
    let hold = match seen_hold {
        Ok(Some(hold)) => hold,
        Ok(None) => {
            // Who may not see it is not told that it is there.
            let words = "It is over, or there is no such call, or it is for others to decide.";
            frame.title = "Nothing to decide here";
            return page(StatusCode::NOT_FOUND, &WordsPage { frame, words });
        }
        Err(error) => {
            let words = format!("The store cannot be read: {error}");
            return page(
                StatusCode::SERVICE_UNAVAILABLE,
                &WordsPage {
                    frame,
                    words: &words,
                },
            );
        }
    };
    if !is_refresh {
        door.note_looks(known, [&hold]);
    }
    let past = past_like(store, void, &hold, MAX_LIKE_SEARCHED)
        .await
        .unwrap_or_default();
    let theirs = past.into_iter().filter_map(|one| seen(door, one, known));
    let past = theirs.take(MAX_LIKE_CALLS);
    let past = past.map(|one| PastCall::of(&one)).collect();
    let shown = CardPage {
        facts: facts(&hold),
        card: ApprovalCard {
            can_grant: can_be_granted(door, &hold),
            ..ApprovalCard::of(hold, known, door)
        },
        frame,
        past,
        is_confirming,
    };
    page(beside_call(status), &shown)
}

/// A decision that comes too late contradicts how the call stands: 409, not 404, as the call is there.
fn beside_call(status: StatusCode) -> StatusCode {
    if status == StatusCode::NOT_FOUND {
        StatusCode::CONFLICT
    } else {
        status
    }
}

/// Who asks, on whose behalf, and why a person is asked.
fn facts(hold: &OpenHold) -> Vec<Fact> {
    let not_bound = |text: &Option<String>| text.as_ref().map(|text| format!("{text} (not bound)"));
    let roles = (!hold.caller_roles.is_empty()).then(|| hold.caller_roles.join(", "));
    let known = [
        ("Agent", Some(hold.agent.clone())),
        ("For the user", hold.user.clone()),
        ("Tenant", hold.tenant.clone()),
        ("Agent's roles", not_bound(&roles)),
        ("Session", not_bound(&hold.session)),
        ("Task", not_bound(&hold.task)),
        ("Why a person is asked", hold.because.clone()),
        ("Left of its budget", hold.left.clone()),
        ("Changes", hold.writes.clone()),
        ("Asked", Some(hold.asked.clone())),
        (
            "Who decides",
            Some(format!(
                "{} with one of the roles {}",
                hold.needed,
                hold.roles.join(", ")
            )),
        ),
        ("Ran as", hold.used_by.clone()),
        ("Policy", Some(hold.policy.clone())),
        ("Id", Some(hold.id.clone())),
        ("Shown as", Some(hold.shown.clone())),
    ];
    let known = known
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let facts = known.filter(|(_, value)| !value.is_empty());
    facts
        .map(|(name, value)| Fact {
            name,
            value: VisibleText::of(&value),
        })
        .collect()
}
