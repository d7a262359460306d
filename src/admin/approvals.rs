//! Held calls, and what operators say of them (guarantees §7). For operators with a token only: who
//! decides is who the token names, never what a body says (threat-model §3E E11). What a call says
//! is shown to those who may decide about it, and to those who audit; others are not told that it is held.

pub(crate) mod editing;
pub(crate) mod extending;
pub(crate) mod waiting;
mod word_request;
pub(super) mod words;

use super::grants::minting::{AlwaysWord, always};
use super::grants::ungranted;
use super::looks::is_refresh;
use super::operators::OperatorIdentity;
use super::{OperatorsDoor, json_answer, refusal, unfit};
use crate::guards::approval::grant_terms::GrantTerms;
use crate::model::ids::ActionId;
use crate::store::approvals::{
    DecisionError, DecisionOutcome, DecisionView, OpenHold, open_holds, show,
};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use word_request::{WordForm, WordRequest};
use words::{Said, as_shown, say};

/// Bytes of held calls that are listed at once: agents choose how long their arguments are, and
/// nobody is to be kept from reading the others by that.
pub(super) const LISTED_BYTES_MAX: usize = 1 << 20;

/// The answer to `GET /api/approvals`.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ApprovalList {
    /// Calls that operators can decide, or that were allowed and have not run; the oldest first.
    pub approvals: Vec<OpenHold>,
    /// How many more there are, which are listed when these are decided or over.
    pub more: usize,
}

/// The answer to a decision that was taken.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DecisionReply {
    /// The approval.
    pub id: String,
    /// What came of it.
    #[serde(flatten)]
    pub came: DecisionOutcome,
    /// Who the ledger names.
    pub who: String,
    /// The standing grant that was minted with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grant: Option<String>,
}

/// The body of a decision.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionBody {
    /// What the operator decides.
    decision: ApprovalChoice,
    /// The operator's reason.
    why: String,
    /// `shown` of the call, as it was when the operator looked at it: another is refused.
    #[serde(default)]
    shown: Option<String>,
    /// Which calls like it, how many and for how long; only with `allow-always`.
    grant: Option<GrantTerms>,
}

/// What an operator can decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum ApprovalChoice {
    /// The call may run once, exactly as it is shown; `allow-once`, too.
    #[serde(alias = "allow-once")]
    Allow,
    /// It, and calls like it: with a standing grant.
    #[serde(rename = "allow-always")]
    AllowAlways,
    /// It may not.
    Deny,
}

impl WordForm for DecisionBody {
    const FORM: &'static str = "send {\"decision\": \"allow-once\" | \"allow-always\" | \"deny\", \"why\": \"…\"}; who decides is who the token names";
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/api/approvals", get(list))
        .route("/api/approvals/{id}", get(one).post(take))
        .route("/api/approvals/{id}/edit", post(editing::take))
        .route("/api/approvals/{id}/extend", post(extending::take))
        .route("/api/approvals/{id}/wait", get(waiting::decision))
}

/// The held call as `known` may see it; none where it is for others to decide and to audit.
pub(super) fn seen(
    door: &OperatorsDoor,
    hold: OpenHold,
    known: &OperatorIdentity,
) -> Option<OpenHold> {
    let now = door.switches.store.now();
    if door.operators.audits(known) || known.right_to(&hold, now).is_some() {
        return Some(hold);
    }
    let roles = known.seeing(now);
    hold.is_seen_by(&roles).then(|| hold.concealed())
}

/// What `said` did with `hold`, in a word.
pub(crate) fn word_of(hold: &OpenHold, said: &DecisionView) -> &'static str {
    if said.allow {
        "allowed"
    } else if hold.state == waiting::CANCELLED {
        // Its agent's: an operator's would have ended it as denied.
        waiting::CANCELLED
    } else {
        "denied"
    }
}

async fn list(
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
    uri: Uri,
) -> Response {
    match open_holds(&*door.switches.store, &*door.switches.void).await {
        Ok(open) => {
            let seen = open
                .into_iter()
                .filter_map(|hold| seen(&door, hold, &known));
            let listed = fitting(seen.collect());
            if !is_refresh(&uri) {
                door.note_looks(&known, &listed.approvals);
            }
            json_answer(StatusCode::OK, &listed)
        }
        Err(error) => uncounted(&error.into()),
    }
}

/// As many of them as fit into one answer.
fn fitting(mut approvals: Vec<OpenHold>) -> ApprovalList {
    let bytes =
        |hold: &OpenHold| serde_json::to_vec(hold).map_or(LISTED_BYTES_MAX, |text| text.len());
    let ends = approvals.iter().scan(0_usize, |sum, hold| {
        *sum = sum.saturating_add(bytes(hold));
        Some(*sum)
    });
    let fits = ends.take_while(|end| *end <= LISTED_BYTES_MAX).count();
    let more = approvals.len() - fits;
    approvals.truncate(fits);
    ApprovalList { approvals, more }
}

