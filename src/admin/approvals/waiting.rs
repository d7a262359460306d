//! Waits for the decision on a held call: what a program does that has no person to show it to.

use super::{no_id, seen, uncounted};
use crate::admin::operators::OperatorIdentity;
use crate::admin::{OperatorsDoor, json_answer, unfit};
use crate::model::ids::ActionId;
use crate::store::approvals::{DecisionError, OpenHold, decided, show};
use crate::store::state::hold::is_voiding;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Seconds that one request may wait.
pub(crate) const DECISION_WAIT_SECONDS_MAX: u64 = 25;

/// The state of a held call that its agent took back: no operator has decided about it.
pub(crate) const CANCELLED: &str = "cancelled";

/// The answer to `GET /api/approvals/{id}/wait`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ApprovalDecision {
    /// The approval.
    pub id: String,
    /// `allow-once` or `deny`; none as long as nobody has decided, where nobody has in time, and where its
    /// agent has cancelled the call.
    pub decision: Option<String>,
    /// As the held call has it: `pending`, `allowed`, `denied`, `cancelled`, `used`, `lapsed`, `expired` or
    /// `void`.
    pub state: String,
    /// Why nobody's word counts any more, where it is `void`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub void: Option<String>,
    /// From then on nobody can decide, RFC 3339 in UTC.
    pub approve_by: String,
    /// The operators whose word it was.
    pub who: Vec<String>,
    /// The reason that was given last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

impl ApprovalDecision {
    fn of(hold: OpenHold) -> Self {
        let allowed = u32::try_from(hold.allowed_by.len()).unwrap_or(u32::MAX);
        // The last word on what is cancelled is its agent's, an incident's or that of who drops an undo, which decides nothing.
        let last = hold.decisions.last();
        let last = last.and_then(|said| said.surface.as_deref());
        let is_cancelled = hold.state == CANCELLED || is_voiding(last);
        let is_denied = hold.decisions.iter().any(|said| !said.allow);
        // Whatever came of it afterwards, such as that it did not run in time.
        let is_allowed = !is_denied && allowed >= hold.needed;
        let is_decided = !is_cancelled && (is_denied || is_allowed);
        let word = if is_allowed { "allow-once" } else { "deny" };
        let said = hold.decisions.into_iter();
        let mut said: Vec<_> = said
            .filter(|said| is_decided && said.allow == is_allowed)
            .collect();
        Self {
            decision: is_decided.then(|| word.to_owned()),
            who: said.iter().map(|said| said.who.clone()).collect(),
            why: said.pop().map(|said| said.why),
            id: hold.id,
            void: hold.void,
            state: hold.state,
            approve_by: hold.approve_by,
        }
    }
}

/// The decision, once there is one, or what there is after `?timeout=` seconds.
pub(super) async fn decision(
    Path(id): Path<String>,
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Response> {
    let id = id.parse::<ActionId>().map_err(|_| no_id())?;
    let wait = seconds(&uri)?;
    let proof = door.operators.proof(&known, &headers);
    let (store, void) = (&*door.switches.store, &*door.switches.void);
    let look = async || {
        let found = show(store, void, id).await;
        let hold = found.map_err(|error| uncounted(&error.into()))?;
        let seen = hold.and_then(|hold| seen(&door, hold, &known));
        seen.ok_or_else(|| uncounted(&DecisionError::Gone(id)))
    };
    let mut policies = door.switches.policies.clone();
    policies.mark_unchanged();
    let mut hold = look().await?;
    let mut over = pin!(tokio::time::sleep(wait));
    while hold.state == "pending" && !wait.is_zero() && !over.is_elapsed() {
        // A program that is gone drops this future: nothing waits for it.
        tokio::select! {
            // What was decided last is nothing for one who is no operator any more.
            biased;
            // The operator is another by now, or none: asked again, the door says which.
            () = proof.ends() => {
                door.operators.known(&headers)?;
                break;
            }
            waited = decided(store, id) => waited.map_err(|error| uncounted(&error.into()))?,
            // Another policy may have made it void.
            Ok(()) = policies.changed() => {}
            () = &mut over => {}
        }
        hold = look().await?;
    }
    Ok(json_answer(StatusCode::OK, &ApprovalDecision::of(hold)))
}

fn seconds(uri: &Uri) -> Result<Duration, Response> {
    let query = uri.query().unwrap_or_default().as_bytes();
    let mut wait = Duration::ZERO;
    for (name, value) in url::form_urlencoded::parse(query) {
        let read = value.parse().ok();
        let read = read.filter(|read| *read <= DECISION_WAIT_SECONDS_MAX);
        let Some(read) = read.filter(|_| name == "timeout") else {
            return Err(unfit("only ?timeout=0 to 25 can be asked for, in seconds"));
        };
        wait = Duration::from_secs(read);
    }
    Ok(wait)
}