async fn one(
    Path(id): Path<String>,
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
    uri: Uri,
) -> Response {
    let Ok(id) = id.parse::<ActionId>() else {
        return no_id();
    };
    let found = show(&*door.switches.store, &*door.switches.void, id).await;
    let seen = found.map(|found| found.and_then(|hold| seen(&door, hold, &known)));
    match seen {
        Ok(Some(hold)) => {
            if !is_refresh(&uri) {
                door.note_looks(&known, [&hold]);
            }
            json_answer(StatusCode::OK, &hold)
        }
        // Who may not see it is not told that it is there.
        Ok(None) => uncounted(&DecisionError::Gone(id)),
        Err(error) => uncounted(&error.into()),
    }
}

async fn take(word: WordRequest<DecisionBody>) -> Result<Response, Response> {
    let WordRequest {
        door,
        known,
        id,
        body,
    } = word;
    let DecisionBody {
        decision,
        why,
        shown,
        grant,
    } = body;
    if decision == ApprovalChoice::AllowAlways {
        let as_shown = as_shown(&door, &known, id, shown.as_deref()).await;
        as_shown.map_err(|why| uncounted(&why))?;
        let terms = grant.unwrap_or_default();
        let word = AlwaysWord {
            id,
            known,
            why,
            terms,
            surface: "api",
        };
        return grant_too(&door, word).await;
    }
    if grant.is_some() {
        return Err(unfit("`grant` belongs to `allow-always`"));
    }
    let said = Said {
        allow: decision == ApprovalChoice::Allow,
        why,
        usual: None,
        shown,
        surface: "api",
    };
    let came = say(&door, &known, id, said).await;
    let came = came.map_err(|why| uncounted(&why))?;
    let reply = DecisionReply {
        id: id.to_string(),
        came,
        who: known.name,
        grant: None,
    };
    Ok(json_answer(StatusCode::OK, &reply))
}

/// Allows the call, and calls like it.
async fn grant_too(door: &OperatorsDoor, word: AlwaysWord) -> Result<Response, Response> {
    let (id, who) = (word.id.to_string(), word.known.name.clone());
    let minted = Box::pin(always(door, word)).await;
    let minted = minted.map_err(|why| ungranted(&why))?;
    let came = DecisionOutcome {
        changed: true,
        state: "allowed".to_owned(),
        waited: minted.waited,
    };
    let reply = DecisionReply {
        id,
        came,
        who,
        grant: Some(minted.grant.id.to_string()),
    };
    Ok(json_answer(StatusCode::OK, &reply))
}

fn no_id() -> Response {
    unfit("an approval's id is a UUID, as GET /api/approvals and the agent's answer have it")
}

/// The status of an answer to a word that counts for nothing.
pub(super) fn status_of(why: &DecisionError) -> StatusCode {
    why_not(why).0
}

pub(super) fn uncounted(why: &DecisionError) -> Response {
    let (status, hint) = why_not(why);
    refusal(status, &why.to_string(), hint)
}

/// The status, and what to do about it.
fn why_not(why: &DecisionError) -> (StatusCode, &'static str) {
    match why {
        DecisionError::Gone(_) => (
            StatusCode::NOT_FOUND,
            "GET /api/approvals lists what can be decided",
        ),
        DecisionError::NotYours { .. } | DecisionError::AskedUndo => (
            StatusCode::FORBIDDEN,
            "ask one who may; `admin.tokens` says who has which role",
        ),
        DecisionError::Other { .. } => (
            StatusCode::CONFLICT,
            "`toolgate disable` takes the whole tool away at once",
        ),
        DecisionError::Void(_) => (
            StatusCode::CONFLICT,
            "its agent is told so, and asks anew when it sends the call again",
        ),
        DecisionError::Changed => (
            StatusCode::CONFLICT,
            "look at it again: GET /api/approvals/{id} has it with its `shown`",
        ),
        DecisionError::Unshown => (
            StatusCode::CONFLICT,
            "send `shown` of GET /api/approvals/{id}: `toolgate approvals allow` takes it as --shown",
        ),
        DecisionError::Uneditable(_) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "nothing was changed; change it otherwise, allow the call as it is, or deny it with a reason",
        ),
        DecisionError::Extended => (
            StatusCode::CONFLICT,
            "decide, or let its time be over, which means no",
        ),
        DecisionError::Unfit(_) => (StatusCode::BAD_REQUEST, "correct the request"),
        DecisionError::Store(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "/readyz and the log say what is wrong",
        ),
    }
}
